"""Batches as they are drawn, against every pair of small data sets with all their batches."""

import itertools
import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr

from dpkit.privacy import Gaussian, Release, as_drawn, gdp

SHUFFLED = [(4, 2), (5, 2), (6, 2), (6, 3), (3, 1), (4, 3), (5, 3)]  # records, batch size
TRUNCATED = [(4, 1, 2), (4, 2, 2), (5, 2, 3), (5, 1, 1), (6, 3, 4), (6, 2, 5)]  # and the largest


def masses(sums: Counter, noise: float, cells: int, reach: int) -> np.ndarray:
    """Of noisy vectors of sums in a product of cells: merging outputs only hides."""
    edges = np.linspace(-reach - 6 * noise, reach + 6 * noise, cells + 1)[1:-1]

    @cache
    def line(total: int) -> np.ndarray:
        return np.diff(np.concatenate([[0.0], ndtr((edges - total) / noise), [1.0]]))

    found: np.ndarray | float = 0.0
    for vector, share in sums.items():
        product = line(vector[0])
        for total in vector[1:]:
            product = np.multiply.outer(product, line(total))
        found = found + share * product
    return np.asarray(found)


def delta_of(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@cache
def shuffled_sums(records: tuple[int, ...], batch: int) -> Counter:
    """The vector of the sums of one pass, with its probability, for every order of the records."""
    found, batches = Counter(), len(records) // batch
    orders = list(itertools.permutations(records))
    for order in orders:
        vector = tuple(sum(order[i * batch : (i + 1) * batch]) for i in range(batches))
        found[vector] += 1 / len(orders)
    return found


@pytest.mark.parametrize("delta", [0.1, 1e-2, 1e-4])
@pytest.mark.parametrize("noise", [0.7, 1.5, 4.0])
@pytest.mark.parametrize(("records", "batch"), SHUFFLED)
def test_one_pass_of_shuffled_batches(records: int, batch: int, noise: float, delta: float):
    batches = records // batch
    found = as_drawn.shuffled(
        noise, batch_size=batch, public_size=records, steps=batches, delta=delta
    )
    assert found.adjacency == "replace-one"
    cells = {1: 300, 2: 100, 3: 60}[batches]
    worst = 0.0
    for rest in itertools.combinations_with_replacement((-1, 0, 1), records - 1):
        p, q = (masses(shuffled_sums((*rest, one), batch), noise, cells, batch) for one in (-1, 1))
        assert delta_of(p, q, found.epsilon) <= delta
        assert delta_of(q, p, found.epsilon) <= delta
        worst = max(worst, delta_of(q, p, max(found.lower - 0.15, 0)))
    if found.lower > 0.15:
        assert worst >= delta  # some pair has what the lower end says, but for the cells' width


@cache
def assigned_sums(records: tuple[int, ...], bins: int) -> Counter:
    """The vector of the bins' sums, with its probability, for every assignment of the records."""
    found = Counter()
    for assignment in itertools.product(range(bins), repeat=len(records)):
        vector = [0] * bins
        for one, at in zip(records, assignment, strict=True):
            vector[at] += one
        found[tuple(vector)] += bins ** -len(records)
    return found


@pytest.mark.parametrize("delta", [0.1, 1e-2, 1e-4])
@pytest.mark.parametrize("noise", [0.7, 1.5, 4.0])
@pytest.mark.parametrize(("records", "batch"), [(4, 2), (5, 2), (6, 3), (6, 2), (5, 5)])
def test_one_pass_of_balls_and_bins(records: int, batch: int, noise: float, delta: float):
    bins = records // batch
    found = as_drawn.balls_and_bins(
        noise, batch_size=batch, public_size=records, steps=bins, delta=delta
    )
    assert found.adjacency == "add-remove"
    cells, worst = {1: 300, 2: 100, 3: 60}[bins], 0.0
    for rest in itertools.combinations_with_replacement((-1, 0, 1), records - 1):
        p, q = (
            masses(assigned_sums(data, bins), noise, cells, records) for data in ((*rest, 1), rest)
        )
        assert delta_of(p, q, found.epsilon) <= delta
        assert delta_of(q, p, found.epsilon) <= delta
        worst = max(worst, delta_of(p, q, max(found.lower - 0.2, 0)))
    if found.lower > 0.2:
        assert worst >= delta


@cache
def truncated_sums(records: tuple[int, ...], rate: float, largest: int) -> Counter:
    found = Counter()
    for size in range(len(records) + 1):
        chance = rate**size * (1 - rate) ** (len(records) - size)
        for drawn in itertools.combinations(records, size):
            kept = list(itertools.combinations(drawn, min(size, largest)))
            for part in kept:
                found[(sum(part),)] += chance / len(kept)
    return found


@pytest.mark.parametrize("delta", [0.3, 0.05])
@pytest.mark.parametrize("noise", [0.7, 1.5, 4.0])
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(("records", "batch", "largest"), TRUNCATED)
def test_truncated_batches(
    records: int, batch: int, largest: int, steps: int, noise: float, delta: float
):
    found = as_drawn.truncated(
        noise, batch_size=batch, public_size=records, steps=steps, delta=delta, largest=largest
    )
    rate, worst = batch / records, 0.0
    for rest in itertools.combinations_with_replacement((-1, 0, 1), records - 1):
        for one in (-1, 1):
            pair = [
                masses(truncated_sums(data, rate, largest), noise, 150, largest)
                for data in ((*rest, one), rest)
            ]
            if steps == 2:
                pair = [np.multiply.outer(each, each) for each in pair]
            for p, q in (pair, pair[::-1]):
                if math.isfinite(found.epsilon):
                    assert delta_of(p, q, found.epsilon) <= delta
                worst = max(worst, delta_of(p, q, max(found.lower - 0.15, 0)))
    if found.lower > 0.15:
        assert worst >= delta


def test_batches_that_are_large_enough_cost_what_poisson_batches_cost():
    run = {"batch_size": 256, "public_size": 60_000, "steps": 10_000, "delta": 1e-5}
    plain, padded = as_drawn.poisson(1.0, **run), as_drawn.truncated(1.0, **run)
    assert plain.epsilon <= padded.epsilon <= plain.epsilon * 1.002
    assert padded.lower <= plain.lower
    tight = as_drawn.truncated(1.0, **run, largest=300)
    assert tight.epsilon == math.inf  # more batches are too large than delta allows for


@pytest.mark.parametrize("passes", [1, 7, 300])
@pytest.mark.parametrize("noise", [0.8, 5.0, 60.0])
def test_one_batch_a_pass_is_a_gaussian_each(noise: float, passes: int):
    """In closed form: the whole data in every batch, a record moved by 2C."""
    run = {"batch_size": 50, "public_size": 50, "steps": passes, "delta": 1e-5}
    found = as_drawn.shuffled(noise, **run)
    exact = gdp.epsilon([Release(Gaussian(noise, "replace-one"), passes)], delta=1e-5).epsilon
    assert found.lower <= exact <= found.epsilon
    assert found.lower >= 0.999 * exact - 1e-3


@pytest.mark.parametrize("way", [as_drawn.shuffled, as_drawn.balls_and_bins])
def test_a_begun_pass_is_charged_whole_and_not_counted_below(way):
    run = {"batch_size": 10, "public_size": 100, "delta": 1e-5}
    one, begun, two = (way(2.0, **run, steps=steps) for steps in (10, 11, 20))
    assert begun.epsilon == pytest.approx(two.epsilon)
    assert one.lower <= begun.lower <= two.lower
    assert way(2.0, **run, steps=0).epsilon == 0


@pytest.mark.parametrize(
    "way", [as_drawn.poisson, as_drawn.fixed, as_drawn.shuffled, as_drawn.balls_and_bins]
)
def test_a_batch_larger_than_the_data_is_refused(way):
    with pytest.raises(ValueError, match=r"expected_batch_size must be <= public_size"):
        way(1.0, batch_size=101, public_size=100, steps=1, delta=1e-5)
