"""Gaussian releases with several noise levels: each is one Gaussian of an effective multiplier.

Dividing every coordinate by its own noise turns N(0, diag(sigma_i^2)) into N(0, 1), and the
distance a record moves by into sqrt(sum s_i^2 / sigma_i^2).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from dpkit.common import checks
from dpkit.privacy.mechanisms.base import (
    ADJACENCIES,
    Adjacency,
    Floats,
    GaussianDp,
    PrivacyLoss,
    check_noise,
)
from dpkit.privacy.mechanisms.gaussian import Gaussian
from dpkit.privacy.mechanisms.sampled_gaussian import SampledGaussian


def effective_noise(noise_multipliers: tuple[float, ...]) -> float:
    """The one multiplier that protects as much as all together: 1 / sqrt(sum 1 / z_i^2).

    Xu et al. 2019 (AdaDP), Lemma 1.
    """
    least = min(noise_multipliers)  # taken out, so that no square overflows
    return least / math.sqrt(math.fsum((least / z) ** 2 for z in noise_multipliers))


@dataclass(frozen=True)
class DiagonalGaussian:
    """A sum whose coordinate i is clipped to [-s_i, s_i], plus noise of deviation sigma_i on it.

    The same price as one Gaussian with 1 / sigma_*^2 = sum s_i^2 / sigma_i^2 (Xu et al. 2019,
    Lemma 1). A record added or removed moves coordinate i by s_i; a record replaced, by 2 s_i,
    which `adjacency` accounts for: the ratios stay those of the clipping bounds s_i.

    Args:
        noise_multipliers: sigma_i / s_i of each coordinate, each > 0.

    Raises:
        ValueError: noise_multipliers is not a non-empty tuple of numbers in [1e-9, 1e13],
            its effective multiplier is below 1e-9, or adjacency is unknown.
    """

    noise_multipliers: tuple[float, ...]
    adjacency: Adjacency = "add-remove"
    hides_participation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        _check_tuple("noise_multipliers", self.noise_multipliers)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)
        check_noise(self.noise_multiplier)

    @property
    def noise_multiplier(self) -> float:
        """sigma_*: noise / clip norm of the one Gaussian that costs the same."""
        return effective_noise(self.noise_multipliers)

    @property
    def one(self) -> Gaussian:
        """That Gaussian."""
        return Gaussian(self.noise_multiplier, self.adjacency)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ("each coordinate's clipping bound and noise are fixed without the private data",)

    def rdp(self, orders: ArrayLike) -> Floats:
        """Exact: see Gaussian."""
        return self.one.rdp(orders)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """Exact: see Gaussian."""
        return self.one.profile(epsilons)

    def privacy_loss(self) -> PrivacyLoss:
        """Exact: see Gaussian."""
        return self.one.privacy_loss()

    def gaussian_dp(self) -> GaussianDp:
        """Exact: see Gaussian."""
        return self.one.gaussian_dp()


@dataclass(frozen=True)
class GroupedGaussian:
    """One batch whose gradient is clipped in k groups (layers), each at its own bound C_i.

    Noise of deviation z_i C_i lies on group i. All groups read the same batch, so a record moves
    them together: with one multiplier z, as one Gaussian with noise z C on a sum that moves by
    C sqrt(k), of multiplier z / sqrt(k). Pricing one group alone is k times too cheap in RDP.

    Args:
        noise_multiplier: z, for every group, or a tuple with each group's own.
        groups: k >= 1.
        sample_rate: chance of each record to enter the batch (Poisson); 1 for all records.

    Raises:
        ValueError: a multiplier is not in [1e-9, 1e13], a tuple does not hold one for each group,
            groups is not an integer >= 1, sample_rate not in [0, 1], or adjacency is unknown.
    """

    noise_multiplier: float | tuple[float, ...]
    groups: int
    sample_rate: float = 1.0
    adjacency: Adjacency = "add-remove"
    hides_participation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        checks.whole(1, groups=self.groups)
        if isinstance(self.noise_multiplier, tuple):
            _check_tuple("noise_multiplier", self.noise_multiplier)
            if len(self.noise_multiplier) != self.groups:
                raise ValueError(
                    f"noise_multiplier must hold one number for each of the {self.groups} groups, "
                    f"got {len(self.noise_multiplier)}"
                )
        else:
            check_noise(self.noise_multiplier)
        checks.in_range(0, 1, sample_rate=self.sample_rate)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)
        check_noise(self.one.noise_multiplier)

    @property
    def one(self) -> SampledGaussian:
        """The sampled Gaussian that costs the same."""
        own = self.noise_multiplier
        noise = effective_noise(own) if isinstance(own, tuple) else own / math.sqrt(self.groups)
        return SampledGaussian(noise, self.sample_rate, self.adjacency)

    @property
    def assumptions(self) -> tuple[str, ...]:
        fixed = "each group's clipping bound and noise are fixed without the private data"
        return (fixed,) if self.sample_rate == 1 else (fixed, *self.one.assumptions)

    def rdp(self, orders: ArrayLike) -> Floats:
        """Exact: see SampledGaussian."""
        return self.one.rdp(orders)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """Exact: see SampledGaussian."""
        return self.one.profile(epsilons)

    def privacy_loss(self) -> PrivacyLoss:
        """Exact: see SampledGaussian."""
        return self.one.privacy_loss()

    def gaussian_dp(self) -> GaussianDp:
        """As SampledGaussian's: exact without sampling, else the limit of many steps."""
        return self.one.gaussian_dp()


def _check_tuple(name: str, values: object) -> None:
    """A non-empty tuple of numbers in [1e-9, 1e13]; errors name the place within it."""
    if not isinstance(values, tuple) or not values:
        raise ValueError(f"{name} must be a non-empty tuple of numbers > 0, got {values!r}")
    for i, value in enumerate(values):
        check_noise(value, f"{name}[{i}]")
