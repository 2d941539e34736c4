"""The Gaussian mechanism: noise on a clipped sum of all records."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr

from dpkit.common import checks
from dpkit.privacy.mechanisms.base import (
    ADJACENCIES,
    Adjacency,
    Floats,
    GaussianDp,
    PrivacyLoss,
    as_epsilons,
    as_orders,
    at_all,
    check_noise,
    moved_by,
    normal_masses,
    of_family,
)

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


def _masses(shift: float | Floats, edges: Floats) -> Floats:
    x = edges / shift
    return np.stack([normal_masses(x - shift / 2), normal_masses(x + shift / 2)])


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
    profile_error: ClassVar[float] = 1e-9
    assumptions = ()

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        check_noise(self.noise_multiplier)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)

    def rdp(self, orders: ArrayLike) -> Floats:
        """alpha s^2 / 2, s = shift / noise standard deviation (Mironov 2017, Prop. 7)."""
        shift = moved_by(self.adjacency) / self.noise_multiplier
        return as_orders(orders) * (shift * shift / 2)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """The exact delta(epsilon), the same in both directions (Balle, Wang 2018, Thm 8)."""
        mu = moved_by(self.adjacency) / self.noise_multiplier
        return at_all(as_epsilons(epsilons), lambda size: np.exp(log_delta(mu, size)))

    def privacy_loss(self) -> PrivacyLoss:
        """The loss of N(shift, 1) against N(0, 1): s x - s^2 / 2 at x."""
        return of_family(_masses, moved_by(self.adjacency) / self.noise_multiplier)

    def gaussian_dp(self) -> GaussianDp:
        """mu = shift / noise standard deviation (Dong, Roth, Su 2022, Thm 1)."""
        return GaussianDp(moved_by(self.adjacency) / self.noise_multiplier, exact=True)


def log_delta(mu: float, epsilons: Floats) -> Floats:
    """log(delta) at epsilons >= 0 of two normals that are `mu` > 0 deviations apart.

    delta = Phi(-x) - e^epsilon Phi(-x - mu), x = epsilon / mu - mu / 2 (Dong, Roth, Su 2022,
    Cor. 2.13). With the density phi and the Mills ratio M(x) = Phi(-x) / phi(x), and as
    e^epsilon phi(x + mu) = phi(x), that is phi(x) (M(x) - M(x + mu)). The difference is formed as
    an integral where the two are close, so that no digits are lost to a large noise.
    """
    with np.errstate(all="ignore"):
        x = epsilons / mu - mu / 2
        log_density = -x * x / 2 - np.log(2 * np.pi) / 2
        # M(x) - M(x + mu) = (1 / x - 1 / (x + mu)) (1 - O(1 / x^2))
        far = log_density + np.log(mu) - np.log(x) - np.log(x + mu)
        if mu < 0.5:  # the difference as the integral of -M'(t) = 1 - t M(t)
            falls = _fall(x[:, None] + mu / 2 * (NODES + 1))
            near = log_density + np.log(mu / 2 * (falls * WEIGHTS).sum(axis=1))
        else:
            upper = log_ndtr(-x)
            direct = log_density + np.log(_mills(x) - _mills(x + mu))
            low = upper + np.log1p(-np.exp(log_density + np.log(_mills(x + mu)) - upper))
            near = np.where(x > 0, direct, low)
        return np.minimum(np.where(x > 1e7, far, near), 0.0)


def _mills(x: Floats) -> Floats:
    """(1 - Phi(x)) / phi(x), of x that is not far below 0."""
    return np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2))


def _fall(t: Floats) -> Floats:
    """-M'(t) = 1 - t M(t), by its asymptotic series where the difference would cancel."""
    square = 1 / np.maximum(t, 20.0) ** 2
    series = np.zeros_like(t)
    for k in range(19, 0, -2):  # 1/t^2 - 3/t^4 + 15/t^6 - ...
        series = k * square * (1 - series)
    return np.where(t > 20, series, 1 - t * _mills(np.minimum(t, 20.0)))
