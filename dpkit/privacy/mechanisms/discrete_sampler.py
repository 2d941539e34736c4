"""A sampler of the discrete Gaussian that is exact to the last bit: integers alone.

Floating-point noise has gaps that depend on what it is added to, and an attacker can use them
(Mironov 2012). Training draws such noise all the same; this sampler is for teaching, tests and
small counts.
"""

import secrets
from fractions import Fraction
from math import isqrt
from typing import Any, Protocol

from dpkit.common import checks


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
    if isinstance(variance, bool) or not isinstance(variance, int | Fraction) or not variance > 0:
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
