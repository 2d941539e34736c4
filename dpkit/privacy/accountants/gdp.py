"""Gaussian differential privacy: a ledger as one Gaussian release of parameter mu.

Releases of mu_i compose to sqrt(sum mu_i^2) (Dong, Roth, Su 2022, Cor. 3.3). That is a theorem
where each mechanism's own curve lies above its mu's. Where a mechanism knows only the limit of many
releases (CLT), the answer is an approximation, which can lie far below the truth, and says so.
"""

import math

import numpy as np
from scipy.special import erfcx, log_ndtr

from dpkit import checks
from dpkit.privacy import numerics
from dpkit.privacy.ledger import Guarantee, Ledger, Releases
from dpkit.privacy.mechanisms import GaussianDp, Mechanism

EXACT = "Gaussian DP (Dong, Roth, Su 2022, Cor. 2.13 and 3.3)"
CLT = "Gaussian DP, CLT: approximation (CLT), not an upper bound (Dong, Roth, Su 2022, Thm 3.5)"
APPROXIMATE = "approximation: the privacy loss of all releases is taken to be normal (CLT)"
LEAST = 5e-324  # the least positive number: a delta that vanished may be as large
CLOSE = 1e-9  # relative, of two deltas that are the same but for rounding
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


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
            raise ArithmeticError(f"a mechanism's mu is not a number >= 0: {one.mu}")
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
    tight = found.exact and found.mu < math.inf and _tight(ledger)
    low = _solve(found.mu, math.log(delta), -1) if tight else 0.0
    high = _solve(found.mu, math.log(delta), +1)
    return _guarantee(ledger, high, delta, found.exact, low)


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
    return ledger.guarantee(epsilon=epsilon, delta=delta, lower=lower, method=method, assume=assume)


def log_delta(mu: float, epsilon: float) -> float:
    """log(delta) at `epsilon` >= 0 of the Gaussian of parameter `mu`, but for rounding.

    delta = Phi(-x) - e^epsilon Phi(-x - mu), x = epsilon / mu - mu / 2 (Dong, Roth, Su 2022,
    Cor. 2.13). With the density phi and the Mills ratio M(x) = Phi(-x) / phi(x), and as
    e^epsilon phi(x + mu) = phi(x), that is phi(x) (M(x) - M(x + mu)).

    Raises:
        ValueError: mu is not a number >= 0, or epsilon not a finite one >= 0.
    """
    mu = checks.in_range(0, math.inf, mu=mu)
    epsilon = checks.non_negative(epsilon=epsilon)
    if mu == 0:
        return -math.inf
    if mu == math.inf:
        return 0.0
    x = epsilon / mu - mu / 2
    log_density = -x * x / 2 - math.log(2 * math.pi) / 2
    if x > 1e7:  # then M(x) - M(x + mu) = (1 / x - 1 / (x + mu)) (1 - O(1 / x^2))
        return log_density + math.log(mu) - math.log(x) - math.log(x + mu)
    if mu < 0.5:  # the difference as the integral of -M'(t) = 1 - t M(t)
        return log_density + math.log(mu / 2 * float(WEIGHTS @ _fall(x + mu / 2 * (NODES + 1))))
    if x > 0:
        return log_density + math.log(_mills(x) - _mills(x + mu))
    upper = float(log_ndtr(-x))
    return upper + math.log1p(-math.exp(log_density + math.log(_mills(x + mu)) - upper))


def _rounding(mu: float, epsilon: float, log_delta: float) -> float:
    """A bound on the rounding error of `log_delta`: its own, and that of x = epsilon/mu - mu/2."""
    if mu in (0, math.inf):
        return 0.0
    x = epsilon / mu - mu / 2
    return 1e-13 * (1 + abs(log_delta)) + 1e-15 * (1 + abs(x)) * (epsilon / mu + mu)


def _mills(x: float) -> float:
    """(1 - Phi(x)) / phi(x), of x that is not far below 0."""
    return float(math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)))


def _fall(t: np.ndarray) -> np.ndarray:
    """-M'(t) = 1 - t M(t), by its asymptotic series where the difference would cancel."""
    square = 1 / np.maximum(t, 20.0) ** 2
    series = np.zeros_like(t)
    for k in range(19, 0, -2):  # 1/t^2 - 3/t^4 + 15/t^6 - ...
        series = k * square * (1 - series)
    direct = 1 - t * np.sqrt(np.pi / 2) * erfcx(np.minimum(t, 20.0) / np.sqrt(2))
    return np.where(t > 20, series, direct)


def _solve(mu: float, log_target: float, side: int) -> float:
    """The least epsilon with log_delta <= log_target, from above (side 1) or below (side -1)."""
    if mu in (0, math.inf):
        return mu

    def private(epsilon: float) -> bool:
        value = log_delta(mu, epsilon)
        return value + side * _rounding(mu, epsilon, value) <= log_target

    low, high = numerics.bracket(private)
    return high if side > 0 else low


def _tight(ledger: Ledger) -> bool:
    """Whether each mechanism's profile, in both directions, is that of its mu."""
    return all(_profile_is_of_mu(mechanism) for mechanism, _ in ledger.releases)


def _profile_is_of_mu(mechanism: Mechanism) -> bool:
    one = mechanism.gaussian_dp().mu
    epsilons = np.array([0.0, 0.5, 1.0, 2.0, 3.0]) * one + one * one / 2
    deltas = [math.exp(log_delta(one, epsilon)) for epsilon in epsilons]
    return bool(np.allclose(mechanism.profile(epsilons), deltas, rtol=CLOSE, atol=0))
