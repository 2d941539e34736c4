"""Integer noise: the cost of the discrete Gaussian, and a sampler.

The discrete Gaussian of scale sigma has probability proportional to exp(-x^2 / (2 sigma^2)) at
every integer x (Canonne, Kamath, Steinke 2020, Def. 1).

The sampler is exact to the last bit: integers alone. Floating-point noise has gaps that depend on
what it is added to, and an attacker can use them (Mironov 2012). Training draws such noise all the
same; this sampler is for teaching, tests and small counts.
"""

import secrets
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, logsumexp

from dpkit.common import checks
from dpkit.privacy.mechanisms.base import (
    ADJACENCIES,
    Adjacency,
    Floats,
    PrivacyLoss,
    as_epsilons,
    as_orders,
    between,
    check_noise,
    moved_by,
    unknown,
)

# Scale from which sums and integrals over the line agree to exp(-2 pi^2 9) = 1e-77
SMOOTH = 3.0
LONGEST_TABLE = 3000.0  # scale up to which tails are summed term by term
REACH = 39.0  # scales beyond which exp(-x^2 / (2 sigma^2)) is below 1e-330
ROUNDED = 1e3  # scale from which on the profile is rounded up
TRUSTED = 36.0  # scales up to which the table's sums have all their digits
LONGEST_SUM = 3500  # terms of a sum far out
DIGITS = 40.0  # exp(-40) of the first term is left out


@dataclass(frozen=True)
class DiscreteGaussian:
    """One integer (a count) plus discrete Gaussian noise of scale noise_multiplier * sensitivity.

    The pair is the noise around shift against the noise around 0, shift = sensitivity under
    add-remove and twice that under replace-one. A smaller move costs no more, as the best test is
    a threshold. Vectors of integers are released coordinate by coordinate.

    Args:
        noise_multiplier: scale sigma / sensitivity.
        sensitivity: how far one record, added or removed, moves the integer; >= 1.

    Raises:
        ValueError: noise_multiplier or the scale is not in [1e-9, 1e13], sensitivity is not an
            integer >= 1, or adjacency is unknown.
    """

    noise_multiplier: float
    sensitivity: int = 1
    adjacency: Adjacency = "add-remove"
    hides_participation: ClassVar[bool] = True
    assumptions = ("the released quantity is an integer before the noise",)

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        check_noise(self.noise_multiplier)
        checks.whole(1, sensitivity=self.sensitivity)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)
        scale = self.noise_multiplier * self.sensitivity
        if not scale <= 1e13:
            raise ValueError(
                f"noise_multiplier * sensitivity must be at most 1e13, got {scale}; "
                "count in larger units"
            )

    @property
    def variance(self) -> Fraction:
        """sigma^2 exactly, what `sample` takes; the noise's own variance is not larger."""
        return (Fraction(self.noise_multiplier) * self.sensitivity) ** 2

    @property
    def _scale(self) -> float:
        return self.noise_multiplier * self.sensitivity

    @property
    def _shift(self) -> int:
        return int(self.sensitivity * moved_by(self.adjacency))

    def rdp(self, orders: ArrayLike) -> Floats:
        """The definition's sum, the same in both directions.

        With theta(m) the sum of exp(-(x - m)^2 / (2 sigma^2)) over the integers, completing the
        square gives alpha shift^2 / (2 sigma^2) + log(theta(alpha shift) / theta(0)) / (alpha - 1).
        theta is largest at integers, so this is at most the Gaussian's (Canonne, Kamath, Steinke
        2020, Prop. 5), and equal to it at integer orders.
        """
        alpha, shift = as_orders(orders), self._shift
        beyond = np.fmod(alpha, 1.0) * shift  # alpha * shift, less an integer
        offset = np.asarray(beyond - np.round(beyond), dtype=np.float64)  # theta has period 1
        less = _log_theta_ratio(offset, self._scale)
        return alpha * (shift / self._scale) ** 2 / 2 + less / (alpha - 1)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """P(loss > epsilon) - e^epsilon Q(loss > epsilon), the same in both directions.

        Canonne, Kamath, Steinke 2020, Thm 7; the tails are sums over the integers. At one epsilon
        a little more noise may show a little more, when it moves an atom across that epsilon.
        """
        eps = as_epsilons(epsilons)
        first = self._last_integer(eps) + 1  # of those whose loss is above epsilon
        p, q = (_log_upper_tail(k, self._scale) for k in (first - self._shift, first))
        there = ~np.isneginf(p)
        with np.errstate(invalid="ignore"):
            less = np.where(there, np.minimum(eps + q - p, 0.0), 0.0)
            # at a large scale both tails are close: their rounding is put on the safe side
            doubt = 4e-16 * (4 + np.abs(p) + np.abs(q) + np.abs(eps))
            doubt = np.where((self._scale > ROUNDED) & there & (less < 0), doubt, 0.0)
            share = np.where(there, np.minimum(doubt - np.expm1(less), 1.0), 0.0)
        one = np.exp(p) * share
        return np.stack([one, one])

    def privacy_loss(self) -> PrivacyLoss:
        """Atoms shift (2 x - shift) / (2 sigma^2) at the integers x, none left out above 1e-300."""
        step = self._shift / self._scale**2

        def masses(edges: Floats) -> Floats:
            last = self._last_integer(edges)
            return np.stack([_masses(k, self._scale) for k in (last - self._shift, last)])

        return PrivacyLoss(masses, lattice=(-self._shift * step / 2, step))

    def _last_integer(self, losses: Floats) -> Floats:
        """The largest x whose loss is at most `losses`; an atom on a bound counts as on it."""
        half = self._shift / 2
        x = losses * (self._scale / self._shift) * self._scale + half
        return np.floor(x + np.minimum(1e-15 * (np.abs(x) + half), 0.5))

    gaussian_dp = unknown("no mu of Gaussian DP is known for the discrete Gaussian")


