"""The tasks, their records and their scores: MNIST's digits, Adult's records.

Scores read private or held-out records without noise: they describe the method, and are not
released with a model. A column's codes are integers 0 .. size - 1; a table's have shape (rows,
columns).
"""

from collections.abc import Callable
from functools import cache
from math import comb
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from dpkit import datasets
from dpkit.common import checks
from dpkit.datasets.tables import ADULT_8
from dpkit.synthesizers import marginals
from dpkit.training.types import Data

Floats = NDArray[np.float64]
# Generated images that are judged, and that a classifier is trained on
JUDGED = {"paper": 5_000, "reduced": 5_000, "small": 500}
PUBLIC_SIZES = {  # declared, as anyone knows them: sample rates follow from these alone
    "digits": {"paper": 60_000, "reduced": 1_437, "small": 1_437},
    "census": {"paper": 20_000, "reduced": 20_000, "small": 20_000},
}
SIZES = tuple(column.size for column in ADULT_8.columns)
INCOME = len(SIZES) - 1
CHANGES: dict[str, dict[str, Any]] = {  # fields of Settings that follow from the records' form
    "digits": {"classes": 10},
    "census": {"classes": 0, "features": ADULT_8.width, "parts": SIZES},
}


class RdpGanTask(NamedTuple):
    """Records as network input, and the scores of a generated set.

    accuracy: the paper's: share of generated records that a classifier trained on real ones labels
        as they were asked for (digits), or as they state (income).
    judge: named scores of generated records (images in [-1, 1] with the labels asked for, or
        codes) on which nothing private may rest.
    correct: right answers of a simple classifier, trained on generated records, about the private
        training records: a count that one record moves by at most 1.
    """

    data: Data
    checksums: dict[str, str]
    accuracy: Callable[[np.ndarray, np.ndarray], float]
    judge: Callable[[np.ndarray, np.ndarray], dict[str, Any]]
    correct: Callable[[np.ndarray, np.ndarray], float]


@cache
def task(name: str, *, scale: str) -> RdpGanTask:
    """Digits or census records: real ones at scale "paper", embedded ones at the other scales.

    Raises:
        ValueError: name is neither "digits" nor "census".
        DataNotFound: the real data is missing.
    """
    checks.one_of(("digits", "census"), name=name)
    return (_digits if name == "digits" else _census)(scale)


