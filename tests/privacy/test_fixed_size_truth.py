"""Batches of a fixed size against every pair of small data sets, with noise read on a grid."""

import itertools
import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr

from dpkit.privacy import Release, SampledGaussian, WithoutReplacementGaussian, pld

CLIP = 1.0  # a record adds -1, 0 or 1 to its batch's sum; replacing it moves the sum by 2
SIZES = [(n, m) for n in (4, 5, 6) for m in (1, 2, 3)]
CELLS = 240  # of outputs: merging them is post-processing, so nothing found is too large


@cache
def sums(records: tuple[int, ...], size: int) -> tuple[tuple[int, float], ...]:
    """Each sum of a batch with its probability: every batch of that size counted once."""
    found = Counter(sum(batch) for batch in itertools.combinations(records, size))
    return tuple((total, count / math.comb(len(records), size)) for total, count in found.items())


def outputs(records: tuple[int, ...], size: int, noise: float) -> np.ndarray:
    edges = np.linspace(-size - 7 * noise, size + 7 * noise, CELLS + 1)[1:-1]
    below = sum(share * ndtr((edges - total) / noise) for total, share in sums(records, size))
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


@cache
def neighbours(n: int, size: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of every data set of n records, and of every one with a record replaced."""
    pairs = []
    for rest in itertools.combinations_with_replacement((-1, 0, 1), n - 1):
        for one, other in itertools.permutations((-1, 0, 1), 2):
            pairs.append([outputs((*rest, each), size, noise) for each in (one, other)])
    p, q = np.array(pairs).transpose(1, 0, 2)
    return p, q


def deltas(p: np.ndarray, q: np.ndarray, epsilon: float) -> np.ndarray:
    return np.maximum(p - math.exp(epsilon) * q, 0.0).reshape(p.shape[0], -1).sum(axis=1)


ALONE = pytest.mark.slow("a price too low at one noise and delta alone")


@pytest.mark.parametrize("over", [0.4, 0.8, 1.6, 3.0])  # noise over sensitivity
@pytest.mark.parametrize("delta", [0.1, 0.01, 1e-4])
def test_one_release_costs_what_the_worst_pair_costs(over: float, delta: float):
    for n, size in SIZES:
        pair = pld.epsilon([Release(WithoutReplacementGaussian(over, size / n))], delta=delta)
        found = neighbours(n, size, 2 * CLIP * over)
        assert deltas(*found, pair.epsilon).max() <= delta, (n, size)
        if pair.lower > 0:  # one release: the curve is that of all records at one end
            assert deltas(*found, pair.lower - 0.02).max() >= delta, (n, size)


@pytest.mark.parametrize(
    ("over", "delta"),
    [
        *((0.4, 0.1), (1.6, 0.01)),
        *(
            pytest.param(*other, marks=ALONE)
            for other in ((0.4, 0.01), (0.8, 0.1), (0.8, 0.01), (1.6, 0.1))
        ),
    ],
)
def test_two_releases_cost_no_more_than_proven_whatever_the_pairs(over: float, delta: float):
    """Of every two pairs at once: gradients may change from step to step, and records do not."""
    rng = np.random.default_rng(0)
    for n, size in SIZES:
        pair = pld.epsilon([Release(WithoutReplacementGaussian(over, size / n), 2)], delta=delta)
        p, q = neighbours(n, size, 2 * CLIP * over)
        first, second = rng.integers(len(p), size=(2, 60))
        worst = deltas(p, q, pair.lower / 2).argmax()
        first, second = np.append(first, worst), np.append(second, worst)
        twice = [x[first][:, :, None] * x[second][:, None, :] for x in (p, q)]
        assert deltas(*twice, pair.epsilon).max() <= delta, (n, size)
        if pair.lower > 0:
            assert deltas(*twice, pair.lower - 0.03).max() >= delta, (n, size)


def test_the_lower_end_is_of_a_pair_that_is_attained():
    """Composed, the curve costs more than the pair that attains it: the lower end is the pair's."""
    mechanism = WithoutReplacementGaussian(0.55, 0.01)
    pair = pld.epsilon([Release(mechanism, 1000)], delta=1e-5)
    attained = pld.epsilon([Release(SampledGaussian(0.55, 0.01), 1000)], delta=1e-5)
    assert pair.lower == pytest.approx(attained.lower, rel=1e-3)
    assert pair.lower <= attained.epsilon
    assert 1.1 * attained.epsilon < pair.epsilon < 1.13 * attained.epsilon
