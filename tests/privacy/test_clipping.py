"""Clipping rules: the bound holds, and the sensitivity is what one record can move."""

import math
from functools import partial

import numpy as np
import pytest
from refusals import refused

from dpkit.papers.dpgan.grouping import (
    TensorsClippedAtGroupBound,
    biases_together,
    clusters,
    group_bounds,
    mean_norm_bounds,
)
from dpkit.papers.dpgan.settings import NoiseOverSqrtBatch
from dpkit.privacy import Gaussian, GroupedGaussian, SampledGaussian, clipping, divergence
from dpkit.privacy.clipping import FlatClipping, PerCoordinateClipping, PerTensorClipping, Unclipped

ADJACENCIES = ("add-remove", "replace-one")
GROUPED = clipping.GroupClipping((0.5, 2.0), groups=(1, 0, 0, 1))
AT_BOUND = TensorsClippedAtGroupBound(GROUPED.bounds, GROUPED.groups)
NORMS = np.array([[0.0, 3.0, 0.3], [0.0, 4.0, 0.4]])  # (tensors, batch)
BOUNDS = (np.array([12.0, 6.0]), np.array([[0.1], [0.0], [2.0]]))


def test_flat_clipping_bounds_the_whole_gradient():
    weights = FlatClipping(1.0).weights(NORMS)
    assert weights.shape == (1, 3)
    np.testing.assert_allclose(weights, [[1.0, 0.2, 1.0]])
    assert np.sqrt(((weights * NORMS) ** 2).sum(0)).max() <= 1 + 1e-12
    assert np.isnan(FlatClipping(1.0).weights(np.array([[np.nan]]))).all()  # it stays one


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
        *((FlatClipping(1.1), 1.1), (PerTensorClipping(1.1, tensors=4), 2.2)),
        (clipping.RealFakeApart(FlatClipping(1.1), FlatClipping(5.0), False), 1.1),
        (clipping.RealFakeApart(PerTensorClipping(1.1, 4), PerTensorClipping(1.1, 4), True), 4.4),
        (clipping.RealFakeSummed(PerTensorClipping(1.1, 4), True), 2.2),
        *((Unclipped(), math.inf), (clipping.GroupClipping((3.0, 4.0), (0, 1, 0)), 5.0)),
        (PerCoordinateClipping((np.array([2.0, 4.0]), np.array([[5.0, 2.0]]))), 7.0),
    ],
)
def test_sensitivity_doubles_under_replace_one(rule, add_remove):
    assert rule.sensitivity("add-remove") == pytest.approx(add_remove)
    assert rule.sensitivity("replace-one") == pytest.approx(2 * add_remove)


@pytest.mark.parametrize(
    "rule",
    [FlatClipping(1.0), PerTensorClipping(1.0, 4), GROUPED, NoiseOverSqrtBatch(1.0, 64), AT_BOUND],
)
@pytest.mark.parametrize("seed", range(5))
def test_no_record_moves_a_clipped_sum_further_than_the_sensitivity(rule, seed):
    """Add-remove: the sum with and without one record; replace-one: with another in its place."""
    rng = np.random.default_rng(seed)
    gradients = rng.standard_normal((4, 6, 9)) * 10 ** rng.uniform(-3, 3, (4, 6, 1))

    def clipped_sum(rows):
        weights = rule.weights(np.linalg.norm(rows, axis=2))
        return (weights[:, :, None] * rows).sum(1)

    opposite = np.concatenate((-gradients[:, :1], gradients[:, 1:]), axis=1)
    for other, adjacency in ((gradients[:, 1:], "add-remove"), (opposite, "replace-one")):
        moved = np.linalg.norm(clipped_sum(gradients) - clipped_sum(other))
        assert moved <= (1 + 1e-9) * rule.sensitivity(adjacency)


