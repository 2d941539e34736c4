"""Distances in a classifier's features: oracles, brute force, bad input."""

from functools import partial

import numpy as np
import pytest
from refusals import refused
from scipy.linalg import sqrtm

from dpkit.metrics.likeness import classifier_fid, precision_recall

RNG = np.random.default_rng(0)


def cloud(n=400, features=6, *, mean=0.0, scale=1.0):
    return mean + scale * RNG.normal(size=(n, features))


def test_the_distance_is_that_of_the_square_root_of_the_product():
    mixed = cloud() @ RNG.normal(size=(6, 6))
    other = cloud(mean=0.3)
    of_mixed, of_other = (np.cov(one, rowvar=False) for one in (mixed, other))
    shift = mixed.mean(0) - other.mean(0)
    root = np.real(sqrtm(of_mixed @ of_other))
    expected = shift @ shift + np.trace(of_mixed + of_other - 2 * root)
    assert classifier_fid(mixed, other) == pytest.approx(expected, rel=1e-8)
    assert classifier_fid(other, mixed) == pytest.approx(expected, rel=1e-8)


def test_the_distance_from_itself_is_nothing_also_where_features_repeat():
    rows = cloud()
    rows[:, 1] = rows[:, 0]  # a covariance without inverse
    assert classifier_fid(rows, rows) < 1e-9


def brute_force(these, those, k):
    """Share of `these` within the k-th neighbour's distance of one of `those`, one by one."""
    distances = [np.sort(np.linalg.norm(those - other, axis=1)) for other in those]
    reach = [each[k] for each in distances]  # the first is its own, 0
    near = [np.linalg.norm(those - one, axis=1) <= reach for one in these]
    return np.mean([each.any() for each in near])


@pytest.mark.parametrize("k", [1, 3])
def test_precision_and_recall_by_brute_force(k):
    real, synthetic = cloud(60, 3), cloud(50, 3, scale=0.4, mean=0.5)
    found = precision_recall(real, synthetic, neighbours=k)
    assert found.precision == pytest.approx(brute_force(synthetic, real, k))
    assert found.recall == pytest.approx(brute_force(real, synthetic, k))
    assert found.precision > found.recall  # few modes, all of them real


def test_images_far_from_all_real_ones_have_neither():
    found = precision_recall(cloud(100, 3), cloud(100, 3, mean=50))
    assert found == (0, 0)


test_bad_features_and_too_few_images_for_their_neighbours_are_refused = refused(
    (cloud(11), cloud(400), "real must hold at least twice"),
    (cloud(400), cloud(11), "synthetic must hold at least twice"),
    *((cloud(400), cloud(400, 5), "alike"), (cloud(400)[0], cloud(400), "alike")),
    (cloud(400), np.full((400, 6), np.nan), "finite"),
    (cloud(400), cloud(400) * 1e200, r"at most 1e50"),
    (cloud(3), cloud(400), precision_recall, "neighbours must be below the number of images, 3"),
    (cloud(30), cloud(40), partial(precision_recall, neighbours=0), "neighbours"),
    call=lambda real, synthetic, of=classifier_fid: of(real, synthetic),
)
