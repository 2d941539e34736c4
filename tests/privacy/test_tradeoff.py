"""Trade-off curves against closed forms and against the best test."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from dpkit.privacy import (
    Gaussian,
    Laplace,
    NoGuarantee,
    RandomizedResponse,
    Release,
    SampledGaussian,
    gdp,
    moments,
    pld,
    rdp,
    tradeoff,
)

ALPHAS = np.array([0.0, 1e-12, 1e-3, 0.05, 0.3, 0.5, 0.77, 0.95, 0.999, 1.0])


@pytest.mark.parametrize("noise", [0.1, 1.0, 30.0, 1e5])
def test_a_gaussian_has_its_closed_form(noise: float):
    """G_mu(alpha) = Phi(Phi^-1(1 - alpha) - mu) (Dong, Roth, Su 2022, eq. 6)."""
    expected = ndtr(-ndtri(ALPHAS) - 1 / noise)
    np.testing.assert_allclose(tradeoff.exact(Gaussian(noise), ALPHAS), [expected] * 2, atol=1e-14)
    twice = tradeoff.exact(Gaussian(noise, "replace-one"), ALPHAS)
    np.testing.assert_allclose(twice[0], ndtr(-ndtri(ALPHAS) - 2 / noise), atol=1e-14)


def test_little_of_it_keeps_its_digits():
    expected = ndtr(-ndtri(ALPHAS[2:-1]) - 8)  # down to 1e-29
    found = tradeoff.exact(Gaussian(1 / 8), ALPHAS[2:-1])
    np.testing.assert_allclose(found[0], expected, rtol=1e-11)


@pytest.mark.parametrize("noise", [0.3, 1.0, 7.0])
def test_laplace_has_its_closed_form(noise: float):
    """Dong, Roth, Su 2022, eq. 7: straight, then a hyperbola, then straight."""
    mu = 1 / noise
    with np.errstate(divide="ignore"):
        middle = math.exp(-mu) / (4 * ALPHAS)
    expected = np.where(ALPHAS <= 0.5, middle, math.exp(-mu) * (1 - ALPHAS))
    steep = 1 - math.exp(mu) * ALPHAS
    expected = np.where(math.exp(-mu) > 2 * ALPHAS, steep, expected)
    found = tradeoff.exact(Laplace(noise), ALPHAS)
    np.testing.assert_allclose(found, [expected] * 2, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("epsilon", [1e-4, 0.5, 3.0])
@pytest.mark.parametrize("categories", [2, 10])
def test_randomised_response_is_a_polygon(epsilon: float, categories: int):
    """Its corners lie at the answers' probabilities."""
    truth = math.exp(epsilon) / (math.exp(epsilon) + categories - 1)
    wrong = truth * math.exp(-epsilon)
    expected = np.interp(ALPHAS, [0, wrong, 1 - truth, 1], [1, 1 - truth, wrong, 0])
    found = tradeoff.exact(RandomizedResponse(epsilon, categories), ALPHAS)
    np.testing.assert_allclose(found, [expected] * 2, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("alpha", [1e-3, 0.4])
def test_each_direction_of_the_sampled_gaussian_is_its_best_test(alpha: float):
    """Their ratio rises with x, so the best tests are thresholds (Neyman, Pearson 1933)."""
    absent = lambda x: ndtr(x / 0.9)  # noqa: E731
    present = lambda x: 0.8 * absent(x) + 0.2 * absent(x - 1)  # noqa: E731
    above = brentq(lambda x: absent(-x) - alpha, -20, 20, xtol=1e-14)  # rejects "absent"
    below = brentq(lambda x: present(x) - alpha, -20, 20, xtol=1e-14)  # rejects "present"
    expected = [present(above), 1 - absent(below)]
    found = tradeoff.exact(SampledGaussian(0.9, 0.2), [alpha])[:, 0]
    assert abs(expected[0] - expected[1]) > 1e-6  # so that the rows cannot be taken for each other
    assert found == pytest.approx(expected, rel=1e-10)


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


def test_curves_of_accountants_lie_below_the_exact_one_and_close():
    alphas = ALPHAS[2:-1]
    noise, count = 3.0, 9
    ledger, expected = [Release(Gaussian(noise), count)], ndtr(-ndtri(alphas) - 1.0)
    close, loose = (tradeoff.curve(ledger, alphas, accountant=a) for a in (gdp.delta, rdp.delta))
    for one in (close, loose):
        assert (one <= expected * (1 + 1e-12)).all()
    np.testing.assert_allclose(close, expected, atol=2e-3)
    assert (loose > 0.5 * expected).all()  # what RDP loses by its conversion
    some = tradeoff.curve(ledger, alphas, accountant=gdp.delta, epsilons=[0.5, 2.0])
    assert (some <= close + 1e-3).all()
    few = tradeoff.curve(ledger, [0.05], accountant=pld.delta, epsilons=[0.8, 1.1, 1.4])
    assert 0.9 * ndtr(-ndtri(0.05) - 1) < few[0] <= ndtr(-ndtri(0.05) - 1)


def test_both_directions_lie_above_the_curve_of_a_ledger():
    one = SampledGaussian(0.9, 0.2)
    both = tradeoff.exact(one, ALPHAS)
    eps = np.linspace(0, 6, 200)
    bound = tradeoff.from_profile(eps, one.profile(eps).max(axis=0), ALPHAS)
    assert (bound <= both.min(axis=0) + 1e-15).all()


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
    assert (tradeoff.exact(NoGuarantee("x"), ALPHAS) == 0).all()
    assert (tradeoff.curve([Release(NoGuarantee("x"))], ALPHAS, accountant=rdp.delta) == 0).all()
    nothing = tradeoff.exact(SampledGaussian(1.0, 0.0), ALPHAS)
    for curve in (*nothing, tradeoff.curve([], ALPHAS, accountant=rdp.delta)):
        np.testing.assert_allclose(curve, 1 - ALPHAS, atol=1e-14)
    assert (tradeoff.exact(Gaussian(1e9), [0.25]) <= 0.75).all()
