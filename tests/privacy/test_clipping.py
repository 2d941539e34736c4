"""Clipping rules: the bound holds, and the sensitivity is what one record can move."""

import numpy as np
import pytest

from dpkit.privacy.clipping import (
    FlatClipping,
    PerTensorClipping,
    RealFakeApart,
    RealFakeSummed,
    Unclipped,
)

NORMS = np.array([[0.0, 3.0, 0.3], [0.0, 4.0, 0.4]])  # (tensors, batch)


def test_flat_clipping_bounds_the_whole_gradient():
    weights = FlatClipping(1.0).weights(NORMS)
    assert weights.shape == (1, 3)
    np.testing.assert_allclose(weights, [[1.0, 0.2, 1.0]])
    assert np.sqrt(((weights * NORMS) ** 2).sum(0)).max() <= 1 + 1e-12


def test_per_tensor_clipping_bounds_each_tensor_and_not_the_whole():
    rule = PerTensorClipping(1.0, tensors=2)
    clipped = rule.weights(NORMS) * NORMS
    assert clipped.max() <= 1
    joint = np.sqrt((clipped**2).sum(0)).max()
    assert joint == pytest.approx(np.sqrt(2))
    assert joint <= rule.sensitivity("add-remove")


@pytest.mark.parametrize(
    ("rule", "add_remove"),
    [
        (FlatClipping(1.1), 1.1),
        (PerTensorClipping(1.1, tensors=4), 2.2),
        (RealFakeApart(FlatClipping(1.1), FlatClipping(5.0), False), 1.1),
        (RealFakeApart(PerTensorClipping(1.1, 4), PerTensorClipping(1.1, 4), True), 4.4),
        (RealFakeSummed(PerTensorClipping(1.1, 4), True), 2.2),
        (Unclipped(), float("inf")),
    ],
)
def test_sensitivity_doubles_under_replace_one(rule, add_remove):
    assert rule.sensitivity("add-remove") == pytest.approx(add_remove)
    assert rule.sensitivity("replace-one") == pytest.approx(2 * add_remove)


@pytest.mark.parametrize("rule", [FlatClipping(1.0), PerTensorClipping(1.0, tensors=4)])
@pytest.mark.parametrize("seed", range(5))
def test_no_record_moves_a_clipped_sum_further_than_the_sensitivity(rule, seed):
    """Add-remove: the sum with and without one record; replace-one: with another in its place."""
    rng = np.random.default_rng(seed)
    gradients = rng.standard_normal((4, 6, 9)) * 10 ** rng.uniform(-3, 3, (4, 6, 1))

    def clipped_sum(rows):
        weights = rule.weights(np.linalg.norm(rows, axis=2))
        return (weights[:, :, None] * rows).sum(1)

    everyone = clipped_sum(gradients)
    without = clipped_sum(gradients[:, 1:])
    opposite = np.concatenate((-gradients[:, :1], gradients[:, 1:]), axis=1)
    slack = 1 + 1e-9
    assert np.linalg.norm(everyone - without) <= slack * rule.sensitivity("add-remove")
    assert np.linalg.norm(everyone - clipped_sum(opposite)) <= slack * rule.sensitivity(
        "replace-one"
    )


def test_a_nan_norm_stays_nan():
    assert np.isnan(FlatClipping(1.0).weights(np.array([[np.nan]]))).all()


@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan"), float("inf")])
def test_a_clip_norm_that_bounds_nothing_is_refused(bound):
    with pytest.raises(ValueError, match=f"max_grad_norm must be > 0 and finite, got {bound}"):
        FlatClipping(bound)


def test_a_wrong_number_of_tensors_is_refused():
    with pytest.raises(ValueError, match="tensors is 3 but the network has 2"):
        PerTensorClipping(1.0, tensors=3).weights(NORMS)


def test_an_unknown_adjacency_is_refused():
    with pytest.raises(ValueError, match="adjacency must be 'add-remove' or 'replace-one'"):
        FlatClipping(1.0).sensitivity("neighbours")  # type: ignore[arg-type]
