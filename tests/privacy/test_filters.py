"""A filter's budget against direct conversions and exact sums, and noise that follows outcomes."""

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from time import sleep

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad

from dpkit.privacy import Gaussian, NoGuarantee, Release, SampledGaussian, conversions, rdp
from dpkit.privacy.accountants.filters import ADAPTIVE, OverBudget, RenyiFilter, best_order, budget

NAN, INF = float("nan"), float("inf")
PLAN = [Release(SampledGaussian(noise, 0.01), 100) for noise in (8.0, 4.0, 2.0, 1.0)]


@pytest.mark.parametrize("conversion", ["classic", "improved", "optimal"])
@pytest.mark.parametrize(
    ("target", "delta", "order"), [(0.5, 1e-5, 60), (8.0, 1e-6, 3.5), (1e-3, 1e-5, 2**17)]
)
def test_the_budget_is_the_most_that_converts_to_the_target(conversion, target, delta, order):
    convert = conversions.named(conversion).epsilon
    found = budget(target, delta=delta, order=order, conversion=conversion)

    def epsilon(divergence: float) -> float:
        return float(convert(np.array([float(order)]), np.array([divergence]), delta)[0])

    assert epsilon(found) <= target
    assert epsilon(found + 1e-8 * target) > target


def test_the_budget_against_the_theorem_in_many_digits():
    """Balle et al. 2020, Thm 21, solved for the divergence."""
    for target, delta, order in ((0.5, 1e-5, 60), (3.0, 1e-9, 12.25)):
        with mpmath.workdps(40):
            a, d = mpmath.mpf(order), mpmath.mpf(delta)
            exact = target - mpmath.log1p(-1 / a) + (mpmath.log(d) + mpmath.log(a)) / (a - 1)
            found = budget(target, delta=delta, order=order)
            assert exact * (1 - 1e-10) <= found <= exact


@pytest.mark.parametrize("conversion", ["classic", "improved", "optimal"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_as_many_releases_as_that_order_alone_allows(conversion, adjacency):
    mechanism = SampledGaussian(1.2, 0.05, adjacency)
    asked = {"delta": 1e-5, "order": 9, "conversion": conversion, "adjacency": adjacency}
    one, at_once = (RenyiFilter.for_target(3.0, **asked) for _ in range(2))
    count = 0
    while one.allows(mechanism):
        one.charge(mechanism)
        count += 1

    def spent(count: int) -> float:
        ledger = [Release(mechanism, count)]
        return rdp.epsilon(ledger, delta=1e-5, conversion=conversion, orders=[9]).epsilon

    assert count > 5
    assert spent(count) <= 3.0 < spent(count + 1)
    assert at_once.allows(mechanism, count)
    assert not at_once.allows(mechanism, count + 1)
    at_once.charge(mechanism, count)
    assert at_once.spent == one.spent


class Slow(RenyiFilter):
    """One in which a second thread has time to look while the first is about to charge."""

    def _fits(self, cost):
        fits = super()._fits(cost)
        sleep(0.01)
        return fits


def test_threads_do_not_charge_beyond_the_budget_together():
    one = Slow(7.0, 5.0, delta=1e-5)
    price = float(Gaussian(1.2).rdp([7.0])[0])
    charged = []

    def charge():
        with suppress(OverBudget):
            for _ in range(3):
                one.charge(Gaussian(1.2))
                charged.append(price)

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(charge) for _ in range(6)]:
            done.result()
    assert len(charged) == math.floor(5.0 / price) == 2
    assert one.spent == pytest.approx(math.fsum(charged))


def test_sums_are_exact():
    one = RenyiFilter(7.0, 5.0, delta=1e-5)
    mechanisms = [Gaussian(noise) for noise in (9.7, 13.1, 1e4, 1e9, 31.3)] * 40
    for mechanism in mechanisms:
        one.charge(mechanism)
    prices = [float(mechanism.rdp([7.0])[0]) for mechanism in mechanisms]
    exact = sum(map(Fraction, prices))
    assert Fraction(math.nextafter(one.spent, 0)) < exact <= Fraction(one.spent)
    assert one.spent == pytest.approx(math.fsum(prices), rel=3e-16)
    assert Fraction(one.remaining) <= 5 - exact
    assert one.remaining == pytest.approx(5 - math.fsum(prices), rel=1e-15)


def test_a_release_that_just_fits_and_one_that_just_does_not():
    price = float(Gaussian(3.0).rdp([4.0])[0])
    exactly = RenyiFilter(4.0, 3 * price, delta=1e-5)  # 3 * price may be rounded
    below = RenyiFilter(4.0, math.nextafter(price, 0), delta=1e-5)
    assert exactly.allows(Gaussian(3.0), 3) == (Fraction(3 * price) >= 3 * Fraction(price))
    assert RenyiFilter(4.0, price, delta=1e-5).allows(Gaussian(3.0))
    assert not below.allows(Gaussian(3.0))
    with pytest.raises(OverBudget, match=r"1 x Gaussian.* at order 4, and .* is left: take more"):
        below.charge(Gaussian(3.0))
    assert below.spent == 0.0


def test_what_is_refused_is_not_charged():
    one = RenyiFilter.for_target(1.0, delta=1e-5, order=20)
    one.charge(Gaussian(20.0), 3)
    before, asked = one.spent, [(Gaussian(0.5), 1), (Gaussian(20.0), 10**6)]
    for mechanism, count in [*asked, (Gaussian(1e-9), 10**300), (NoGuarantee("raw data"), 1)]:
        assert not one.allows(mechanism, count)
        with pytest.raises(OverBudget, match="costs"):
            one.charge(mechanism, count)
    assert one.spent == before
    assert one.allows(Gaussian(20.0))


def test_noise_that_halves_upon_outcomes_ends_within_the_budget():
    """Every path, whatever its noises, is within the budget at the one order."""
    rng, lengths = np.random.default_rng(5), set()
    for _ in range(12):
        one = RenyiFilter.for_target(2.0, delta=1e-5, order=11)
        step, path = SampledGaussian(16.0, 0.05), []
        while one.allows(step):
            one.charge(step)
            path.append(Release(step))
            if rng.normal() > 1.5:
                step = SampledGaussian(max(step.noise_multiplier / 2, 0.5), 0.05)
        lengths.add(len(path))
        spent = [rdp.epsilon(p, delta=1e-5, orders=[11]) for p in (path, [*path, Release(step)])]
        assert spent[0].epsilon <= 2.0 < spent[1].epsilon
    assert len(lengths) > 5  # the paths do differ


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 2.0, 4.0])
def test_the_guarantee_of_two_adaptive_releases_against_quadrature(threshold: float):
    """The first output decides whether one cheap or one dear release follows.

    The divergence of both outputs together is integrated over the first, the second's being known
    in closed form; the delta likewise, from the Gaussian profile at what is left of epsilon.
    """
    order, first = 8.0, 3.0
    cheap, dear = Gaussian(4.0), Gaussian(1.5)
    one = RenyiFilter.for_target(4.0, delta=1e-5, order=order)
    one.charge(Gaussian(first))
    assert one.allows(dear)
    assert one.allows(cheap)

    def second(x: float) -> Gaussian:
        return dear if x > threshold else cheap

    def density(x: float, mean: float) -> float:
        return math.exp(-((x - mean) ** 2) / (2 * first**2)) / (first * math.sqrt(2 * math.pi))

    def loss(x: float) -> float:
        return (2 * x - 1) / (2 * first**2)

    def power(x: float) -> float:
        then = (order - 1) * float(second(x).rdp([order])[0])
        return density(x, 0) * math.exp(order * loss(x) + then)

    pieces = [(-60.0, threshold), (threshold, 60.0)]
    total = sum(quad(power, a, b, limit=200)[0] for a, b in pieces)
    divergence = math.log(total) / (order - 1)
    assert divergence <= one.spent + float(dear.rdp([order])[0]) <= one.budget
    assert divergence > one.spent + float(cheap.rdp([order])[0]) * 0.99

    def delta(x: float) -> float:
        return density(x, 1) * float(second(x).profile([4.0 - loss(x)])[0, 0])

    assert sum(quad(delta, a, b, limit=200)[0] for a, b in pieces) <= 1e-5


