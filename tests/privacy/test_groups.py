"""Groups of records: against quadrature, every choice of gradients, closed forms, dp-accounting."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpkit.privacy import Laplace, NoGuarantee, RandomizedResponse, Release, divergence, groups, pld
from dpkit.privacy.mechanisms import BallsAndBinsGaussian, DiscreteGaussian, Gaussian, Unsupported
from dpkit.privacy.mechanisms.sampled_gaussian import GroupSampledGaussian, SampledGaussian

SETTINGS = [(1.0, 0.01, 2), (0.6, 0.2, 3), (3.0, 0.5, 8), (1.3, 0.9, 5), (10.0, 1e-4, 64)]


def pair(noise, rate, size):
    chances = stats.binom.pmf(np.arange(size + 1), size, rate)
    parts = [divergence.normal(j, noise) for j in range(size + 1)]
    return divergence.mixture(list(chances), parts), divergence.normal(0, noise)


@pytest.mark.parametrize(("noise", "rate", "size"), SETTINGS)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.7, 2.0, 5.0])
def test_the_profile_is_the_mixtures(noise, rate, size, epsilon):
    p, q = pair(noise, rate, size)
    found = GroupSampledGaussian(noise, rate, size).profile([epsilon])[:, 0]
    for delta, (one, other) in zip(found, [(p, q), (q, p)], strict=True):
        low, high = -12 * noise, size + 12 * noise
        exact = divergence.hockey_stick(one, other, epsilon, low=low, high=high)
        assert delta == pytest.approx(exact, rel=1e-7, abs=1e-13)


@pytest.mark.parametrize("seed", range(12))
def test_no_choice_of_gradients_costs_more(seed):
    """Up to 4 records with any gradients of norm 1 at most, in a plane; a grid errs by 2e-4."""
    rng = np.random.default_rng(seed)
    noise, rate, size = rng.uniform(0.4, 2.0), rng.uniform(0.02, 0.9), int(rng.integers(2, 5))
    turns = rng.uniform(0, 2 * np.pi, size) * rng.choice([0.0, 0.1, 1.0])
    norms = rng.uniform(0, 1, size) ** rng.choice([0.0, 1.0])
    gradients = norms[:, None] * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    x = np.arange(-size - 9 * noise, size + 9 * noise, noise / 12)
    at = np.stack(np.meshgrid(x, x), axis=-1)

    def density(centre):
        return stats.norm.pdf((at - centre) / noise).prod(axis=-1) / 144

    q, p = density(np.zeros(2)), np.zeros((x.size, x.size))
    for drawn in itertools.product([0, 1], repeat=size):
        chance = np.prod([rate if one else 1 - rate for one in drawn])
        p += chance * density(np.array(drawn) @ gradients)
    assert p.sum() == pytest.approx(1, rel=1e-9)
    mechanism = GroupSampledGaussian(noise, rate, size)
    for epsilon in (0.0, 0.2, 1.0, 3.0):
        there, back = mechanism.profile([epsilon])[:, 0]
        assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= there + 3e-4
        assert np.maximum(q - math.exp(epsilon) * p, 0).sum() <= back + 3e-4


@pytest.mark.parametrize(("noise", "rate", "size"), [(1.0, 0.3, 3), (0.8, 0.05, 2)])
def test_two_releases_by_quadrature_in_a_plane(noise, rate, size):
    x = np.arange(-9 * noise, size + 9 * noise, noise / 24)
    logs = [np.array([log(at) for at in x]) for log in pair(noise, rate, size)]
    p, q = (np.exp(log[:, None] + log[None, :]) * (noise / 24) ** 2 for log in logs)
    found = pld.epsilon([Release(GroupSampledGaussian(noise, rate, size), 2)], delta=1e-3)
    worst = [np.maximum(p - math.exp(e) * q, 0).sum() for e in (found.lower, found.epsilon)]
    assert worst[1] <= 1e-3 * (1 + 1e-4)
    assert worst[0] >= 1e-3 * (1 - 1e-4)


@pytest.mark.parametrize(
    ("one", "k_of_them"),
    [
        (Gaussian(3.0), Gaussian(1.0)),
        (Gaussian(3.0, "replace-one"), Gaussian(1.0, "replace-one")),
        *((SampledGaussian(3.0, 1.0), Gaussian(1.0)), (Laplace(3.0), Laplace(1.0))),
        (RandomizedResponse(0.5), RandomizedResponse(1.5)),
        (DiscreteGaussian(9.0), DiscreteGaussian(3.0, 3)),
    ],
)
def test_three_records_move_an_answer_three_times_as_far(one, k_of_them):
    found = groups.epsilon([Release(one, 5)], group_size=3, delta=1e-4)
    same = pld.epsilon([Release(k_of_them, 5)], delta=1e-4)
    assert found.epsilon == pytest.approx(same.epsilon, rel=1e-3)
    assert found.adjacency == one.adjacency
    assert "up to 3 records" in " ".join(found.assumptions)
    alone = groups.epsilon([Release(one, 5)], group_size=1, delta=1e-4)
    assert alone == pld.epsilon([Release(one, 5)], delta=1e-4)


@pytest.mark.parametrize("k", [2, 5])
def test_without_a_price_of_its_own_a_group_costs_what_its_records_do(monkeypatch, k):
    """By the chain of k neighbours; for the Gaussian more than is so, and never less."""
    own = groups.epsilon([Release(Gaussian(20.0))], group_size=k, delta=1e-5)

    def unknown(*_):
        raise Unsupported("not known")

    monkeypatch.setattr(groups, "of_group", unknown)
    chained = groups.epsilon([Release(Gaussian(20.0))], group_size=k, delta=1e-5)
    assert own.epsilon < chained.epsilon < 3 * own.epsilon
    one = chained.epsilon / k
    grown = math.fsum(math.exp(i * one) for i in range(k))
    assert Gaussian(20.0).profile([one]).max() * grown <= 1e-5 * (1 + 1e-6)


def test_what_has_no_price_for_groups_is_chained_and_no_guarantee_stays_one():
    for step in (BallsAndBinsGaussian(2.0, 100), SampledGaussian(2.0, 0.01, "replace-one")):
        one = pld.epsilon([Release(step)], delta=1e-5)
        both = groups.epsilon([Release(step)], group_size=2, delta=1e-5)
        assert both.epsilon > 2 * one.epsilon
        assert "2 times the epsilon of one record" in both.method
    run = [Release(SampledGaussian(50.0, 0.001), 10)]
    found, own = (groups.epsilon(run, group_size=k, delta=1e-3) for k in (5000, 128))
    assert "5000 times" in found.method
    assert found.epsilon > own.epsilon
    found = groups.epsilon([Release(NoGuarantee("labels are shown"))], group_size=2, delta=1e-5)
    assert found.epsilon == math.inf


@pytest.mark.parametrize(("noise", "rate", "size"), [(1e5, 0.3, 4), (1e6, 1e-6, 2), (0.05, 0.1, 3)])
def test_much_and_little_noise_against_40_digits(noise, rate, size):
    """Between the profile at two epsilons and what the mixture's best threshold gives."""
    with mpmath.workdps(40):
        s, q = mpmath.mpf(noise), mpmath.mpf(rate)
        shares = [mpmath.binomial(size, j) * q**j * (1 - q) ** (size - j) for j in range(size + 1)]

        def tail(x):
            return mpmath.erfc(x / s / mpmath.sqrt(2)) / 2

        for z in (0.5, 2.0, 5.0):
            x = size * mpmath.mpf("0.6") + z * s
            ratio = [mpmath.e ** (j * (x - mpmath.mpf(j) / 2) / s**2) for j in range(size + 1)]
            grown = mpmath.fsum(b * r for b, r in zip(shares, ratio, strict=True))
            mass = mpmath.fsum(b * tail(x - j) for j, b in enumerate(shares))
            exact, epsilon = mass - grown * tail(x), float(mpmath.log(grown))
            if epsilon < 600:
                loss = GroupSampledGaussian(noise, rate, size).privacy_loss()
                found = loss.masses(np.array([epsilon]))
                beyond = float(found[0, 1] - math.exp(epsilon) * found[1, 1])
                assert beyond == pytest.approx(float(exact), rel=1e-5, abs=4e-16 * float(mass))
