"""The paper's accountant is what the paper prints: high precision, limits and inverses."""

import math
from itertools import accumulate, count
from typing import Any

import mpmath
import pytest
from refusals import refused

from dpkit.papers.rdp_gan import theorems
from dpkit.privacy import RandomizedResponse
from dpkit.privacy.schedules import ExponentialDecay

ADULT: dict[str, Any] = {"sample_rate": 64 / 20_000, "sensitivity": 20 / 64}
STEPS: dict[str, Any] = {"discriminator_steps": 5, "delta": 1e-5}
SETTING: dict[str, Any] = {**ADULT, **STEPS}
UNIT: dict[str, Any] = {**STEPS, "sample_rate": 1.0, "sensitivity": 1.0}


@pytest.mark.parametrize("order", [1.5, 2, 3, 11, 64])
@pytest.mark.parametrize("noise_std", [0.3, 1.0, 10.0])
def test_theorem_1_is_the_first_term_of_the_step_before_it(order: float, noise_std: float):
    """Step (c) of eq. 26: a / (a - 1) q (e^x - 1), x = dS^2 a / (2 s^2)."""
    found = theorems.theorem_1(order, noise_std=noise_std, **ADULT)
    with mpmath.workdps(30):
        q, ds = mpmath.mpf(64) / 20_000, mpmath.mpf(20) / 64
        a, s = mpmath.mpf(order), mpmath.mpf(noise_std)

        def step_c(scale: Any) -> Any:
            return a / (a - 1) * q * mpmath.expm1(scale * ds**2 * a / (2 * s**2))

        first = mpmath.diff(step_c, 0)
    assert found == pytest.approx(float(first), rel=1e-12)
    assert found < step_c(mpmath.mpf(1))  # so the last inequality of the proof points the other way


def test_theorems_2_to_4_in_high_precision():
    with mpmath.workdps(30):
        renyi = mpmath.mpf(64) / 20_000 * 4 / 2 * (mpmath.mpf(20) / 64) ** 2 / 100
        each = 4 * renyi * mpmath.sqrt(2 * 5 * mpmath.log(10**5))
    assert theorems.theorem_2(noise_std=10.0, **SETTING) == pytest.approx(float(each), rel=1e-12)
    total = theorems.theorem_4(generator_steps=1000, noise_std=10.0, **SETTING)
    assert total == pytest.approx(float(1000 * each), rel=1e-12)
    assert theorems.eq_15(float(renyi), **STEPS) == pytest.approx(float(each), rel=1e-12)
    assert theorems.sensitivity(20, batch_size=64) == ADULT["sensitivity"]
    by_order = {a: theorems.theorem_2(a, noise_std=10.0, **SETTING) for a in (1.999, 2, 2.001, 6)}
    assert by_order[6] / by_order[2] == pytest.approx((36 / 5) / 4)
    assert min(by_order, key=by_order.__getitem__) == theorems.BEST_ORDER


def test_eq_28_is_true_of_pure_dp_and_not_of_renyi_dp():
    """Mironov 2017, Lemma 1, by a mechanism of pure DP; the Gaussian has no pure epsilon."""
    for epsilon in (0.01, 0.1, 1.0):
        pure = RandomizedResponse(epsilon)
        for order in (2, 8):
            exact = 3 * pure.rdp([order])[0]
            assert exact <= theorems.lemma_1_divergence(epsilon, order=order, releases=3)
    renyi = 2 / (2 * 100.0**2)  # of a Gaussian release at noise 100, order 2
    assert 5 * renyi > 500 * theorems.lemma_1_divergence(renyi, order=2, releases=5)
    bounded = 2 * 0.25  # from eps = 1 / (2 a) on, eq. 28 is above the sum
    assert theorems.lemma_1_divergence(bounded, order=2, releases=5) >= 5 * bounded


