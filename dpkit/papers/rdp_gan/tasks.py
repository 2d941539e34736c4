"""What is generated, from which records, and how it is scored: MNIST's digits, Adult's records.

Scores look at private or held-out records without noise: they describe the method, and are not
released with a model (see each one's note).
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from dpkit import datasets
from dpkit.datasets.tables import ADULT_8
from dpkit.papers.rdp_gan import table_scores as metrics
from dpkit.training.types import Data

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


class Task(NamedTuple):
    """Records as network input, and what a generated set is worth.

    accuracy: the paper's: the share of generated records that a classifier trained on real ones
        answers as they were asked for (digits), or as they say themselves (income).
    judge: named scores of generated records (images in [-1, 1] with the labels asked for, or
        codes) on which nothing private may rest.
    correct: right answers of a simple classifier, trained on generated records, about the private
        training records: a count that one record moves by at most 1.
    """

    name: str
    data: Data
    changes: dict[str, Any]  # fields of Settings that follow from the records' form
    checksums: dict[str, str]
    accuracy: Callable[[np.ndarray, np.ndarray], float]
    judge: Callable[[np.ndarray, np.ndarray], dict[str, Any]]
    correct: Callable[[np.ndarray, np.ndarray], float]


@cache
def task(name: str, *, scale: str) -> Task:
    """Digits or census records: real ones at scale "paper", embedded ones at the other scales.

    Raises:
        ValueError: name is neither "digits" nor "census".
        DataNotFound: the real data is not here.
    """
    if name == "digits":
        return _digits(scale)
    if name == "census":
        return _census(scale)
    raise ValueError(f"name must be digits or census, got {name!r}")


def _digits(scale: str) -> Task:
    load = datasets.mnist if scale == "paper" else datasets.digits
    train, test = load(split="train"), load(split="test")
    private, held_out = 2 * train.flat() - 1, 2 * test.flat() - 1
    spread = _spread(private, train.labels)
    own = _judge_of_digits(scale)

    def accuracy(images: np.ndarray, labels: np.ndarray) -> float:
        return float((own.predict(images) == labels).mean())

    def judge(images: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
        """The paper's accuracy, a classifier's that learned from the images, their variety."""
        learned = metrics.classifier_accuracy(images, labels, held_out, test.labels, seed=0)
        return {
            "accuracy": accuracy(images, labels),
            "trained_on_generated": learned.accuracy,
            "spread": _spread(images, labels) / spread,
        }

    def correct(images: np.ndarray, labels: np.ndarray) -> float:
        from sklearn.naive_bayes import BernoulliNB

        answers = BernoulliNB(binarize=0.0).fit(images, labels).predict(private)
        return float((answers == train.labels).sum())

    size = PUBLIC_SIZES["digits"][scale]
    data = Data(_tensor(private), torch.from_numpy(train.labels), size)
    checksums = {f"{s.name} {w}": s.checksum for s, w in ((train, "train"), (test, "test"))}
    return Task("digits", data, CHANGES["digits"], checksums, accuracy, judge, correct)


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


def _census(scale: str) -> Task:
    from sklearn.linear_model import LogisticRegression

    load = datasets.adult_8 if scale == "paper" else datasets.census
    train, test = load(split="train"), load(split="test")
    private, held_out = ADULT_8.codes(train), ADULT_8.codes(test)
    real, real_labels = _told(private)
    unseen, unseen_labels = _told(held_out)

    classifier = LogisticRegression(max_iter=1_000, random_state=0).fit(real, real_labels)

    def accuracy(codes: np.ndarray, _: np.ndarray) -> float:
        made, labels = _told(codes)
        return float((classifier.predict(made) == labels).mean())

    def judge(codes: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
        """Eq. 22 and total variation by attribute, PMFs, and classifiers of income both ways."""
        made, incomes = _told(codes)
        learned = metrics.classifier_accuracy(made, incomes, unseen, unseen_labels, seed=0)
        return {
            "accuracy": accuracy(codes, labels),
            "trained_on_generated": learned.accuracy,
            "balanced": learned.balanced,
            "high_income": float(incomes.mean()),
            "pmf_error": [metrics.pmf_error(*pair) for pair in _columns(codes, private)],
            "total_variation": [
                metrics.total_variation(*pair) for pair in _columns(codes, private)
            ],
            "pair_distance": metrics.pair_distance(codes, private, SIZES),
            "pmf": [metrics.pmf(codes[:, k], size).tolist() for k, size in enumerate(SIZES)],
        }

    def correct(codes: np.ndarray, _: np.ndarray) -> float:
        from sklearn.naive_bayes import BernoulliNB

        answers = BernoulliNB().fit(*_told(codes)).predict(real)
        return float((answers == real_labels).sum())

    encoded = _tensor(ADULT_8.encode(train))
    unused = torch.zeros(len(encoded), dtype=torch.int64)
    data = Data(encoded, unused, PUBLIC_SIZES["census"][scale])
    name = train.attrs["name"]
    checksums = {f"{name} {w}": f.attrs["checksum"] for f, w in ((train, "train"), (test, "test"))}
    return Task("census", data, CHANGES["census"], checksums, accuracy, judge, correct)


def _tensor(features: np.ndarray) -> torch.Tensor:
    """Of torch's default type, which the networks have."""
    return torch.from_numpy(features).to(torch.get_default_dtype())


def _told(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All attributes but income as one-hot input, and whether income is high."""
    return metrics.one_hot(codes[:, :INCOME], SIZES[:INCOME]), codes[:, INCOME]


def _columns(codes: np.ndarray, private: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, int]]:
    return [(codes[:, k], private[:, k], size) for k, size in enumerate(SIZES)]
