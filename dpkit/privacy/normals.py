"""Gaussian noise in numpy: untruncated float64 draws, added once, rounded to a coarse grid.

Training on a CPU, DP-PCA, moments, random features and marginals draw it. `training/noise.md`
bounds the distance of a sum that `noised` releases from an ideal Gaussian release.
"""

from math import frexp, inf, ldexp
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]

TAIL = 4.5  # deviations; draws beyond are drawn again, from the normal law beyond it
# A noised sum is a multiple of 2^-GRID times the power of two at or below its deviation
GRID = 5


def standard_normals(count: int, *, rng: np.random.Generator) -> Floats:
    """Draw standard normals, float64 (count,).

    The bulk is NumPy's ziggurat; what lies beyond 4.5 deviations is drawn again from there, by the
    inverse of the normal distribution and 106 random bits.
    """
    draws = rng.standard_normal(count)
    far = np.flatnonzero(np.abs(draws) > TAIL)
    if len(far):
        depth = depths(*rng.random((2, len(far))))
        draws[far] = np.copysign(ndtri(depth * ndtr(-TAIL)), draws[far])
    return draws


def depths(first: Any, second: Any) -> Any:
    """Uniform on (0, 1) from two numbers of 53 bits each: as fine near 0 as anywhere."""
    return first + (second + 2.0**-54) * 2.0**-53


def grid(noise_std: float) -> float:
    """The power of two at or below a deviation > 0, over 2^GRID.

    Raises:
        ValueError: it is too small for a float.
    """
    unit = ldexp(1.0, frexp(noise_std)[1] - 1 - GRID)
    if not unit > 0:
        raise ValueError(f"noise_std must be 0 or at least 1e-300, got {noise_std}")
    return unit


def noised(sums: Floats, *, noise_std: float, rng: np.random.Generator) -> Floats:
    """The Gaussian mechanism: each number plus its own N(0, noise_std^2), rounded to the grid.

    Args:
        sums: float64, of any shape.
        noise_std: standard deviation, in the unit of the sums. 0 adds nothing.
        rng: from the operating system's entropy (`numpy.random.default_rng()`), or of a seed as
            secret as the data.

    Raises:
        TypeError: rng is no numpy.random.Generator.
        ValueError: noise_std is negative, infinite or NaN.
    """
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy.random.Generator, got {type(rng).__name__}; pass "
            "numpy.random.default_rng()"
        )
    if not 0 <= noise_std < inf:
        raise ValueError(f"noise_std must be >= 0 and finite, got {noise_std}")
    if noise_std == 0:
        return sums.copy()
    step = grid(noise_std)
    rest = sums / step
    whole = rest.round()  # split off first, exactly, so that no rounding of it meets the noise
    draws = standard_normals(sums.size, rng=rng).reshape(sums.shape)
    return ((draws * (noise_std / step) + (rest - whole)).round() + whole) * step
