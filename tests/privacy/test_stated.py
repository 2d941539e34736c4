"""Releases known by a statement, choices by score and Poisson samples, against brute force."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from dpkit.privacy import (
    ApproximateDP,
    DiscreteGaussian,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PoissonSampled,
    Release,
    SampledGaussian,
    ZeroConcentratedDP,
    composition,
    pld,
    rdp,
)

EPSILONS = np.linspace(-2.5, 2.5, 41)


def alone(*settings):
    """Those of the hundred of each bound that `make slow` adds."""
    mark = pytest.mark.slow("a price too low at this setting alone")
    return [pytest.param(one, marks=mark) for one in settings]


def two_losses(epsilon: float) -> list[np.ndarray]:
    """(2, 2) chances of the choices with losses t and t - epsilon, over t."""
    found = []
    for t in np.linspace(0, epsilon, 2001)[1:-1]:
        p = np.expm1(epsilon - t) / (np.exp(epsilon - t) - np.exp(-t))
        found.append(np.array([[p, 1 - p], [p * np.exp(-t), (1 - p) * np.exp(epsilon - t)]]))
    return found


@pytest.mark.parametrize("epsilon", [0.02, 0.4, 1.3, 6.0])
def test_a_choice_by_score_costs_what_the_dearest_of_two_losses_does(epsilon: float):
    own, pairs = ExponentialMechanism(epsilon), two_losses(epsilon)
    for at in np.linspace(-1.2, 1.2, 13) * epsilon:
        dearest = max(np.maximum(p - np.exp(at) * q, 0).sum() for p, q in pairs)
        assert own.profile([at]).max() == pytest.approx(dearest, rel=1e-5, abs=1e-12)
    for order in (1.5, 3.0, 40.0):
        dearest = max(np.log((p**order * q ** (1 - order)).sum()) / (order - 1) for p, q in pairs)
        found = own.rdp([order])[0]
        assert dearest * (1 - 1e-9) <= found <= dearest * 1.01


@pytest.mark.parametrize("delta", [1e-2, *alone(0.1, 1e-4, 1e-6)])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0, *alone(0.03, 1.2)])
@pytest.mark.parametrize("count", [1, 3, 20, *alone(2, 8)])
def test_choices_in_a_row_cost_no_more_than_is_proven(epsilon: float, count: int, delta: float):
    """All at the same t: binomially many losses t, the others t - epsilon."""
    ledger = [Release(ExponentialMechanism(epsilon), count)]
    found, other = pld.epsilon(ledger, delta=delta), rdp.epsilon(ledger, delta=delta)
    high = np.arange(count + 1)
    worst = 0.0
    for (p, _), (q, _) in two_losses(epsilon)[::40]:
        masses = [binom.pmf(high, count, one) for one in (p, q)]
        for bound in (found, other):
            shown = np.maximum(masses[0] - math.exp(bound.epsilon) * masses[1], 0).sum()
            assert shown <= delta * (1 + 1e-9)
        worst = max(worst, np.maximum(masses[0] - math.exp(found.lower) * masses[1], 0).sum())
    assert worst >= delta * (1 - 1e-3) or found.lower == 0
    assert found.epsilon <= pld.epsilon([Release(ApproximateDP(epsilon, 0), count)], delta=delta)[0]


@pytest.mark.parametrize("count", [1, 4, *alone(11, 40, 500)])
@pytest.mark.parametrize("known", [(0.3, 1e-4), (0, 1e-3), *alone((0.3, 0), (1, 0.01))])
def test_statements_in_a_row_cost_what_kairouz_oh_and_viswanath_prove(known, count):
    """Their Theorem 3.3: delta of epsilon (count - 2 i), i = 0, 1, ...."""
    epsilon, delta = known
    ledger = [Release(ApproximateDP(epsilon, delta), count)]
    kept = (1 - delta) ** count
    for i in range(0, count // 2 + 1 if epsilon else 1, max(count // 20, 1)):
        asked = (count - 2 * i) * epsilon
        high = np.arange(count + 1)
        masses = [binom.pmf(high, count, 1 / (1 + math.exp(s * epsilon))) for s in (-1, 1)]
        gained = np.maximum(masses[0] - math.exp(asked) * masses[1], 0).sum()
        true = 1 - kept * (1 - gained)
        found = pld.delta(ledger, epsilon=asked).delta
        assert true * (1 - 1e-9) <= found <= true * (1 + 1e-2) + 1e-10


def test_statements_are_priced_beside_mechanisms():
    steps = Release(SampledGaussian(1.0, 0.01), 1000)
    alone = pld.epsilon([steps], delta=9e-6).epsilon
    both = pld.epsilon([steps, Release(ApproximateDP(1.0, 1e-6))], delta=1e-5)
    assert alone < both.epsilon < alone + 1 + 1e-3
    assert both.lower > 0.98 * both.epsilon
    spent = rdp.epsilon([steps, Release(ZeroConcentratedDP(0.02))], delta=1e-5)
    same = rdp.epsilon([steps, Release(Gaussian(5.0))], delta=1e-5)
    assert spent.epsilon == pytest.approx(same.epsilon, rel=1e-9)  # rho = 1 / (2 noise^2)


def test_what_is_stated_holds_at_its_own_delta_and_pure_dp_at_every():
    for count, own, delta in [(1, 1e-6, 1e-6), (3, 1e-8, 3e-8), (7, 1e-7, 7e-7), (10, 1e-8, 1e-7)]:
        ledger = [Release(ApproximateDP(1.0, own), count)]
        assert pld.epsilon(ledger, delta=delta)[0] == pytest.approx(count, rel=1e-9)
        assert pld.epsilon(ledger, delta=0.99 * own).epsilon == math.inf
        assert pld.delta(ledger, epsilon=count).delta <= delta * (1 + 1e-9)
    ledger = [Release(PoissonSampled(Laplace(1.0), 0.01))]
    most = math.log1p(0.01 * math.expm1(1))
    for delta in (0, 1e-250, 1e-30, 1e-12):
        assert pld.epsilon(ledger, delta=delta).epsilon == pytest.approx(most, rel=1e-3)


@pytest.mark.parametrize("rate", [0.01, 0.3])
@pytest.mark.parametrize(("scale", "count"), [(0.4, 10), (1.0, 300), (5.0, 300)])
def test_samples_of_laplace_in_a_row_cost_what_dp_accounting_says(scale, count, rate):
    peer = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    asked = {"sampling_prob": rate, "value_discretization_interval": 1e-3 * rate}
    made = (peer.from_laplace_mechanism(scale, 1, x, **asked) for x in (False, True))
    low, high = (one.self_compose(count).get_epsilon_for_delta(1e-6) for one in made)
    found = pld.epsilon([Release(PoissonSampled(Laplace(scale), rate), count)], delta=1e-6)
    assert low * (1 - 1e-3) <= found.epsilon <= high * (1 + 1e-3)
    assert 0.99 * found.epsilon < found.lower <= high


def test_pure_dp_adds_up_at_delta_0():
    for none in (Gaussian(2e-4), SampledGaussian(1e-4, 0.5), DiscreteGaussian(0.02)):
        assert pld.epsilon([Release(none)], delta=0).epsilon == math.inf  # though deltas underflow
    ledger = [Release(Laplace(2.0), 3), Release(ExponentialMechanism(0.4), 2)]
    for price in (pld.epsilon, composition.basic):
        assert price(ledger, delta=0).epsilon == pytest.approx(2.3, rel=1e-9)
        assert price([*ledger, Release(ApproximateDP(0.1, 1e-9))], delta=0).epsilon == math.inf


@pytest.mark.parametrize("rate", [1e-4, 0.1, 0.7])
@pytest.mark.parametrize("noise", [0.5, 1.3, 8.0])
def test_a_sample_of_a_gaussian_is_the_sampled_gaussian(noise: float, rate: float):
    own, known = PoissonSampled(Gaussian(noise), rate), SampledGaussian(noise, rate)
    np.testing.assert_allclose(own.profile(EPSILONS), known.profile(EPSILONS), rtol=1e-12)
    twice, half = PoissonSampled(own, 0.5), SampledGaussian(noise, rate / 2)
    np.testing.assert_allclose(twice.profile(EPSILONS), half.profile(EPSILONS), atol=1e-13)
    edges = np.linspace(-3, 30, 400)
    found, wanted = (one.privacy_loss().masses(edges) for one in (own, known))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-200)
    pair, other = (pld.epsilon([Release(one, 50)], delta=1e-6) for one in (own, known))
    assert max(pair.lower, other.lower) <= min(pair.epsilon, other.epsilon)


def laplace(x: np.ndarray, scale: float) -> np.ndarray:
    return np.exp(-np.abs(x) / scale) / (2 * scale)


def discrete(x: np.ndarray, noise: float) -> np.ndarray:
    at = np.arange(-60, 61)
    chances = np.exp(-(at**2) / (2 * noise**2))
    return np.interp(x, at, chances / chances.sum(), left=0, right=0)


WHOLE = np.arange(-40.0, 41.0)  # discrete noise is on whole numbers
FINE = np.linspace(-40, 40, 160_001)
NOISES = [
    *((Laplace(b), FINE, lambda x, b=b: laplace(x, b) * 80 / 160_000) for b in (0.4, 1.0, 3.0)),
    *((DiscreteGaussian(s), WHOLE, lambda x, s=s: discrete(x, s)) for s in (0.6, 1.5)),
]


@pytest.mark.parametrize("rate", [0.02, 0.3, 1.0, *alone(0.1, 0.9)])
@pytest.mark.parametrize(("mechanism", "x", "density"), NOISES, ids=lambda one: str(one)[:24])
def test_no_data_set_costs_more_than_a_sample_of_its_mechanism(mechanism, x, density, rate):
    """Sums of 1 to 4 records in {-1, 0, 1}, with one more or fewer, each drawn by chance."""
    own = PoissonSampled(mechanism, rate)
    asked = np.array([0.0, 0.2, 0.7, 1.5])
    bound, worst = own.profile(asked).max(axis=0), np.zeros(asked.size)
    for rest in itertools.chain(*(itertools.product((-1, 1), repeat=n) for n in range(3))):
        law = np.zeros(9)
        law[4] = 1.0
        for record in rest:
            law = (1 - rate) * law + rate * np.roll(law, record)
        for record in (-1, 1):
            more = (1 - rate) * law + rate * np.roll(law, record)
            masses = [
                sum(chance * density(x - at) for at, chance in zip(range(-4, 5), one, strict=True))
                for one in (more, law)
            ]
            for p, q in (masses, masses[::-1]):
                shown = [np.maximum(p - math.exp(e) * q, 0).sum() for e in asked]
                assert (np.array(shown) <= bound * (1 + 1e-3) + 1e-6).all()
                worst = np.maximum(worst, shown)
    np.testing.assert_allclose(worst, bound, rtol=5e-3, atol=1e-6)  # and one costs as much
