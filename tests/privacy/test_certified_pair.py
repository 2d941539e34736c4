"""The certified pair: the truth lies inside, wherever it is known another way."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from dpkit.privacy import (
    Gaussian,
    NoGuarantee,
    RandomizedResponse,
    Release,
    SampledGaussian,
    WithoutReplacementGaussian,
    calibrate,
    pld,
    rdp,
)
from dpkit.privacy.mechanisms import Unsupported

BOTH = ["add-remove", "replace-one"]


def exact(mechanism, delta: float) -> float:
    """The epsilon of one release from its exact profile."""

    def over(epsilon: float) -> float:
        return float(np.log(mechanism.profile([epsilon]).max() + 1e-320) - math.log(delta))

    if over(0.0) <= 0:
        return 0.0
    high = 1.0
    while over(high) > 0:
        high *= 2
    return brentq(over, 0.0, high, xtol=1e-13, rtol=1e-13)


def holds(found, truth: float, gap: float) -> None:
    assert found.lower <= truth * (1 + 1e-9) + 1e-13
    assert truth <= found.epsilon * (1 + 1e-9) + 1e-13
    assert found.epsilon - found.lower <= gap * found.epsilon


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize(
    ("noise", "count"), [(1.0, 1), (5.0, 100), (80.0, 3000), (0.3, 7), (0.115, 684), (3.0, 10**6)]
)
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.2])
def test_composed_gaussians_are_one_gaussian(adjacency, noise, count, delta):
    found = pld.epsilon([Release(Gaussian(noise, adjacency), count)], delta=delta)
    holds(found, exact(Gaussian(noise / math.sqrt(count), adjacency), delta), 1.5e-3)


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize(
    ("noise", "rate"), [(1.1, 0.01), (0.5, 0.3), (20.0, 0.01), (1.6, 2e-5), (0.02, 0.5)]
)
@pytest.mark.parametrize("delta", [1e-11, 1e-6, 1e-3])
def test_one_release_is_its_profile(adjacency, noise, rate, delta):
    mechanism = SampledGaussian(noise, rate, adjacency)
    found = pld.epsilon([Release(mechanism)], delta=delta)
    holds(found, exact(mechanism, delta), 5e-3)


def binomial_epsilon(one: float, count: int, delta: float) -> float:
    """Randomised response, count times: the loss is (2 K - count) one, K binomial."""
    k = np.arange(count + 1)
    choose = gammaln(count + 1) - gammaln(k + 1) - gammaln(count - k + 1)
    log_p = choose + k * one - count * np.logaddexp(0, one)
    loss = (2 * k - count) * one

    def over(epsilon: float) -> float:
        above = loss > epsilon
        if not above.any():
            return -math.inf
        terms = log_p[above] + np.log(-np.expm1(epsilon - loss[above]))
        return float(logsumexp(terms)) - math.log(delta)

    return brentq(lambda e: max(over(e), -1e9), 0, count * one, xtol=1e-12)


@pytest.mark.parametrize(("one", "count"), [(0.1, 100), (1.0, 30), (0.003, 5000)])
def test_randomised_response_is_binomial(one, count):
    found = pld.epsilon([Release(RandomizedResponse(one), count)], delta=1e-5)
    holds(found, binomial_epsilon(one, count, 1e-5), 1e-3)


# q, noise, steps, delta, and how wide the pair may be
CASES = [
    (0.01, 1.1, 10_000, 1e-5, 1e-3),
    (0.01, 0.5, 1_000, 1e-5, 1e-3),
    (64 / 60_000, 1.0, 60_000, 1e-5, 1e-3),
    (1.0, 1.0, 1, 1e-5, 1e-3),
    (1e-4, 0.3, 1000, 1e-5, 1e-3),
    (0.2, 1.0, 500, 1e-5, 1e-3),
    (0.01, 1.1, 10_000, 1e-12, 1e-3),
    (0.2, 0.5, 1_000, 1e-5, 1e-3),
    (0.01, 20.0, 1, 1e-5, 1e-3),
    (1e-5, 1.0, 10**7, 1e-5, 3e-3),
]


@pytest.mark.parametrize(("rate", "noise", "steps", "delta", "gap"), CASES)
def test_common_and_hard_runs_have_a_narrow_pair(rate, noise, steps, delta, gap):
    ledger = [Release(SampledGaussian(noise, rate), steps)]
    found = pld.epsilon(ledger, delta=delta)
    assert 0 < found.epsilon - found.lower <= gap * found.epsilon
    assert found.epsilon < rdp.epsilon(ledger, delta=delta).epsilon


@pytest.mark.parametrize(("rate", "noise", "steps", "delta", "gap"), CASES[:5])
def test_a_finer_pair_lies_inside_a_coarser_one(rate, noise, steps, delta, gap):
    ledger = [Release(SampledGaussian(noise, rate), steps)]
    wide = pld.epsilon(ledger, delta=delta, gap=0.05)
    fine = pld.epsilon(ledger, delta=delta, gap=1e-4)
    assert wide.lower <= fine.epsilon
    assert fine.lower <= wide.epsilon
    assert fine.epsilon - fine.lower < 2e-4 * fine.epsilon


@pytest.mark.parametrize(("rate", "noise", "steps", "delta", "gap"), CASES[:6])
def test_another_kit_lies_where_it_must(rate, noise, steps, delta, gap):
    """dp-accounting's pessimistic epsilon is above the truth, its optimistic one below."""
    kit = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    found = pld.epsilon([Release(SampledGaussian(noise, rate), steps)], delta=delta)
    for pessimistic in (True, False):
        one = kit.from_gaussian_mechanism(
            noise, sampling_prob=rate, value_discretization_interval=1e-3,
            pessimistic_estimate=pessimistic,
        )  # fmt: skip
        theirs = one.self_compose(steps).get_epsilon_for_delta(delta)
        if pessimistic:
            assert found.lower <= theirs * (1 + 1e-6)
        else:
            assert theirs <= found.epsilon * (1 + 1e-6)


