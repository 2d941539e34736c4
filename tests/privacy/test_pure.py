"""Laplace noise and randomised response against their definitions, in high precision."""

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm
from truths import renyi_divergence

from dpkit.privacy.mechanisms.pure import Laplace, RandomizedResponse

ORDERS = [1 + 1e-12, 1 + 1e-8, 1.001, 1.5, 2.0, 3.3, 64.0, 1024.0, 2.0**20]


def laplace_by_mpmath(t: mpmath.mpf, order: float) -> mpmath.mpf:
    """Mironov 2017, Prop. 6, as printed."""
    a = mpmath.mpf(order)
    inside = a / (2 * a - 1) * mpmath.exp((a - 1) * t)
    inside += (a - 1) / (2 * a - 1) * mpmath.exp(-a * t)
    return mpmath.log(inside) / (a - 1)


@pytest.mark.parametrize("noise", [1e-9, 1e-3, 0.3, 1.0, 50.0, 1e6, 1e13])
@pytest.mark.parametrize(("adjacency", "shift"), [("add-remove", 1), ("replace-one", 2)])
def test_laplace_rdp_keeps_its_digits_at_every_noise_and_order(noise, adjacency, shift):
    with mpmath.workdps(120):
        t = mpmath.mpf(shift) / mpmath.mpf(noise)
        expected = [float(laplace_by_mpmath(t, order)) for order in ORDERS]
    np.testing.assert_allclose(Laplace(noise, adjacency).rdp(ORDERS), expected, rtol=1e-13)


def test_laplace_is_pure():
    mechanism = Laplace(0.5)
    assert (mechanism.profile([2.0, 3.0, np.inf]) == 0).all()
    assert mechanism.profile([2.0 - 1e-9])[0, 0] == pytest.approx(5e-10, rel=1e-6)
    np.testing.assert_allclose(mechanism.profile([-2.5])[0], 1 - math.exp(-2.5))
    assert Laplace(1e-9).rdp([2**20])[0] <= 1e9


@pytest.mark.parametrize(("a", "c"), [(0.5, 0.5), (0.1, 0.9), (2.0, 3.0)])
def test_a_move_over_two_coordinates_costs_no_more_than_over_one(a: float, c: float):
    """delta of the product is the mean, over the second loss l, of the first's at epsilon - l."""
    one = lambda e: float(Laplace(1 / a).profile([e])[0, 0])  # noqa: E731
    for epsilon in (0.0, 0.2 * (a + c), 0.5 * (a + c), 0.9 * (a + c)):
        middle = quad(
            lambda x, e=epsilon: math.exp((x - c) / 2) / 4 * one(e - x),
            -c,
            c,
            points=sorted({max(-c, min(c, epsilon - a)), max(-c, min(c, epsilon + a))}),
        )[0]
        both = middle + one(epsilon - c) / 2 + math.exp(-c) / 2 * one(epsilon + c)
        assert both <= float(Laplace(1 / (a + c)).profile([epsilon])[0, 0]) * (1 + 1e-9)


@pytest.mark.parametrize("t", [1e-6, 0.3, 0.99, 1.01, 4.0, 30.0])
def test_the_mu_of_laplace_is_the_least_whose_curve_lies_below(t: float):
    mu = Laplace(1 / t).gaussian_dp().mu
    at_fixed_point = math.exp(-t / 2) / 2
    alpha = np.concatenate([np.geomspace(1e-12, 0.5, 300), 1 - np.geomspace(1e-12, 0.5, 300)])
    trade_off = laplace.cdf(laplace.isf(alpha) - t)
    gaussian = norm.cdf(norm.isf(alpha) - mu)
    assert (trade_off >= gaussian * (1 - 1e-9)).all()
    touching = norm.cdf(norm.isf(at_fixed_point) - mu)
    assert touching == pytest.approx(at_fixed_point, rel=1e-9)


def response(epsilon: float, categories: int) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    """The two rows of answers' probabilities, from the definition."""
    truth = mpmath.exp(epsilon) / (mpmath.exp(epsilon) + categories - 1)
    lie = 1 / (mpmath.exp(epsilon) + categories - 1)
    rest = [lie] * (categories - 2)
    return [truth, lie, *rest], [lie, truth, *rest]


@pytest.mark.parametrize("categories", [2, 3, 40])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.7, 5.0, 800.0])
def test_randomised_response_equals_its_sums(epsilon: float, categories: int):
    mechanism = RandomizedResponse(epsilon, categories)
    with mpmath.workdps(60):
        p, q = response(mpmath.mpf(epsilon), categories)

        def delta(at: float) -> float:
            worst = mpmath.exp(at)
            return float(mpmath.fsum(max(x - worst * y, 0) for x, y in zip(p, q, strict=True)))

        orders = [1 + 1e-8, 1.5, 2.0, 64.0, 1024.0]
        expected = [renyi_divergence(p, q, order) for order in orders]
        np.testing.assert_allclose(mechanism.rdp(orders), expected, rtol=1e-12)
        points = [0.0, epsilon / 3, epsilon * 0.99, epsilon, epsilon + 1, -epsilon / 2]
        expected = np.array([delta(at) for at in points])
        np.testing.assert_allclose(mechanism.profile(points)[0], expected, rtol=1e-9, atol=1e-25)
        np.testing.assert_array_equal(*mechanism.profile(points))


@pytest.mark.parametrize("categories", [2, 3, 1000])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 0.49, 0.51, 1.0, 8.0])
def test_the_mu_of_randomised_response_touches_the_corner(epsilon: float, categories: int):
    with mpmath.workdps(40):
        p, q = response(mpmath.mpf(epsilon), categories)
        quantile = lambda x: mpmath.sqrt(2) * mpmath.erfinv(2 * x - 1)  # noqa: E731
        expected = float(quantile(p[0]) - quantile(q[0]))
    found = RandomizedResponse(epsilon, categories).gaussian_dp().mu
    assert found == pytest.approx(expected, rel=1e-12)
    alpha = np.linspace(1e-9, 1 - 1e-9, 500)
    corners = [0, q[0], 1 - p[0], 1], [1, 1 - p[0], q[0], 0]
    polygon = np.interp(alpha, *np.array(corners, dtype=float))
    assert (norm.cdf(norm.isf(alpha) - expected) <= polygon * (1 + 1e-9)).all()
