"""What synthesizers share whose fit is one release: its size, its seeds, its price in words."""

import warnings
from dataclasses import dataclass

import numpy as np

from dpkit.common import checks
from dpkit.privacy.ledger import Guarantee, Release
from dpkit.privacy.statement import statement
from dpkit.private.statement import SEEDED

SETTINGS = "settings and initial weights do not depend on the records"


@dataclass(frozen=True)
class Price:
    """What a fit cost, and what has to be said beside it; nothing set later changes it.

    sampling: how batches were drawn.
    assumed: what must be true beside the guarantee's own assumptions.
    seeded: whether noise was drawn from a seed.
    """

    ledger: list[Release]
    guarantee: Guarantee
    sampling: str
    assumed: tuple[str, ...]
    seeded: bool

    def statement(self, *, unit: str, after: str = "") -> str:
        """The sentences that a paper should carry.

        What they assume, and what the kit cannot see, is in docs/limits.md.

        Args:
            unit: of privacy: what one record is.
            after: what was done with the release, which costs nothing: a phrase, or nothing.
        """
        words = statement(
            self.guarantee,
            self.ledger,
            unit=unit,
            sampling=self.sampling,
            assume=(SETTINGS, *self.assumed),
        )
        done = f"Post-processing: {after}." if after else ""
        return " ".join(part for part in (words, done, SEEDED if self.seeded else "") if part)


def size_of(records: int, *, public_size: int | None, delta: float) -> int:
    """The declared number of records, or that of the data; warns where delta is large beside it.

    Raises:
        ValueError: there are no records and none are declared, or what is declared is not >= 1.
    """
    if public_size is None and not records:
        raise ValueError("the data have no rows, and no public_size is declared")
    size = checks.whole(1, public_size=records if public_size is None else public_size)
    if not delta < 1 / size:
        warnings.warn(
            f"delta {delta:g} is not below 1 / {size} records: it would allow a whole "
            "record to be published; take a smaller one",
            stacklevel=4,
        )
    return size


def generator(seed: int | None, *, stream: int) -> np.random.Generator:
    """Of the operating system's entropy, or of a seed: noise and samples are never the same draws.

    Raises:
        ValueError: the seed is not an integer >= 0.
    """
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng([checks.whole(reproducible_seed=seed), stream])
