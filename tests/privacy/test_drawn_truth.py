"""Batches as they are drawn, against every pair of small data sets, with noise read on a grid."""

import itertools
import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr

from dpkit.privacy import Release, TruncatedPoissonGaussian, as_drawn, pld
from dpkit.privacy.sampling import ShuffledBatches

CELLS = {1: 400, 2: 90, 3: 36}  # of each sum, by sums: merging outputs never shows more
GRADIENTS = (-1, 0, 1)
Records = tuple[int, ...]
Law = dict[tuple[int, ...], float]  # of the batches' sums, before noise


def reach(noise: float) -> float:
    return 4 + 5 * noise


def outputs(law: Law, noise: float) -> np.ndarray:
    """Masses of the cells of all noisy sums: flat."""
    dimension = len(next(iter(law)))
    edges = np.linspace(-reach(noise), reach(noise), CELLS[dimension] + 1)[1:-1]
    ends = {at: ndtr((edges - at) / noise) for at in range(-6, 7)}
    one = {at: np.diff(np.concatenate([[0.0], below, [1.0]])) for at, below in ends.items()}
    total = 0.0
    for sums, chance in law.items():
        cells = np.array([chance])
        for at in sums:
            cells = (cells[:, None] * one[at]).ravel()
        total = total + cells
    return np.asarray(total)


def delta(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def check(pairs: list, noise: float, low: float, high: float, target: float):
    """No pair of laws costs more than `high`, and some pair costs `low`, but for the cells."""
    known: dict[int, np.ndarray] = {}
    width = 2 * reach(noise) / CELLS[len(next(iter(pairs[0][0])))]
    hidden = 0.35 * width * 2 / noise**2  # a share of what a sum moved by 2 gains in a cell
    worst = reached = 0.0
    for first, second in pairs:
        for law in (first, second):
            if id(law) not in known:
                known[id(law)] = outputs(law, noise)
        both = known[id(first)], known[id(second)]
        worst = max(worst, delta(*both, high))
        reached = max(reached, delta(*both, low - hidden))
    assert worst <= target * (1 + 1e-9)
    assert low <= high
    assert low <= 0 or reached >= target


@cache
def shuffled(records: Records, batch: int, steps: int) -> Law:
    found: Counter = Counter()
    for order in itertools.permutations(records):
        found[tuple(sum(order[batch * t : batch * (t + 1)]) for t in range(steps))] += 1
    return {sums: count / math.factorial(len(records)) for sums, count in found.items()}


def neighbours(n: int, adjacency: str) -> list[tuple[Records, Records]]:
    """Of n records with one replaced, or (zero-out) left out in place."""
    return [
        (tuple(sorted((*rest, one))), tuple(sorted((*rest, other))))
        for rest in itertools.combinations_with_replacement(GRADIENTS, n - 1)
        for one, other in itertools.permutations(GRADIENTS, 2)
        if adjacency == "replace-one" or 0 in (one, other)
    ]


RUNS = [(4, 2, 2), (4, 3, 1), (5, 2, 2), (5, 3, 1), (6, 2, 3), (6, 3, 2), (6, 2, 1), (5, 1, 2)]


NOISES = [(0.7, 0.1), (1.5, 0.003), (0.7, 0.003), (1.5, 0.1)]


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("noise", "target"), NOISES)
@pytest.mark.parametrize(("n", "batch", "steps"), RUNS)
def test_shuffled_batches_of_small_data_sets(n, batch, steps, noise, target, adjacency):
    """One pass, whole or only begun, with records that it leaves out."""
    found = ShuffledBatches(batch, adjacency).guarantee(
        noise_multiplier=noise, public_size=n, steps=steps, delta=target
    )
    pairs = [[shuffled(one, batch, steps) for one in pair] for pair in neighbours(n, adjacency)]
    check(pairs, noise, found.lower, found.epsilon, target)


@cache
def binned(records: Records, bins: int) -> Law:
    found: Counter = Counter()
    for places in itertools.product(range(bins), repeat=len(records)):
        sums = [0] * bins
        for record, place in zip(records, places, strict=True):
            sums[place] += record
        found[tuple(sums)] += 1
    return {sums: count / bins ** len(records) for sums, count in found.items()}


@pytest.mark.parametrize("noise", [0.5, 0.8, 2.0])
@pytest.mark.parametrize("target", [0.1, 0.01, 1e-4])
@pytest.mark.parametrize(("n", "bins"), [(4, 1), (4, 2), (5, 2), (3, 3)])
def test_balls_and_bins_of_small_data_sets(n, bins, noise, target):
    found = as_drawn.balls_and_bins(as_drawn.DrawnRun(noise, 1, bins, bins), delta=target)
    pairs = []
    for rest in itertools.combinations_with_replacement(GRADIENTS, n - 1):
        for record in (-1, 1):
            both = binned((*rest, record), bins), binned(rest, bins)
            pairs += [both, both[::-1]]
    check(pairs, noise, found.lower, found.epsilon, target)


@cache
def cut(records: Records, rate: float, most: int) -> Law:
    found: Counter = Counter()
    for drawn in itertools.product((False, True), repeat=len(records)):
        chance = math.prod(rate if one else 1 - rate for one in drawn)
        batch = [record for record, one in zip(records, drawn, strict=True) if one]
        kept = list(itertools.combinations(batch, min(most, len(batch))))
        for each in kept:
            found[(sum(each),)] += chance / len(kept)  # pyright: ignore[reportArgumentType]
    return dict(found)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("noise", "target"), NOISES)
@pytest.mark.parametrize(
    ("n", "rate", "most"), [(4, 0.5, 1), (5, 0.3, 2), (6, 0.5, 3), (6, 0.3, 6)]
)
def test_truncated_poisson_batches_of_small_data_sets(n, rate, most, noise, target, adjacency):
    step = TruncatedPoissonGaussian(noise, rate, most, n, adjacency)
    found = pld.epsilon([Release(step)], delta=target)
    pairs = []
    for rest in itertools.combinations_with_replacement(GRADIENTS, n - 1):
        if adjacency == "replace-one":
            ends = itertools.permutations(GRADIENTS, 2)
            for one, other in ends:
                pairs.append([cut((*rest, each), rate, most) for each in (one, other)])
        else:
            for record in (-1, 1):
                both = cut((*rest, record), rate, most), cut(rest, rate, most)
                pairs += [both, both[::-1]]
    check(pairs, noise, found.lower, found.epsilon, target)


@pytest.mark.parametrize("target", [0.1, 0.003])
@pytest.mark.parametrize("noise", [0.7, 1.5])
def test_two_epochs_and_two_steps_of_the_worst_pair_cost_what_is_proven(noise, target):
    """Records' sums are independent from epoch to epoch: products of laws."""

    def twice(law: Law) -> Law:
        return {(*a, *b): law[a] * law[b] for a in law for b in law}

    found = pld.epsilon([Release(TruncatedPoissonGaussian(noise, 0.5, 2, 4), 2)], delta=target)
    pairs = []
    for rest in itertools.combinations_with_replacement(GRADIENTS, 3):
        both = twice(cut((*rest, 1), 0.5, 2)), twice(cut(rest, 0.5, 2))
        pairs += [both, both[::-1]]
    check(pairs, noise, found.lower, found.epsilon, target)
    found = ShuffledBatches(4, "replace-one").guarantee(
        noise_multiplier=noise, public_size=5, steps=2, delta=target
    )
    pairs = [[twice(shuffled(one, 4, 1)) for one in pair] for pair in neighbours(5, "replace-one")]
    check(pairs, noise, found.lower, found.epsilon, target)
