"""Distances of tables against sums written out, and the classifier against what is known of it."""

from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from refusals import refused

from dpkit.papers.rdp_gan import tasks as tables

pytestmark = pytest.mark.torch

SIZES = (3, 2, 4)


def codes(n: int, seed: int, sizes: tuple[int, ...] = SIZES) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(size, size=n) for size in sizes], axis=1)


def test_pmf_error_is_equation_22():
    """Labels 1 to 4 by their numbers, in fractions: 1/12 * 1 + 1/2 * 2 + 1/4 * 3 + 1/6 * 4."""
    generated, real = [0, 1, 1, 2], [0, 0, 2, 2, 3, 2]
    p_g, p_r = Counter(generated), Counter(real)
    wanted = sum(abs(Fraction(p_g[x - 1], 4) - Fraction(p_r[x - 1], 6)) * x for x in range(1, 5))
    assert wanted == Fraction(1, 12) + Fraction(1, 2) * 2 + Fraction(1, 4) * 3 + Fraction(1, 6) * 4
    assert tables.pmf_error(generated, real, 4) == pytest.approx(float(wanted), rel=1e-14)
    assert tables.pmf_error(real, generated, 4) == tables.pmf_error(generated, real, 4)
    assert tables.pmf_error(real, real, 4) == 0


def test_pmf_error_depends_on_the_order_of_labels_and_total_variation_does_not():
    generated, real = np.array([0, 0, 0, 1]), np.array([0, 1, 1, 1])
    assert tables.pmf_error(generated, real, 3) == pytest.approx(0.5 * 1 + 0.5 * 2)
    assert tables.pmf_error(generated + 1, real + 1, 3) == pytest.approx(0.5 * 2 + 0.5 * 3)
    for shift in (0, 1):
        assert tables.total_variation(generated + shift, real + shift, 3) == pytest.approx(0.5)
    assert tables.pmf_error([3], [2], 4) == 2 * 4 - 1  # the largest: of the last two labels
    assert tables.total_variation([3], [2], 4) == 1


def test_total_variation_is_the_largest_difference_over_sets_of_labels():
    one, other = codes(20, 0)[:, 2], codes(30, 1)[:, 2]
    sets = (chosen for k in range(5) for chosen in combinations(range(4), k))
    wanted = max(abs(np.isin(one, s).mean() - np.isin(other, s).mean()) for s in sets)
    assert tables.total_variation(one, other, 4) == pytest.approx(wanted, abs=1e-14)


def test_pair_distance_by_counting_cells():
    generated, real, found = codes(40, 0), codes(25, 1), []
    for i, j in combinations(range(3), 2):
        g = Counter(map(tuple, generated[:, [i, j]].tolist()))
        r = Counter(map(tuple, real[:, [i, j]].tolist()))
        found.append(sum(abs(g[cell] / 40 - r[cell] / 25) for cell in g | r) / 2)
    wanted = sum(found) / 3
    assert tables.pair_distance(generated, real, SIZES) == pytest.approx(wanted, abs=1e-14)
    assert tables.pair_distance(real, real, SIZES) == 0
    same, crossed = (
        np.array([[0, 0], [1, 1]]),
        np.array([[0, 1], [1, 0]]),
    )  # a dependence that columns do not show
    assert tables.pair_distance(same, crossed, (2, 2)) == 1


def test_shares_of_labels():
    np.testing.assert_array_equal(tables.pmf([0, 2, 2, 3], 5), [0.25, 0, 0.5, 0.25, 0])


def labelled(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A label that is 1 with probability 0.9 where the first column is 2, else 0.1."""
    table = codes(n, seed)
    rng = np.random.default_rng(seed + 100)
    columns = [np.eye(size)[table[:, i]] for i, size in enumerate(SIZES)]
    return np.hstack(columns), (rng.random(n) < np.where(table[:, 0] == 2, 0.9, 0.1)) * 1


def test_the_classifier_finds_the_best_rule():
    """The best rule reads the first column; on the same rows its figures are counted by hand."""
    features, labels = labelled(4000, 0)
    tested, truth = labelled(3000, 1)
    found = tables.classifier_accuracy(features, labels, tested, truth)
    best = tested[:, 2] == 1
    recalls = (best[truth == 1].mean(), 1 - best[truth == 0].mean())
    assert found == pytest.approx(((best == truth).mean(), sum(recalls) / 2), abs=1e-12)
    # trained on flipped labels, it is wrong where it was right: the tested features decide nothing
    wrong, _ = tables.classifier_accuracy(features, 1 - labels, tested, truth)
    assert found[0] + wrong == pytest.approx(1)


@pytest.mark.parametrize("label", [0, 1])
def test_a_generator_of_one_label_gives_the_constant_classifier(label):
    tested, truth = labelled(500, 1)
    found = tables.classifier_accuracy(tested, np.full(500, label), tested, truth)
    assert found == pytest.approx(((truth == label).mean(), 0.5))


X, Y = labelled(20, 0)
test_what_no_score_can_be_told_of_is_refused = refused(  # codes that are none, diverged generators
    *(
        (partial(tables.pmf, codes, 4), r"codes must be a column of integers in 0\.\.3, got")
        for codes in ([0, 4], [], [0.5], [[0, 1]], [-1])
    ),
    *(
        (partial(tables.classifier_accuracy, X + np.nan, y, X, Y), "contains NaN")
        for y in (Y, 0 * Y)
    ),
    (partial(tables.classifier_accuracy, X, 0 * Y + 0.5, X, Y), "Unknown label type: continuous"),
    (partial(tables.pair_distance, np.array([[0, 0]]), np.array([[0, 2]]), (2, 2)), "column 1"),
)
