"""Trade-off curves against closed forms and against the best test."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from dpkit.privacy import Gaussian, NoGuarantee, Release, SampledGaussian, pld, tradeoff

ALPHAS = np.array([0.0, 1e-12, 1e-3, 0.05, 0.3, 0.5, 0.77, 0.95, 0.999, 1.0])
EPSILONS = np.geomspace(1e-3, 30, 60)


@pytest.mark.parametrize("alpha", [1e-3, 0.4])
def test_a_profile_has_the_curve_of_the_best_tests_in_both_directions(alpha: float):
    """Their ratio rises with x, so the best tests are thresholds (Neyman, Pearson 1933)."""
    absent = lambda x: ndtr(x / 0.9)  # noqa: E731
    present = lambda x: 0.8 * absent(x) + 0.2 * absent(x - 1)  # noqa: E731
    above = brentq(lambda x: absent(-x) - alpha, -20, 20, xtol=1e-14)  # rejects "absent"
    below = brentq(lambda x: present(x) - alpha, -20, 20, xtol=1e-14)  # rejects "present"
    expected = [present(above), 1 - absent(below)]
    eps = np.linspace(0, 6, 2000)
    deltas = SampledGaussian(0.9, 0.2).profile(eps).max(axis=0)
    found = tradeoff.from_profile(eps, deltas, [alpha])[0]
    # below both, by the hull of the two alone
    assert 0.99 * min(expected) < found <= min(expected) * (1 + 1e-12)


def test_one_pair_of_epsilon_and_delta_is_its_polygon():
    """Through (0, 1 - delta) and (1 - delta, 0), with slopes -e^epsilon and -e^-epsilon."""
    epsilon, delta = 0.7, 0.05
    corner = (1 - delta) / (1 + math.exp(epsilon))
    expected = np.interp(ALPHAS, [0, corner, 1 - delta, 1], [1 - delta, corner, 0, 0])
    found = tradeoff.from_profile([epsilon], [delta], ALPHAS)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    worse = tradeoff.from_profile([0.3, epsilon], [1.0, delta], ALPHAS)  # delta 1 says nothing
    np.testing.assert_array_equal(worse, found)
    assert tradeoff.from_profile([math.inf], [0.0], [0.0, 0.5]).tolist() == [1.0, 0.0]


def test_a_curve_by_the_accountant_lies_below_the_exact_one_and_close():
    ledger, expected = [Release(Gaussian(3.0), 9)], ndtr(-ndtri(ALPHAS[2:-1]) - 1.0)
    found = tradeoff.from_profile(EPSILONS, pld.profile(ledger, EPSILONS), ALPHAS[2:-1])
    assert (found <= expected * (1 + 1e-12)).all()
    np.testing.assert_allclose(found, expected, atol=2e-3)


@pytest.mark.parametrize(
    ("noise", "rate", "steps"),
    [(1.1, 0.05, 100), (20, 1e-3, 10**9), (1, 0.01, 1), (0.5, 1e-4, 100)],
)
def test_a_profile_proves_what_delta_proves_and_little_less(noise, rate, steps):
    """Of many releases the deltas in between lie on chords, in e^epsilon."""
    ledger = [Release(SampledGaussian(noise, rate), steps)]
    most = pld.epsilon(ledger, delta=1e-6).epsilon
    epsilons = np.linspace(1, 0, 33) * most
    found = pld.profile(ledger, epsilons)
    assert (np.diff(found) >= 0).all()
    for at in (0, 1, 8, 31, 32):
        least = pld.delta(ledger, epsilon=float(epsilons[at])).delta
        for one in (found[at], *pld.profile(ledger, epsilons[[at]])):
            assert one <= least * 1.4
            assert pld.epsilon(ledger, delta=float(one)).lower <= epsilons[at] * (1 + 1e-9)


def test_no_guarantee_hides_nothing_and_nothing_released_shows_nothing():
    shown = pld.profile([Release(NoGuarantee("x"))], EPSILONS)
    assert (tradeoff.from_profile(EPSILONS, shown, ALPHAS) == 0).all()
    nothing = tradeoff.from_profile([0.0], pld.profile([], [0.0]), ALPHAS)
    np.testing.assert_allclose(nothing, 1 - ALPHAS, atol=1e-14)
