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
MOST_TERMS = 200_000  # orders times points held at once
TINIEST = np.finfo(np.float64).tiny
FAR_APART = 0.1  # noise at and below which the parts are ten deviations apart


def add_remove(orders: Floats, *, q: float, noise: float) -> Floats:
    """D_alpha((1-q) N(0) + q N(1) || N(0)) in nats, N of variance noise^2, one per order.

    Integer orders by the binomial sum, the others by quadrature. Needs 0 < q < 1.

    Raises:
        ArithmeticError: a price came out as NaN.
    """
    excess = np.empty_like(orders)  # log(A - 1)
    whole = orders == np.floor(orders)
    excess[whole] = _binomial(orders[whole], q, noise)
    excess[~whole] = _by_quadrature(orders[~whole], q, noise, two_sided=False)
    return _price(orders, excess, bound=orders / (2 * noise**2))


def replace_one(orders: Floats, *, q: float, noise: float) -> Floats:
    """D_alpha((1-q) N(0) + q N(+1) || (1-q) N(0) + q N(-1)) in nats, one per order.

    Every order by quadrature. Needs 0 < q < 1.

    Raises:
        ArithmeticError: a price came out as NaN.
    """
    excess = _by_quadrature(orders, q, noise, two_sided=True)
    return _price(orders, excess, bound=orders * 2 / noise**2)


def _price(orders: Floats, excess: Floats, *, bound: Floats) -> Floats:
    """log(A) / (alpha - 1) from log(A - 1); `bound`, the price at q = 1, is never exceeded.

    A positive price that underflows becomes the smallest float: only an empty release costs 0.
    """
    if np.isnan(excess).any():
        raise ArithmeticError("the sampled Gaussian's Renyi divergence could not be computed")
    price = np.logaddexp(0.0, excess) / (orders - 1)
    return np.minimum(np.maximum(price, TINIEST), bound)


def log_sums(terms: Floats) -> Floats:
    """log(sum(exp(terms))) along the last axis: (..., points) -> (...)."""
    top = terms.max(axis=-1, keepdims=True)
    steady = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return steady[..., 0] + np.log(np.exp(terms - steady).sum(axis=-1))


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
        out[i] = log_sums(terms) + factorial[order] + order * np.log1p(-q)
    return out


def _by_quadrature(orders: Floats, q: float, noise: float, *, two_sided: bool) -> Floats:
    """log(A - 1) at any orders > 1; inf where that would take too many points.

    The orders up to 16, and beyond them those of one octave, share the grid of the largest.
    """
    out = np.empty_like(orders)
    if noise > FAR_APART:
        shared = np.maximum(np.floor(np.log2(orders)), 3)
    else:  # the windows of one order's peaks are of no use to another
        shared = np.arange(orders.size)
    for each in np.unique(shared):
        out[shared == each] = _integrals(orders[shared == each], q, noise, two_sided=two_sided)
    return out


def _integrals(orders: Floats, q: float, noise: float, *, two_sided: bool) -> Floats:
    """log(A - 1) at orders that share a grid, by the trapezoidal rule in t = x / noise."""
    points, step = _grid(orders.max(), q, noise, two_sided=two_sided)
    if points is None:
        if orders.size == 1:
            return np.array([np.inf])
        return np.concatenate(
            [_integrals(a[None], q, noise, two_sided=two_sided) for a in orders]
        )
    forward, back = (points / noise - 0.5 / noise**2, -points / noise - 0.5 / noise**2)
    log_ratio, ratio_less_1 = _log_mixture(forward, q)  # P over N(0)
    log_weight = -points * points / 2
    if two_sided:
        log_base, base_less_1 = _log_mixture(back, q)  # Q over N(0)
        with np.errstate(invalid="ignore", over="ignore"):
            less = (ratio_less_1 - base_less_1) / (1 + base_less_1)
        ratio_less_1 = np.where(np.isinf(base_less_1), -1.0, less)
        log_ratio, log_weight = log_ratio - log_base, log_weight + log_base
    sums = []
    for some in np.array_split(orders, 1 + orders.size * points.size // MOST_TERMS):
        terms = log_weight + _log_excess(some[:, None], log_ratio, ratio_less_1)
        sums.append(log_sums(terms))
    return np.concatenate(sums) + np.log(step) - 0.5 * np.log(2 * np.pi)


def _grid(
    order: float, q: float, noise: float, *, two_sided: bool
) -> tuple[Floats | None, float]:
    """Trapezoidal points in t and their step; None where there would be too many.

    The integrand is analytic up to Im t = pi * noise, where a mixture has its zeros. With two
    mixtures one is divided by, so d stays where |mixture| > cos(angle / 2) of its real value.
    """
    if (
        noise < LITTLE
    ):  # amplification no longer shows, and places beyond 2^53 steps have no names
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


def _log_excess(order: Floats, log_ratio: Floats, v: Floats) -> Floats:
    """log((1 + v)^order - 1 - order v), log_ratio = log(1 + v), (n, 1) orders: (n, points).

    Directly, where v is small by the binomial series, and in logs where the power overflows.
    """
    with np.errstate(all="ignore"):
        out = np.log((1 + v) * np.expm1((order - 1) * log_ratio) - (order - 1) * v)
        small = np.abs(v) < SERIES_BELOW / (order + 12)
        large = order * log_ratio > 500
        if small.any():
            a, w = (np.broadcast_to(x, out.shape)[small] for x in (order, v))
            series = np.ones_like(w)
            for k in range(12, 1, -1):  # C(order, k + 1) / C(order, k)
                series = 1 + (a - k) / (k + 1) * w * series
            out[small] = np.log(a * (a - 1) / 2 * series) + 2 * np.log(np.abs(w))
        if large.any():
            a, log_power = (np.broadcast_to(x, out.shape)[large] for x in (order, log_ratio))
            # 1 + order v = (1 + v) (order - (order - 1) / (1 + v))
            behind = (1 - a) * log_power + np.log(a - (a - 1) * np.exp(-log_power))
            out[large] = a * log_power + np.log(-np.expm1(behind))
    return out
