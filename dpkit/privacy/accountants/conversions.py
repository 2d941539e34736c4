"""Three theorems from one Renyi bound (order, rdp) to (epsilon, delta), loosest first."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpkit.common import checks
from dpkit.privacy.mechanisms import Floats
from dpkit.privacy.numerics import halved


class Conversion(NamedTuple):
    """One theorem: `epsilon(orders, rdp, delta)` and `delta(orders, rdp, epsilon)`, per order.

    Arrays have one shape; the caller takes the smallest value.
    """

    name: str
    source: str
    epsilon: Callable[[Floats, Floats, float], Floats]
    delta: Callable[[Floats, Floats, float], Floats]


def classic(orders: Floats, rdp: Floats, delta: float) -> Floats:
    """epsilon = rdp + log(1/delta) / (alpha - 1) (Mironov 2017, Prop. 3), not below 0."""
    return np.maximum(rdp - np.log(delta) / (orders - 1), 0.0)


def classic_delta(orders: Floats, rdp: Floats, epsilon: float) -> Floats:
    """The delta of `classic` at an epsilon, at most 1."""
    return np.exp(np.minimum((orders - 1) * (rdp - epsilon), 0.0))


def improved(orders: Floats, rdp: Floats, delta: float) -> Floats:
    """rdp + log(1 - 1/alpha) - (log(delta) + log(alpha)) / (alpha - 1), not below 0.

    Balle et al. 2020, Thm 21 = Canonne, Kamath, Steinke 2020, Prop. 12.
    """
    epsilon = rdp + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
    return np.maximum(epsilon, 0.0)


def improved_delta(orders: Floats, rdp: Floats, epsilon: float) -> Floats:
    """The delta of `improved` at an epsilon, at most 1."""
    log_delta = (orders - 1) * (rdp - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return np.exp(np.minimum(log_delta, 0.0))


def optimal(orders: Floats, rdp: Floats, delta: float) -> Floats:
    """The smallest epsilon that one Renyi bound implies (Asoodeh et al. 2021, Thm 1), by bisection.

    Never above `improved`, which bounds its bracket.
    """
    high = improved(orders, rdp, delta)
    low = np.zeros_like(high)
    high = np.where(least_rdp(orders, low, delta) >= rdp, 0.0, high)
    # where it holds, no pair of tests can break it
    return halved(low, high, lambda x: least_rdp(orders, x, delta) >= rdp, rounds=50)[1]


def optimal_delta(orders: Floats, rdp: Floats, epsilon: float) -> Floats:
    """The smallest delta that one Renyi bound implies at an epsilon, by bisection of log(delta)."""
    high = np.log(np.maximum(improved_delta(orders, rdp, epsilon), 1e-300))
    low = np.full_like(high, np.log(1e-300))
    at = np.full_like(rdp, epsilon)
    return np.exp(
        halved(low, high, lambda x: least_rdp(orders, at, np.exp(x)) >= rdp, rounds=60)[1]
    )


def least_rdp(orders: Floats, epsilon: Floats, delta: Floats | float) -> Floats:
    """The least Renyi divergence of a pair that is not better than (epsilon, delta).

    A test with true rate p and false rate q = (p - delta) exp(-epsilon) breaks (epsilon, delta),
    and by data processing the pair costs at least the divergence of two coins,
    log(p^a q^(1-a) + (1-p)^a (1-q)^(1-a)) / (a - 1), which is least over p in (delta, 1]
    (Asoodeh et al. 2021, eq. 14). The inside is convex in p: bisect its slope.
    """

    def coins(s: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """p = delta (1 + exp(s)), log(q), log(p / q) and log((1 - p) / (1 - q))."""
        p = np.minimum(delta * (1 + np.exp(s)), 1.0)
        log_q = np.log(delta) + s - epsilon
        return p, log_q, np.log(p) - log_q, np.log1p(-p) - np.log1p(-np.exp(log_q))

    low = np.log(orders - 1)  # s = log((p - delta) / delta); the slope is negative up to here
    high = np.maximum(np.log1p(-delta) - np.log(delta) + np.zeros_like(low), low)  # p = 1

    def rising(s: Floats):
        p, _, heads, tails = coins(s)
        # slope = h(p/q) - h((1-p)/(1-q)),  h(r) = r^(a-1) (a - (a-1) exp(-epsilon) r)
        left = (orders - 1) * heads + np.log(np.maximum(1 - (orders - 1) * np.exp(-s), 0.0))
        right = (orders - 1) * tails
        right += np.log(orders - (orders - 1) * np.exp(tails - epsilon))
        return ~((p < 1) & (left - right < 0))

    with np.errstate(all="ignore"):
        low, _ = halved(low, high, rising, rounds=50)
        p, log_q, heads, tails = coins(low)
        first, second = np.log(p) + (orders - 1) * heads, np.log1p(-p) + (orders - 1) * tails
        second = np.where(p < 1, second, -np.inf)
        # lowered by more than its rounding error, so that the bisections end on the private side
        # both logs have errors of their own, which the power (a - 1) multiplies
        logs = (
            4
            + np.abs(np.log(p))
            + np.abs(log_q)
            + np.abs(np.log(delta))
            + np.abs(low)
            + epsilon
        )
        rounding = (
            2 + np.abs(first) + np.where(p < 1, np.abs(second), 0.0) + (orders - 1) * logs
        )
        found = (np.logaddexp(first, second) - 4e-16 * rounding) / (orders - 1)
    # delta >= 1 / alpha: the slope stays negative up to p = 1
    at_end = epsilon - np.log1p(-delta)
    return np.where(orders * delta < 1, np.minimum(found, at_end), at_end)


CONVERSIONS = (
    Conversion("classic", "Mironov 2017, Prop. 3", classic, classic_delta),
    Conversion("improved", "Balle et al. 2020, Thm 21", improved, improved_delta),
    Conversion("optimal", "Asoodeh et al. 2021, Thm 1", optimal, optimal_delta),
)


def named(conversion: str) -> Conversion:
    """The conversion of that name.

    Raises:
        ValueError: there is none, and the message lists those there are.
    """
    known = {one.name: one for one in CONVERSIONS}
    checks.one_of(tuple(known), conversion=conversion)
    return known[conversion]
