"""The two-dimensional example of section III-B: three shapes of noise at nearly one price.

A query has the value f, and one record moves its coordinate i by s_i. Lemma 1 leaves free how the
noise is shared out, as long as sum s_i^2 / sigma_i^2 <= 1 / sigma_*^2. The paper shares it out in
three ways and compares the noisy value's direction with the true one's.

What comes out differs (claims `cosine-...`): .471, .481 and .400, all three brought to exactly one
price. Best of all is about the noise of least total variance, in proportion to the sensitivity's
square root (.490). Where the value is large beside the noise, the order is the paper's.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpkit.common import checks
from dpkit.privacy import DiagonalGaussian, Guarantee, Release, gdp

VALUES = (10.0, 5.0)  # f
SENSITIVITIES = (12.0, 6.0)  # s_1, s_2
NOISE_MULTIPLIER = 1.0  # sigma_*
DRAWS = 10_000  # of the paper's averages
PRINTED = {"adaptive": (17.0, 8.5), "uniform": (13.5, 13.5), "inverse": (12.4, 24.8)}
PRINTED_COSINES = {"adaptive": 0.52, "uniform": 0.36, "inverse": 0.28}
POWERS = {"adaptive": 1.0, "uniform": 0.0, "inverse": -1.0, "square root": 0.5}
STEP = 0.05  # of a quadrature, in log u
MOST_ERROR = 1e-9  # of it, relative
MOST_POWER = 4.0


class Mean(NamedTuple):
    """A mean over draws, and its standard error."""

    value: float
    standard_error: float


def privacy_used(sensitivities: Sequence[float], noise_stds: Sequence[float]) -> float:
    """H of Lemma 1's proof, the sum of s_i^2 / sigma_i^2.

    If it is at most 1 / sigma_*^2, the release costs at most what one Gaussian of noise multiplier
    sigma_* does.

    One record moves coordinate i by s_i > 0; sigma_i > 0 is in the same unit.
    """
    return math.fsum((s / sigma) ** 2 for s, sigma in _pairs(sensitivities, noise_stds))


def to_one_level(
    sensitivities: Sequence[float], noise_stds: Sequence[float], *, noise_multiplier: float
) -> tuple[float, ...]:
    """The noise of the same shape that uses exactly 1 / noise_multiplier^2."""
    checks.positive(noise_multiplier=noise_multiplier)
    factor = noise_multiplier * math.sqrt(privacy_used(sensitivities, noise_stds))
    return tuple(factor * sigma for sigma in noise_stds)


def shaped(
    sensitivities: Sequence[float], *, power: float, noise_multiplier: float
) -> tuple[float, ...]:
    """Noise in proportion to s_i^power that uses exactly 1 / noise_multiplier^2.

    Power 1 is the paper's adaptive noise, sigma_i = sigma_* sqrt(m) s_i; 0 is one deviation for
    all; 1/2 has the least sum of sigma_i^2 (by Cauchy and Schwarz), which powers 0 and 1 share.
    """
    checks.in_range(-MOST_POWER, MOST_POWER, power=power)
    stds = [s**power for s, _ in _pairs(sensitivities, sensitivities)]
    return to_one_level(sensitivities, stds, noise_multiplier=noise_multiplier)


def price(
    sensitivities: Sequence[float], noise_stds: Sequence[float], *, delta: float
) -> Guarantee:
    """Epsilon of one release of the noisy value at delta in (0, 1), exact (Gaussian DP).

    A record added or removed moves coordinate i by s_i.
    """
    ratios = tuple(sigma / s for s, sigma in _pairs(sensitivities, noise_stds))
    return gdp.epsilon([Release(DiagonalGaussian(ratios))], delta=delta)


def mean_cosine(
    values: Sequence[float], noise_stds: Sequence[float], *, draws: int, seed: int
) -> Mean:
    """Mean cosine between the value and the noisy value, over `draws` draws of the noise.

    Args:
        values: f, not all 0.
        noise_stds: sigma_i > 0, one for each.
        draws: at least 2.
        seed: of the draws.
    """
    f, sigma = _arrays(values, noise_stds)
    checks.whole(2, draws=draws)
    rng = np.random.default_rng(checks.whole(0, seed=seed))
    noisy = f + sigma * rng.standard_normal((draws, f.size))
    # f has length 1
    cosines = (noisy * f).sum(axis=1) / np.sqrt((noisy**2).sum(axis=1))
    return Mean(float(cosines.mean()), float(cosines.std(ddof=1)) / math.sqrt(draws))


def exact_mean_cosine(values: Sequence[float], noise_stds: Sequence[float]) -> float:
    """The same cosine's expectation, by quadrature.

    1 / |y| is 2 / sqrt(pi) times the integral over u > 0 of exp(-u^2 |y|^2), under which the
    coordinates of y ~ N(f, diag(sigma^2)) part into factors of one coordinate each. In log u the
    trapezoidal rule converges geometrically.

    Raises:
        ArithmeticError: half the points give a value that is not within 1e-9 of it.
    """
    f, sigma = _arrays(values, noise_stds)
    # Of log u: outside lies less than 1e-16
    log_u = np.arange(-math.log(math.hypot(1, *sigma)) - 40, 40, STEP)
    u = np.exp(log_u)[:, None]
    widths = 1 + 2 * (u * sigma) ** 2  # (points, coordinates)
    squares = (f**2 / widths).sum(axis=1)
    logs = (
        log_u + np.log(squares) - np.exp(2 * log_u) * squares - np.log(widths).sum(axis=1) / 2
    )
    heights = 2 / math.sqrt(math.pi) * np.exp(logs)
    fine, coarse = heights.sum() * STEP, heights[::2].sum() * 2 * STEP
    if not abs(fine - coarse) <= MOST_ERROR * fine:
        raise ArithmeticError(
            f"the mean cosine's quadrature did not converge: {fine}, {coarse}"
        )
    return min(float(fine), 1.0)


def _arrays(
    values: Sequence[float], noise_stds: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """The value scaled to length 1, and the noise in the same unit."""
    length = math.hypot(*values)
    if not 0 < length < math.inf:
        raise ValueError(f"values must be finite numbers, not all 0, got {tuple(values)}")
    if len(noise_stds) != len(values):
        raise ValueError(f"noise_stds must hold {len(values)} numbers, got {len(noise_stds)}")
    for sigma in noise_stds:
        checks.positive(noise_stds=sigma)
    return np.array(values) / length, np.array(noise_stds) / length


def _pairs(
    sensitivities: Sequence[float], noise_stds: Sequence[float]
) -> list[tuple[float, float]]:
    """(s_i, sigma_i) of each coordinate, checked."""
    if not len(sensitivities) == len(noise_stds) >= 1:
        raise ValueError(
            "sensitivities and noise_stds must have one length, "
            f"got {len(sensitivities)} and {len(noise_stds)}"
        )
    for s, sigma in zip(sensitivities, noise_stds, strict=True):
        checks.positive(sensitivities=s, noise_stds=sigma)
    return list(zip(sensitivities, noise_stds, strict=True))
