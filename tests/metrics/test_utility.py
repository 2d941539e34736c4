"""AUROC and accuracy against their definitions by counting."""

import numpy as np
import pytest

from dpkit.metrics import utility


def test_micro_auroc_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    scores, labels = rng.random((30, 3)).round(1), rng.integers(3, size=30)
    hits = (labels[:, None] == np.arange(3)).ravel()
    flat = scores.ravel()
    above = flat[hits][:, None] - flat[~hits][None, :]
    counted = ((above > 0) + 0.5 * (above == 0)).mean()
    assert utility.micro_auroc(scores, labels) == pytest.approx(counted, abs=1e-12)


def test_accuracy():
    assert utility.accuracy(np.eye(4), np.array([0, 1, 2, 0])) == 0.75


def test_the_published_protocol_tests_a_classifier_on_images_255_times_as_bright():
    class Brightness:
        classes_ = np.arange(2)

        def predict_proba(self, x):
            return np.stack((x[:, 0] < 10, x[:, 0] >= 10), 1).astype(float)

    pixels = np.array([[100], [200]], np.uint8)
    found = utility.evaluate(Brightness(), pixels, np.array([1, 1]))
    assert (found["accuracy_255"], found["accuracy"]) == (1.0, 0.0)


def test_a_classifier_that_never_saw_a_class_is_refused():
    class Two:
        classes_ = np.array([0, 2])

    with pytest.raises(ValueError, match=r"knows the classes \[0, 2\] only"):
        utility.scores(Two(), np.zeros((1, 1)))


@pytest.mark.parametrize(
    ("scores", "labels", "words"),
    [
        (np.full((2, 2), np.nan), np.array([0, 1]), "scores must be finite"),
        (np.zeros((2, 2)), np.array([0]), r"got \(2, 2\) and \(1,\)"),
    ],
)
def test_bad_scores_are_refused(scores, labels, words):
    with pytest.raises(ValueError, match=words):
        utility.accuracy(scores, labels)
