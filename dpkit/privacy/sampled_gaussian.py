"""The Renyi divergence of the Poisson-sampled Gaussian, to full relative precision.

With A = E_Q[(P/Q)^alpha], the price is log(A) / (alpha - 1). A is close to 1 for a cheap release,
so everything here computes log(A - 1), from terms that are all positive:

    A - 1 = E_Q[(1 + v)^alpha - 1 - alpha v],   v = P/Q - 1,   since E_Q[v] = 0,

and each term is >= 0 (Bernoulli). Integrals are trapezoidal sums: for a function that is analytic
in the strip |Im t| < d their error falls as exp(-2 pi d / step)
(Trefethen, Weideman 2014, Thm 5.1).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Floats = NDArray[np.float64]
REACH = 14.0  # standard deviations around each peak: exp(-14^2 / 2) is 3e-43
DIGITS = 46.0  # -log of the trapezoidal rule's error: exp(-46) is 1e-20
MOST_POINTS = 100_000  # beyond it an order is priced without amplification, an upper bound
SERIES_BELOW = 0.1
LITTLE = 1e-4  # noise below which orders by quadrature are priced as if q were 1
FAR_APART = 0.1  # noise at and below which the parts are ten deviations apart


def add_remove(orders: Floats, *, q: float, noise: float) -> Floats:
    """D_alpha((1-q) N(0) + q N(1) || N(0)) in nats, N of variance noise^2, one per order.

    Integer orders by the binomial sum, the others by quadrature. Needs 0 < q < 1.
    """
    excess = np.empty_like(orders)  # log(A - 1)
    whole = orders == np.floor(orders)
    excess[whole] = _binomial(orders[whole], q, noise)
    excess[~whole] = [_integral(a, q, noise, two_sided=False) for a in orders[~whole]]
    return _price(orders, excess, bound=orders / (2 * noise**2))


def replace_one(orders: Floats, *, q: float, noise: float) -> Floats:
    """D_alpha((1-q) N(0) + q N(+1) || (1-q) N(0) + q N(-1)) in nats, one per order."""
    excess = np.array([_integral(a, q, noise, two_sided=True) for a in orders])
    return _price(orders, excess, bound=orders * 2 / noise**2)


def _price(orders: Floats, excess: Floats, *, bound: Floats) -> Floats:
    """log(A) / (alpha - 1) from log(A - 1); `bound`, the price at q = 1, is never exceeded."""
    if np.isnan(excess).any():
        raise ArithmeticError("the sampled Gaussian's Renyi divergence could not be computed")
    return np.minimum(np.logaddexp(0.0, excess) / (orders - 1), bound)


def _log_sum(terms: Floats) -> float:
    """log(sum(exp(terms)))."""
    top = terms.max()
    return float(top + np.log(np.exp(terms - top).sum())) if np.isfinite(top) else float(top)


def _binomial(orders: Floats, q: float, noise: float) -> Floats:
    """log(A - 1) at integer orders: the terms k = 0 and 1 of the binomial sum cancel the -1.

    A = sum_k C(alpha, k) (1-q)^(alpha-k) q^k exp((k^2 - k) / (2 noise^2))
    (Mironov, Talwar, Zhang 2019, eq. 9), and the weights sum to 1.
    """
    out = np.empty_like(orders)
    if orders.size == 0:
        return out
    every = np.arange(orders.max() + 1)
    factorial = gammaln(every + 1)  # logs
    moved = (every[2:] ** 2 - every[2:]) / (2 * noise**2)  # > 0
    part = every[2:] * (np.log(q) - np.log1p(-q)) + moved + np.log(-np.expm1(-moved))
    part -= factorial[2:]
    for i, order in enumerate(orders.astype(int)):
        terms = part[: order - 1] - factorial[order - 2 :: -1]
        out[i] = _log_sum(terms) + factorial[order] + order * np.log1p(-q)
    return out


def _integral(order: float, q: float, noise: float, *, two_sided: bool) -> float:
    """log(A - 1) at any order > 1, by the trapezoidal rule in t = x / noise."""
    points, step = _grid(order, q, noise, two_sided=two_sided)
    if points is None:
        return np.inf
    forward, back = (points / noise - 0.5 / noise**2, -points / noise - 0.5 / noise**2)
    log_ratio, ratio_less_1 = _log_mixture(forward, q)  # P over N(0)
    log_weight = -points * points / 2
    if two_sided:
        log_base, base_less_1 = _log_mixture(back, q)  # Q over N(0)
        with np.errstate(invalid="ignore", over="ignore"):
            less = (ratio_less_1 - base_less_1) / (1 + base_less_1)
        ratio_less_1 = np.where(np.isinf(base_less_1), -1.0, less)
        log_ratio, log_weight = log_ratio - log_base, log_weight + log_base
    terms = log_weight + _log_excess(order, log_ratio, ratio_less_1)
    return _log_sum(terms) + np.log(step) - 0.5 * np.log(2 * np.pi)


def _grid(order: float, q: float, noise: float, *, two_sided: bool) -> tuple[Floats | None, float]:
    """Trapezoidal points in t and their step; None where there would be too many.

    The integrand is analytic up to Im t = pi * noise, where a mixture has its zeros. With two
    mixtures one is divided by, so d stays where |mixture| > cos(angle / 2) of its real value.
    """
    if noise < LITTLE:  # amplification no longer shows, and places beyond 2^53 steps have no names
        return None, 1.0
    angle = min(0.95 * np.pi, 6.0 / noise)
    if two_sided:
        angle = min(angle, np.pi / 2, np.sqrt(80.0 / order))
    d = angle * noise
    loss = -(order - 1) * np.log(np.cos(angle / 2)) if two_sided else 0.0
    step = 2 * np.pi * d / (d * d / 2 + DIGITS + loss)
    # Wherever one part of each mixture rules, the terms are a bell around peak / noise: of the
    # second moment (small v) and of the whole power.
    peaks = np.array([0, 2, order])
    if two_sided:
        peaks = np.array([-1, 0, 1, 2, 3, order - 1, order, 2 * order - 1])
    if noise > FAR_APART:
        windows = [(peaks.min() / noise, peaks.max() / noise)]
    else:  # nothing lies between the bells but the crossings, where both parts are equal
        crossing = 0.5 / noise + noise * np.log((1 - q) / q)
        windows = [(t, t) for t in (*(peaks / noise), crossing, -crossing)]
    ranges = [(np.floor((a - REACH) / step), np.ceil((b + REACH) / step)) for a, b in windows]
    if sum(b - a for a, b in ranges) > MOST_POINTS:
        return None, step
    index = np.concatenate([np.arange(a, b + 1) for a, b in ranges])
    return (np.unique(index) if len(ranges) > 1 else index) * step, step


def _log_mixture(tilt: Floats, q: float) -> tuple[Floats, Floats]:
    """m = (1-q) + q exp(tilt): log(m), and m - 1 (inf where it overflows)."""
    with np.errstate(over="ignore"):
        less_1 = q * np.expm1(tilt)
    large = np.logaddexp(np.log1p(-q), np.log(q) + tilt)
    return np.where(less_1 < 1e6, np.log1p(np.minimum(less_1, 1e6)), large), less_1


def _log_excess(order: float, log_ratio: Floats, v: Floats) -> Floats:
    """log((1 + v)^order - 1 - order v) with log_ratio = log(1 + v): series, direct or in logs."""
    with np.errstate(all="ignore"):
        less = np.expm1((order - 1) * log_ratio)
        direct = np.log((1 + v) * less - (order - 1) * v)
        # 1 + order v = (1 + v) (order - (order - 1) / (1 + v))
        behind = (1 - order) * log_ratio + np.log(order - (order - 1) * np.exp(-log_ratio))
        large = order * log_ratio + np.log(-np.expm1(behind))
        series = np.ones_like(v)
        for k in range(12, 1, -1):  # C(order, k + 1) / C(order, k)
            series = 1 + (order - k) / (k + 1) * v * series
        small = np.log(order * (order - 1) / 2) + 2 * np.log(np.abs(v)) + np.log(series)
    out = np.where(order * log_ratio > 500, large, direct)
    return np.where(np.abs(v) < SERIES_BELOW / (order + 12), small, out)
