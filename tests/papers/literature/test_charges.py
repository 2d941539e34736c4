"""Findings on charges for steps and batches, each computed in another way."""

import math
from itertools import product

import dp_accounting as peer
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as losses
from scipy.integrate import quad
from scipy.stats import binom, norm
from truths import by_dp_accounting, by_moments, gaussian_epsilon

from dpkit.papers import claims
from dpkit.papers import literature as ledger
from dpkit.papers.literature import charges

BY_NAME = {claim.name: claim for claim in ledger.CLAIMS}


def value(name: str) -> float:
    return claims.check(BY_NAME[name]).computed


def limit(*runs: tuple[float, float, int]) -> float:
    """Epsilon of the one Gaussian that ever more and smaller steps tend to."""
    mu = math.hypot(*(q * math.sqrt(n * math.expm1(z**-2)) for z, q, n in runs))
    return float(gaussian_epsilon(1 / mu, 1e-5))


def test_steps_cost_what_dp_accounting_and_the_limit_say():
    below, above = by_dp_accounting({1.0: 2_000}, 0.5, delta=2e-6, width=0.1)
    assert BY_NAME["dp-cgans-steps"].stated < below <= value("dp-cgans-steps") <= 1.01 * above
    near = limit((1.07, 1e-3, 6_000 * 32 + 14_001 * 1_000 * 2))
    assert value("dpac-1000-images") == pytest.approx(near, rel=5e-3)
    exact = float(gaussian_epsilon(math.sqrt(8 / 5), 1e-5))
    assert exact == pytest.approx(value("dpsda-figure-5"), abs=1e-6)


def of_counts(moved: float, chances: np.ndarray) -> float:
    """From above, of 15,000 sums that a record moves by its count."""
    moves = [moved * count for count in range(len(chances))]
    one = losses.from_mixture_gaussian_mechanism(3.5, moves, [*(chances / chances.sum())])
    return one.self_compose(15_000).get_epsilon_for_delta(1e-5)


def test_a_record_is_met_as_often_as_draws_with_replacement_meet_it():
    n, found = 32_562, value("dpautogan-with-replacement")
    chances = binom.pmf(np.arange(5), n, 128 / n**2)  # a random size, then a choice
    assert found == pytest.approx(of_counts(2.0, chances), rel=0.01)
    assert of_counts(1.0, chances) == pytest.approx(0.50, abs=0.01)  # against 0
    said = by_moments(3.5, 128 / n, 15_000, most=50)  # at whole orders
    assert said == pytest.approx(BY_NAME["dpautogan-with-replacement"].stated, abs=1e-3)


def test_a_lone_label_is_drawn_as_often_as_among_all_draws():
    for n in (2, 3, 5):
        share = np.mean([0 in draws for draws in product(range(n), repeat=n)])
        assert charges.told(n) == pytest.approx(share)
    assert value("borealis-class-ratios") == math.inf


def test_dp_cgans_prints_what_99_epochs_cost():
    """Its improved conversion, at its best order, of a divergence by an integral."""
    power = quad(lambda x: norm.pdf(x) * (0.5 + 0.5 * math.exp(x - 0.5)) ** 1.5, -40, 40)[0]
    renyi = 198 * math.log(power) / 0.5
    said = renyi + math.log(1 - 1 / 1.5) - math.log(2e-6 * 1.5) / 0.5
    assert said == pytest.approx(BY_NAME["dp-cgans-steps"].stated, abs=1e-3)


def test_one_number_covers_one_entry_alone():
    assert charges.of_one_number(1) == pytest.approx(float(gaussian_epsilon(1.0, 1e-6)), rel=1e-6)
    assert charges.of_one_number(2) == value("dp-cgans-one-number") == math.inf
    exact = float(gaussian_epsilon(1.0, 2e-6))
    assert exact == pytest.approx(BY_NAME["dp-cgans-one-number"].stated, abs=1e-3)


def test_both_phases_cost_more_than_their_limit():
    kept = math.prod(1 - 1e-4 - t * (0.02 - 1e-4) / 999 for t in range(900))
    noise = math.sqrt((1 - kept) / (4 * 3_072 * kept))
    phases = ((noise, 1 / 1_563, 4_689), (1.19, 1 / 13, 650))
    assert limit(*phases) == pytest.approx(9.9996, abs=1e-3)
    accountant = peer.pld.PLDAccountant(value_discretization_interval=1e-3)
    for z, q, n in phases:
        accountant.compose(peer.PoissonSampledDpEvent(q, peer.GaussianDpEvent(z)), n)
    exact = accountant.get_epsilon(1e-5)
    assert value("dp-promise-central-limit") == pytest.approx(exact, rel=5e-3)
    said = [charges.of_promise(*one) for one in ((7.89, 925, 2), (1.94, 900, 3))]
    assert said == pytest.approx([1.05, 5.15], abs=0.005)
