"""RDP-GAN's repaired counterparts: what they release, what that costs, and what ends a run.

Costs are asked of this kit and of dp-accounting's PLD, composed release by release.
"""

from collections import Counter
from dataclasses import replace
from math import exp, log, nan

import pytest
import torch
from refusals import refused
from truths import by_dp_accounting

from dpkit.papers.rdp_gan import repaired
from dpkit.papers.rdp_gan.settings import SETTINGS, GradientNoise, ParameterNoise, Tuning
from dpkit.privacy import Gaussian, SampledGaussian, pld
from dpkit.privacy.sampling import PoissonSampling, ShuffledBatches
from dpkit.privacy.schedules import Constant, ExponentialDecay

CPU = torch.device("cpu")
SIZE, ITERATIONS = 1_437, 8
RATES = {"constant": None, "time": 0.3, "exp": 0.2, "step": 0.5}
TUNING = Tuning(0.5, 0.0, every=2, count_noise=20.0)
REPAIRED = replace(
    SETTINGS,
    noise=GradientNoise(ExponentialDecay(2.0, 0.1), 0.5),
    sampling=PoissonSampling(100),
    discriminator_steps=3,
    iterations=6,
    target_epsilon=5.0,
)
SPENT = pld.epsilon(REPAIRED.ledger(public_size=2_000), delta=1e-5).epsilon
PAIRS = pytest.mark.slow("a schedule that misses its target at this epsilon alone")


def made(name, epsilon, *, iterations=ITERATIONS, **changes):
    own = {"decay_name": name, "rate": RATES.get(name), "iterations": iterations, **changes}
    return repaired.repaired("digits", target_epsilon=epsilon, public_size=SIZE, **own)


# What a run releases.


@pytest.mark.parametrize("iterations", [None, 0, 1, 4])
def test_a_ledger_has_n_d_releases_of_each_iterations_own_noise(iterations):
    found = Counter()
    ledger = REPAIRED.ledger(public_size=2_000, iterations=iterations)
    for release, count in ledger:
        assert isinstance(release, SampledGaussian)
        assert (release.sample_rate, release.adjacency) == (0.05, "add-remove")
        found[release.noise_multiplier] += count
    wanted = [2 * exp(-0.1 * t) for t in range(6 if iterations is None else iterations)]
    assert sorted(found) == pytest.approx(sorted(wanted), rel=1e-14)
    assert set(found.values()) <= {3}


@pytest.mark.parametrize(
    ("size", "changed"),
    [
        *((2_000, {"target_epsilon": SPENT * (1 - 1e-9)}), (2_000, {"iterations": 7})),
        *((2_000, {"discriminator_steps": 4}), (2_000, {"target_delta": 9e-6})),
        *((2_000, {"target_epsilon": nan}), (2_000, {"sampling": PoissonSampling(101)})),
        (2_000, {"noise": GradientNoise(ExponentialDecay(1.99, 0.1), 0.5)}),
        (1_999, {}),
    ],
)
def test_steps_are_allowed_up_to_the_target_and_not_beyond(size, changed):
    at = replace(REPAIRED, target_epsilon=SPENT)
    assert at.steps_allowed(public_size=2_000) == 18
    with pytest.raises(ValueError, match="raise the noise"):
        replace(at, **changed).steps_allowed(public_size=size)


SILENT, TUNED = GradientNoise(Constant(0.0), 0.5), replace(REPAIRED, tuning=TUNING)

test_ledgers_and_bounds_that_would_not_hold_are_refused = refused(
    (lambda: TUNED.ledger(public_size=2_000), "filter"),
    (lambda: TUNED.steps_allowed(public_size=2_000), "filter"),
    (lambda: replace(REPAIRED, sampling=ShuffledBatches(9)).ledger(public_size=2_000), "shuffled"),
    (lambda: replace(REPAIRED, noise=SILENT).ledger(public_size=99), "noise_multiplier must be"),
    (lambda: GradientNoise(Constant(1.0), nan), "max_grad_norm"),
    (lambda: ParameterNoise(Constant(1.0), nan), "norm"),
)


# Their calibration.


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        pytest.param(name, epsilon, marks=() if (i + j) % 2 else PAIRS)
        for i, name in enumerate(RATES)
        for j, epsilon in enumerate((0.5, 5.0))
    ],
)
def test_each_schedule_ends_at_its_target_here_and_by_a_peer(name, epsilon):
    iterations = 120 if name == "step" else ITERATIONS  # so that its noise falls once
    settings = made(name, epsilon, iterations=iterations)
    found = pld.epsilon(settings.ledger(public_size=SIZE), delta=1e-5)
    assert found.epsilon <= epsilon
    assert found.epsilon >= epsilon * (1 - 3e-3)
    assert settings.steps_allowed(public_size=SIZE) == iterations * 5
    noises = [settings.noise.schedule(t) for t in range(iterations)]
    assert (len(set(noises)) > 1) == (name != "constant")
    batch = 256 if epsilon >= 2 else 128
    releases = {noise: 5 * count for noise, count in Counter(noises).items()}
    below, above = by_dp_accounting(releases, batch / SIZE, delta=1e-5, width=1e-3)
    assert below <= epsilon
    assert above == pytest.approx(epsilon, rel=5e-3)


