"""Batches as they are drawn, against every pair of small data sets, with noise read on a grid."""

import itertools
import math
from collections import Counter
from functools import cache, partial

import numpy as np
import pytest
from scipy.special import ndtr

from dpkit.privacy import ADJACENCIES, Release, SampledGaussian, as_drawn, pld
from dpkit.privacy.mechanisms import TruncatedPoissonGaussian, WithoutReplacementGaussian
from dpkit.privacy.sampling import ShuffledBatches

CELLS = {1: 400, 2: 90, 3: 36}  # of each sum, by sums: merging outputs never shows more
GRADIENTS = (-1, 0, 1)
Records = tuple[int, ...]
Law = dict[tuple[int, ...], float]  # of the batches' sums, before noise
RUNS = [(4, 2, 2), (4, 3, 1), (5, 2, 2), (5, 3, 1), (6, 2, 3), (6, 3, 2), (6, 2, 1), (5, 1, 2)]
NOISES = [(0.7, 0.1), (1.5, 0.003), (0.7, 0.003), (1.5, 0.1)]
SIZES = [(n, m) for n in (4, 5, 6) for m in (1, 2, 3)]
DEAR = [(0.4, 0.01), (0.8, 0.1), (0.8, 0.01), (1.6, 0.1)]
ALONE = pytest.mark.slow("a price too low at one noise and delta alone")
SEEDS = [0, 1, 2, *(pytest.param(seed, marks=ALONE) for seed in range(3, 10))]


def reach(noise: float) -> float:
    return 4 + 5 * noise


def outputs(law: Law, noise: float, cells: int | None = None) -> np.ndarray:
    """Masses of the cells of all noisy sums: flat."""
    dimension = len(next(iter(law)))
    edges = np.linspace(-reach(noise), reach(noise), (cells or CELLS[dimension]) + 1)[1:-1]
    ends = {at: ndtr((edges - at) / noise) for at in range(-6, 7)}
    one = {at: np.diff(np.concatenate([[0.0], below, [1.0]])) for at, below in ends.items()}
    total = 0.0
    for sums, chance in law.items():
        cut = np.array([chance])
        for at in sums:
            cut = (cut[:, None] * one[at]).ravel()
        total = total + cut
    return np.asarray(total)


