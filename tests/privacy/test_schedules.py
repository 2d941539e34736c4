"""Schedules against their formulas, and the ledger of a noise that changes."""

import math

import numpy as np
import pytest

from dpkit.privacy import Release, SampledGaussian, Unsupported, rdp
from dpkit.privacy.sampling import PoissonSampling, mechanism
from dpkit.privacy.schedules import (
    Constant,
    ExponentialDecay,
    Linear,
    StepDecay,
    TimeDecay,
    noise_ledger,
    values,
)

NAN, INF = float("nan"), float("inf")
STEPS = np.arange(40)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Constant(3.0), np.full(40, 3.0)),
        (Linear(1.0, 0.5, over=10), np.maximum(1 - STEPS / 20, 0.5)),
        (ExponentialDecay(2.0, 0.1), 2 * np.exp(-STEPS / 10)),
        (TimeDecay(2.0, 0.5), 2 / (1 + STEPS / 2)),
        (StepDecay(8.0, 0.5, every=10), np.repeat([8.0, 4.0, 2.0, 1.0], 10)),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_values_are_those_of_the_formula(schedule, expected):
    found = values(schedule, steps=40)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert found.tolist() == [schedule(step) for step in range(40)]


def test_values_of_no_step_and_of_bad_steps():
    assert values(Constant(1.0), steps=0).shape == (0,)
    assert values(Linear(1.0, 0.0, over=20_000), steps=20_001)[-1] == 0.0
    for steps in (-1, 2.5, NAN):
        with pytest.raises(ValueError, match="steps must be an integer >= 0"):
            values(Constant(1.0), steps=steps)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Constant(NAN), "value must be a finite number, got nan"),
        (lambda: Constant(INF), "value must be a finite number, got inf"),
        (lambda: Linear(NAN, 1.0, 5), "start must be a finite number, got nan"),
        (lambda: Linear(1.0, NAN, 5), "end must be a finite number, got nan"),
        (lambda: Linear(1.0, 1.0, NAN), "over must be >= 1"),
        (lambda: ExponentialDecay(NAN, 0.1), "start must be a finite number > 0, got nan"),
        (lambda: ExponentialDecay(1.0, NAN), "rate must be a finite number >= 0, got nan"),
        (lambda: ExponentialDecay(1.0, -0.1), "rate must be"),
        (lambda: TimeDecay(0.0, 0.1), "start must be a finite number > 0"),
        (lambda: TimeDecay(1.0, NAN), "rate must be"),
        (lambda: StepDecay(NAN, 0.5, 10), "start must be"),
        (lambda: StepDecay(1.0, NAN, 10), "factor must be"),
        (lambda: StepDecay(1.0, 1.5, 10), "factor must lie in"),
        (lambda: StepDecay(1.0, 0.5, 0), "every must be an integer >= 1"),
        (lambda: StepDecay(1.0, 0.5, NAN), "every must be an integer >= 1"),
    ],
)
def test_bad_schedules_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def sampled(noise):
    return SampledGaussian(noise, 0.01)


def test_equal_noises_become_one_release():
    ledger = noise_ledger(lambda t: 1.0 if 10 <= t < 25 else 2.0, steps=30, release=sampled)
    assert ledger == [Release(sampled(2.0), 15), Release(sampled(1.0), 15)]
    assert noise_ledger(Constant(1.5), steps=0, release=sampled) == []
    assert noise_ledger(Constant(1.5), steps=10**5, release=sampled) == [
        Release(sampled(1.5), 10**5)
    ]


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


def test_the_ledger_takes_any_sampling():
    def release(noise):
        return mechanism(PoissonSampling(600), noise_multiplier=noise, public_size=60_000)

    stepwise = noise_ledger(StepDecay(2.0, 0.5, every=100), steps=200, release=release)
    assert stepwise == [Release(sampled(2.0), 100), Release(sampled(1.0), 100)]
    least = rdp.epsilon([Release(sampled(2.0), 200)], delta=1e-5).epsilon
    most = rdp.epsilon([Release(sampled(1.0), 200)], delta=1e-5).epsilon
    assert least < rdp.epsilon(stepwise, delta=1e-5).epsilon < most


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (Linear(2.0, 0.0, over=10), "step 10 .*noise_multiplier must be a finite number > 0"),
        (lambda step: NAN if step == 3 else 1.0, "step 3 .* got nan"),
        (lambda step: INF if step == 4 else 1.0, "step 4 .* got inf"),
        (ExponentialDecay(1.0, 10.0), r"step 3 .*\[1e-9, 1e13\]"),  # e^-30 is no noise
    ],
)
def test_a_noise_that_is_none_is_refused_with_its_step(schedule, words):
    with pytest.raises(ValueError, match=words):
        noise_ledger(schedule, steps=20, release=sampled)


def test_a_noise_is_refused_whatever_prices_it_and_what_has_no_price_stays_unsupported():
    def release(noise):
        raise Unsupported("no price is known of this")

    with pytest.raises(ValueError, match="step 3 of the schedule: noise_multiplier must be"):
        noise_ledger(Linear(3.0, 0.0, over=3), steps=9, release=lambda _: sampled(1.0))
    with pytest.raises(Unsupported, match=r"step 0 .* no price is known"):
        noise_ledger(Constant(1.0), steps=1, release=release)
