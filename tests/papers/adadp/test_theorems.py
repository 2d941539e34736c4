"""The paper's formulas in high precision, by differentiation, quadrature and their definitions."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from refusals import refused
from truths import theorem_of_fixed_sizes

from dpkit.papers.adadp import theorems
from dpkit.papers.adadp.theorems import ORDERS, PRINTED, Theorem1
from dpkit.privacy import divergence, gdp


def delta(h: Any, epsilon: float) -> Any:
    """E[max(0, 1 - e^(epsilon - loss))] of a loss of N(h / 2, h), integrated (Lemma 2)."""
    gap, root = epsilon - h / 2, mpmath.sqrt(h)
    height = lambda z: -mpmath.expm1(gap - root * z) * mpmath.npdf(z)  # noqa: E731
    low = gap / root
    return mpmath.quad(height, [low, max(low, 0) + 3, max(low, 0) + 12])


@pytest.mark.parametrize("h", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_the_slope_of_the_profile_and_of_its_limit_by_their_definitions(h: float, epsilon: float):
    with mpmath.workdps(25):
        exact = delta(mpmath.mpf(h), epsilon)
        slope = mpmath.diff(lambda x: delta(x, epsilon), mpmath.mpf(h))
        limit = mpmath.diff(lambda x: mpmath.sqrt(x) / 2 - epsilon / mpmath.sqrt(x), mpmath.mpf(h))
    assert math.exp(gdp.log_delta(math.sqrt(h), epsilon)) == pytest.approx(float(exact), rel=1e-9)
    found = theorems.limit_slope(h, epsilon=epsilon)
    assert found == pytest.approx(float(limit), rel=1e-9)  # of exponent -3/2
    printed = theorems.limit_slope(h, epsilon=epsilon, exponent=PRINTED)
    assert (abs(printed / found - 1) > 0.1) == (h != 1 and epsilon > 0)
    for exponent in (theorems.RIGHT, PRINTED):  # the terms with the exponent cancel
        found = theorems.profile_slope(h, epsilon=epsilon, exponent=exponent)
        assert found == pytest.approx(float(slope), rel=1e-9)
        assert found > 0


@pytest.mark.parametrize("order", [2, 5.5])
def test_lemma_3_is_right_of_a_sensitivity_of_1(order: float):
    p, q = divergence.normal(0, 1.5), divergence.normal(1, 1.5)
    exact = divergence.renyi(p, q, order, low=-30, high=30)
    assert theorems.lemma_3(order, noise_std=1.5) == pytest.approx(exact, rel=1e-9)


def second_moment(noise: float) -> float:
    """E_R[((P - Q) / R)^2] of three Gaussians with means 1 apart, by Gauss and Hermite in 2-D."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    x, y = np.meshgrid(nodes, nodes)
    weight = np.outer(weights, weights) / (2 * math.pi)
    corners = [(1.0, 0.0), (0.5, math.sqrt(3) / 2)]  # from R at the origin, in units of the shift
    ratios = [np.exp((x * a + y * b) / noise - 0.5 / noise**2) for a, b in corners]
    return float((weight * (ratios[0] - ratios[1]) ** 2).sum())


@pytest.mark.parametrize("noise", [0.5, 0.9, 2.0, 8.0])
def test_the_second_term_bounds_the_moment_and_the_printed_one_need_not(noise: float):
    moment = second_moment(noise)
    assert moment <= theorems.second_term(noise)
    assert (moment > theorems.printed_second_term(noise)) == (noise == 0.5)


@pytest.mark.parametrize(("noise", "steps", "highest"), [(0.9, 1_800, 12), (4.0, 2_000, 30)])
def test_theorem_1_is_least_over_the_orders(noise: float, steps: int, highest: int):
    found = Theorem1(noise, sample_rate=0.01).epsilon(steps, delta=1e-5)
    each = {
        a: steps * theorem_of_fixed_sizes(a, noise, 0.01) + math.log(1e5) / (a - 1)
        for a in range(2, highest)
    }
    order = min(each, key=lambda a: each[a])
    assert found.order == order < highest - 1
    assert found.epsilon == pytest.approx(each[order], rel=1e-9)


def test_steps_are_the_inverse_of_epsilon_and_the_ends_of_theorem_1():
    one = Theorem1(4.0, sample_rate=0.01)
    at = one.epsilon(2_000, delta=1e-5)
    assert one.steps(at.epsilon * (1 + 1e-9), delta=1e-5) == 2_000
    assert one.epsilon(2_001, delta=1e-5).epsilon > at.epsilon
    assert one.epsilon(0, delta=1e-5).epsilon == pytest.approx(math.log(1e5) / 63)
    assert one.steps(0.1, delta=1e-5) == 0  # below log(1 / delta) / 63
    assert (ORDERS[0], ORDERS[-1], len(ORDERS)) == (2, 64, 63)


@pytest.mark.parametrize("moment", [1.0, 7.0, 32.0])
def test_footnote_1_is_where_the_moment_proves_delta(moment: float):
    """At that H, E[e^(l loss)] = delta e^(l eps), the moment being integrated."""
    h = theorems.footnote_1(5.0, delta=1e-2, moment=moment)
    assert h > 0
    with mpmath.workdps(30):
        root = mpmath.sqrt(h)
        centre = moment * root
        height = lambda z: mpmath.e ** (moment * (h / 2 + root * z)) * mpmath.npdf(z)  # noqa: E731
        area = mpmath.quad(height, mpmath.linspace(centre - 15, centre + 15, 7))
        assert float(mpmath.log(area)) == pytest.approx(moment * 5 + math.log(1e-2), rel=1e-9)


ONE = Theorem1(4.0, sample_rate=0.01)
test_bad_input_is_named = refused(
    (lambda: theorems.limits(math.nan, epsilon=1.0), "h must"),
    (lambda: theorems.limit_slope(math.nan, epsilon=1.0), "h must"),
    (lambda: theorems.profile_slope(1.0, epsilon=-1.0), "epsilon must"),
    (lambda: theorems.lemma_3(1, noise_std=1.0), "order must"),
    (lambda: theorems.lemma_3(2, noise_std=math.nan), "noise_std must"),
    (lambda: theorems.second_term(math.nan), "noise must"),
    (lambda: theorems.printed_second_term(0.0), "noise must"),
    (lambda: Theorem1(4.0, sample_rate=0.0), "sample_rate must"),
    (lambda: Theorem1(math.nan, sample_rate=0.1), "noise_over_sensitivity must"),
    (lambda: ONE.epsilon(-1, delta=1e-5), "steps must"),
    (lambda: ONE.epsilon(1, delta=math.nan), "delta must"),
    (lambda: ONE.steps(math.nan, delta=1e-5), "target_epsilon must"),
    (lambda: ONE.steps(1.0, delta=1.0), "delta must"),
    (lambda: theorems.footnote_1(math.nan, delta=1e-5, moment=1.0), "epsilon must"),
    (lambda: theorems.footnote_1(1.0, delta=math.nan, moment=1.0), "delta must"),
    (lambda: theorems.footnote_1(1.0, delta=1e-5, moment=0.0), "moment must"),
)
