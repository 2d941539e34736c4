"""The Gaussian on Poisson batches that are cut, or padded, to a fixed size."""

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, logsumexp

from dpkit.common import checks
from dpkit.privacy.mechanisms.base import (
    Adjacency,
    Floats,
    PrivacyLoss,
    as_epsilons,
    as_orders,
    tree_sum,
    unknown,
)
from dpkit.privacy.mechanisms.sampled_gaussian import SampledGaussian
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian

TINY = 1e-300
ROUNDING = 1e-9  # relative, more than betainc's
PARTS = 32  # ranges of how many others are drawn


@dataclass(frozen=True)
class TruncatedPoissonGaussian:
    """A Gaussian release of a Poisson sample, of a random `most` of it if it is larger.

    Fewer are padded with empty examples, which add nothing to the sum and cost nothing. Where the
    other records fill the batch, a record that is kept takes another's place: it moves the sum by
    2C, not C, under add-remove too. A mixture of such steps, by how many others were drawn, and of
    the sampled Gaussian dominates (pld/proof.md, J). It needs no delta, unlike the bound
    delta_Poisson(e) + (1 + e^e) T Pr[Binomial(n, q) > most] (Chua et al. 2024, "Scalable DP-SGD:
    shuffling vs. Poisson subsampling").

    The number of records is public, but for the one: with fewer others it is kept more often.

    Args:
        noise_multiplier: noise standard deviation / C.
        sample_rate: q, chance that a record is drawn.
        most: records of a batch.
        records: n, of the data set; the other has one more or fewer, or as many under replace-one.
        adjacency: "add-remove" or "replace-one".

    Raises:
        ValueError: noise_multiplier is not in [2e-9, 1e13], sample_rate not in [0, 1], most or
            records is not an integer >= 1, or adjacency is unknown.
    """

    noise_multiplier: float
    sample_rate: float
    most: int
    records: int
    adjacency: Adjacency = "add-remove"
    hides_participation: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        # refuses the rest
        SampledGaussian(self.noise_multiplier, self.sample_rate, self.adjacency)
        checks.in_range(2e-9, 1e13, noise_multiplier=self.noise_multiplier)
        checks.whole(1, most=self.most, records=self.records)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (
            *self._plain.assumptions,
            f"the number of records is {self.records}, but for the one that comes or goes; of "
            f"more than {self.most} drawn a random {self.most} are kept, fewer are padded",
        )

    @property
    def _plain(self) -> SampledGaussian:
        return SampledGaussian(self.noise_multiplier, self.sample_rate, self.adjacency)

    @property
    def _others(self) -> tuple[int, int]:
        """How many records both data sets have, at least and at most."""
        return self.records - 1, self.records - (self.adjacency == "replace-one")

    @property
    def _parts(self) -> list[tuple[float, SampledGaussian | WithoutReplacementGaussian]]:
        """Chances of ranges of J, the number of others drawn, and the step that dominates there.

        Where J < most, the sampled Gaussian. Else the step at noise / 2, whose rate is a range's
        largest q most / (J + 1). Chances are rounded towards what costs more: fewer others, and
        what may be on either side of `most` to a step that costs more than both.
        """
        few, room, rate = self._others[0], self.most, self.sample_rate
        if not self.full > 0:
            return [(1.0, self._plain)]
        halved = self.noise_multiplier / 2
        step = (
            SampledGaussian if self.adjacency == "add-remove" else WithoutReplacementGaussian
        )
        if rate == 1:
            return [(1.0, step(halved, room / max(few + 1, room)))]
        mean, deviation = few * rate, sqrt(few * rate * (1 - rate))
        ends = np.clip([mean - 9 * deviation, mean + 4 * deviation], room, max(few, room))
        fewest = np.unique([room, *np.linspace(ends[0], ends[1], PARTS).astype(int)])
        beyond = betainc(fewest, np.maximum(few + 1 - fewest, TINY), rate) * (1 - ROUNDING)
        least = np.where(fewest <= few, np.minimum(beyond, self.full), 0.0)
        cut = [step(halved, rate * room / (int(others) + 1)) for others in fewest]
        chances = [1 - self.full, self.full - least[0], *(least - np.append(least[1:], 0.0))]
        parts = zip(map(float, chances), [self._plain, step(halved, rate), *cut], strict=True)
        return [(chance, part) for chance, part in parts if chance > 0]

    @property
    def full(self) -> float:
        """The chance, rounded up, that `most` or more of the others are drawn."""
        many = self._others[1]
        if not self.most <= many:
            return 0.0
        chance = betainc(self.most, many + 1 - self.most, self.sample_rate)
        return min(float(chance) * (1 + ROUNDING), 1.0)

    @property
    def kept(self) -> float:
        """The chance that a record is drawn and kept, rounded down.

        q E[min(1, B / (J + 1))], where E[1 / (J + 1); J >= B] = Pr[Binomial(n, q) > B] / (n q).
        """
        if not self.most < self.records:
            return self.sample_rate
        full, over = (
            betainc(self.most + i, self.records - self.most, self.sample_rate) for i in (0, 1)
        )
        found = self.sample_rate * (1 - full) + self.most / self.records * float(over)
        return max(min(found * (1 - ROUNDING) - 1e-15, self.sample_rate), 0.0)

    def rdp(self, orders: ArrayLike) -> Floats:
        """An upper bound: all parts' larger directions, mixed."""
        alpha = as_orders(orders)
        found = np.stack([part.rdp(alpha) for _, part in self._parts])
        logs = np.log([[chance] for chance, _ in self._parts]) + (alpha - 1) * found
        # rounding aside, the mixture lies between its parts
        return np.clip(
            np.asarray(logsumexp(logs, axis=0)) / (alpha - 1), found.min(0), found.max(0)
        )

    def profile(self, epsilons: ArrayLike) -> Floats:
        """delta(epsilon) of the dominating pair, shape (2, len(epsilons))."""
        eps = as_epsilons(epsilons)
        return np.minimum(sum(chance * part.profile(eps) for chance, part in self._parts), 1.0)

    def privacy_loss(self) -> PrivacyLoss:
        """The loss of the dominating pair.

        `attained`: all gradients are 0 but one record's, which is in the sum if it is kept. Where
        all records are drawn, and some cut, the pair is attained itself, by one of them among its
        opposites.
        """
        parts = [(chance, part.privacy_loss()) for chance, part in self._parts]
        if len(parts) == 1 and (not self.full or self.most <= self._others[0]):
            return parts[0][1]

        def masses(edges: Floats) -> Floats:
            return tree_sum([chance * loss.masses(edges) for chance, loss in parts])

        least = SampledGaussian(self.noise_multiplier, self.kept, self.adjacency)
        return PrivacyLoss(masses, attained=least.privacy_loss())

    gaussian_dp = unknown("no mu of Gaussian DP is known for batches that are cut to a size")
