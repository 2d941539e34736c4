"""The histogram of a summed loss: against closed forms, simulation and the certified pair."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpkit.course.explorers.losses_add_up import LossesAddUp, bell_epsilon, summed
from dpkit.privacy import Gaussian, Release, SampledGaussian, gdp


def test_the_sum_of_unsampled_steps_is_normal():
    total = summed(SampledGaussian(8.0, 1.0), 40)
    mean, deviation = 40 / (2 * 64), math.sqrt(40) / 8
    assert total.mean == pytest.approx(mean, rel=1e-4)
    assert total.deviation == pytest.approx(deviation, rel=1e-4)
    width = total.losses[1] - total.losses[0]
    density = norm.pdf(total.losses, mean, deviation)
    assert total.masses / width == pytest.approx(density, abs=1e-4)


def test_the_sum_of_sampled_steps_is_that_of_drawn_losses():
    """Fails by chance with probability below 1e-6: five standard errors of 200,000 sums."""
    noise, rate, steps, draws = 1.0, 0.1, 10, 200_000
    total = summed(SampledGaussian(noise, rate), steps)
    rng = np.random.default_rng(0)
    x = (rng.random((draws, steps)) < rate) + noise * rng.standard_normal((draws, steps))
    losses = np.log1p(rate * np.expm1((2 * x - 1) / (2 * noise**2))).sum(axis=1)
    for at in (-0.5, 0.0, 0.5, 1.0, 2.0):
        share = total.masses[total.losses <= at].sum()
        error = math.sqrt(share * (1 - share) / draws)
        assert np.mean(losses <= at) == pytest.approx(share, abs=5 * error + 1e-3)


def test_delta_of_the_histogram_is_near_the_one_that_is_certified():
    found = LossesAddUp.compute(steps=100.0, noise_multiplier=1.0, sample_rate=0.01, delta=1e-5)
    total, epsilon = found["sum"], found["pair"][1]
    delta = total.masses @ np.maximum(-np.expm1(epsilon - total.losses), 0)
    assert delta == pytest.approx(1e-5, rel=0.02)
    assert found["beyond"] > delta


def test_the_bell_is_exact_where_the_loss_is_normal():
    noise, steps, delta = 20.0, 50, 1e-5
    mean, deviation = steps / (2 * noise**2), math.sqrt(steps) / noise
    exact = gdp.epsilon([Release(Gaussian(noise), steps)], delta=delta).epsilon
    assert bell_epsilon(mean, deviation, delta) == pytest.approx(exact, rel=1e-9)


def test_a_bell_that_is_too_small_is_said_to_be():
    explorer = LossesAddUp()
    explorer.setting.value = "a bell that is wrong"
    assert explorer.result["by_bell"] < explorer.result["pair"][0]
    assert "too small" in explorer.sentence.value
