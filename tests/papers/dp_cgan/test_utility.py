"""AUROC and accuracy against their definitions by counting."""

import numpy as np
import pytest

from dpkit.papers.dp_cgan import tables


def test_micro_auroc_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    scores, labels = rng.random((30, 3)).round(1), rng.integers(3, size=30)
    hits = (labels[:, None] == np.arange(3)).ravel()
    flat = scores.ravel()
    above = flat[hits][:, None] - flat[~hits][None, :]
    counted = ((above > 0) + 0.5 * (above == 0)).mean()
    assert tables.micro_auroc(scores, labels) == pytest.approx(counted, abs=1e-12)


def test_accuracy():
    assert tables.accuracy(np.eye(4), np.array([0, 1, 2, 0])) == 0.75


def test_the_published_protocol_tests_a_classifier_on_images_255_times_as_bright():
    class Brightness:
        def predict_proba(self, x):
            return np.stack((x[:, 0] < 10, x[:, 0] >= 10), 1).astype(float)

    pixels = np.array([[100], [200]], np.uint8)
    found = tables.evaluate(Brightness(), pixels, np.array([1, 1]))
    assert (found["accuracy_255"], found["accuracy"]) == (1.0, 0.0)


def test_a_class_without_examples_is_refused():
    with pytest.raises(ValueError, match=r"labels must hold every class, got none of \[2\]"):
        tables.fit(None, np.zeros((2, 1)), np.array([0, 1]), classes=3)


def test_fitted_as_the_code_does_probabilities_are_each_class_against_the_rest():
    """The same numbers as ten logistic regressions fitted one by one."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=90)
    features = rng.standard_normal((90, 4)) + labels[:, None]
    found = tables.scores(
        tables.fit(tables.logistic_regression(), features, labels, classes=3), features
    )
    for k in range(3):
        alone = LogisticRegression(random_state=0).fit(features, labels == k)
        np.testing.assert_allclose(found[:, k], alone.predict_proba(features)[:, 1], rtol=1e-6)


@pytest.mark.parametrize(
    ("scores", "labels", "words"),
    [
        (np.full((2, 2), np.nan), np.array([0, 1]), "scores must be finite"),
        (np.zeros((2, 2)), np.array([0]), r"got \(2, 2\) and \(1,\)"),
    ],
)
def test_bad_scores_are_refused(scores, labels, words):
    with pytest.raises(ValueError, match=words):
        tables.accuracy(scores, labels)
