"""Two ways to draw a pass: what is drawn, and what is proven of each."""

import numpy as np
import pytest

from dpkit.course.explorers import shuffled_or_poisson
from dpkit.course.explorers.shuffled_or_poisson import KINDS, ShuffledOrPoisson, draw
from dpkit.privacy import Release, SampledGaussian, pld, shuffled

VALUES = {"noise_multiplier": 0.5, "batches": 100.0, "seed": 4, "delta": 1e-5}


def test_a_shuffled_record_is_in_one_batch_and_moves_it_twice_as_far():
    for seed in range(20):
        found = draw("shuffled", 1e-6, 50, seed)
        assert found.holding.size == 1
        assert found.sums[found.holding[0]] == pytest.approx(2, abs=1e-4)
        assert np.delete(found.sums, found.holding) == pytest.approx(0, abs=1e-4)


def test_a_record_drawn_by_chance_is_in_as_many_as_it_falls():
    """Fails by chance with probability below 1e-6: five standard errors of 2,000 passes."""
    counts = [draw("Poisson", 1.0, 50, seed).holding.size for seed in range(2_000)]
    assert np.mean(counts) == pytest.approx(1, abs=5 / np.sqrt(2_000))
    assert 0 in counts
    assert 2 in counts


def test_how_often_the_largest_sum_is_the_records():
    """Fails by chance with probability below 1e-6: five standard errors of 4,000 passes."""
    drawn = [draw("shuffled", 0.7, 30, seed) for seed in range(4_000)]
    share = np.mean([int(np.argmax(one.sums)) == one.holding[0] for one in drawn])
    exact = shuffled_or_poisson.largest_is_the_records(0.7, 30)
    assert share == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / 4_000))
    assert shuffled_or_poisson.largest_is_the_records(1e3, 2) == pytest.approx(0.5, abs=1e-3)


def test_shuffled_batches_cost_more_than_is_charged_by_chance():
    found = ShuffledOrPoisson.compute(**VALUES)
    low, high = found["shuffled"]
    assert low == shuffled.at_least(0.5, batches=100, delta=1e-5)
    assert found["poisson"][1] < low <= high
    assert set(found["drawn"]) == set(KINDS)


def test_a_pass_by_chance_has_as_many_steps_as_batches():
    pair = pld.epsilon([Release(SampledGaussian(0.5, 0.01), 100)], delta=1e-5)
    assert ShuffledOrPoisson.compute(**VALUES)["poisson"] == (pair.lower, pair.epsilon)
