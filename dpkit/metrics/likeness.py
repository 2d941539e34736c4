"""The likeness of synthetic images to real ones, in the features of the kit's own classifier.

The distance is computed as the FID of Heusel et al. 2017, but in the features of a small classifier
of digits, not of Inception: its values are another scale, and never called FID here.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from dpkit.common import checks

LARGEST = 1e50  # size of a feature: its fourth power is a finite number
MOST = 10_000  # images of a set whose distances are computed
AT_ONCE = 1_000  # of them, to all of the other set


class PrecisionRecall(NamedTuple):
    """Shares between 0 and 1 (Kynkäänniemi et al. 2019, eq. 2)."""

    precision: float  # of synthetic images that lie among the real ones
    recall: float  # of real images that lie among the synthetic ones


def classifier_fid(real: ArrayLike, synthetic: ArrayLike) -> float:
    """Fréchet distance of two Gaussians with the features' moments (Heusel et al. 2017, eq. 6).

    |m - m'|^2 + tr(S + S' - 2 (S S')^(1/2)). It falls as images are more: compare equal numbers.

    Args:
        real, synthetic: features, (images, features), at least twice as many images as features.

    Raises:
        ValueError: too few images, other features, or a number that is not finite.
    """
    first, second = _features(real, synthetic)
    for name, rows in (("real", first), ("synthetic", second)):
        if len(rows) < 2 * rows.shape[1]:
            raise ValueError(
                f"{name} must hold at least twice as many images as the {rows.shape[1]} features, "
                f"got {len(rows)}: their covariance would be mostly chance"
            )
    shift = first.mean(0) - second.mean(0)
    of_first, of_second = (np.cov(rows, rowvar=False, ddof=1) for rows in (first, second))
    values, vectors = np.linalg.eigh(of_first)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    shared = np.linalg.eigvalsh(root @ of_second @ root)  # symmetric, as S S' is not
    overlap = np.sqrt(np.maximum(shared, 0)).sum()
    found = shift @ shift + np.trace(of_first) + np.trace(of_second) - 2 * overlap
    return max(float(found), 0.0)


def precision_recall(
    real: ArrayLike, synthetic: ArrayLike, *, neighbours: int = 3
) -> PrecisionRecall:
    """The shares of synthetic images that lie among real ones, and of real among synthetic.

    An image lies among a set if it is no further from one of its images than that one's k-th
    nearest neighbour in the set is (Kynkäänniemi et al. 2019, section 3).

    Args:
        real, synthetic: features, (images, features); of more than 10,000 the first are taken.
        neighbours: k.

    Raises:
        ValueError: not more images than neighbours, other features, or a number that is not finite.
    """
    checks.whole(1, neighbours=neighbours)
    first, second = (rows[:MOST] for rows in _features(real, synthetic))
    if not min(len(first), len(second)) > neighbours:
        raise ValueError(
            f"neighbours must be below the number of images, {min(len(first), len(second))}, got "
            f"{neighbours}"
        )
    return PrecisionRecall(
        _among(second, first, neighbours), _among(first, second, neighbours)
    )


def _among(these: NDArray, those: NDArray, neighbours: int) -> float:
    """The share of `these` that lie within reach of one of `those`."""
    reach = np.concatenate(  # its own distance of 0 comes first
        [
            np.partition(cdist(part, those), neighbours, 1)[:, neighbours]
            for part in _parts(those)
        ]
    )
    inside = [(cdist(part, those) <= reach).any(1) for part in _parts(these)]
    return float(np.concatenate(inside).mean())


def _parts(rows: NDArray) -> list[NDArray]:
    return np.array_split(rows, -(-len(rows) // AT_ONCE))


def _features(*sets: ArrayLike) -> list[NDArray[np.float64]]:
    rows = [np.asarray(one, dtype=np.float64) for one in sets]
    if any(one.ndim != 2 for one in rows) or len({one.shape[1:] for one in rows}) != 1:
        shapes = " and ".join(str(one.shape) for one in rows)
        raise ValueError(f"features must have shape (images, features) alike, got {shapes}")
    if not all((np.abs(one) <= LARGEST).all() for one in rows):  # NaN fails
        raise ValueError(
            f"features must be finite, at most {checks.short(LARGEST)} in size; scale them"
        )
    return rows
