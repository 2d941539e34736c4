"""Truths of the sampled Gaussian that several tests ask for, and what dp-accounting says of it.

Where nothing else is said they have as many digits as mpmath has.
"""

import dataclasses
import importlib
import pkgutil
from functools import reduce

import mpmath as mp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom

import dpkit.privacy


def dataclasses_with(*names: str) -> set[type]:
    """The dataclasses in modules of dpkit.privacy that have an attribute of one of these names."""
    modules = pkgutil.iter_modules(dpkit.privacy.__path__, "dpkit.privacy.")
    values = [one for m in modules for one in vars(importlib.import_module(m.name)).values()]
    kinds = {one for one in values if isinstance(one, type) and dataclasses.is_dataclass(one)}
    return {kind for kind in kinds if any(hasattr(kind, name) for name in names)}


def renyi_divergence(p, q, order: float) -> float:
    """By its definition, of two lists of probabilities."""
    a = mp.mpf(order)
    total = mp.fsum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))
    return float(mp.log(total) / (a - 1))


def above(z: mp.mpf) -> mp.mpf:
    """What a standard normal has above z."""
    return mp.erfc(z / mp.sqrt(2)) / 2


def tails(noise, rate, adjacency: str, loss) -> list[mp.mpf]:
    """Beyond a loss: P above, P below, Q above, Q below; the definition solved for the output."""
    s, q = mp.mpf(noise), mp.mpf(rate)
    mean_of_q = 0 if adjacency == "add-remove" else -1
    if mean_of_q == 0:  # (1-q) + q exp((2x - 1) / (2 s^2)) = exp(loss)
        ratio = (mp.exp(loss) - (1 - q)) / q
        x = s * s * mp.log(ratio) + mp.mpf(1) / 2 if ratio > 0 else -mp.inf
    else:  # with y = exp(x / s^2), c = q exp(-1 / (2 s^2)):  1-q + c y = exp(loss) (1-q + c / y)
        c, e = q * mp.exp(-1 / (2 * s * s)), mp.exp(loss)
        b = (1 - q) * (e - 1)
        root = mp.sqrt(b * b + 4 * c * c * e)
        y = (b + root) / (2 * c) if b > 0 else 2 * c * e / (root - b)
        x = s * s * mp.log(y)
    if x == -mp.inf:
        return [mp.mpf(1), mp.mpf(0), mp.mpf(1), mp.mpf(0)]
    return [
        (1 - q) * above(sign * x / s) + q * above(sign * (x - mean) / s)
        for mean in (1, mean_of_q)
        for sign in (1, -1)
    ]


def direction(noise, rate, epsilon, sign: int = 1, adjacency: str = "add-remove") -> mp.mpf:
    """delta(epsilon) of P against Q (sign 1) or the reverse; Q of add-remove has no record."""
    p, p_below, q, q_below = tails(noise, rate, adjacency, sign * mp.mpf(epsilon))
    more, less = (p, q) if sign > 0 else (q_below, p_below)
    return more - mp.exp(mp.mpf(epsilon)) * less


def larger(noise, rate, epsilon, adjacency: str = "add-remove") -> mp.mpf:
    return max(direction(noise, rate, epsilon, sign, adjacency) for sign in (1, -1))


def epsilon_where(delta_of, delta: float) -> mp.mpf:
    """The epsilon of a falling delta_of, by bisection; 0 where delta is large enough."""
    low, high = mp.mpf(0), mp.mpf(1)
    if delta_of(low) <= delta:
        return low
    while delta_of(high) > delta:
        low, high = high, high * 2
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle) > delta else (low, middle)
    return high


def gaussian_epsilon(noise, delta: float) -> mp.mpf:
    """Of one Gaussian release (Balle, Wang 2018, Thm 5), with 40 digits."""
    with mp.workdps(40):
        return epsilon_where(lambda e: direction(noise, 1, e), delta)


def log_moment(order: int, noise: float, rate: float) -> float:
    """Log of E_Q (P / Q)^order, a whole order (Mironov, Talwar, Zhang 2019, section 3.3).

    The binomial sum, less its chances, which add up to 1: fewer than 2 records leave nothing.
    """
    k = np.arange(2, order + 1)
    loss = k * (k - 1) / (2 * noise**2)
    terms = binom.logpmf(k, order, rate) + loss + np.log(-np.expm1(-loss))
    return float(np.logaddexp(0, logsumexp(terms)))


def by_moments(noise: float, rate: float, steps: int, *, most: int = 32) -> float:
    """Epsilon at delta 1e-5 by the sums of moments 1 to `most` (Abadi et al. 2016, Thm 2)."""
    spent = ((k, steps * log_moment(k + 1, noise, rate)) for k in range(1, most + 1))
    return float(min((one - np.log(1e-5)) / k for k, one in spent))


def log_b(power: int, noise: float) -> mp.mpf:
    """log B(l) of the theorem below, an alternating sum, with as many digits as it cancels."""
    digits = 60
    while True:
        with mp.workdps(digits):
            s = mp.mpf(noise)
            terms = [
                (-1) ** i * mp.binomial(power, i) * mp.exp(i * (i - 1) / (2 * s * s))
                for i in range(power + 1)
            ]
            total, largest = mp.fsum(terms), max(abs(term) for term in terms)
            if total > largest * mp.mpf(10) ** (30 - digits):
                return mp.log(total)
        digits *= 2


def theorem_of_fixed_sizes(order: int, noise: float, q: float) -> float:
    """Xu et al. 2019, Theorem 1, read literally."""
    with mp.workdps(40):
        s, rate = mp.mpf(noise), mp.mpf(q)
        first = min(4 * mp.expm1(1 / s**2), 2 * mp.exp(1 / s**2))
        total = rate**2 * mp.binomial(order, 2) * first
        for j in range(3, order + 1):
            root = mp.exp((log_b(2 * ((j + 1) // 2), noise) + log_b(2 * (j // 2), noise)) / 2)
            total += 4 * rate**j * mp.binomial(order, j) * root
        return float(mp.log1p(total) / (order - 1))


def by_dp_accounting(releases: dict, rate: float, *, delta: float, width: float) -> list[float]:
    """Epsilon from below and from above of noise multiplier -> number of Poisson releases.

    `width` is that of the cells into which losses are rounded.
    """
    peer = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    found = []
    for above in (False, True):
        how = {"value_discretization_interval": width, "pessimistic_estimate": above}
        how |= {"sampling_prob": rate, "use_connect_dots": above}
        made = (peer.from_gaussian_mechanism(z, **how).self_compose(releases[z]) for z in releases)
        composed = reduce(lambda one, other: one.compose(other), made)
        found.append(composed.get_epsilon_for_delta(delta))
    return found
