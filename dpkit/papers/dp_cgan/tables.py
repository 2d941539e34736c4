"""Table 1 of the paper: AUROC on real test images of classifiers trained on generated ones."""

from functools import partial
from typing import Any

import numpy as np

from dpkit.common.checks import positive
from dpkit.papers.experiments.store import Rows, Shown, Stored, spread, values

TITLES = {
    "real": "Real data",
    "cgan": "CGAN",
    "basic_dp": "CGAN with basic DP",
    "published": "DP-CGAN, as published",
    "text": "DP-CGAN, as the text has it",
    "repaired": "DP-CGAN, repaired",
}
CLASSIFIERS = ("lr", "mlp")
PRINTED = {  # Table 1 of the paper, per cent
    "real": {"lr": 92.17, "mlp": 97.60},
    "cgan": {"lr": 91.10, "mlp": 91.06},
    "published": {"lr": 87.57, "mlp": 88.16},
    "basic_dp": {"lr": 83.42, "mlp": 83.29},
}


def table_1(stored: Stored, *, protocol: str = "auroc_255") -> Rows:
    """Rows of Table 1: the paper's number beside the stored runs' mean and spread, in per cent.

    `protocol` is "auroc_255" (test images in 0..255, as published) or "auroc" (in [0, 1]), or
    "accuracy_255" and "accuracy"; `stored` from `experiments.store.load("dp_cgan", "table_1")`.
    """
    return [
        {
            "column": title,
            "classifier": name.upper(),
            "paper": PRINTED.get(key, {}).get(name),
            **spread([100 * one[protocol] for one in values(stored, key, name)]),
        }
        for key, title in TITLES.items()
        if key != "text" or values(stored, key, "lr")
        for name in CLASSIFIERS
    ]


SHOWN = (
    Shown(
        "Table 1: classifiers trained on generated images, tested on real ones in 0..255",
        ("table_1",),
        table_1,
        units={"paper": "AUROC, %", "mean": "AUROC, %"},
    ),
    Shown(
        "Table 1 with test images in [0, 1], as the classifiers were trained",
        ("table_1",),
        partial(table_1, protocol="auroc"),
        units={"paper": "AUROC, %", "mean": "AUROC, %"},
    ),
)


def logistic_regression(*, seed: int = 0) -> Any:
    """One-vs-rest logistic regression, scikit-learn's defaults (lbfgs, L2 with C 1)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    return OneVsRestClassifier(LogisticRegression(random_state=seed))


def neural_network(*, seed: int = 0) -> Any:
    """One-vs-rest multi-layer perceptron: scikit-learn's defaults with L2 penalty 1."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.neural_network import MLPClassifier

    return OneVsRestClassifier(MLPClassifier(alpha=1, random_state=seed))


def fit(
    classifier: Any, features: np.ndarray, labels: np.ndarray, *, classes: int = 10
) -> Any:
    """The classifier, fitted to one yes-or-no column a class, as the published code does.

    One-vs-rest probabilities then do not sum to 1. Running out of iterations is part of the
    protocol: no warning. Features have shape (examples, features), labels are integers from 0.

    Raises:
        ValueError: a class has no example to learn from.
    """
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    missing = sorted(set(range(classes)) - set(np.unique(labels).tolist()))
    if missing:
        raise ValueError(f"labels must hold every class, got none of {missing}; generate some")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return classifier.fit(features, labels[:, None] == np.arange(classes))


def evaluate(classifier: Any, pixels: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """AUROC and accuracy by both protocols, between 0 and 1, of a classifier fitted on [0, 1].

    The published code trains on images in [0, 1] and tests on images in 0..255
    (`auroc_255`, `accuracy_255`); the other protocol tests in [0, 1] (`auroc`, `accuracy`). AUROC
    is of all (image, class) decisions pooled. Pixels are in 0..255, shape (images, pixels).

    Raises:
        ValueError: no image, not a label for each, or a probability that is not finite.
    """
    from sklearn.metrics import accuracy_score, roc_auc_score

    positive(images=len(pixels))
    # In single precision more scores saturate at 0 and 1
    features = pixels.astype(np.float64)
    result = {}
    for suffix, scale in (("_255", 1.0), ("", 255.0)):
        # Each class against the rest
        predicted = classifier.predict_proba(features / scale)
        truth = labels[:, None] == np.arange(predicted.shape[1])
        result[f"auroc{suffix}"] = float(roc_auc_score(truth, predicted, average="micro"))
        result[f"accuracy{suffix}"] = float(accuracy_score(labels, predicted.argmax(1)))
    return result
