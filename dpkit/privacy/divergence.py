"""The definitions, by quadrature of two densities: slow, obvious, trusted. The oracle of tests."""

import itertools
import math
from collections.abc import Callable, Sequence

LogDensity = Callable[[float], float]


def normal(mean: float, deviation: float) -> LogDensity:
    """The log density of N(mean, deviation^2)."""
    scale = math.log(deviation * math.sqrt(2 * math.pi))
    return lambda x: -((x - mean) ** 2) / (2 * deviation**2) - scale


def laplace(mean: float, scale: float) -> LogDensity:
    """The log density of Laplace noise of that scale around the mean."""
    return lambda x: -abs(x - mean) / scale - math.log(2 * scale)


def mixture(weights: Sequence[float], parts: Sequence[LogDensity]) -> LogDensity:
    """The log density of a mixture."""

    def log_density(x: float) -> float:
        terms = [math.log(w) + part(x) for w, part in zip(weights, parts, strict=True) if w > 0]
        top = max(terms)
        return top + math.log(sum(math.exp(term - top) for term in terms))

    return log_density


def renyi(p: LogDensity, q: LogDensity, order: float, *, low: float, high: float) -> float:
    """D_order(P || Q) in nats, integrated over [low, high] (Mironov 2017, Def. 3).

    Args:
        p, q: log densities.
        order: > 1.
        low, high: where both densities' mass, tilted by the order, lies; the caller's to choose.
    """
    exponent = lambda x: order * p(x) + (1 - order) * q(x)  # noqa: E731
    top = max(exponent(low + (high - low) * i / 4000) for i in range(4001))
    total = _integral(lambda x: math.exp(min(exponent(x) - top, 700)), low, high)
    return (top + math.log(total)) / (order - 1)


def hockey_stick(p: LogDensity, q: LogDensity, epsilon: float, *, low: float, high: float) -> float:
    """The least delta at which P(S) <= e^epsilon Q(S) + delta for every S (Dwork, Roth 2014)."""
    excess = lambda x: max(0.0, math.exp(p(x)) - math.exp(epsilon + q(x)))  # noqa: E731
    return _integral(excess, low, high)


def tradeoff(p: LogDensity, q: LogDensity, alpha: float, *, low: float, high: float) -> float:
    """T(P, Q)(alpha): the least type II error of a test of P against Q of type I error alpha.

    Dong, Roth, Su 2022, Def. 2.1. The best tests reject P where log(q / p) exceeds a threshold
    (Neyman, Pearson 1933): it is bisected, and the last two tests are mixed, which also serves
    where the ratio is constant on an interval.

    Args:
        p, q: log densities.
        alpha: type I error, in [0, 1].
        low, high: where both densities' mass lies; the caller's to choose. The ratio is searched
            for crossings on 2,000 equal parts.
    """
    grid = [low + (high - low) * i / 2000 for i in range(2001)]
    ratios = [q(x) - p(x) for x in grid]

    def errors(threshold: float) -> tuple[float, float]:
        rejected, kept = _split(lambda x: q(x) - p(x) - threshold, grid)
        type_1 = sum(_integral(lambda x: math.exp(p(x)), a, b) for a, b in rejected)
        type_2 = sum(_integral(lambda x: math.exp(q(x)), a, b) for a, b in kept)
        return type_1, type_2

    # ends that no fraction of the range between them makes a ratio that is constant somewhere
    lenient, strict = min(ratios) - 1, max(ratios) + math.e
    many, few = errors(lenient), errors(strict)
    while strict - lenient > 1e-9:
        middle = (lenient + strict) / 2
        found = errors(middle)
        if found[0] >= alpha:
            lenient, many = middle, found
        else:
            strict, few = middle, found
    share = (alpha - few[0]) / (many[0] - few[0]) if many[0] > few[0] else 0.0
    return few[1] + share * (many[1] - few[1])


def _split(
    f: Callable[[float], float], grid: Sequence[float]
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """The intervals where f > 0, and those where it is not; it crosses 0 once a part at most."""
    above = [f(x) > 0 for x in grid]
    intervals: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    start = grid[0]
    for i in range(1, len(grid)):
        if above[i] != above[i - 1]:
            left, right = grid[i - 1], grid[i]
            while left < (middle := (left + right) / 2) < right:
                left, right = (middle, right) if (f(middle) > 0) == above[i - 1] else (left, middle)
            intervals[0 if above[i - 1] else 1].append((start, right))
            start = right
    intervals[0 if above[-1] else 1].append((start, grid[-1]))
    return intervals


def _integral(f: Callable[[float], float], low: float, high: float) -> float:
    """Adaptive Gauss-Kronrod on 64 equal parts."""
    from scipy.integrate import quad

    edges = [low + (high - low) * i / 64 for i in range(65)]
    parts = [
        quad(f, a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in itertools.pairwise(edges)
    ]
    return math.fsum(parts)