def _digits(scale: str) -> RdpGanTask:
    load = datasets.mnist if scale == "paper" else datasets.digits
    train, test = load(split="train"), load(split="test")
    private, held_out = 2 * train.flat() - 1, 2 * test.flat() - 1
    spread = _spread(private, train.labels)
    own = _judge_of_digits(scale)

    def accuracy(images: np.ndarray, labels: np.ndarray) -> float:
        return float((own.predict(images) == labels).mean())

    def judge(images: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
        """The paper's accuracy, that of a classifier trained on the images, their variety."""
        learned, _ = classifier_accuracy(images, labels, held_out, test.labels)
        return {
            "accuracy": accuracy(images, labels),
            "trained_on_generated": learned,
            "spread": _spread(images, labels) / spread,
        }

    def correct(images: np.ndarray, labels: np.ndarray) -> float:
        from sklearn.naive_bayes import BernoulliNB

        answers = BernoulliNB(binarize=0.0).fit(images, labels).predict(private)
        return float((answers == train.labels).sum())

    size = PUBLIC_SIZES["digits"][scale]
    data = Data(_tensor(private), torch.from_numpy(train.labels), size)
    checksums = {f"{s.name} {w}": s.checksum for s, w in ((train, "train"), (test, "test"))}
    return RdpGanTask(data, checksums, accuracy, judge, correct)


@cache
def _judge_of_digits(scale: str) -> Any:
    """The paper's classifier: 784-256-256-10, sigmoid units, trained on the *test* images (V-A3).

    In the code its units are ReLU. It is used on generated images alone.
    """
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    test = (datasets.mnist if scale == "paper" else datasets.digits)(split="test")
    network = MLPClassifier((256, 256), activation="logistic", max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return network.fit(2 * test.flat() - 1, test.labels)


def _spread(images: np.ndarray, labels: np.ndarray) -> float:
    """Standard deviation of a pixel among images of one label, mean over pixels and labels."""
    found = [images[labels == label].std(0).mean() for label in np.unique(labels)]
    return float(np.mean(found))


def _census(scale: str) -> RdpGanTask:
    from sklearn.linear_model import LogisticRegression

    load = datasets.adult_8 if scale == "paper" else datasets.census
    train, test = load(split="train"), load(split="test")
    private, held_out = ADULT_8.codes(train), ADULT_8.codes(test)
    real, real_labels = split_income(private)
    unseen, unseen_labels = split_income(held_out)

    classifier = LogisticRegression(max_iter=1_000, random_state=0).fit(real, real_labels)

    def accuracy(codes: np.ndarray, _: np.ndarray) -> float:
        made, labels = split_income(codes)
        return float((classifier.predict(made) == labels).mean())

    def judge(codes: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
        """Eq. 22 and total variation by attribute, PMFs, and classifiers of income both ways."""
        made, incomes = split_income(codes)
        columns = [(codes[:, k], private[:, k], size) for k, size in enumerate(SIZES)]
        learned, balanced = classifier_accuracy(made, incomes, unseen, unseen_labels)
        return {
            "accuracy": accuracy(codes, labels),
            "trained_on_generated": learned,
            "balanced": balanced,
            "high_income": float(incomes.mean()),
            "pmf_error": [pmf_error(*pair) for pair in columns],
            "total_variation": [total_variation(*pair) for pair in columns],
            "pair_distance": pair_distance(codes, private, SIZES),
            "pmf": [pmf(codes[:, k], size).tolist() for k, size in enumerate(SIZES)],
        }

    def correct(codes: np.ndarray, _: np.ndarray) -> float:
        from sklearn.naive_bayes import BernoulliNB

        return float(
            (BernoulliNB().fit(*split_income(codes)).predict(real) == real_labels).sum()
        )

    encoded = _tensor(ADULT_8.encode(train))
    unused = torch.zeros(len(encoded), dtype=torch.int64)
    data = Data(encoded, unused, PUBLIC_SIZES["census"][scale])
    name = train.attrs["name"]
    checksums = {
        f"{name} {w}": f.attrs["checksum"] for f, w in ((train, "train"), (test, "test"))
    }
    return RdpGanTask(data, checksums, accuracy, judge, correct)


def _tensor(features: np.ndarray) -> torch.Tensor:
    """A tensor of torch's default type, as the networks'."""
    return torch.from_numpy(features).to(torch.get_default_dtype())


def split_income(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All attributes but income as one-hot input, and whether income is high."""
    return ADULT_8.one_hot(codes)[:, : -SIZES[INCOME]].astype(np.float64), codes[:, INCOME]


def pmf(codes: ArrayLike, size: int) -> Floats:
    """Share of each label, shape (size,).

    Raises:
        ValueError: codes are not integers in 0 .. size - 1, shape (rows,), at least one row.
    """
    column = np.asarray(codes)
    given = column.ndim == 1 and column.size > 0 and column.dtype.kind in "iu"
    if not (given and column.min() >= 0 and column.max() < size):
        raise ValueError(f"codes must be a column of integers in 0..{size - 1}, got {column}")
    return np.bincount(column, minlength=size) / column.size


def pmf_error(generated: ArrayLike, real: ArrayLike, size: int) -> float:
    """The absolute average error of Ma et al. 2020, eq. 22, as printed; in [0, 2 size - 1].

    sum over labels x = 1 .. size of |p_g(x) - p_r(x)| * x, of codes as `pmf` takes: code 0 is label
    1. The label's number is a weight, so an error counts for more in a late label. The text states
    no order: only tables encoded alike compare. `total_variation` does not need one.
    """
    return float(np.abs(pmf(generated, size) - pmf(real, size)) @ np.arange(1, size + 1))


def total_variation(generated: ArrayLike, real: ArrayLike, size: int) -> float:
    """Half the sum of |p_g - p_r| over the labels, in [0, 1] (arguments as `pmf_error`)."""
    return float(np.abs(pmf(generated, size) - pmf(real, size)).sum() / 2)


def pair_distance(generated: np.ndarray, real: np.ndarray, sizes: tuple[int, ...]) -> float:
    """Mean over all pairs of columns of the total variation of their joint shares, in [0, 1].

    Compare with that of two real samples, which is not 0.
    Codes have shape (rows, columns), at least two columns; errors as `marginals.pair_counts`.
    """
    first, second = (
        marginals.pair_counts(codes, sizes) / len(codes) for codes in (generated, real)
    )
    return float(np.abs(first - second).sum() / 2 / comb(len(sizes), 2))


def classifier_accuracy(
    train_features: np.ndarray,
    train_labels: np.ndarray,
    test_features: np.ndarray,
    test_labels: np.ndarray,
) -> tuple[float, float]:
    """Train a logistic regression on one table; return its accuracy on another, in [0, 1].

    The share of rows whose label is predicted; and, balanced, the mean over the test's labels of
    the share of their rows that are predicted: 1 / labels for a constant prediction.

    scikit-learn's, L2 with C 1, as many as 1,000 iterations. Of a generator that collapsed to one
    label it is the constant one.

    Raises:
        ValueError: scikit-learn's, of features that are not finite, (rows, features), labels that
            are not whole numbers, (rows,), or shapes that do not fit.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_X_y

    features, train_labels = check_X_y(train_features, train_labels, dtype="float64")
    tested, test_labels = check_X_y(test_features, test_labels, dtype="float64")
    for labels in (train_labels, test_labels):
        check_classification_targets(labels)
    if (train_labels == train_labels[0]).all():
        right = test_labels == train_labels[0]
    else:
        regression = LogisticRegression(max_iter=1000, random_state=0).fit(
            features, train_labels
        )
        right = regression.predict(tested) == test_labels
    recalls = [right[test_labels == label].mean() for label in np.unique(test_labels)]
    return float(right.mean()), float(np.mean(recalls))
