"""RDP-GAN's proof and tables: bounds against integrals and sums, ratios against closed forms."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from dpkit.papers.claims import check
from dpkit.papers.experiments import store
from dpkit.papers.rdp_gan import claims, recomputed
from dpkit.papers.rdp_gan.claims import CLAIMS

BY_NAME = {claim.name: claim for claim in CLAIMS}


def value(name: str) -> float:
    return check(BY_NAME[name]).computed


def log_moment(order: int, *, q: float, s: float) -> float:
    """Log of E_0 (mixture / N(0, s^2))^order by its binomial sum (Mironov et al. 2019, eq. 6)."""
    k = np.arange(order + 1)
    choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    logs = choose + k * math.log(q) + (order - k) * math.log1p(-q) + k * (k - 1) / (2 * s**2)
    return float(logsumexp(logs))


def reverse(order: int, *, q: float, s: float) -> float:
    """Divergence of N(0, s^2) from the mixture, by adaptive integration."""

    def integrand(x: float) -> float:
        mixed = (1 - q) * norm.pdf(x, 0, s) + q * norm.pdf(x, 1, s)
        return float(norm.pdf(x, 0, s) ** order / mixed ** (order - 1))

    return math.log(quad(integrand, -10 * s, 10 * s, epsabs=0, epsrel=1e-12)[0]) / (order - 1)


@pytest.mark.parametrize(("order", "q", "s"), [(2, 0.01, 1.0), (5, 0.2, 0.7), (3, 0.5, 3.0)])
def test_the_other_direction_is_the_smaller_one(order, q, s):
    found = recomputed.other_divergence(order, sample_rate=q, noise_std=s)
    assert found == pytest.approx(reverse(order, q=q, s=s), rel=1e-7)
    assert 0 < found < log_moment(order, q=q, s=s) / (order - 1)


def test_eq_27_at_its_example():
    assert value("eq-27-negative") == pytest.approx(-math.log(1 + 0.01 * (math.e - 1)), rel=1e-12)
    assert BY_NAME["eq-27-negative"].stated == pytest.approx(reverse(2, q=0.01, s=1), rel=1e-7)


def test_the_line_before_c_bounds_the_divergence_at_every_order():
    for q, s in ((0.003, 0.6), (0.07, 1.3), (0.9, 5.0)):
        orders = np.arange(2, 200)
        bound = recomputed.before_c(orders, sample_rate=q, noise_std=s)
        exact = [log_moment(int(a), q=q, s=s) / (a - 1) for a in orders]
        assert (bound >= exact).all()
    assert value("eq-26-before-c") >= 1


def test_the_moments_accountant_by_its_sums():
    """Of 5,000 releases with rate 64 / 20,000 and noise multiplier 10 / (20 / 64) = 32."""
    best = math.inf
    for moment in range(1, 2_001):
        spent = 5_000 * log_moment(moment + 1, q=64 / 20_000, s=32.0)
        best = min(best, (spent + math.log(1e5)) / moment)
        if moment == 32:
            assert recomputed.accountant(32) == pytest.approx(best, rel=1e-6)
    claim = BY_NAME["tighter-than-moments-accountant"]
    assert claim.stated == pytest.approx(best, rel=1e-6)
    assert value(claim.name) > 5 * best


def test_ratios_of_the_data_sets_follow_from_their_sizes():
    """Eq. 16 goes as q dS^2: three times the rate, and the squared ratio of the largest losses."""
    assert recomputed.adult_over_mnist(64) == pytest.approx(3 * (20 / 25) ** 2)
    assert recomputed.adult_over_mnist(128) == pytest.approx(3 * (23 / 28) ** 2)


@pytest.mark.parametrize(
    ("name", "rate", "moved", "k"),
    [("MNIST", 64 / 60_000, 25 / 64, 0.6), ("Adult", 64 / 20_000, 20 / 64, 0.5)],
)
def test_steps_without_a_floor_are_counted_by_hand(name, rate, moved, k):
    spent, done = 0.0, 0
    while True:
        noise = 10 * k ** (done / 100)
        renyi = rate * 4 / 2 * (moved / noise) ** 2  # Theorem 1 at order 2
        spent += 4 * renyi * math.sqrt(2 * 5 * math.log(1e5))  # eq. 15
        if spent > 0.5:
            break
        done += 1
    assert recomputed.unfloored_iterations(name) == done


def test_printed_cells_and_stored_runs():
    assert value("table-gains") == pytest.approx(0.01)
    assert claims.gain("census") == pytest.approx(0.004)
    real = store.load("rdp_gan", "table_5")["real-seed0"]["values"]["scores"]["0"]
    assert value("adult-real-accuracy") == real["accuracy"]
    grown = 0
    for records in ("census", "digits"):
        means = [
            np.mean(
                [
                    one["values"]["one_record"]
                    for name, one in losses.items()
                    if name.startswith(cell)
                ]
            )
            for losses in [store.load("rdp_gan", "table_2")]
            for cell in (f"{records}-64-", f"{records}-128-")
        ]
        grown += bool(means[1] > means[0])
    assert value("larger-batch-larger-loss") == grown
