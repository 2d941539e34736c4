"""Noise on the loss: formulas by hand, verdicts by closed forms, pictures at every extreme."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpkit.course.explorers import LossNoise
from dpkit.course.explorers.certified import ENOUGH, TOO_SMALL
from dpkit.course.explorers.loss_noise import TOP, holds_to
from dpkit.papers.rdp_gan import theorems
from dpkit.privacy import Release, SampledGaussian, pld

EXPLORER = LossNoise
computed = partial(
    EXPLORER.compute,
    noise_std=10.0,
    largest_loss=20.0,
    batch=64,
    records=20_000,
    discriminator_steps=5,
    iterations=1000.0,
    order=2.0,
)
FAILING = {"noise_std": 0.3, "largest_loss": 150.0, "order": 64.0, "discriminator_steps": 10}


def by_a_threshold(epsilon, *, noise_multiplier, rate, releases):
    """A lower bound on delta: the best attacker who looks at the sum of the releases alone.

    The sum of n releases is N(0, n s^2) without the record, and N(k, n s^2) with it where it is in
    k of the batches, k binomial.
    """
    spread = noise_multiplier * math.sqrt(releases)
    thresholds = np.linspace(-1, 6, 4001)[:, None] * spread
    k = np.arange(releases + 1)
    weights = binom.pmf(k, releases, rate)
    found = (weights * norm.sf((thresholds - k) / spread)).sum(axis=1)
    return float(np.max(found - math.exp(epsilon) * norm.sf(thresholds[:, 0] / spread)))


def test_formulas_are_the_papers():
    """Theorem 1: (0.0032 * 4 / 2) (0.3125 / 10)^2; the others from it."""
    result = computed()
    assert result["sensitivity"] == 20 / 64 == 0.3125  # Table II, Adult
    assert result["theorem_1"] == pytest.approx(6.25e-6, rel=1e-12)
    log = math.log(1e5)
    assert result["theorem_2"] == pytest.approx(4 * 6.25e-6 * math.sqrt(2 * 5 * log), rel=1e-12)
    assert result["theorem_4"] == pytest.approx(1000 * result["theorem_2"], rel=1e-12)
    moments = 1000 * 2 * 0.0032 * math.sqrt(5 * log) / 10
    assert result["eq_23"] == pytest.approx(moments, rel=1e-12)
    assert result["releases"] == 5000
    assert result["noise_multiplier"] == 32


@pytest.mark.parametrize("noise_std", [0.3, 1.0, 4.0])
def test_one_release_is_priced_by_the_accountants(noise_std):
    found = computed(noise_std=noise_std, discriminator_steps=1, iterations=1.0)
    s, q = noise_std * 64 / 20, 64 / 20_000
    assert (found["noise_multiplier"], found["sample_rate"]) == pytest.approx((s, q))
    assert found["exact"] == pytest.approx(math.log1p(q * q * math.expm1(1 / s**2)), rel=1e-9)
    assert found["training"] == math.inf  # at any noise
    assert found["pair"] == found["pair_each"]
    low, high = found["pair"]
    by_pld = pld.epsilon([Release(SampledGaussian(s, q))], delta=1e-5)
    assert 0 < low <= by_pld.epsilon
    assert by_pld.lower <= high < 1.011 * low


def test_theorem_2_is_too_small_where_the_paper_is(explorer):
    """A threshold on the sum of five noised losses does better than Theorem 2 says anyone can."""
    result = computed()
    run = {"noise_multiplier": 32.0, "rate": 0.0032, "releases": 5}
    assert by_a_threshold(result["theorem_2"], **run) > 1.03 * 1e-5
    assert result["theorem_2"] < result["pair_each"][0]
    assert by_a_threshold(result["pair_each"][1], **run) <= 1e-5
    rows = {name: (value, note) for name, value, note in explorer.table(result).rows}
    assert rows["Theorem 2: 5 releases"][1] == TOO_SMALL
    assert rows["Theorem 4: 5000 releases"][1] == ENOUGH  # summed up, it is generous
    assert rows["training by Algorithm 1"][0] == "inf"


@pytest.mark.parametrize(("multiplier", "rate"), [(0.1, 0.0064), (0.96, 0.0032), (32.0, 64 / 6e4)])
def test_theorem_1_holds_up_to_one_order_and_not_beyond(multiplier, rate):
    to = holds_to(multiplier, rate)
    assert 1 < to < TOP
    orders = 1 + np.geomspace(1e-6, min(8 * to, TOP), 60)
    orders = np.append(orders, [to, 1 + (to - 1) * 1.0001])
    exact = SampledGaussian(multiplier, rate).rdp(orders)
    step = {"sample_rate": rate, "sensitivity": 1.0, "noise_std": multiplier}
    stated = [theorems.theorem_1(float(order), **step) for order in orders]
    assert list(np.array(stated) >= exact) == list(orders <= to)
    assert holds_to(960.0, 0.0032) == TOP  # at all orders that are priced


def test_no_value_where_the_condition_fails(explorer):
    result = computed(**FAILING)
    assert result["theorem_1"] ** 2 * 10 > math.log(1e5)
    assert result["theorem_2"] is None
    assert result["theorem_4"] is None
    text = explorer.table(result).text()
    assert text.count("its condition fails") == 2
    assert "Theorem 4 gives no value" in explorer.draw(result).words


def test_order_2_is_on_the_slider(explorer):
    slider = explorer.values["order"]
    assert computed.keywords["order"] in slider.stops
    assert slider.stops[-1] == 64
    by_order = [computed(order=2.0 + d)["theorem_4"] for d in (-0.1, 0.0, 0.1)]
    assert min(by_order) == by_order[1]