RULES = (clipping.GroupClipping, TensorsClippedAtGroupBound)
SOME_NAN = np.array([[1.0, 2.0], [1.0, np.nan]])
UNFIT = [
    ((1.0, math.nan), (0, 1), r"bounds\[1\] must be a finite number > 0, got nan"),
    *(((1.0, 0.0), (0, 1), r"bounds\[1\]"), ((), (), "groups must name")),
    ((1.0, 2.0), (0, 2), "groups must name each of the 2"),
    ((1.0, 2.0), (0, 0), "groups must name each of the 2"),
    ((1.0, 2.0), (0, -1), r"groups\[1\] must be an integer >= 0"),
]

test_bounds_numbers_of_tensors_groups_and_adjacencies_that_do_not_fit_are_refused = refused(
    *(
        (FlatClipping, bound, f"max_grad_norm must be > 0 and finite, got {bound}")
        for bound in (0.0, -1.0, math.nan, math.inf)
    ),
    (PerTensorClipping(1.0, tensors=3).weights, NORMS, "network's 2 tensors, got one for 3"),
    (FlatClipping(1.0).sensitivity, "none", "adjacency must be 'add-remove' or 'replace-one'"),
    (GROUPED.weights, NORMS, "network's 2 tensors, got one for 4"),
    *((rule, *row) for row in UNFIT for rule in RULES),
    (mean_norm_bounds, NORMS * 0, "is all 0, which bounds nothing"),
    (
        partial(mean_norm_bounds, least=1.0),
        SOME_NAN,
        r"public_norms\[1\] must be a finite number >= 0, got",
    ),
    (mean_norm_bounds, np.ones((2, 0)), "draw a public batch that is not empty"),
    *((partial(clusters, count=count), (1.0, 2.0), "count must") for count in (0, 3)),
    (partial(clusters, count=1), (1.0, math.nan), UNFIT[0][-1]),
    (group_bounds, (1.0, 2.0), (0,), "one number for each of 2 tensors"),
    call=lambda rule, *given: rule(*given),
)


# Groups of tensors


def test_each_group_is_clipped_by_its_joint_norm():
    rng = np.random.default_rng(0)
    gradients = rng.standard_normal((4, 7, 3)) * 10 ** rng.uniform(-2, 2, (4, 7, 1))
    norms = np.linalg.norm(gradients, axis=2)
    clipped = GROUPED.weights(norms)[:, :, None] * gradients
    for group, bound in enumerate(GROUPED.bounds):
        members = [t for t in range(4) if GROUPED.groups[t] == group]
        for example in range(7):
            vector = gradients[members, example].ravel()
            expected = vector * min(1, bound / np.linalg.norm(vector))
            np.testing.assert_allclose(clipped[members, example].ravel(), expected, rtol=1e-12)


def test_a_group_with_noise_in_proportion_is_priced_by_what_a_record_moves():
    """A record at every bound at once, in units of the noise; order 2 has a closed form."""
    z, q = 1.3, 0.1
    noise = np.array(GROUPED.noise_stds(z))
    assert noise == pytest.approx([2 * z, 0.5 * z, 0.5 * z, 2 * z])
    norms = np.array([[3.0], [0.9], [1.2], [4.0]])
    moved = GROUPED.weights(norms) * norms / noise[:, None]
    squared = float((moved**2).sum())
    found = GROUPED.mechanism(noise_multiplier=z, sample_rate=q)
    assert found.rdp([2])[0] == pytest.approx(math.log1p(q * q * math.expm1(squared)), rel=1e-12)
    even = Gaussian(3.0 / GROUPED.sensitivity("add-remove"))  # the same noise on every tensor
    assert even.rdp([2])[0] == pytest.approx((0.5**2 + 2.0**2) / 3.0**2, rel=1e-12)


# Coordinates