def test_a_thousand_noise_multipliers():
    noises = np.linspace(0.8, 2.0, 1000)
    found = pld.epsilon([Release(SampledGaussian(float(s), 0.01)) for s in noises], delta=1e-5)
    assert found.epsilon - found.lower <= 2e-3 * found.epsilon
    for noise, below in ((0.8, True), (2.0, False)):
        end = pld.epsilon([Release(SampledGaussian(noise, 0.01), 1000)], delta=1e-5)
        assert (found.epsilon < end.lower) is below


def test_gaussians_of_many_noises_are_one():
    noises = np.linspace(5, 40, 60)
    found = pld.epsilon([Release(Gaussian(float(s)), 3) for s in noises], delta=1e-6)
    together = Gaussian(float(1 / np.sqrt((3 / noises**2).sum())))
    holds(found, exact(together, 1e-6), 1.5e-3)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rate=st.floats(-4, 0).map(lambda x: 10**x),
    noise=st.floats(-0.7, 1.5).map(lambda x: 10**x),
    count=st.sampled_from([1, 2, 10, 300, 10_000]),
    delta=st.floats(-12, -1).map(lambda x: 10**x),
    adjacency=st.sampled_from(BOTH),
)
def test_anywhere_the_pair_is_ordered_and_no_worse_than_renyi(rate, noise, count, delta, adjacency):
    ledger = [Release(SampledGaussian(noise, rate, adjacency), count)]
    found = pld.epsilon(ledger, delta=delta)
    assert 0 <= found.lower <= found.epsilon
    assert found.lower <= rdp.epsilon(ledger, delta=delta).epsilon
    assert found.epsilon <= rdp.epsilon(ledger, delta=delta).epsilon * 1.01 + 1e-9


@pytest.mark.parametrize("target", [1e-10, 1e-5, 1e-2])
def test_delta_is_the_inverse_of_epsilon(target):
    ledger = [Release(SampledGaussian(1.1, 0.01), 2000)]
    found = pld.epsilon(ledger, delta=target)
    assert target * 0.97 <= pld.delta(ledger, epsilon=found.lower).delta
    assert pld.delta(ledger, epsilon=found.epsilon).delta <= target * 1.05
    exactly = Gaussian(2.0).profile([3.0]).max()
    delta = pld.delta([Release(Gaussian(8.0), 16)], epsilon=3.0).delta
    assert exactly <= delta <= exactly * 1.01


def test_few_nodes_make_a_wider_pair_never_a_wrong_one(monkeypatch):
    fine = pld.epsilon([Release(SampledGaussian(1.1, 0.01), 10_000)], delta=1e-5)
    monkeypatch.setattr(pld, "MOST_NODES", 2**10)
    wide = pld.epsilon([Release(SampledGaussian(1.1, 0.01), 10_000)], delta=1e-5)
    assert wide.lower <= fine.lower <= fine.epsilon <= wide.epsilon
    assert wide.epsilon - wide.lower > 5 * (fine.epsilon - fine.lower)


def test_unknown_or_unbounded_losses():
    assert pld.epsilon([Release(NoGuarantee("raw"))], delta=1e-5).epsilon == math.inf
    mixed = [Release(Gaussian(1.0), 3), Release(NoGuarantee("raw"))]
    assert pld.epsilon(mixed, delta=1e-5).epsilon == math.inf
    assert pld.delta(mixed, epsilon=3.0).delta == 1
    assert pld.epsilon([Release(NoGuarantee("raw"), 0)], delta=1e-5).epsilon == 0
    with pytest.raises(Unsupported):
        pld.epsilon([Release(WithoutReplacementGaussian(1.0, 0.01))], delta=1e-5)


def test_calibration_ends_on_the_private_side_within_a_ten_thousandth():
    run = {"sample_rate": 0.01, "steps": 10_000, "delta": 1e-5}
    noise = calibrate.noise_multiplier(9.6, **run, accountant=pld.epsilon)
    assert pld.epsilon([Release(SampledGaussian(noise, 0.01), 10_000)], delta=1e-5).epsilon <= 9.6
    least = calibrate.noise_multiplier(9.6, **run, accountant=pld.epsilon, gap=1e-5)
    assert least <= noise <= least + 1e-4
    rate = calibrate.sample_rate(
        9.6, noise_multiplier=noise, steps=10_000, delta=1e-5, accountant=pld.epsilon
    )
    assert rate == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: pld.epsilon([Release(m)], delta=math.nan), r"delta must lie in \(0, 1\)"),
        (lambda m: pld.epsilon([Release(m)], delta=1.0), r"delta must lie in \(0, 1\)"),
        (lambda m: pld.epsilon([Release(m)], delta=0.1, gap=math.nan), "gap must lie"),
        (lambda m: pld.epsilon([Release(m, -1)], delta=0.1), "count must be an integer >= 0"),
        (lambda m: pld.delta([Release(m)], epsilon=math.nan), "epsilon must be a finite number"),
        (
            lambda m: pld.epsilon([Release(m), Release(Gaussian(1.0, "replace-one"))], delta=0.1),
            "one adjacency",
        ),
        (
            lambda m: pld.epsilon([Release(Gaussian(1 + i / 1e6)) for i in range(4097)], delta=0.1),
            "round the noise multipliers down",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(SampledGaussian(1.0, 0.1))
