"""Private principal components: Analyze Gauss (Dwork, Talwar, Thakurta, Zhang 2014, Algorithm 1).

Each row is scaled to an L2 norm of at most 1, and A^T A of the scaled rows gets symmetric Gaussian
noise; components are its top eigenvectors, and cost nothing more. As in the paper nothing is
centred: of images, which are non-negative, the first component is close to their mean's direction.

The release is the vector of A^T A's upper triangle with its diagonal. A record x adds x x^T,
of Frobenius norm ||x||^2 <= 1; its upper triangle has squared norm (||x||^4 + sum x_i^4) / 2 <= 1,
and reaches 1 where x is a unit vector along an axis. So the vector's L2 sensitivity is 1 under
add-remove. For another record y it moves by at most sqrt(2), not 2, as <x x^T, y y^T> = <x, y>^2 is
never negative. `release` prices both.

Off the diagonal, where A^T A has each number twice, noise of 1 / sqrt(2) of that deviation would
cost no more, as ||x x^T|| itself is at most 1. Here it is the paper's.
"""

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from dpkit.common import checks
from dpkit.privacy import Adjacency, Gaussian, normals

# Of a scaled row's numbers: they are multiples of 2^-18, cut towards 0
BITS = 18
# 131,072: sums of their products are exact in float64
MOST_RECORDS = 2 ** (53 - 2 * BITS)
AT_ONCE = 2**12  # rows that are scaled together


def release(noise_multiplier: float, *, adjacency: Adjacency = "add-remove") -> Gaussian:
    """The cost of `components`: one Gaussian release with its noise.

    The noise is on each number of A^T A; the sensitivity 1, or under "replace-one" sqrt(2).
    """
    if adjacency == "replace-one":  # where a Gaussian takes a shift of 2
        return Gaussian(sqrt(2) * noise_multiplier, adjacency)
    return Gaussian(noise_multiplier, adjacency)


def components(
    rows: ArrayLike, *, k: int, noise_multiplier: float, rng: np.random.Generator
) -> normals.Floats:
    """The top k private principal components, float64 (pixels, k), orthonormal columns.

    In falling order of eigenvalues, each with its number of largest size positive. The cost is
    `release(noise_multiplier)`.

    Args:
        rows: the private records, numbers of shape (records, pixels); records may be 0. A row with
            an L2 norm above 1 is scaled down to 1.
        k: number of components.
        noise_multiplier: the noise's deviation on each number of A^T A.
        rng: of the noise (`dpkit.privacy.normals.noised`).

    Raises:
        ValueError: rows are of another shape or type, hold a number that is NaN or infinite, or are
            over 131,072; k is not in 1 .. pixels; noise is not in [1e-9, 1e13].
    """
    release(noise_multiplier)
    sums = second_moments(rows)
    checks.whole(1, k=k)
    checks.in_range(1, len(sums), k=k)
    upper = np.triu_indices(len(sums))
    noisy = np.empty_like(sums)
    noisy[upper] = normals.noised(sums[upper], noise_std=noise_multiplier, rng=rng)
    noisy.T[upper] = noisy[upper]
    top = np.linalg.eigh(noisy).eigenvectors[:, : -k - 1 : -1]
    largest = np.abs(top).argmax(0, keepdims=True)
    return top * np.sign(np.take_along_axis(top, largest, axis=0))


def second_moments(rows: ArrayLike) -> normals.Floats:
    """A^T A of the scaled rows, (pixels, pixels), without noise: not to be released.

    Scaled rows are rounded towards 0, to multiples of 2^-18. So rounding makes no scaled
    row longer than 1, every sum is exact, and a processor's order of addition does not show.

    Raises:
        ValueError: as `components`, of rows.
    """
    array = np.asarray(rows)
    if array.ndim != 2 or array.shape[1] < 1 or array.dtype.kind not in "biuf":
        raise ValueError(
            "rows must be numbers of shape (records, pixels), got shape "
            f"{array.shape} of {array.dtype}; flatten images first"
        )
    if not len(array) <= MOST_RECORDS:
        raise ValueError(
            f"rows must be at most {MOST_RECORDS}, whose sums are exact, got {len(array)}; "
            "take a part chosen without looking at the data"
        )
    sums = np.zeros((array.shape[1],) * 2)
    for start in range(0, len(array), AT_ONCE):
        whole = _scaled(array[start : start + AT_ONCE], start)
        sums += whole.T @ whole
    return sums * 4.0**-BITS


def _scaled(rows: np.ndarray, start: int) -> normals.Floats:
    """Rows of norm <= 1 as whole multiples of 2^-18.

    Whole numbers have a whole squared norm, which the error of a norm (far below 2^-36) cannot lift
    above 4^18.
    """
    rows = rows.astype(np.float64)
    finite = np.isfinite(rows).all(1)
    if not finite.all():
        raise ValueError(
            f"rows must be finite, got NaN or infinity in row {start + int(finite.argmin())}, "
            "counted from 0; fill it with a fixed number, or leave the record out"
        )
    # Squares would overflow
    norms = np.hypot.reduce(rows, axis=1, keepdims=True)
    return np.trunc(rows * (2.0**BITS / np.maximum(norms, 1.0)))
