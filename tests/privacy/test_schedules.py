"""Schedules against their formulas, and the ledger of a noise that changes."""

import math

import numpy as np
import pytest

from dpkit.privacy import Release, SampledGaussian, schedules
from dpkit.privacy.schedules import Constant, ExponentialDecay, Linear, noise_ledger, values

NAN, INF = float("nan"), float("inf")
STEPS = np.arange(40)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Constant(3.0), np.full(40, 3.0)),
        (Linear(1.0, 0.5, over=10), np.maximum(1 - STEPS / 20, 0.5)),
        (ExponentialDecay(2.0, 0.1), 2 * np.exp(-STEPS / 10)),
        (schedules.TimeDecay(2.0, 0.5), 2 / (1 + STEPS / 2)),
        (schedules.StepDecay(8.0, 0.5, every=10), np.repeat([8.0, 4.0, 2.0, 1.0], 10)),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_values_are_those_of_the_formula(schedule, expected):
    found = values(schedule, steps=40)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert found.tolist() == [schedule(step) for step in range(40)]


def test_values_of_no_step_and_of_the_last():
    assert values(Constant(1.0), steps=0).shape == (0,)
    assert values(Linear(1.0, 0.0, over=20_000), steps=20_001)[-1] == 0.0


def sampled(noise):
    return SampledGaussian(noise, 0.01)


def test_equal_noises_become_one_release():
    ledger = noise_ledger(lambda t: 1.0 if 10 <= t < 25 else 2.0, steps=30, release=sampled)
    assert ledger == [Release(sampled(2.0), 15), Release(sampled(1.0), 15)]
    assert noise_ledger(Constant(1.5), steps=0, release=sampled) == []
    many = noise_ledger(Constant(1.5), steps=10**5, release=sampled)
    assert many == [Release(sampled(1.5), 10**5)]


def test_a_changing_noise_costs_the_sum_of_its_steps():
    """RDP adds up: order 2 of each step in closed form, log(1 + q^2 (e^(1 / z^2) - 1))."""
    schedule = ExponentialDecay(3.0, 0.02)
    ledger = noise_ledger(schedule, steps=50, release=sampled)
    assert len(ledger) == 50
    found = sum(count * mechanism.rdp([2])[0] for mechanism, count in ledger)
    expected = math.fsum(
        math.log1p(1e-4 * math.expm1(1 / (3 * math.exp(-0.02 * t)) ** 2)) for t in range(50)
    )
    assert found == pytest.approx(expected, rel=1e-10)