def _log_theta_ratio(offset: Floats, scale: float) -> Floats:
    """log(theta(offset) / theta(0)) <= 0 for |offset| <= 1/2, to full relative precision.

    theta(m) = exp(-m^2 / (2 s^2)) sum_x exp(-x^2 / (2 s^2)) cosh(x m / s^2).
    """
    if scale >= SMOOTH:
        return np.zeros_like(offset)
    x = np.arange(1.0, np.ceil(REACH * scale) + 2)[:, None]
    with np.errstate(divide="ignore"):
        z = x * np.abs(offset) / scale**2
        # 2 (cosh(z) - 1) = e^z (1 - e^-z)^2
        more = logsumexp(-((x / scale) ** 2) / 2 + z + 2 * np.log(-np.expm1(-z)), axis=0)
    all_of_0 = np.logaddexp(0.0, np.log(2) + logsumexp(-((x / scale) ** 2) / 2))
    return np.logaddexp(0.0, more - all_of_0) - (offset / scale) ** 2 / 2


@lru_cache(maxsize=32)
def _table(scale: float) -> tuple[Floats, float]:
    """log of the sum of exp(-x^2 / (2 scale^2)) over x >= k, for k = 0, 1, ...; and over all x."""
    x = np.arange(np.ceil(REACH * scale) + 1, -1, -1.0)  # smallest first
    sums = np.cumsum(np.exp(-((x / scale) ** 2) / 2))[::-1]
    with np.errstate(divide="ignore"):  # the far end may be 0; it is not trusted
        return np.log(sums), float(np.log(2 * sums[0] - 1))


def _log_upper_tail(k: Floats, scale: float) -> Floats:
    """log of the discrete Gaussian's probability of x >= k, for whole k; shape as k."""
    size = np.where(k > 0, k, 1 - k)  # >= 1; x >= k is 1 less the tail from 1 - k on
    out = np.empty(k.shape)
    direct = size * LONGEST_SUM >= DIGITS * scale**2
    total = 0.5 * np.log(2 * np.pi) + np.log(scale)
    if scale <= LONGEST_TABLE:
        sums, total = _table(scale)
        listed = size <= TRUSTED * scale
        out[listed] = sums[size[listed].astype(int)] - total
        direct = ~listed
        smooth = np.zeros_like(listed)
    else:
        smooth = ~direct
    out[direct] = _direct_tail(size[direct], scale) - total
    out[smooth] = _smooth_tail((size[smooth] - 0.5) / scale, 1 / scale)
    with np.errstate(divide="ignore"):
        return np.where(k > 0, out, np.log1p(-np.exp(out)))


def _direct_tail(k: Floats, scale: float) -> Floats:
    """log sum_{j >= 0} exp(-(k + j)^2 / (2 scale^2)) far out, where terms fall fast."""
    rate = k / scale**2
    terms = int(np.ceil(DIGITS / rate.min())) if k.size else 0
    more = np.zeros(k.shape)
    for j in range(terms, 0, -1):
        more += np.exp(-rate * j - (j / scale) ** 2 / 2)
    return np.log1p(more) - (k / scale) ** 2 / 2


