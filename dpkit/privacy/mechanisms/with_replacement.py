"""The Gaussian on batches drawn with replacement."""

from dataclasses import dataclass
from typing import ClassVar

from dpkit.common import checks
from dpkit.privacy.mechanisms.base import WHOLE_SUM, Adjacency, PricedAsOne
from dpkit.privacy.mechanisms.sampled_gaussian import GroupSampledGaussian


@dataclass(frozen=True)
class WithReplacementGaussian(PricedAsOne):
    """A Gaussian release of a batch of draws, each of which may be any record.

    It costs what a group of `draws` records costs that come together, each drawn with chance
    1 / records, where each moves the sum by 2C: a draw meets the record in place of another
    (pld/proof.md, K). With 2 records or more some neighbours have the pair.

    Args:
        noise_multiplier: noise standard deviation / C.
        draws: of a batch, at most 4,096.
        records: n, of the data set, which is public; the other has one more or fewer.

    Raises:
        ValueError: noise_multiplier is not in [2e-9 draws, 1e6], draws is not an integer in
            [1, 4096], or records not one >= 2.
    """

    noise_multiplier: float
    draws: int
    records: int
    hides_participation: ClassVar[bool] = False
    assumptions = (
        "every batch is drawn with replacement from a public number of records (but for the one "
        "that comes or goes); a record that is met twice counts twice",
        WHOLE_SUM,
    )

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        checks.whole(1, draws=self.draws)
        checks.whole(2, records=self.records)
        checks.positive(noise_multiplier=self.noise_multiplier)
        _ = self.one  # refuses the rest

    @property
    def adjacency(self) -> Adjacency:
        return "add-remove"

    @property
    def one(self) -> GroupSampledGaussian:
        """The group that costs the same."""
        return GroupSampledGaussian(self.noise_multiplier / 2, 1 / self.records, self.draws)
