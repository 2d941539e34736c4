"""The Gaussian mechanism: noise on a clipped sum of all records."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from dpkit import checks
from dpkit.privacy.mechanisms.base import (
    ADJACENCIES,
    Adjacency,
    GaussianDp,
    as_epsilons,
    as_orders,
    check_noise,
    excess,
    moved_by,
)
from dpkit.privacy.mechanisms.privacy_loss import Floats, PrivacyLoss, normal_masses


@dataclass(frozen=True)
class Gaussian:
    """A clipped sum plus Gaussian noise of standard deviation noise_multiplier * C.

    Shift C under add-remove, 2C under replace-one.

    Raises:
        ValueError: noise_multiplier is not in [1e-9, 1e13], or adjacency is unknown.
    """

    noise_multiplier: float
    adjacency: Adjacency = "add-remove"
    hides_participation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        check_noise(self.noise_multiplier)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ()

    def rdp(self, orders: ArrayLike) -> Floats:
        """alpha s^2 / 2, s = shift / noise standard deviation (Mironov 2017, Prop. 7)."""
        shift = moved_by(self.adjacency) / self.noise_multiplier
        return as_orders(orders) * (shift * shift / 2)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """The exact delta(epsilon), the same in both directions (Balle, Wang 2018, Thm 5)."""
        eps = as_epsilons(epsilons)
        shift = moved_by(self.adjacency) / self.noise_multiplier
        x = eps / shift
        one = excess(log_ndtr(shift / 2 - x), log_ndtr(-shift / 2 - x), eps)
        return np.stack([one, one])

    def privacy_loss(self) -> PrivacyLoss:
        """Of N(shift, 1) against N(0, 1): s x - s^2 / 2 at x."""
        shift = moved_by(self.adjacency) / self.noise_multiplier

        def masses(edges: Floats) -> Floats:
            x = edges / shift
            return np.stack([normal_masses(x - shift / 2), normal_masses(x + shift / 2)])

        return PrivacyLoss(masses)

    def gaussian_dp(self) -> GaussianDp:
        """mu = shift / noise standard deviation (Dong, Roth, Su 2022, Thm 1)."""
        return GaussianDp(moved_by(self.adjacency) / self.noise_multiplier, exact=True)
