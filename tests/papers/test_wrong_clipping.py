"""Published clipping errors: what one record really moves, and what was charged."""

import math

import numpy as np
import pytest
import torch

from dpkit.papers.dpgan.grouping import TensorsClippedAtGroupBound
from dpkit.papers.dpgan.settings import NoiseOverSqrtBatch
from dpkit.papers.small_images.prior_work import ClippedAfterMean
from dpkit.privacy.clipping import FlatClipping, GroupClipping

ADJACENCIES = ("add-remove", "replace-one")


def test_one_record_moves_a_mean_clipped_afterwards_across_the_ball():
    """999 records agree; the last turns their mean around. It moves by 2C, C / 1000 was charged."""
    rule = ClippedAfterMean(1.5, batch_size=1000)
    others = np.ones((999, 4))
    with_one = np.concatenate((others, np.full((1, 4), -1e6)))
    (before,), (after,) = (rule.clip([rows.mean(0)]) for rows in (others, with_one))
    moved = np.linalg.norm(after - before)
    assert moved == pytest.approx(3.0, rel=1e-12)
    for adjacency, claimed in zip(ADJACENCIES, (0.0015, 0.003), strict=True):
        assert rule.sensitivity(adjacency) == 3.0
        assert rule.claimed_sensitivity(adjacency) == pytest.approx(claimed)
    assert rule.noise_std(2.0) == pytest.approx(2 * 1.5 / 1000)
    np.testing.assert_array_equal(rule.clip([np.full(4, 0.1)])[0], np.full(4, 0.1))
    mean = ClippedAfterMean(1.0, 5).clip([torch.tensor([3.0]), torch.tensor([4.0])])
    assert [m.item() for m in mean] == pytest.approx([0.6, 0.8])


def test_noise_over_the_root_of_the_batch_is_eight_times_too_small_at_64():
    rule, norms = NoiseOverSqrtBatch(1.1, batch_size=64), np.array([[3.0, 0.3], [4.0, 0.4]])
    assert rule.noise_std(1.0) == pytest.approx(1.1 / 8)
    assert rule.sensitivity("replace-one") == 8 * rule.claimed_sensitivity("replace-one")
    np.testing.assert_array_equal(rule.weights(norms), FlatClipping(1.1).weights(norms))


def test_tensors_clipped_at_their_groups_bound_move_further_than_the_group():
    grouped = (0.5, 2.0), (1, 0, 0, 1)
    rule, norms = TensorsClippedAtGroupBound(*grouped), np.full((4, 1), 50.0)
    moved = np.linalg.norm(rule.weights(norms) * norms)
    assert moved == pytest.approx(rule.sensitivity("add-remove"))
    assert moved == pytest.approx(math.sqrt(8.5))
    assert rule.claimed_sensitivity("add-remove") == pytest.approx(math.sqrt(4.25))
    assert math.sqrt(4.25) == pytest.approx(GroupClipping(*grouped).sensitivity("add-remove"))


@pytest.mark.parametrize("kind", [ClippedAfterMean, NoiseOverSqrtBatch])
def test_the_noise_left_is_less_than_what_was_charged(kind):
    rule = kind(1.0, 64)
    assert rule.noise_std(1.0) / rule.sensitivity("add-remove") < 1
    for bad in (0.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="noise_multiplier must be"):
            rule.noise_std(bad)
    for norm, count in ((math.nan, 4), (1.0, 0), (1.0, 2.5), (1.0, math.nan)):
        with pytest.raises(ValueError, match=r"norm must be .* nan|batch_size must be an"):
            kind(norm, count)


WRONG = (kind(1.0, 64) for kind in (ClippedAfterMean, NoiseOverSqrtBatch))


@pytest.mark.parametrize("rule", [*WRONG, TensorsClippedAtGroupBound((1.0,), (0, 0))], ids=repr)
def test_what_was_charged_is_less_than_what_is_true(rule):
    for adjacency in ADJACENCIES:
        assert 0 < rule.claimed_sensitivity(adjacency) < rule.sensitivity(adjacency)
    with pytest.raises(ValueError, match="adjacency must be"):
        rule.sensitivity("neighbours")
