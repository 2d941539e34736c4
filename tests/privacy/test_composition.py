"""Basic and advanced composition and moments against exact compositions: coins, Gaussians."""

import itertools
import math

import numpy as np
import pytest
from truths import gaussian_epsilon

from dpkit.privacy import (
    ApproximateDP,
    Gaussian,
    Laplace,
    RandomizedResponse,
    Release,
    composition,
    moments,
)
from dpkit.privacy.accountants.composition import advanced, basic


def exact_delta(epsilons: list[float], counts: list[int], epsilon: float) -> float:
    """delta(epsilon) of coins of loss +-e_i: the worst pure-DP mechanisms (KOV 2015, Thm 3.3)."""
    total = 0.0
    for heads in itertools.product(*(range(count + 1) for count in counts)):
        log_p, loss = 0.0, 0.0
        for e, n, h in zip(epsilons, counts, heads, strict=True):
            log_p += math.log(math.comb(n, h))
            log_p += -h * np.log1p(np.exp(-e)) - (n - h) * np.log1p(np.exp(e))
            loss += e * (2 * h - n)
        total += math.exp(log_p) * max(0.0, -math.expm1(epsilon - loss))
    return total


COINS = [([0.1], [100]), ([1.0], [30]), ([0.01], [400]), ([3.0], [5])]
COINS += [([0.02, 0.9], [60, 4]), ([0.1, 0.3, 1.0], [12, 8, 5])]


@pytest.mark.parametrize(("epsilons", "counts"), COINS)
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.05, 0.4])
def test_both_bound_the_exact_composition_of_coins(epsilons, counts, delta):
    ledger = [Release(RandomizedResponse(e), n) for e, n in zip(epsilons, counts, strict=True)]
    plain, found = basic(ledger, delta=delta), advanced(ledger, delta=delta)
    assert plain.epsilon == pytest.approx(np.dot(epsilons, counts), rel=1e-9)  # takes no delta
    assert found.epsilon <= plain.epsilon
    assert exact_delta(epsilons, counts, found.epsilon) <= delta
    each, number = np.array(epsilons), np.array(counts, dtype=float)
    assert found.epsilon == pytest.approx(composition.compose(each, number, delta), rel=1e-9)
    # the theorem holds at every slack, whichever of its terms is the least
    for slack in (1e-12, 1e-3, 0.2, 0.9):
        proven = composition.compose(each, number, slack)
        assert exact_delta(epsilons, counts, proven) <= slack


def test_each_term_of_the_theorem_can_be_the_least():
    """Read literally, with (e^x - 1) / (e^x + 1) and both logarithms."""

    def terms(e: float, k: int, slack: float) -> list[float]:
        drift = k * e * (math.exp(e) - 1) / (math.exp(e) + 1)
        logs = [math.log(math.e + e * math.sqrt(k) / slack), math.log(1 / slack)]
        return [k * e, *(drift + e * math.sqrt(2 * k * log) for log in logs)]

    cases = [(1.0, 3, 1e-6), (0.001, 200, 1e-4), (0.5, 60, 0.01)]
    for least, (e, k, slack) in enumerate(cases):
        literal = terms(e, k, slack)
        assert int(np.argmin(literal)) == least
        found = composition.compose(np.array([e]), np.array([float(k)]), slack)
        assert found == pytest.approx(min(literal), rel=1e-12)


@pytest.mark.parametrize("noise", [0.7, 5.0])
@pytest.mark.parametrize("count", [1, 7])
def test_basic_adds_up_the_exact_gaussian_epsilons(noise: float, count: int):
    found = basic([Release(Gaussian(noise), count)], delta=1e-5)
    expected = count * float(gaussian_epsilon(noise, 1e-5 / count))
    assert expected * (1 - 1e-12) <= found.epsilon <= expected * (1 + 1e-9)
    assert found.method == "basic composition (Dwork, Roth 2014, Thm 3.16)"


@pytest.mark.parametrize("noise", [3.2e-8, 0.02, 0.5, 2.0, 30.0, 300.0])
@pytest.mark.parametrize("count", [1, 20, 1000])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 0.01])
def test_never_below_the_exact_gaussian(noise: float, count: int, delta: float):
    ledger = [Release(Gaussian(noise), count)]
    one = Gaussian(noise / math.sqrt(count))
    for rule in (basic, advanced, moments.epsilon):
        assert one.profile([rule(ledger, delta=delta).epsilon]).max() <= delta * (1 + 1e-9)


def test_advanced_wins_over_many_small_releases_and_never_loses():
    many = [Release(Gaussian(30.0), 300), Release(Laplace(20.0), 100)]
    found = advanced(many, delta=1e-5)
    assert found.epsilon < 0.5 * basic(many, delta=1e-5).epsilon
    assert found.method.startswith("advanced composition (Kairouz, Oh, Viswanath 2015, Thm 3.5)")
    one = [Release(Gaussian(1.0))]
    assert advanced(one, delta=1e-5) == basic(one, delta=1e-5)


def test_releases_of_pure_dp_take_no_share_of_delta():
    pure = Release(Laplace(0.5), 3)
    assert basic([pure], delta=1e-12).epsilon == pytest.approx(6.0)
    alone = basic([Release(Gaussian(1.0), 2)], delta=1e-5).epsilon
    assert basic([pure, Release(Gaussian(1.0), 2)], delta=1e-5).epsilon == pytest.approx(alone + 6)
    # a Gaussian's delta only falls below the least number
    found = basic([Release(Gaussian(100.0)), Release(Laplace(10.0))], delta=1e-5).epsilon
    assert found == pytest.approx(float(gaussian_epsilon(100.0, 1e-5)) + 0.1, rel=1e-9)


def test_what_is_stated_with_a_delta_takes_a_share_of_it():
    """Randomized response but for delta 1e-6, at half of 1e-5: 1 - e^(x - .5) is what is left."""
    left = (5e-6 - 1e-6) / (1 - 1e-6) * (1 + math.exp(-0.5))
    expected = 0.5 + math.log1p(-left) + float(gaussian_epsilon(2.0, 5e-6))
    ledger = [Release(ApproximateDP(0.5, 1e-6)), Release(Gaussian(2.0))]
    assert basic(ledger, delta=1e-5).epsilon == pytest.approx(expected, rel=1e-9)
