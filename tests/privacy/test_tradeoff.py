"""Trade-off curves against closed forms and against the best test."""

import math

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from dpkit.privacy import Gaussian, NoGuarantee, Release, SampledGaussian, tradeoff
from dpkit.privacy.accountants import gdp, moments, pld, rdp

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


def curve(ledger, alphas, *, accountant, epsilons: ArrayLike = EPSILONS) -> np.ndarray:
    deltas = tradeoff.profile(ledger, epsilons, accountant=accountant)
    return tradeoff.from_profile(epsilons, deltas, alphas)


def test_curves_of_accountants_lie_below_the_exact_one_and_close():
    alphas = ALPHAS[2:-1]
    noise, count = 3.0, 9
    ledger, expected = [Release(Gaussian(noise), count)], ndtr(-ndtri(alphas) - 1.0)
    close, loose = (curve(ledger, alphas, accountant=a) for a in (gdp.delta, rdp.delta))
    for one in (close, loose):
        assert (one <= expected * (1 + 1e-12)).all()
    np.testing.assert_allclose(close, expected, atol=2e-3)
    assert (loose > 0.5 * expected).all()  # what RDP loses by its conversion
    few = curve(ledger, [0.05], accountant=pld.delta, epsilons=[0.8, 1.1, 1.4])
    assert 0.9 * ndtr(-ndtri(0.05) - 1) < few[0] <= ndtr(-ndtri(0.05) - 1)


def test_profiles_are_what_the_accountant_says_and_never_rise():
    ledger = [Release(SampledGaussian(1.1, 0.05), 100)]
    epsilons = [3.0, 0.0, 1.0]
    found = tradeoff.profile(ledger, epsilons, accountant=rdp.delta, conversion="classic")
    for epsilon, value in zip(epsilons, found, strict=True):
        assert value == rdp.delta(ledger, epsilon=epsilon, conversion="classic").delta
    assert found[1] >= found[2] >= found[0]
    rising = lambda _, epsilon: gdp.delta([], epsilon=epsilon)._replace(delta=epsilon / 9)  # noqa: E731
    assert tradeoff.profile(ledger, [2.0, 1.0], accountant=rising).tolist() == [1 / 9, 1 / 9]
    few = tradeoff.profile(ledger, [2.0], accountant=moments.delta, moments=3)
    assert few[0] == moments.delta(ledger, epsilon=2.0, moments=3).delta


def test_no_guarantee_hides_nothing_and_nothing_released_shows_nothing():
    nothing_hidden = curve([Release(NoGuarantee("x"))], ALPHAS, accountant=rdp.delta)
    assert (nothing_hidden == 0).all()
    nothing = curve([], ALPHAS, accountant=rdp.delta, epsilons=[0.0])
    np.testing.assert_allclose(nothing, 1 - ALPHAS, atol=1e-14)
