"""The inception score against closed forms and its definition by loops."""

import math

import numpy as np
import pytest
from refusals import refused

from dpkit.metrics.inception import inception_score


def test_images_of_which_nothing_is_known_score_1():
    for row in (np.full(10, 0.1), np.array([0.7, 0.3]), np.array([1.0, 0.0])):
        found = inception_score(np.tile(row, (40, 1)), splits=4)
        assert found.mean == pytest.approx(1.0, abs=1e-12)
        assert found.spread == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("classes", [2, 10])
def test_sure_and_equally_many_images_score_their_classes(classes):
    found = inception_score(np.tile(np.eye(classes), (30, 1)), splits=3)
    assert found.mean == pytest.approx(classes, rel=1e-12)
    assert found.splits == pytest.approx([classes] * 3)


def test_the_definition_by_loops():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(5, 0.3), size=23)
    found = inception_score(rows.astype(np.float32), splits=4)
    scores = []
    for part in np.split(rows, (6, 12, 18)):  # as equal as can be
        marginal = [sum(row[k] for row in part) / len(part) for k in range(5)]
        terms = (p * math.log(p / marginal[k]) for row in part for k, p in enumerate(row))
        scores.append(math.exp(sum(terms) / len(part)))
    assert found.splits == pytest.approx(scores, rel=1e-5)
    assert found.mean == pytest.approx(sum(scores) / 4, rel=1e-5)
    spread = math.sqrt(sum((s - sum(scores) / 4) ** 2 for s in scores) / 4)
    assert found.spread == pytest.approx(spread, rel=1e-4)
    assert all(1 <= score <= 5 for score in found.splits)


test_bad_input_is_refused = refused(
    (np.full((4, 2), 0.5), 0, "splits must be an integer >= 1, got 0"),
    (np.full((4, 2), 0.5), 5, "splits must be at most the 4 images, got 5"),
    (np.full(4, 0.25), 1, r"shape \(images, classes\), got \(4,\)"),
    (np.full((4, 2), np.nan), 1, "probabilities must be >= 0 and sum to 1"),
    (np.array([[1.5, -0.5]]), 1, "probabilities must be >= 0 and sum to 1"),
    (np.array([[3.0, 4.0]]), 1, "not its logits"),
    call=lambda probabilities, splits: inception_score(probabilities, splits=splits),
)
