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
        terms = [
            math.log(w) + part(x) for w, part in zip(weights, parts, strict=True) if w > 0
        ]
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


def hockey_stick(
    p: LogDensity, q: LogDensity, epsilon: float, *, low: float, high: float
) -> float:
    """The least delta at which P(S) <= e^epsilon Q(S) + delta for every S (Dwork, Roth 2014)."""
    excess = lambda x: max(0.0, math.exp(p(x)) - math.exp(epsilon + q(x)))  # noqa: E731
    return _integral(excess, low, high)


def _integral(f: Callable[[float], float], low: float, high: float) -> float:
    """Adaptive Gauss-Kronrod on 64 equal parts."""
    from scipy.integrate import quad

    edges = [low + (high - low) * i / 64 for i in range(65)]
    parts = [
        quad(f, a, b, epsabs=0, epsrel=1e-11, limit=200)[0]
        for a, b in itertools.pairwise(edges)
    ]
    return math.fsum(parts)