def delta(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def compare(masses: list, low: float, high: float, target: float, hidden: float):
    """No pair of masses costs more than `high`, and some pair costs `low`, but for the cells."""
    assert max(delta(p, q, high) for p, q in masses) <= target * (1 + 1e-9)
    assert low <= high
    assert low <= 0 or max(delta(p, q, low - hidden) for p, q in masses) >= target


def check(pairs: list, noise: float, low: float, high: float, target: float):
    known = {id(law): outputs(law, noise) for pair in pairs for law in pair}
    width = 2 * reach(noise) / CELLS[len(next(iter(pairs[0][0])))]
    hidden = 0.35 * width * 2 / noise**2  # a share of what a sum moved by 2 gains in a cell
    masses = [[known[id(law)] for law in pair] for pair in pairs]
    compare(masses, low, high, target, hidden)


def shares(found: Counter) -> Law:
    return {sums: count / found.total() for sums, count in found.items()}


@cache
def shuffled(records: Records, batch: int, steps: int) -> Law:
    found: Counter = Counter()
    for order in itertools.permutations(records):
        found[tuple(sum(order[batch * t : batch * (t + 1)]) for t in range(steps))] += 1
    return shares(found)


def neighbours(n: int, adjacency: str) -> list[tuple[Records, Records]]:
    """Of n records with one replaced, or (zero-out) left out in place."""
    return [
        (tuple(sorted((*rest, one))), tuple(sorted((*rest, other))))
        for rest in itertools.combinations_with_replacement(GRADIENTS, n - 1)
        for one, other in itertools.permutations(GRADIENTS, 2)
        if adjacency == "replace-one" or 0 in (one, other)
    ]


def with_and_without(n: int, law) -> list[list[Law]]:
    """The laws of n - 1 records and one more, and of the same without it; both ways."""
    pairs = []
    for rest in itertools.combinations_with_replacement(GRADIENTS, n - 1):
        for record in (-1, 1):
            both = [law((*rest, record)), law(rest)]
            pairs += [both, both[::-1]]
    return pairs


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
    return shares(found)


@pytest.mark.parametrize("noise", [0.5, 0.8, 2.0])
@pytest.mark.parametrize("target", [0.1, 0.01, 1e-4])
@pytest.mark.parametrize(("n", "bins"), [(4, 1), (4, 2), (5, 2), (3, 3)])
def test_balls_and_bins_of_small_data_sets(n, bins, noise, target):
    run = as_drawn.DrawnRun(noise, 1, bins, bins)
    found = run.guarantee("balls-and-bins", delta=target)
    pairs = with_and_without(n, lambda records: binned(records, bins))
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


def some_of_a_hundred(rng: np.random.Generator, most: int) -> tuple[int, int, float, float]:
    """Records, a size up to that, a noise and a delta: 10 of a mechanism in each of 10 tests."""
    n = int(rng.integers(2, most + 1))
    noise, target = np.exp(rng.uniform(np.log([0.6, 1e-4]), np.log([3.0, 0.2])))
    return n, int(rng.integers(1, n + 1)), float(noise), float(target)


@pytest.mark.parametrize("seed", SEEDS)
def test_truncated_poisson_batches_of_small_data_sets(seed):
    rng = np.random.default_rng(seed)
    for adjacency in ADJACENCIES * 5:
        n, most, noise, target = some_of_a_hundred(rng, 5)
        rate = float(rng.uniform(0.02, 1.0))
        step = TruncatedPoissonGaussian(noise, rate, most, n, adjacency)
        found, law = pld.epsilon([Release(step)], delta=target), partial(cut, rate=rate, most=most)
        if adjacency == "replace-one":
            pairs = [[law(one) for one in pair] for pair in neighbours(n, adjacency)]
        else:
            pairs = with_and_without(n, law)
            check(with_and_without(n + 1, law), noise, 0.0, found.epsilon, target)
        check(pairs, noise, found.lower, found.epsilon, target)


@cache
def again(records: Records, batch: int) -> Law:
    return shares(Counter((sum(drawn),) for drawn in itertools.product(records, repeat=batch)))


@pytest.mark.parametrize("seed", SEEDS)
def test_batches_with_replacement_of_small_data_sets(seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        n, batch, noise, target = some_of_a_hundred(rng, 5)
        noise *= 2  # less leaves floats few digits of e^epsilon q
        found = as_drawn.DrawnRun(noise, batch, n, 1).guarantee("with-replacement", delta=target)
        law = partial(again, batch=batch)
        check(with_and_without(n, law), noise, found.lower, found.epsilon, target)
        check(with_and_without(n + 1, law), noise, 0.0, found.epsilon, target)


def product(first: Law, second: Law) -> Law:
    return {(*a, *b): first[a] * second[b] for a in first for b in second}


@pytest.mark.parametrize("target", [0.1, 0.003])
@pytest.mark.parametrize("noise", [0.7, 1.5])
def test_two_epochs_and_two_steps_of_the_worst_pair_cost_what_is_proven(noise, target):
    """Records' sums are independent from epoch to epoch: products of laws."""

    found = pld.epsilon([Release(TruncatedPoissonGaussian(noise, 0.5, 2, 4), 2)], delta=target)
    pairs = with_and_without(4, lambda records: product(*[cut(records, 0.5, 2)] * 2))
    check(pairs, noise, found.lower, found.epsilon, target)
    run = as_drawn.DrawnRun(2 * noise, 2, 3, 2)
    found = run.guarantee("with-replacement", delta=target)
    pairs = with_and_without(3, lambda records: product(*[again(records, 2)] * 2))
    check(pairs, 2 * noise, found.lower, found.epsilon, target)
    found = ShuffledBatches(4, "replace-one").guarantee(
        noise_multiplier=noise, public_size=5, steps=2, delta=target
    )
    pairs = neighbours(5, "replace-one")
    pairs = [[product(*[shuffled(one, 4, 1)] * 2) for one in pair] for pair in pairs]
    check(pairs, noise, found.lower, found.epsilon, target)


def fixed(n: int, size: int, noise: float) -> list[list[np.ndarray]]:
    """Masses of all data sets of n records with one replaced: each batch of that size once."""

    @cache
    def masses(records: Records) -> np.ndarray:
        sums = Counter((sum(batch),) for batch in itertools.combinations(records, size))
        return outputs(shares(sums), noise, cells=240)

    return [[masses(one) for one in pair] for pair in neighbours(n, "replace-one")]


@pytest.mark.parametrize("over", [0.4, 0.8, 1.6, 3.0])  # noise over sensitivity, which is 2
@pytest.mark.parametrize("target", [0.1, 0.01, 1e-4])
def test_batches_of_a_fixed_size_of_small_data_sets(over, target):
    for n, size in SIZES:
        found = pld.epsilon([Release(WithoutReplacementGaussian(over, size / n))], delta=target)
        compare(fixed(n, size, 2 * over), found.lower, found.epsilon, target, hidden=0.02)


@pytest.mark.parametrize(
    ("over", "target"),
    [(0.4, 0.1), (1.6, 0.01), *(pytest.param(*one, marks=ALONE) for one in DEAR)],
)
def test_two_batches_of_a_fixed_size_whatever_the_pairs(over, target):
    """Of every two pairs at once: gradients may change from step to step, and records do not."""
    rng = np.random.default_rng(0)
    for n, size in SIZES:
        found = pld.epsilon([Release(WithoutReplacementGaussian(over, size / n), 2)], delta=target)
        pairs = fixed(n, size, 2 * over)
        worst = int(np.argmax([delta(p, q, found.lower / 2) for p, q in pairs]))
        chosen = [(worst, worst), *rng.integers(len(pairs), size=(60, 2))]
        both = (zip(pairs[i], pairs[j], strict=True) for i, j in chosen)
        twice = [[np.outer(first, second) for first, second in one] for one in both]
        compare(twice, found.lower, found.epsilon, target, hidden=0.03)


def test_the_lower_end_of_a_fixed_size_is_of_a_pair_that_is_attained():
    """Composed, the curve costs more than the pair that attains it: the lower end is the pair's."""
    pair, attained = (
        pld.epsilon([Release(one, 1000)], delta=1e-5)
        for one in (WithoutReplacementGaussian(0.55, 0.01), SampledGaussian(0.55, 0.01))
    )
    assert pair.lower == pytest.approx(attained.lower, rel=1e-3)
    assert pair.lower <= attained.epsilon
    assert 1.1 * attained.epsilon < pair.epsilon < 1.13 * attained.epsilon
