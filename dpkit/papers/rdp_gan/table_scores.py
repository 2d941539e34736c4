"""Utility of synthetic tables of categories: columns, pairs of columns, and a classifier.

A column's codes are integers 0 .. size - 1; a table's codes have shape (rows, columns). All of this
reads real records without noise: what it gives is for judging a generator, and is not private.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpkit.common import checks

Floats = NDArray[np.float64]


def pmf(codes: ArrayLike, size: int) -> Floats:
    """Share of each label, shape (size,).

    Raises:
        ValueError: codes are not integers in 0 .. size - 1, shape (rows,), at least one row.
    """
    column = np.asarray(codes)
    checks.whole(1, size=size)
    if column.ndim != 1:
        raise ValueError(f"codes must have shape (rows,), one column, got {column.shape}")
    counts = np.bincount(_checked(column[:, None], (size,))[:, 0], minlength=size)
    return counts / column.size


def pmf_error(generated: ArrayLike, real: ArrayLike, size: int) -> float:
    """The absolute average error of Ma et al. 2020, eq. 22, as printed; in [0, 2 size - 1].

    sum over labels x = 1 .. size of |p_g(x) - p_r(x)| * x: code 0 is label 1. The label's number is
    a weight, so the value depends on the order of the labels, and an error counts for more in a
    late label than in an early one. The text states no order; it is comparable only between tables
    encoded alike. `total_variation` does not depend on the order.

    Args:
        generated, real: codes, shape (rows,), of the same length or not.
        size: number of labels.

    Raises:
        ValueError: as `pmf`.
    """
    return float(np.abs(pmf(generated, size) - pmf(real, size)) @ np.arange(1, size + 1))


def total_variation(generated: ArrayLike, real: ArrayLike, size: int) -> float:
    """Half the sum of |p_g - p_r| over the labels, in [0, 1] (arguments as `pmf_error`)."""
    return float(np.abs(pmf(generated, size) - pmf(real, size)).sum() / 2)


def pair_distance(generated: ArrayLike, real: ArrayLike, sizes: tuple[int, ...]) -> float:
    """Mean over all pairs of columns of the total variation of their joint shares, in [0, 1].

    Two samples of one distribution are not at distance 0: compare with that of two real samples.

    Args:
        generated, real: codes, shape (rows, columns).
        sizes: labels of each column.

    Raises:
        ValueError: codes are not integers in 0 .. size - 1 of their column, a table has no row or
            another number of columns, or there are fewer than two columns.
    """
    checks.whole(2, columns=len(sizes))
    first, second = _checked(generated, sizes), _checked(real, sizes)
    found = []
    for i, j in combinations(range(len(sizes)), 2):
        joint = (first[:, i] * sizes[j] + first[:, j], second[:, i] * sizes[j] + second[:, j])
        found.append(total_variation(*joint, sizes[i] * sizes[j]))
    return float(np.mean(found))


def one_hot(codes: ArrayLike, sizes: tuple[int, ...]) -> Floats:
    """A 0 or 1 for each label of each column, shape (rows, sum of sizes).

    Raises:
        ValueError: codes are not integers in 0 .. size - 1 of their column, or there is no row.
    """
    checked = _checked(codes, sizes)
    columns = [checked[:, i, None] == np.arange(size) for i, size in enumerate(sizes)]
    return np.concatenate(columns, axis=1).astype(np.float64)


class Accuracy(NamedTuple):
    """How well a classifier does on test rows; every share is in [0, 1].

    accuracy: share of rows whose label is predicted.
    majority: share of the most frequent test label: what predicting it always would give.
    balanced: mean over the test's labels of the share of their rows that are predicted; 1 / labels
        for a constant prediction.
    constant: whether the training rows held one label alone, which is then predicted always.
    """

    accuracy: float
    majority: float
    balanced: float
    constant: bool


def classifier_accuracy(
    train_features: ArrayLike,
    train_labels: ArrayLike,
    test_features: ArrayLike,
    test_labels: ArrayLike,
    *,
    seed: int = 0,
) -> Accuracy:
    """A logistic regression trained on one table and tested on another.

    scikit-learn's, L2 with C 1, as many as 1,000 iterations. A generator may have collapsed to one
    label: a table of results must hold it too, so the classifier is then the constant one, and
    `constant` says so.

    Args:
        train_features, test_features: finite, shape (rows, features), such as `one_hot` gives.
        train_labels, test_labels: integers, shape (rows,).

    Raises:
        ValueError: features that are not finite, labels that are not integers, shapes that do not
            fit, or no row.
    """
    from sklearn.linear_model import LogisticRegression

    features, labels = _labelled("train", train_features, train_labels)
    tested, truth = _labelled("test", test_features, test_labels)
    if features.shape[1] != tested.shape[1]:
        raise ValueError(
            f"test_features must have the {features.shape[1]} features of train_features, "
            f"got {tested.shape[1]}"
        )
    constant = bool((labels == labels[0]).all())
    if constant:
        predicted = np.full(truth.shape, labels[0])
    else:
        classifier = LogisticRegression(max_iter=1000, random_state=seed)
        predicted = classifier.fit(features, labels).predict(tested)
    right = predicted == truth
    present, counts = np.unique(truth, return_counts=True)
    recalls = [right[truth == label].mean() for label in present]
    return Accuracy(
        float(right.mean()), float(counts.max() / truth.size), float(np.mean(recalls)), constant
    )


def _labelled(
    name: str, features: ArrayLike, labels: ArrayLike
) -> tuple[Floats, NDArray[np.int64]]:
    table, column = np.asarray(features, dtype=np.float64), np.asarray(labels)
    if table.ndim != 2 or column.shape != table.shape[:1] or not len(table):
        raise ValueError(
            f"{name}_features must have shape (rows, features) and {name}_labels (rows,), at "
            f"least one row, got {table.shape} and {column.shape}"
        )
    if not np.isfinite(table).all():
        raise ValueError(f"{name}_features must be finite, got NaN or infinity")
    if column.dtype.kind not in "iu":
        raise ValueError(f"{name}_labels must be integers, got {column.dtype}")
    return table, column.astype(np.int64)


def _checked(codes: ArrayLike, sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Codes of a table as integers, shape (rows, columns)."""
    for column, size in enumerate(sizes):
        checks.whole(1, **{f"sizes[{column}]": size})
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != len(sizes) or not len(array):
        raise ValueError(
            f"codes must have shape (rows, {len(sizes)}), at least one row, got {array.shape}"
        )
    if array.dtype.kind not in "iu":
        raise ValueError(f"codes must be integers, got {array.dtype}; encode labels as 0, 1, ..")
    outside = (array < 0) | (array >= np.array(sizes))
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"codes must lie in 0 .. {sizes[column] - 1} in column {column}, got "
            f"{array[row, column]} in row {row}"
        )
    return array.astype(np.int64)
