"""One run as its batches are drawn: closed forms, and what must not cost less than what."""

import math

import pytest

from dpkit.privacy import Gaussian, Release, as_drawn, gdp


def test_batches_that_are_large_enough_cost_what_poisson_batches_cost():
    run = as_drawn.DrawnRun(1.0, 256, 60_000, 10_000)
    plain, padded = as_drawn.poisson(run, delta=1e-5), as_drawn.truncated(run, delta=1e-5)
    assert plain.epsilon <= padded.epsilon <= plain.epsilon * 1.002
    assert padded.lower <= plain.lower * 1.001
    size = as_drawn.largest_batch(run, delta=1e-5)
    assert as_drawn.truncated(run, delta=1e-5, largest=size) == padded
    tight = as_drawn.truncated(run, delta=1e-5, largest=300)
    assert plain.epsilon * 1.002 < tight.epsilon < math.inf


@pytest.mark.parametrize("passes", [1, 7, 300])
@pytest.mark.parametrize("noise", [0.8, 5.0, 60.0])
def test_one_batch_a_pass_is_a_gaussian_each(noise: float, passes: int):
    """In closed form: the whole data in every batch, a record moved by 2C."""
    found = as_drawn.shuffled(as_drawn.DrawnRun(noise, 50, 50, passes), delta=1e-5)
    exact = gdp.epsilon([Release(Gaussian(noise, "replace-one"), passes)], delta=1e-5).epsilon
    assert found.lower <= exact <= found.epsilon
    assert found.lower >= 0.999 * exact - 1e-3


@pytest.mark.parametrize("way", [as_drawn.shuffled, as_drawn.balls_and_bins])
def test_a_begun_pass_costs_more_than_none_and_at_most_a_whole_one(way):
    one, begun, two = (way(as_drawn.DrawnRun(2.0, 10, 100, n), delta=1e-5) for n in (10, 14, 20))
    assert one.epsilon < begun.epsilon <= two.epsilon * 1.001
    assert one.lower <= begun.lower * 1.001 <= two.lower * 1.002
    assert way(as_drawn.DrawnRun(2.0, 10, 100, 0), delta=1e-5).epsilon == 0
