"""AdaDP's two-dimensional example: its prices, its cosines two ways, and their order."""

import math

import numpy as np
import pytest
from refusals import refused
from scipy import integrate, special

from dpkit.papers.adadp import example
from dpkit.papers.adadp.example import PRINTED, SENSITIVITIES, VALUES, exact_mean_cosine, shaped
from dpkit.privacy import Gaussian, Release, pld

STRATEGIES = list(PRINTED)
USED = {"adaptive": 0.9965, "uniform": 0.9877, "inverse": 0.9951}
COSINES = {"adaptive": 0.47044, "uniform": 0.47804, "inverse": 0.39921}


def at_one_level(power: float, values: tuple[float, ...] = VALUES) -> float:
    noise = shaped(SENSITIVITIES, power=power, noise_multiplier=example.NOISE_MULTIPLIER)
    return exact_mean_cosine(values, noise)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_printed_noise_meets_lemma_1_and_is_a_power_of_the_sensitivity(strategy):
    used = example.privacy_used(SENSITIVITIES, PRINTED[strategy])
    assert used == pytest.approx(USED[strategy], abs=5e-5)
    assert used < 1 / example.NOISE_MULTIPLIER**2
    scaled = example.to_one_level(SENSITIVITIES, PRINTED[strategy], noise_multiplier=0.7)
    power = example.POWERS[strategy]
    assert scaled == pytest.approx(shaped(SENSITIVITIES, power=power, noise_multiplier=0.7))
    assert example.privacy_used(SENSITIVITIES, scaled) == pytest.approx(1 / 0.7**2)
    line_12 = shaped((3.0, 1.0, 0.5), power=1.0, noise_multiplier=2.0)  # of Algorithm 1
    assert line_12 == pytest.approx([2 * math.sqrt(3) * s for s in (3.0, 1.0, 0.5)])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_cosines_three_ways_and_far_from_the_printed_ones(strategy):
    """The draws fail by chance with probability 6e-5 each (4 standard errors), seed fixed.

    The third is the mean over the plane, by the density at each radius and angle.
    """
    noise = PRINTED[strategy]
    f, sigma = np.array(VALUES), np.array(noise)

    def integrand(angle: float, radius: float) -> float:
        way = np.array([math.cos(angle), math.sin(angle)])
        z = (radius * way - f) / sigma
        density = math.exp(-(z**2).sum() / 2) / (2 * math.pi * sigma.prod())
        return float(way @ f) / math.hypot(*VALUES) * density * radius

    far = math.hypot(*VALUES) + 10 * max(noise)
    polar = integrate.dblquad(integrand, 0, far, 0, 2 * math.pi, epsabs=1e-7)[0]
    exact = exact_mean_cosine(VALUES, noise)
    assert exact == pytest.approx(COSINES[strategy], abs=5e-6)
    assert exact == pytest.approx(polar, abs=1e-6)
    drawn, again = (example.mean_cosine(VALUES, noise, draws=200_000, seed=3) for _ in range(2))
    assert abs(drawn.value - exact) < 4 * drawn.standard_error < 0.007
    assert drawn == again
    as_many = drawn.standard_error * math.sqrt(200_000 / example.DRAWS)  # of the paper's
    assert abs(example.PRINTED_COSINES[strategy] - exact) > 5 * as_many


def test_adaptive_and_uniform_noise_have_the_same_total_variance_and_the_root_the_least():
    totals = {}
    for power in np.linspace(-2, 2, 41).round(1):
        noise = shaped(SENSITIVITIES, power=power, noise_multiplier=1.0)
        totals[power] = sum(np.square(noise))
    assert totals[0.0] == pytest.approx(totals[1.0]) == pytest.approx(360)
    assert min(totals, key=lambda power: totals[power]) == 0.5
    assert totals[0.5] == pytest.approx((12 + 6) ** 2)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_price_is_that_of_one_gaussian_and_certified(strategy):
    noise = PRINTED[strategy]
    found = example.price(SENSITIVITIES, noise, delta=1e-5)
    assert found.adjacency == "add-remove"
    one = Gaussian(1 / math.sqrt(example.privacy_used(SENSITIVITIES, noise)))
    pair = pld.epsilon([Release(one)], delta=1e-5)
    assert pair.lower <= found.epsilon <= pair.epsilon * (1 + 1e-9)


def test_uniform_noise_keeps_the_direction_best_of_the_three():
    printed = {name: exact_mean_cosine(VALUES, noise) for name, noise in PRINTED.items()}
    equal = {name: at_one_level(example.POWERS[name]) for name in PRINTED}
    for cosines in (printed, equal):
        assert sorted(STRATEGIES, key=cosines.__getitem__) == ["inverse", "adaptive", "uniform"]
    assert equal["uniform"] == pytest.approx(0.48055, abs=5e-6)
    assert at_one_level(example.POWERS["square root"]) > equal["uniform"]


def test_a_value_large_beside_its_noise_has_the_order_of_the_paper():
    """Adaptive and uniform noise change places at 2.8 times the paper's value."""
    cosines = [at_one_level(example.POWERS[name], (100.0, 50.0)) for name in STRATEGIES]
    assert cosines == sorted(cosines, reverse=True)
    for value, adaptive_leads in (((25.0, 12.5), False), ((30.0, 15.0), True)):
        adaptive, uniform = (at_one_level(example.POWERS[name], value) for name in STRATEGIES[:2])
        assert (adaptive > uniform) == adaptive_leads


@pytest.mark.parametrize("noise", [1e-12, 1e-3, 0.3, 1.0, 40.0, 1e6])
def test_one_coordinate_and_equal_noise_have_closed_forms(noise):
    exact = special.erf(1 / (noise * math.sqrt(2)))  # P(y > 0) - P(y < 0)
    assert exact_mean_cosine([2.0], [2 * noise]) == pytest.approx(exact, rel=1e-9)
    a = 1 / (4 * noise**2)  # half the squared length over twice the variance
    if a < 1e5:
        exact = math.sqrt(math.pi * a / 2) * (special.ive(0, a) + special.ive(1, a))
        assert exact_mean_cosine((0.6, 0.8), (noise, noise)) == pytest.approx(exact, rel=1e-9)
    for extreme in ((noise, 1 / noise), (noise, 1e9)):  # it still converges
        assert 0 < exact_mean_cosine((1.0, 1.0), extreme) <= 1


test_bad_input_is_refused = refused(
    (lambda: example.privacy_used((1.0,), (1.0, 2.0)), "got 1 and 2"),
    (lambda: example.privacy_used((0.0,), (1.0,)), "sensitivities must be a finite number > 0"),
    (lambda: example.privacy_used((1.0,), (math.nan,)), "noise_stds must be a finite number > 0"),
    (lambda: shaped((1.0,), power=1.0, noise_multiplier=0.0), "noise_multiplier"),
    (lambda: shaped((1.0,), power=math.nan, noise_multiplier=1.0), "power"),
    (lambda: exact_mean_cosine((0.0, 0.0), (1.0, 1.0)), "not all 0"),
    (lambda: exact_mean_cosine((1.0, math.nan), (1.0, 1.0)), "finite numbers"),
    (lambda: exact_mean_cosine((1.0, 1.0), (1.0,)), "must hold 2 numbers"),
    (lambda: example.mean_cosine((1.0,), (1.0,), draws=1, seed=0), "draws"),
    (lambda: example.mean_cosine((1.0,), (1.0,), draws=10, seed=-1), "seed"),
    (lambda: example.price((1.0,), (1.0,), delta=1.0), "delta"),
)
