"""The unlabelled score against its definition, closed forms and scipy."""

import math

import mpmath
import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from dpkit.papers.dpgan.scores import js_from_half, js_score
from dpkit.papers.dpgan.tables import MOST

pytestmark = pytest.mark.torch

GRID = np.concatenate([[0.0, 1e-300, 1e-9], np.linspace(0.01, 0.99, 41), [1 - 1e-9, 1.0]])


def by_definition(p: float) -> float:
    """H(mean) minus the mean of H, in bits, with 50 digits."""
    with mpmath.workdps(50):
        p, half = mpmath.mpf(p), mpmath.mpf(1) / 2

        def entropy(q):
            return -sum(x * mpmath.log(x, 2) for x in (q, 1 - q) if x > 0)

        return float(entropy((p + half) / 2) - (entropy(p) + entropy(half)) / 2)


def test_it_is_the_definition():
    wanted = [by_definition(p) for p in GRID]
    np.testing.assert_allclose(js_from_half(GRID), wanted, rtol=1e-9, atol=1e-15)


def test_it_is_scipys_distance_squared():
    for p in GRID[3:-2]:
        distance = jensenshannon([p, 1 - p], [0.5, 0.5], base=2)
        assert js_from_half([p])[0] == pytest.approx(distance**2, abs=1e-12)


def test_closed_forms():
    assert js_from_half([0.5])[0] == 0
    # sure: entropies of (3/4, 1/4) and of (1/2, 1/2)
    sure = 2 - 0.75 * math.log2(3) - 0.5
    assert js_from_half([0.0, 1.0]) == pytest.approx([sure, sure])
    assert pytest.approx(sure) == MOST
    assert pytest.approx(0.3113, abs=5e-5) == MOST
    # near 1/2, p = 1/2 + x: x^2 / 2 nats
    assert js_from_half([0.5 + 1e-4])[0] == pytest.approx(0.5e-8 / math.log(2), rel=1e-6)


def test_it_does_not_ask_which_answer_is_called_real_and_grows_away_from_half():
    np.testing.assert_allclose(js_from_half(GRID), js_from_half(1 - GRID), atol=1e-15)
    upper = js_from_half(np.linspace(0.5, 1, 50))
    assert (np.diff(upper) > 0).all()
    assert (js_from_half(GRID) <= MOST + 1e-15).all()


def test_the_score_is_the_mean_with_its_error():
    found = js_score(np.array([0.0, 0.5, 1.0, 0.5]))
    assert found == pytest.approx((MOST / 2, MOST / 2 / math.sqrt(4)))


@pytest.mark.parametrize(
    "bad",
    [[0.5, math.nan], [1.0001], [-1e-9], [], [[0.5]], 0.5],
    ids=["nan", "above", "below", "none", "matrix", "scalar"],
)
def test_bad_probabilities_are_refused(bad):
    with pytest.raises(ValueError, match="probabilities must"):
        js_score(np.array(bad))