def test_every_coordinate_stays_within_its_bound():
    rng = np.random.default_rng(0)
    gradients = [rng.standard_normal((9, *bound.shape)) * 10 for bound in BOUNDS]
    clipped = PerCoordinateClipping(BOUNDS).clip(gradients)
    for before, after, bound in zip(gradients, clipped, BOUNDS, strict=True):
        assert (abs(after) <= bound).all()
        both = zip(before[3].ravel(), bound.ravel(), strict=True)
        assert after[3].ravel().tolist() == [min(max(g, -s), s) for g, s in both]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_per_coordinate_noise_is_priced_by_what_a_record_moves(adjacency):
    """A record at every bound (or from one end to the other), in units of each one's noise."""
    rule, z = PerCoordinateClipping(BOUNDS), 1.7
    rng = np.random.default_rng(1)
    for noise in (rule.noise_stds(z), [rng.uniform(5, 20, bound.shape) for bound in BOUNDS]):
        extreme = [np.full((1, *bound.shape), 1e9) for bound in BOUNDS]
        ends = [rule.clip(extreme), rule.clip([-e for e in extreme])]
        squared = 0.0
        for high, low, std in zip(*ends, noise, strict=True):
            move = (high - low if adjacency == "replace-one" else high)[0]
            squared += float((move[move > 0] ** 2 / std[move > 0] ** 2).sum())
        found = rule.mechanism(noise, adjacency=adjacency)
        assert found.rdp([2.0, 7.0]) == pytest.approx([squared, 3.5 * squared], rel=1e-12)
        pair = divergence.normal(math.sqrt(squared), 1), divergence.normal(0, 1)
        delta = divergence.hockey_stick(*pair, 0.5, low=-32, high=32)
        assert found.profile([0.5])[0, 0] == pytest.approx(delta, rel=1e-6)


def test_noise_in_proportion_to_the_bounds_protects_as_the_one_multiplier_does():
    rule = PerCoordinateClipping(BOUNDS)
    assert rule.coordinates == 4  # one bound is 0
    noise = rule.noise_stds(1.7)
    np.testing.assert_allclose(noise[0], 1.7 * 2 * BOUNDS[0])
    assert rule.mechanism(noise).noise_multiplier == pytest.approx(1.7, rel=1e-14)
    # the paper's example after Lemma 1: 17 and 8.5 for 12 and 6 are enough for 1
    first = PerCoordinateClipping(BOUNDS[:1])
    assert 1 < first.mechanism([np.array([17.0, 8.5])]).noise_multiplier < 1.002
    q = 0.1  # and of a Poisson batch: the same as groups of one coordinate each
    by_groups = GroupedGaussian((3.4,) * 4, 4, q).rdp([2, 9])
    np.testing.assert_allclose(by_groups, SampledGaussian(1.7, q).rdp([2, 9]), rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "bound"), [("f2", 1e-4), ("f2", 6e-8), ("f4", 1e-25), ("f4", 1e30), ("f8", 1e-200)]
)
@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=pytest.mark.torch)])
def test_bounds_whose_squares_leave_their_type_are_priced_whole(kind, bound, library):
    """The square of 1e-4 is 0 in float16; n equal bounds move by sqrt(n) of one, without a square.

    Beside them stands one that is 3 times as large.
    """
    tiny = np.full(16, bound, dtype=kind)
    arrays = (tiny[:10].reshape(2, 5), tiny[:6], 3 * tiny[:1], tiny[:0])
    exact = float(tiny[0]) * math.sqrt(16 + 9)
    if library == "torch":
        torch = pytest.importorskip("torch")
        arrays = tuple(torch.from_numpy(array) for array in arrays)
    one, two = (PerCoordinateClipping(arrays).sensitivity(way) for way in ADJACENCIES)
    close = 1e-14 if kind == "f8" else 1e-3  # 3 * tiny is rounded
    assert one == pytest.approx(exact, rel=close, abs=0)
    assert two == 2 * one


def test_noise_over_bounds_in_float16_is_priced_unrounded():
    """0.1 / 0.3 in float16 is rounded up by 5e-5: more noise than there is."""
    noise, bound = np.full(1, 0.1, dtype="float16"), np.full(1, 0.3, dtype="float16")
    found = PerCoordinateClipping((bound,)).mechanism([noise]).noise_multiplier
    assert found == float(noise[0]) / float(bound[0])