@pytest.mark.parametrize("rate", [0.0, 0.04, 0.3])
def test_schedules_are_the_papers_equations(rate):
    """Eqs. 19 to 21; t / t* of eq. 21 in whole steps, as "every few iterations" says."""
    for t in (0, 1, 99, 100, 101, 250):
        assert repaired.decay("time", rate)(7.0)(t) == pytest.approx(7 / (1 + rate * t), rel=1e-14)
        assert repaired.decay("exp", rate)(7.0)(t) == pytest.approx(7 * exp(-rate * t), rel=1e-14)
        assert repaired.decay("constant", rate)(7.0)(t) == 7.0
    factor = 1 - rate
    found = [repaired.decay("step", factor)(7.0)(t) for t in (0, 99, 100, 199, 200)]
    assert found == pytest.approx([7, 7, 7 * factor, 7 * factor, 7 * factor**2], rel=1e-14)


def test_rates_are_those_of_the_tables_captions():
    assert repaired.RATES == {
        "digits": {"time": 0.05, "step": 0.6, "exp": 0.01, "ant": 0.8},
        "census": {"time": 0.04, "step": 0.5, "exp": 0.01, "ant": 0.7},
    }
    for records, rates in repaired.RATES.items():
        for name in ("time", "exp", "ant"):
            asked = {"target_epsilon": 5.0, "public_size": SIZE, "iterations": 2}
            settings = repaired.repaired(records, decay_name=name, **asked)
            own = settings.tuning.factor if name == "ant" else settings.noise.schedule.rate
            assert own == rates[name]


def test_what_holds_beside_the_noise():
    """Tuned runs start as constant noise does, and test with noise."""
    low, high = made("constant", 0.5), made("constant", 5.0)
    assert (low.expected_batch_size, high.expected_batch_size) == (128, 256)
    assert made("constant", 5.0, batch_size=64).expected_batch_size == 64
    for settings in (low, high):
        assert isinstance(settings.sampling, PoissonSampling)
        assert settings.target_delta == 1e-5
        rate = settings.discriminator_optimizer.rate
        assert rate(ITERATIONS) == pytest.approx(rate(0) / 10)
    tuned = made("ant", 0.5)
    assert replace(tuned, tuning=None, chosen=low.chosen) == low
    assert "reused" not in low.chosen  # what a setting was not chosen for, its origin says
    assert tuned.chosen.endswith("; reused with a schedule whose decay rate is the paper's")
    assert tuned.tuning.count_noise == pytest.approx(0.01 * SIZE)
    assert tuned.tuning.every == ITERATIONS // 4  # in so short a run; in 1,000 every 50th


test_bad_input_is_refused = refused(
    ({"records": "words"}, "records must be one of"),
    ({"decay_name": "cosine"}, "decay_name must be one of"),
    *(({"target_epsilon": nan}, "target_epsilon"), ({"public_size": 255}, "public_size")),
    *(({"iterations": 0}, "iterations"), ({"decay_name": "exp", "rate": -1.0}, "rate")),
    ({"decay_name": "step", "rate": 1.5}, "factor"),
    *(({"decay_name": "ant", "rate": 0.0}, "factor"), ({"batch_size": 0}, "batch_size")),
    ({"rate": 0.3}, "rate"),
    call=lambda changes: repaired.repaired(
        **{"records": "digits", "target_epsilon": 5.0, "public_size": SIZE, "iterations": 2}
        | changes
    ),
)


# The filter of a tuned run.


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_the_filters_budget_is_worth_the_target_and_no_more(epsilon):
    """By the conversion written out (Balle et al. 2020, Thm 21), at the filter's one order."""
    settings = made("ant", epsilon)
    kept = repaired.filter_for(settings, public_size=SIZE)
    order, budget = kept.order, kept.budget
    worth = budget + log((order - 1) / order) - (log(1e-5) + log(order)) / (order - 1)
    assert epsilon * (1 - 1e-9) <= worth <= epsilon * (1 + 1e-12)
    guarantee = kept.guarantee()
    assert (guarantee.epsilon, guarantee.delta, kept.spent) == (epsilon, 1e-5, 0.0)
    assert guarantee.adjacency == "add-remove"
    again = repaired.filter_for(settings, public_size=SIZE)
    assert (again.order, again.budget) == (order, budget)
    assert again is not kept


def test_the_filters_order_is_chosen_from_the_plan_with_its_tests():
    """No order nearby would take a smaller share of its budget for the plan, tests included."""
    settings = replace(made("ant", 5.0), tuning=Tuning(0.8, 0.0, every=2, count_noise=3.0))
    kept = repaired.filter_for(settings, public_size=SIZE)
    noise, rate = settings.noise.schedule(0), 256 / SIZE

    def share(order):
        plan = ITERATIONS * 5 * SampledGaussian(noise, rate).rdp([order])[0]
        plan += ITERATIONS // 2 * Gaussian(3.0).rdp([order])[0]
        return plan / (5.0 - log((order - 1) / order) + (log(1e-5) + log(order)) / (order - 1))

    for factor in (0.9, 0.97, 1.03, 1.1):
        assert share(kept.order) <= share(1 + (kept.order - 1) * factor) * (1 + 1e-9)
    alone = repaired.filter_for(
        replace(settings, tuning=replace(settings.tuning, every=100)), public_size=SIZE
    )
    assert alone.order != kept.order