def test_the_guarantee_is_the_target_whatever_is_chosen():
    one = RenyiFilter.for_target(2.0, delta=1e-6, order=9, adjacency="replace-one")
    before = one.guarantee()
    assert before[:4] == (2.0, 1e-6, 0.0, "replace-one")
    assert "Renyi filter at order 9 " in before.method
    assert "improved conversion" in before.method
    assert before.assumptions == (ADAPTIVE,)
    mechanism = SampledGaussian(2.0, 0.01, "replace-one")
    one.charge(mechanism, 5)
    one.charge(mechanism)
    after = one.guarantee()
    assert (after[:5], after.assumptions) == (before[:5], (*mechanism.assumptions, ADAPTIVE))
    direct = RenyiFilter(9, 0.25, delta=1e-6)
    expected = conversions.improved(np.array([9.0]), np.array([0.25]), 1e-6)[0]
    assert direct.guarantee().epsilon == expected


@pytest.mark.parametrize("conversion", ["classic", "improved", "optimal"])
def test_the_best_order_takes_the_least_share(conversion: str):
    found = best_order(1.0, delta=1e-5, ledger=PLAN, conversion=conversion)

    def share(order: float) -> float:
        most = budget(1.0, delta=1e-5, order=order, conversion=conversion)
        return float(rdp.curve(PLAN, [order])[1][0]) / most

    assert all(share(found) <= share(found * near) * 1.0001 for near in (0.99, 1.01, 2))
    assert best_order(1.0, delta=1e-5, ledger=PLAN, orders=[2, 25, 400]) == 25


def test_a_plan_fits_where_its_own_price_is_within_the_target():
    least = rdp.epsilon(PLAN, delta=1e-5).epsilon
    for target, fits in ((least * 1.001, True), (least * 0.999, False)):
        order = best_order(target, delta=1e-5, ledger=PLAN)
        one = RenyiFilter.for_target(target, delta=1e-5, order=order)
        for mechanism, count in PLAN[:-1]:
            one.charge(mechanism, count)
        assert one.allows(*PLAN[-1]) == fits
