"""Gaussian differential privacy: a ledger as one Gaussian release of parameter mu.

Releases of mu_i compose to sqrt(sum mu_i^2) (Dong, Roth, Su 2022, Cor. 3.3). That is a theorem
where each mechanism's own curve lies above its mu's. Where a mechanism knows only the limit of many
releases (CLT), the answer is an approximation, which can lie far below the truth, and says so.
"""

import math

import numpy as np

from dpkit.common import checks
from dpkit.privacy import numerics
from dpkit.privacy.ledger import Guarantee, Ledger, Releases
from dpkit.privacy.mechanisms import GaussianDp, gaussian

EXACT = "Gaussian DP (Dong, Roth, Su 2022, Cor. 2.13 and 3.3)"
CLT = (
    "Gaussian DP, CLT: approximation (CLT), not an upper bound (Dong, Roth, Su 2022, Thm 3.5)"
)
APPROXIMATE = "approximation: the privacy loss of all releases is taken to be normal (CLT)"
LEAST = 5e-324  # the least positive number: a delta that vanished may be as large
CLOSE = 1e-9  # relative, of two deltas that are the same but for rounding


def mu(ledger: Releases) -> GaussianDp:
    """The ledger's mu, and whether it is exact or a limit for some release.

    Raises:
        ValueError: a count is not an integer >= 0, or adjacencies are mixed.
        Unsupported: a mechanism knows no mu.
        ArithmeticError: a mechanism's mu is NaN or negative.
    """
    each = [(m.gaussian_dp(), count) for m, count in Ledger.of(ledger).releases]
    for one, _ in each:
        if not one.mu >= 0:
            raise ArithmeticError(f"a mechanism's mu must be >= 0, got {one.mu}")
    total = math.hypot(*(one.mu * math.sqrt(count) for one, count in each))
    return GaussianDp(total, all(one.exact for one, _ in each))


def epsilon(ledger: Releases, *, delta: float) -> Guarantee:
    """The epsilon of the ledger's mu at `delta`.

    An upper bound where every mu is exact; where each mechanism's profile is even that of its mu
    (Gaussians), nothing is lost, and `lower` is the same value but for rounding. Where a mu is the
    limit of many releases, the CLT's approximation: `method` and `assumptions` say so.

    Args:
        ledger: releases under one adjacency, whose mechanisms know their mu.
        delta: in (0, 1).

    Raises:
        ValueError: delta is not in (0, 1), or as `mu`.
    """
    ledger, delta = Ledger.of(ledger), checks.between(0, 1, delta=delta)
    found = mu(ledger)
    tight = found.exact and found.mu < math.inf
    for mechanism, _ in ledger.releases if tight else ():  # is its profile that of its mu?
        one = mechanism.gaussian_dp().mu
        epsilons = np.array([0.0, 0.5, 1.0, 2.0, 3.0]) * one + one * one / 2
        deltas = [math.exp(log_delta(one, epsilon)) for epsilon in epsilons]
        tight &= bool(np.allclose(mechanism.profile(epsilons), deltas, rtol=CLOSE, atol=0))
    low = _solve(found.mu, math.log(delta), -1) if tight else 0.0
    return _guarantee(ledger, _solve(found.mu, math.log(delta), +1), delta, found.exact, low)


def delta(ledger: Releases, *, epsilon: float) -> Guarantee:
    """The delta of the ledger's mu at `epsilon` >= 0 (arguments and meaning as `epsilon`)."""
    ledger, epsilon = Ledger.of(ledger), checks.non_negative(epsilon=epsilon)
    found = mu(ledger)
    log_value = log_delta(found.mu, epsilon)
    log_value = min(log_value + _rounding(found.mu, epsilon, log_value), 0.0)
    value = max(math.exp(log_value), LEAST) if found.mu else 0.0
    return _guarantee(ledger, epsilon, value, found.exact)


def _guarantee(
    ledger: Ledger, epsilon: float, delta: float, exact: bool, lower: float = 0.0
) -> Guarantee:
    method, assume = (EXACT, "") if exact else (CLT, APPROXIMATE)
    return ledger.guarantee(
        epsilon=epsilon, delta=delta, lower=lower, method=method, assume=assume
    )


def log_delta(mu: float, epsilon: float) -> float:
    """log(delta) at `epsilon` >= 0 of the Gaussian of parameter `mu`, but for rounding.

    Raises:
        ValueError: mu is not a number >= 0, or epsilon not a finite one >= 0.
    """
    mu = checks.in_range(0, math.inf, mu=mu)
    epsilon = checks.non_negative(epsilon=epsilon)
    if mu in (0, math.inf):
        return -math.inf if mu == 0 else 0.0
    return float(gaussian.log_delta(mu, np.array([epsilon]))[0])


def _rounding(mu: float, epsilon: float, log_delta: float) -> float:
    """A bound on the rounding error of `log_delta`, with that of x = epsilon/mu - mu/2."""
    if mu in (0, math.inf):
        return 0.0
    x = epsilon / mu - mu / 2
    return 1e-13 * (1 + abs(log_delta)) + 1e-15 * (1 + abs(x)) * (epsilon / mu + mu)


def _solve(mu: float, log_target: float, side: int) -> float:
    """The least epsilon with log_delta <= log_target, from above (side 1) or below (side -1)."""
    if mu in (0, math.inf):
        return mu

    def private(epsilon: float) -> bool:
        value = log_delta(mu, epsilon)
        return value + side * _rounding(mu, epsilon, value) <= log_target

    low, high = numerics.bracket(private)
    return high if side > 0 else low
