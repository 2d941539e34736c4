"""The Gaussian on batches of a fixed size, drawn without replacement."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, gammaln

from dpkit.common import checks
from dpkit.privacy.mechanisms.base import (
    Adjacency,
    Floats,
    PrivacyLoss,
    as_epsilons,
    as_orders,
    at_all,
    check_noise,
    unknown,
)
from dpkit.privacy.mechanisms.renyi_integrals import log_sums
from dpkit.privacy.mechanisms.sampled_gaussian import SampledGaussian
from dpkit.privacy.numerics import halved

EVERY = 1024  # orders up to which every moment is computed; then some, with bounds between
STEP = 0.25  # of the trapezoidal rule, whose error is then below exp(-130)
WINDOW = np.arange(-48, 49)  # steps around each peak: 12 standard deviations either way


@dataclass(frozen=True)
class WithoutReplacementGaussian:
    """A Gaussian release of a batch of m out of n records, all sets of m equally likely.

    The bound of Wang, Balle, Kasiviswanathan 2019 (Thms 9 and 27), which Xu et al. 2019 (AdaDP)
    take for their Theorem 1 (`printed_bound`). Two data sets of n records differ in one, replaced.

    Args:
        noise_over_sensitivity: noise standard deviation / L2 distance that replacing one record
            moves the release by: the theorem's sigma_*. A sum of vectors clipped at C moves by
            2C, so noise of deviation z * C is z / 2 here.
        sample_rate: m / n, in [0, 1].

    Raises:
        ValueError: noise_over_sensitivity is not in [1e-9, 1e13], or sample_rate not in [0, 1].
    """

    noise_over_sensitivity: float
    sample_rate: float
    hides_participation: ClassVar[bool] = False
    assumptions = ("every batch is a fresh sample of a fixed size, without replacement",)

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        check_noise(self.noise_over_sensitivity, "noise_over_sensitivity")
        checks.in_range(0, 1, sample_rate=self.sample_rate)

    @property
    def adjacency(self) -> Adjacency:
        return "replace-one"

    def rdp(self, orders: ArrayLike) -> Floats:
        """The least of three bounds at each order, all of which hold.

        1. The theorem, at integer orders (`_theorem`).
        2. Between them a chord: (alpha - 1) D_alpha is convex in alpha and 0 at 1 (Wang, Balle,
           Kasiviswanathan 2019, Cor. 10). So below 2 the bound is the one at 2.
        3. Without the theorem: E_Q[(P/Q)^alpha] is jointly convex in (P, Q), and of the batches a
           share 1 - q does not hold the replaced record, so that E is at most
           1 - q + q e^(alpha (alpha-1) / (2 s^2)). Never above the unsampled alpha / (2 s^2).
        """
        alpha, q, s = as_orders(orders), self.sample_rate, self.noise_over_sensitivity
        if q == 0:
            return np.zeros_like(alpha)
        unsampled = alpha * (0.5 / s) / s
        if q == 1:
            return unsampled
        with np.errstate(over="ignore"):
            moved = unsampled * (alpha - 1)  # log(e^moved - 1) + log(q) is the excess over 1
            convex = np.log(q) + moved + np.log(-np.expm1(-moved))
            cumulant = np.minimum(np.logaddexp(0.0, convex), moved)
        # from about 2 s^2 log(1/q) on the price rises towards the unsampled one, and no epsilon is
        # decided there
        listed = alpha <= max(EVERY, 3 * s**2 * (1 - np.log(q)))
        below, above = np.floor(alpha[listed]), np.ceil(alpha[listed])
        whole = np.unique(np.concatenate([below, above]))
        known = np.array([_theorem(int(a), s, q) if a > 1 else 0.0 for a in whole])
        share = alpha[listed] - below
        chord = (1 - share) * known[np.searchsorted(whole, below)]
        chord = chord + share * known[np.searchsorted(whole, above)]
        cumulant[listed] = np.minimum(cumulant[listed], chord)
        if np.isnan(cumulant).any():
            raise ArithmeticError("the bound for sampling without replacement is not a number")
        return cumulant / (alpha - 1)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """delta(epsilon), the same in both directions.

        At epsilon >= 0 it is q times the Gaussian's at log(1 + (e^epsilon - 1) / q) (Balle, Barthe,
        Gaboardi 2018, Thm 9), and some neighbours have it.
        """
        mixture = self._mixture
        return at_all(as_epsilons(epsilons), lambda size: mixture.profile(size)[0])

    def privacy_loss(self) -> PrivacyLoss:
        """The loss of a pair with `profile`'s hockey sticks: dominating, of no neighbours.

        Above loss 0 it is the mixture (1-q) N(0, s^2) + q N(1, s^2) against N(0, s^2), below 0 the
        reverse with the opposite sign; at 0 lies what is left (Zhu, Dong, Wang 2022, Thm 11). The
        mixture against N(0, s^2) alone is what two data sets have (pld/proof.md, H).
        """
        q, mixture = self.sample_rate, self._mixture.privacy_loss()
        if q in (0, 1):
            return mixture
        at_zero = (1 - q) * erf(0.5 / self.noise_over_sensitivity / np.sqrt(2))

        def masses(edges: Floats) -> Floats:
            above = mixture.masses(np.append(0.0, edges[edges >= 0]))[:, 1:]
            below = mixture.masses(np.append(0.0, -edges[edges < 0][::-1]))[::-1, :0:-1]
            around = below[:, -1:] + at_zero + above[:, :1]
            return np.concatenate([below[:, :-1], around, above[:, 1:]], axis=1)

        return PrivacyLoss(masses, attained=mixture)

    @property
    def _mixture(self) -> SampledGaussian:
        return SampledGaussian(self.noise_over_sensitivity, self.sample_rate)

    gaussian_dp = unknown("no mu of Gaussian DP is known for sampling without replacement")


def printed_bound(
    orders: ArrayLike, *, noise_over_sensitivity: float, sample_rate: float
) -> Floats:
    """Theorem 1 of Xu et al. 2019 to the letter, one release: RDP in nats at each order.

    log(1 + q^2 C(alpha, 2) min(4 (e^(1/s^2) - 1), 2 e^(1/s^2))
          + 4 sum_{j=3}^{alpha} q^j C(alpha, j) sqrt(B(2 ceil(j/2)) B(2 floor(j/2)))) / (alpha - 1)

    Args:
        orders: integers from 2 to 2^20.
        noise_over_sensitivity, sample_rate: as WithoutReplacementGaussian's, sample_rate > 0.

    Raises:
        ValueError: an order is not an integer, or a value is out of range.
    """
    alpha = as_orders(orders)
    WithoutReplacementGaussian(noise_over_sensitivity, sample_rate)  # refuses what it refuses
    checks.positive(sample_rate=sample_rate)
    out = np.empty_like(alpha)
    for i, order in enumerate(alpha):
        if order != np.floor(order):
            raise ValueError(f"orders must be integers here, got {order:g}")
        moments, powers, weights = _terms(int(order), noise_over_sensitivity, sample_rate)
        moments[0] = min(moments[0], powers[0])
        out[i] = _log_1_plus(moments + weights) / (order - 1)
    return out


def _theorem(order: int, noise: float, q: float) -> float:
    """log of the theorem's bound of E_Q[(P/Q)^order], order >= 2, by the least bound of each j.

    The theorem bounds E_R[(|P - Q| / R)^j] for three neighbours P, Q, R. As |P - Q|^j is at most
    P^j + Q^j, twice the unsampled Gaussian's power e^(j (j-1) / (2 s^2)) bounds it as well, at
    every j and not only at 2 (Wang, Balle, Kasiviswanathan 2019, Thm 9).
    """
    moments, powers, weights = _terms(order, noise, q)
    return _log_1_plus(np.minimum(moments, powers) + weights)


def _terms(order: int, noise: float, q: float) -> tuple[Floats, Floats, Floats]:
    """Logs at j = 2 .. order: 4 sqrt(B B), 2 e^(j (j-1) / (2 s^2)), and q^j C(order, j)."""
    known = _log_moments(noise, max(EVERY, 1 << (order - 1).bit_length()))
    j = np.arange(2.0, order + 1)
    half = j.astype(int)
    moments = np.log(4) + (known[(half + 1) // 2] + known[half // 2]) / 2
    with np.errstate(over="ignore"):
        powers = np.log(2) + j * (j - 1) * (0.5 / noise) / noise
    weights = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1) + j * np.log(q)
    return moments, powers, weights


def _log_1_plus(terms: Floats) -> float:
    """log(1 + sum(exp(terms)))."""
    return float(np.logaddexp(0.0, log_sums(terms)))


@lru_cache(maxsize=16)
def _log_moments(noise: float, most: int) -> Floats:
    """log B(l) at l = 0, 2, ..., most (index l / 2), B(l) = E_Q[(P/Q - 1)^l].

    The theorem's alternating sum over binomial coefficients is this moment; it cancels beyond
    any fixed precision, and the moment's integrand is positive. log B is convex in l (Hoelder),
    so a chord is an upper bound: beyond EVERY only some are integrated, as far apart as lifts
    log B by about 1/500, its second derivative being near 1 / s^2 + 1 / (2 l).
    """
    ends = list(range(0, EVERY + 1, 2))
    while ends[-1] < most:
        gap = int(0.06 / np.sqrt(1 / noise**2 + 0.5 / ends[-1]))
        ends.append(ends[-1] + 2 * max(1, gap))
    ends = np.array(ends, dtype=np.float64)
    values = np.concatenate([_log_moment(part, noise) for part in np.array_split(ends, 64)])
    return np.interp(np.arange(0.0, most + 1, 2), ends, values)


def _log_moment(power: Floats, noise: float) -> Floats:
    """log E[(e^w - 1)^l], w = x / s - 1 / (2 s^2), x ~ N(0, 1), for even l: (len(power),).

    The trapezoidal rule on a lattice. The integrand is entire and has one peak each side of
    w = 0, narrower than exp(-x^2 / 2); on Im x = y it is at most exp(7 y^2 / 6) times as large,
    and the error exp(7 y^2 / 6 - 2 pi y / STEP) at any y (Trefethen, Weideman 2014, Thm 5.1).
    """
    zero = 0.5 / noise  # where w = 0
    right = _peak(power, noise, zero, side=+1)
    left = _peak(power, noise, zero, side=-1)
    parts = []
    for peak, side in ((right, 1), (left, -1)):
        x = (np.round(peak / STEP)[:, None] + WINDOW) * STEP
        w = (x - zero) / noise
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            size = np.maximum(w, 0.0) + np.log(-np.expm1(-np.abs(w)))  # log|e^w - 1|
            inside = np.where(power[:, None] > 0, power[:, None] * size, 0.0) - x * x / 2
        parts.append(np.where((w > 0) == (side > 0), inside, -np.inf))
    return log_sums(np.concatenate(parts, axis=1)) + np.log(STEP / np.sqrt(2 * np.pi))


def _peak(power: Floats, noise: float, zero: float, *, side: int) -> Floats:
    """Where l log|e^w - 1| - x^2 / 2 is largest on one side of w = 0: x = (l/s) / (1 - e^-w)."""
    far = zero + power / noise + np.sqrt(power) if side > 0 else -np.sqrt(power)
    near = np.full_like(power, zero)

    def inwards(x: Floats):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            force = power / noise / -np.expm1((zero - x) / noise) - x  # towards larger x
        return ~(side * force > 0)

    return halved(near, far, inwards, rounds=60)[1]
