"""Gaussian DP against 100 digits and exact profiles, and its CLT against the truth."""

import math

import mpmath
import numpy as np
import pytest
from truths import direction

from dpkit.privacy import Gaussian, Laplace, Release, SampledGaussian, gdp, pld
from dpkit.privacy.ledger import FIXED
from dpkit.privacy.mechanisms import GaussianDp


def by_mpmath(mu: float, epsilon: float) -> float:
    """log of Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), read literally (Cor. 2.13)."""
    with mpmath.workdps(100):
        return float(mpmath.log(direction(1 / mpmath.mpf(mu), 1, epsilon)))


@pytest.mark.parametrize("mu", [1e-9, 1e-3, 0.4999, 0.5, 1.0, 30.0, 1e3])
def test_delta_equals_100_digits_down_to_the_least(mu: float):
    for x in (-mu / 2, -0.4 * mu, -0.1 * mu, 0.0, 1e-3, 1.0, 5.0, 19.9, 20.1, 37.0, 1e3):
        epsilon = max(0.0, mu * (x + mu / 2))
        expected = by_mpmath(mu, epsilon)
        found = gdp.log_delta(mu, epsilon)
        # epsilon / mu - mu / 2 = x is rounded to 1e-16 of mu, and log(delta) moves by x times that
        error = 1e-13 * (1 + abs(expected)) + 1e-15 * mu * (1 + abs(x))
        assert found == pytest.approx(expected, abs=error)
    far = 1e9 * mu  # log(delta) is -x^2 / 2 there: relative to it
    assert gdp.log_delta(mu, far) == pytest.approx(by_mpmath(mu, far), rel=1e-12)


@pytest.mark.parametrize("noise", [0.1, 1.0, 40.0])
@pytest.mark.parametrize("count", [1, 10, 10_000])
@pytest.mark.parametrize("delta", [1e-100, 1e-5, 0.3])
def test_gaussians_compose_to_one_gaussian_exactly(noise: float, count: int, delta: float):
    spent = gdp.epsilon([Release(Gaussian(noise), count)], delta=delta)
    one = Gaussian(noise / math.sqrt(count))
    least = min(delta, one.profile([0.0])[0, 0])  # reached at epsilon 0 where that is enough
    assert one.profile([spent.epsilon])[0, 0] == pytest.approx(least, rel=1e-8)
    assert spent.lower <= spent.epsilon <= spent.lower * (1 + 1e-9)
    back = gdp.delta([Release(Gaussian(noise), count)], epsilon=spent.epsilon)
    assert back.delta == pytest.approx(least, rel=1e-8)
    assert "approximation" not in spent.method
    assert spent.assumptions == (FIXED,)


def test_epsilon_ends_on_the_private_side():
    for noise in np.geomspace(0.01, 1e3, 60):
        ledger = [Release(Gaussian(noise), 3)]
        spent = gdp.epsilon(ledger, delta=1e-6)
        mu = math.sqrt(3) / noise
        assert by_mpmath(mu, spent.epsilon) <= math.log(1e-6)
        assert spent.epsilon == 0 or by_mpmath(mu, spent.lower) >= math.log(1e-6)


def test_different_noises_and_replace_one_add_in_squares():
    ledger = [Release(Gaussian(1.0, "replace-one"), 3), Release(Gaussian(0.5, "replace-one"))]
    found = gdp.mu(ledger)
    assert found == GaussianDp(pytest.approx(math.sqrt(3 * 4 + 16)), True)
    one = gdp.epsilon([Release(Gaussian(1.0, "replace-one"))], delta=1e-5)
    assert (one.epsilon, one.adjacency) == (pytest.approx(9.9973, abs=1e-4), "replace-one")


def test_the_clt_is_no_bound_and_says_so():
    """At q 1e-4, noise 0.3, 1,000 steps the truth is 8.21, which a PLD certifies."""
    ledger = [Release(SampledGaussian(0.3, 1e-4), 1000)]
    spent = gdp.epsilon(ledger, delta=1e-5)
    mu = math.sqrt(1000) * 1e-4 * math.sqrt(math.expm1(1 / 0.3**2))
    assert by_mpmath(mu, spent.epsilon) == pytest.approx(math.log(1e-5), rel=1e-9)
    assert spent.epsilon == pytest.approx(3.47, abs=0.005)
    assert pld.epsilon(ledger, delta=1e-5).lower == pytest.approx(8.21, abs=0.02)
    assert spent.lower == 0
    assert "approximation (CLT), not an upper bound" in spent.method
    delta = gdp.delta(ledger, epsilon=2.0)
    assert "not an upper bound" in delta.method
    for told in (spent, delta):
        assert any("approximation" in one for one in told.assumptions)
    # one release of many that is a limit makes all of it an approximation
    mixed = gdp.epsilon([Release(Gaussian(1.0), 5), *ledger], delta=1e-5)
    assert "not an upper bound" in mixed.method
    assert mixed.lower == 0


def test_a_mu_that_is_a_bound_has_no_lower_one():
    """Laplace noise is mu-GDP, but shows less than its mu: an upper bound, and not tight."""
    laplace = Laplace(0.8)
    spent = gdp.epsilon([Release(laplace)], delta=1e-4)
    assert laplace.profile([spent.epsilon]).max() <= 1e-4
    assert spent.lower == 0
    assert "approximation" not in spent.method