def test_the_condition_of_theorem_2():
    limit = math.sqrt(math.log(1e5) / 5)
    inside, outside = 0.999 * limit, 1.001 * limit
    assert theorems.most_steps(1.0, delta=1e-5) == pytest.approx(math.log(1e5))
    assert theorems.most_steps(0.0, delta=1e-5) == math.inf
    noise = (2 / inside) ** 0.5  # eps = 2 / s^2 there
    assert theorems.theorem_2(noise_std=noise, **UNIT) > 0
    with pytest.raises(ValueError, match=r"Theorem 2 asks for log\(1 / delta\) >= eps\^2 n_d"):
        theorems.theorem_2(noise_std=(2 / outside) ** 0.5, **UNIT)


def test_iterations_within_a_total():
    each = theorems.theorem_2(noise_std=10.0, **SETTING)
    endless = (10.0 for _ in count())
    assert theorems.iterations_within(0.5, endless, **SETTING) == math.floor(0.5 / each)
    assert theorems.iterations_within(0.5, [10.0] * 7, **SETTING) == 7
    assert theorems.iterations_within(each / 2, [10.0], **SETTING) == 0
    # of a schedule, the most that fit
    schedule = ExponentialDecay(10.0, 0.01)
    costs = (theorems.theorem_2(noise_std=schedule(t), **SETTING) for t in range(400))
    found = theorems.iterations_within(0.5, map(schedule, count()), **SETTING)
    assert found == sum(total <= 0.5 for total in accumulate(costs))
    # one outside the theorem ends the count
    assert theorems.iterations_within(1e9, [10.0, 0.5, 10.0], **UNIT) == 1


def test_the_moments_accountant_as_the_paper_writes_it():
    found = theorems.moments_accountant_epsilon(10.0, sample_rate=0.0032, **STEPS)
    assert found == pytest.approx(2 * 0.0032 * math.sqrt(5 * math.log(1e5)) / 10)
    half = theorems.moments_accountant_epsilon(20.0, sample_rate=0.0032, **STEPS)
    assert found / half == pytest.approx(2)  # order 1 / noise, theirs 1 / noise^2
    ours = [theorems.theorem_2(noise_std=noise, **SETTING) for noise in (10.0, 20.0)]
    assert ours[0] / ours[1] == pytest.approx(4)


NAN = math.nan
test_bad_input_is_named = refused(
    (lambda: theorems.sensitivity(NAN, batch_size=64), "largest_loss must"),
    (lambda: theorems.sensitivity(20, batch_size=0), "batch_size must"),
    (lambda: theorems.theorem_1(1, noise_std=1.0, **ADULT), "order must"),
    (lambda: theorems.theorem_1(NAN, noise_std=1.0, **ADULT), "order must"),
    (lambda: theorems.theorem_1(2, noise_std=NAN, **ADULT), "noise_std must"),
    (lambda: theorems.theorem_1(2, noise_std=1, sample_rate=3, sensitivity=1), "sample_rate must"),
    (
        lambda: theorems.theorem_1(2, noise_std=1, sample_rate=1, sensitivity=NAN),
        "sensitivity must",
    ),
    (lambda: theorems.theorem_2(noise_std=9.0, **{**SETTING, "delta": NAN}), "delta must"),
    (lambda: theorems.eq_15(1.0, discriminator_steps=0, delta=1e-5), "discriminator_steps must"),
    (
        lambda: theorems.theorem_4(noise_std=9.0, generator_steps=-1, **SETTING),
        "generator_steps must",
    ),
    (lambda: theorems.iterations_within(NAN, [9.0], **SETTING), "target_epsilon must"),
    (lambda: theorems.iterations_within(1.0, [NAN], **SETTING), "noise_std must"),
    (lambda: theorems.eq_15(NAN, **STEPS), "renyi_epsilon must"),
    (lambda: theorems.most_steps(NAN, delta=1e-5), "renyi_epsilon must"),
    (lambda: theorems.lemma_1_divergence(NAN, order=2, releases=1), "renyi_epsilon must"),
    (lambda: theorems.moments_accountant_epsilon(NAN, sample_rate=0.1, **STEPS), "noise_std must"),
)