def _smooth_tail(z: Floats, step: float) -> Floats:
    """log of the tail as an integral from z = (k - 1/2) / scale on, and its error's series.

    sum = integral + h^2/24 f' - 7 h^4/5760 f''' + 31 h^6/967680 f''''' at z, h = step, f the normal
    density (Euler, Maclaurin, midpoint rule; Abramowitz, Stegun 1964, 23.1.30).
    """
    first, third = -z, z * (3 - z * z)
    fifth = -z * (15 - z * z * (10 - z * z))
    more = step**2 / 24 * first - 7 * step**4 / 5760 * third + 31 * step**6 / 967680 * fifth
    mills = np.sqrt(np.pi / 2) * erfcx(z / np.sqrt(2))  # integral / density
    return np.log(mills + more) - z * z / 2 - np.log(2 * np.pi) / 2


def _masses(last: Floats, scale: float) -> Floats:
    """Probability up to last_0, between neighbours (left end excluded) and above: (n + 1,)."""
    upper = last >= 0
    tails = np.exp(_log_upper_tail(np.where(upper, last + 1, -last), scale))  # on its own side
    return between(tails, upper)


class Randomness(Protocol):
    """A source of integers: random.Random, or secrets.SystemRandom."""

    def randrange(self, start: int, /) -> int:
        """An integer from 0 to start - 1, each as likely as the others."""
        ...


def secure_source() -> Randomness:
    """The operating system's generator, for releases; random.Random(seed) is for tests."""
    return secrets.SystemRandom()


def sample(size: int, *, variance: Fraction | int, rng: Randomness) -> list[int]:
    """`size` draws of the discrete Gaussian of parameter sigma^2 = variance.

    Canonne, Kamath, Steinke 2020, Algorithm 3: discrete Laplace draws, kept with a probability
    that makes them Gaussian. No floating-point number takes part. About 1.5 draws a kept one.

    Raises:
        ValueError: size is not an integer >= 0, variance is not an int or Fraction > 0, or rng
            has no randrange.
    """
    checks.whole(size=size)
    _check_source(rng)
    if (
        isinstance(variance, bool)
        or not isinstance(variance, int | Fraction)
        or not variance > 0
    ):
        raise ValueError(f"variance must be an int or Fraction > 0, got {variance!r}")
    n, d = variance.numerator, variance.denominator
    t = isqrt(n // d) + 1
    out: list[int] = []
    while len(out) < size:
        y = discrete_laplace(t, rng=rng)
        # exp(-(|y| - sigma^2 / t)^2 / (2 sigma^2))
        if bernoulli_exp((abs(y) * t * d - n) ** 2, 2 * n * t * t * d, rng=rng):
            out.append(y)
    return out


def discrete_laplace(scale: int, *, rng: Randomness) -> int:
    """One integer with probability proportional to exp(-|y| / scale) (Algorithm 2, s = 1)."""
    checks.whole(1, scale=scale)
    _check_source(rng)
    while True:
        low = rng.randrange(scale)
        if not bernoulli_exp(low, scale, rng=rng):
            continue
        high = 0
        while bernoulli_exp(1, 1, rng=rng):
            high += 1
        size, negative = low + scale * high, rng.randrange(2)
        if size or not negative:  # 0 has one sign
            return -size if negative else size


def bernoulli_exp(numerator: int, denominator: int, *, rng: Randomness) -> bool:
    """True with probability exp(-numerator / denominator) (Algorithm 1).

    Raises:
        ValueError: numerator is not an integer >= 0, or denominator not one >= 1.
    """
    checks.whole(numerator=numerator)
    checks.whole(1, denominator=denominator)
    while numerator > denominator:
        if not _bernoulli_exp_up_to_1(1, 1, rng):
            return False
        numerator -= denominator
    return _bernoulli_exp_up_to_1(numerator, denominator, rng)


def _bernoulli_exp_up_to_1(numerator: int, denominator: int, rng: Randomness) -> bool:
    k = 1
    while rng.randrange(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def _check_source(rng: Any) -> None:
    if not callable(getattr(rng, "randrange", None)):
        raise ValueError(
            f"rng must have randrange, got {rng!r}; pass secure_source(), or random.Random(seed)"
        )
