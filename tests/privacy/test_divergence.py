"""The oracle itself against closed forms: normal and Laplace pairs."""

import math

import pytest
from scipy.special import ndtr

from dpkit.privacy import divergence

SPAN = {"low": -13.0, "high": 14.0}


@pytest.mark.parametrize("order", [1.01, 2.0, 3.5])
def test_renyi_of_two_normals_and_of_two_laplaces_is_the_closed_form(order: float):
    """alpha shift^2 / (2 variance), and with scale 2 (Mironov 2017, Prop. 7 and 6)."""
    for deviation in (0.7, 1.0):
        pair = divergence.normal(1, deviation), divergence.normal(0, deviation)
        found = divergence.renyi(*pair, order, **SPAN)
        assert found == pytest.approx(order / (2 * deviation**2), rel=1e-9)
    up = order / (2 * order - 1) * math.exp((order - 1) / 2)
    down = (order - 1) / (2 * order - 1) * math.exp(-order / 2)
    pair = divergence.laplace(1, 2), divergence.laplace(0, 2)
    found = divergence.renyi(*pair, order, low=-80, high=81)
    assert found == pytest.approx(math.log(up + down) / (order - 1), rel=1e-8)


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 2.0])
def test_hockey_sticks_are_the_closed_forms(epsilon: float):
    one, zero = divergence.normal(1, 0.8), divergence.normal(0, 0.8)
    mu = 1 / 0.8  # Balle, Wang 2018, Thm 5
    expected = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    found = divergence.hockey_stick(one, zero, epsilon, **SPAN)
    assert found == pytest.approx(expected, rel=1e-9)
    one, zero = divergence.laplace(1, 0.8), divergence.laplace(0, 0.8)
    expected = max(0.0, -math.expm1((epsilon - mu) / 2))
    found = divergence.hockey_stick(one, zero, epsilon, low=-40, high=41)
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-12)


def test_a_mixture_of_equals_is_the_part_itself():
    part = divergence.normal(0.3, 2)
    both = divergence.mixture([0.2, 0.8, 0.0], [part, part, divergence.normal(9, 1)])
    for x in (-40.0, 0.0, 7.0):
        assert both(x) == pytest.approx(part(x), rel=1e-12)