def test_bad_coordinates_are_refused():
    for bad in ([1.0, np.nan], [-1.0], [np.inf]):
        with pytest.raises(ValueError, match=r"bounds\[1\] must hold finite numbers >= 0"):
            PerCoordinateClipping((np.ones(2), np.array(bad)))
    with pytest.raises(ValueError, match="nothing is released"):
        PerCoordinateClipping((np.zeros(3),))
    rule = PerCoordinateClipping((np.ones(2),))
    with pytest.raises(ValueError, match=r"\[0\] must have its parameter's shape \(3,\), got \(2,"):
        rule.clip([np.ones((5, 3))])
    with pytest.raises(ValueError, match="an array for each parameter tensor, 2, got 1"):
        rule.clip([np.ones((5, 2))] * 2)
    with pytest.raises(ValueError, match=r"noise_multipliers\[1\]"):
        rule.mechanism([np.array([1.0, 0.0])])
    assert np.isnan(rule.clip([np.array([[np.nan, 5.0]])])[0][0, 0])
    rule.bounds[0][1] = np.nan  # arrays can change
    with pytest.raises(ValueError, match=r"bounds\[0\] must hold finite numbers"):
        rule.sensitivity("add-remove")


@pytest.mark.torch
def test_rules_give_the_same_for_torch_tensors():
    torch = pytest.importorskip("torch")
    norms = np.abs(np.random.default_rng(0).standard_normal((4, 6))) * 3
    for rule in (FlatClipping(1.0), GROUPED, AT_BOUND):
        found = rule.weights(torch.tensor(norms))
        np.testing.assert_allclose(found.numpy(), rule.weights(norms), rtol=1e-14)
    kinds = (np.array, torch.tensor)
    both = [PerCoordinateClipping(tuple(kind(b) for b in BOUNDS)) for kind in kinds]
    gradients = [np.full((2, *bound.shape), -3.0) for bound in BOUNDS]
    clipped = both[1].clip([torch.tensor(g) for g in gradients])
    for found, expected in zip(clipped, both[0].clip(gradients), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)
    assert both[1].sensitivity("add-remove") == pytest.approx(both[0].sensitivity("add-remove"))
    assert both[1].mechanism(both[1].noise_stds(2.0)).noise_multiplier == pytest.approx(2.0)


# Bounds and groups from public data


def test_bounds_are_the_mean_norms_of_public_gradients():
    assert mean_norm_bounds(NORMS) == pytest.approx((1.1, 4.4 / 3))
    assert mean_norm_bounds(NORMS * 0, least=0.01) == (0.01, 0.01)


@pytest.mark.parametrize(
    ("bounds", "count", "groups"),
    [
        ((1.0, 5.0, 1.1, 20.0, 5.2), 5, (0, 1, 2, 3, 4)),
        ((1.0, 5.0, 1.1, 20.0, 5.2), 4, (0, 1, 2, 3, 1)),  # 5.2 / 5 is the least ratio
        ((1.0, 5.0, 1.1, 20.0, 5.2), 3, (0, 1, 0, 2, 1)),  # then 1.1 / 1
        ((1.0, 5.0, 1.1, 20.0, 5.2), 2, (0, 1, 0, 1, 1)),  # then 20 / 7.21, less than 7.21 / 1.49
        # 1 and 1 become 1.41, to which 1.5 is nearer than to 2.2: merged bounds grow
        ((1.0, 1.0, 1.5, 2.2), 2, (0, 0, 0, 1)),
        ((3.0, 2.0, 2.0, 3.0), 3, (0, 1, 2, 0)),  # of equal ratios, the first tensors'
        ((3.0, 7.0), 1, (0, 0)),
    ],
)
def test_clusters_merge_the_most_similar_bounds(bounds, count, groups):
    assert clusters(bounds, count=count) == groups
    assert clusters([1e-6 * bound for bound in bounds], count=count) == groups
    merged = group_bounds(bounds, groups)
    assert len(merged) == count
    apart = math.sqrt(sum(bound**2 for bound in bounds))
    assert clipping.GroupClipping(merged, groups).sensitivity("add-remove") == pytest.approx(apart)


def test_biases_go_together():
    is_bias = (False, True, False, True, False, True, False)  # 7 tensors
    assert biases_together(is_bias) == (0, 4, 1, 4, 2, 4, 3)  # 5 groups
