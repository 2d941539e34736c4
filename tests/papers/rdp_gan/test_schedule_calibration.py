"""Solved schedules against ledgers written out by hand, and on the private side of the target."""

import itertools
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from dpkit.papers.rdp_gan.schedule_calibration import _grouped, initial_noise, iterations_within
from dpkit.privacy import (
    Gaussian,
    Guarantee,
    NoGuarantee,
    Release,
    SampledGaussian,
    composition,
    gdp,
    moments,
    pld,
    rdp,
)
from dpkit.privacy.schedules import Constant, ExponentialDecay, Linear, StepDecay, TimeDecay

DELTA, RATE, EACH = 1e-5, 0.1, 3
ACCOUNTANTS = {
    "pld": pld.epsilon,
    "rdp": rdp.epsilon,
    "rdp, optimal at order 6": partial(rdp.epsilon, conversion="optimal", orders=[6]),
    "moments": partial(moments.epsilon, moments=12),
    "gdp": gdp.epsilon,
    "basic": composition.basic,
    "advanced": composition.advanced,
}
DEAR = ("rdp, optimal at order 6", "advanced")
every_accountant = pytest.mark.parametrize(
    "accountant",
    [
        pytest.param(
            price,
            id=name,
            marks=[pytest.mark.slow("a search misled by an accountant that is itself a search")]
            if name in DEAR
            else [],
        )
        for name, price in ACCOUNTANTS.items()
    ],
)


def sampled(noise: float) -> SampledGaussian:
    return SampledGaussian(noise, RATE)


def by_hand(noises: list[float], accountant: Callable[..., Guarantee]) -> float:
    """Epsilon of EACH releases with each of the noises."""
    return accountant([Release(sampled(z), EACH) for z in noises], delta=DELTA).epsilon


FORMULAS = {
    "time": (lambda start: TimeDecay(start, 0.5), lambda start, t: start / (1 + 0.5 * t)),
    "exponential": (
        lambda start: ExponentialDecay(start, 0.3),
        lambda start, t: start * math.exp(-0.3 * t),
    ),
    "step": (lambda start: StepDecay(start, 0.6, 2), lambda start, t: start * 0.6 ** (t // 2)),
    "constant": (Constant, lambda start, t: start),
}


@every_accountant
def test_the_start_is_enough_and_a_little_less_is_not(accountant):
    schedule, formula = FORMULAS["time"]
    start, guarantee, iterations = initial_noise(
        2.0,
        schedule=schedule,
        iterations=3,
        releases_each=EACH,
        release=sampled,
        delta=DELTA,
        accountant=accountant,
    )

    def spent(start: float) -> float:
        return by_hand([formula(start, t) for t in range(3)], accountant)

    assert iterations == 3
    assert guarantee.epsilon <= 2.0 < spent(start * (1 - 0.005))
    assert guarantee.epsilon == pytest.approx(spent(start), rel=1e-9)
    assert guarantee.delta == DELTA


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("target", [0.05, 1.0, 40.0])
def test_the_start_against_every_start_of_a_fine_list(name: str, target: float):
    schedule, formula = FORMULAS[name]
    price = partial(rdp.epsilon, orders=[1.5, 4, 16, 64, 256, 1024])
    found = initial_noise(
        target,
        schedule=schedule,
        iterations=4,
        releases_each=EACH,
        release=sampled,
        delta=DELTA,
        accountant=price,
        tolerance=1e-4,
    )
    starts = found.start * np.exp(np.arange(-100, 100) * 1e-3)
    prices = [by_hand([formula(start, t) for t in range(4)], price) for start in starts]
    first = starts[np.argmax(np.array(prices) <= target)]
    assert found.start == pytest.approx(first, rel=1.2e-3)
    assert found.guarantee.epsilon <= target


@every_accountant
def test_iterations_are_the_last_that_fit(accountant):
    found = iterations_within(
        2.0,
        schedule=TimeDecay(9.0, 1.0),
        releases_each=EACH,
        release=sampled,
        delta=DELTA,
        accountant=accountant,
    )
    noises, price, count = [9.0], 0.0, 0
    while (again := by_hand(noises, accountant)) <= 2.0:
        price, count = again, count + 1
        noises.append(9.0 / (1 + count))
    assert found.iterations == count > 1
    assert found.start == 9.0
    assert found.guarantee.epsilon == pytest.approx(price, rel=1e-9)


@pytest.mark.parametrize(
    "schedule",
    [Constant(6.0), ExponentialDecay(6.0, 0.02), StepDecay(9.0, 0.5, 20), Linear(8.0, 1.0, 90)],
    ids=lambda schedule: type(schedule).__name__,
)
@pytest.mark.parametrize("target", [0.3, 1.0, 6.0])
def test_iterations_against_one_after_another(schedule, target: float):
    price = partial(rdp.epsilon, orders=[1.5, 4, 16, 64])
    found = iterations_within(
        target,
        schedule=schedule,
        releases_each=2,
        release=sampled,
        delta=DELTA,
        accountant=price,
        most=400,
    )
    cost, count = rdp.curve([], price.keywords["orders"])[1], 0
    while count < 400:
        cost = cost + 2 * sampled(schedule(count)).rdp(price.keywords["orders"])
        orders = np.array(price.keywords["orders"])
        if not rdp.improved(orders, cost, DELTA).min() <= target:
            break
        count += 1
    assert found.iterations == count
    assert found.guarantee.epsilon <= target


def test_more_iterations_need_more_noise_and_a_higher_target_less():
    def start(target: float, iterations: int) -> float:
        return initial_noise(
            target,
            schedule=lambda s: TimeDecay(s, 0.1),
            iterations=iterations,
            releases_each=2,
            release=sampled,
            delta=DELTA,
            accountant=partial(rdp.epsilon, orders=[8, 32]),
        ).start

    starts = [start(1.5, n) for n in (1, 2, 4, 8, 16, 32, 64)]
    assert all(low < high for low, high in itertools.pairwise(starts))
    starts = [start(target, 10) for target in (8.0, 4.0, 2.0, 1.5, 1.0)]
    assert all(low < high for low, high in itertools.pairwise(starts))


def test_iterations_rise_with_target_and_start():
    def count(target: float, start: float) -> int:
        return iterations_within(
            target,
            schedule=TimeDecay(start, 0.05),
            releases_each=5,
            release=sampled,
            delta=DELTA,
            accountant=partial(rdp.epsilon, orders=[8, 32]),
        ).iterations

    counts = [count(target, 20.0) for target in (0.5, 1.0, 2.0, 4.0, 8.0)]
    assert counts == sorted(set(counts))
    counts = [count(2.0, start) for start in (2.0, 4.0, 8.0, 16.0, 32.0)]
    assert counts == sorted(set(counts))


def test_a_start_and_the_iterations_it_affords_agree():
    options = {"releases_each": 5, "release": sampled, "delta": DELTA, "accountant": pld.epsilon}
    start = initial_noise(
        1.0, schedule=lambda s: StepDecay(s, 0.5, 10), iterations=40, **options
    ).start
    assert iterations_within(1.0, schedule=StepDecay(start, 0.5, 10), **options).iterations == 40
    less = StepDecay(start * 0.99, 0.5, 10)
    assert iterations_within(1.0, schedule=less, **options).iterations == 39


def test_the_certified_pair_of_a_thousand_iterations():
    """5,000 releases of 64 of 20,000 records, and epsilon .5 in all."""
    schedule = partial(StepDecay, factor=0.5, every=100)
    start, guarantee, _ = initial_noise(
        0.5,
        schedule=schedule,
        iterations=1000,
        releases_each=5,
        delta=1e-5,
        release=lambda noise: SampledGaussian(noise, 64 / 20_000),
    )
    assert 0.4985 < guarantee.lower <= guarantee.epsilon <= 0.5
    again = [Release(SampledGaussian(start / 2**k, 64 / 20_000), 500) for k in range(10)]
    assert pld.epsilon(again, delta=1e-5)[:2] == guarantee[:2]


def test_releases_that_cost_next_to_nothing_are_priced_as_well():
    ledgers = []

    def price(ledger, **options):
        ledgers.append(ledger)
        return rdp.epsilon(ledger, orders=[32], **options)

    found = initial_noise(
        0.5,
        schedule=lambda start: ExponentialDecay(start, 0.01),
        iterations=1000,
        releases_each=5,
        release=lambda noise: SampledGaussian(noise, 0.0032),
        delta=DELTA,
        accountant=price,
    )
    assert len(ledgers[-1]) == 1000
    assert len(ledgers[0]) < 50
    assert all(sum(count for _, count in ledger) == 5000 for ledger in ledgers)
    assert found.start > 5e3
    noises = [found.start * math.exp(-0.01 * t) for t in range(1000)]
    prices = (5 * SampledGaussian(z, 0.0032).rdp([32])[0] for z in noises)
    exact = rdp.improved(np.array([32.0]), np.array([math.fsum(prices)]), DELTA)[0]
    assert found.guarantee.epsilon == pytest.approx(exact, rel=1e-9)


def test_groups_of_plain_gaussians_cost_what_their_members_do():
    noises = np.geomspace(1e-3, 1e9, 500)
    ledger = _grouped(noises, 20, Gaussian, 3)
    assert len(ledger) <= 20
    assert sum(count for _, count in ledger) == 1500
    expected = 3 * math.fsum(Gaussian(z).rdp([7])[0] for z in noises)
    assert rdp.curve(ledger, [7])[1][0] == pytest.approx(expected, rel=1e-12)
    few = _grouped(np.array([2.0, 1.0, 2.0]), 2, Gaussian, 3)
    assert few == [Release(Gaussian(1.0), 3), Release(Gaussian(2.0), 6)]


def test_a_price_that_leaps_still_ends_close_to_its_edge():
    """Noise that is rounded down to a power of 2: no start's price is near the target."""

    def release(noise: float) -> Gaussian:
        return Gaussian(2.0 ** math.floor(math.log2(noise)))

    found = initial_noise(
        3.0, schedule=Constant, iterations=1, releases_each=1, release=release, delta=DELTA
    )
    assert found.start == pytest.approx(2.0, rel=2e-3)
    assert found.start >= 2.0
    assert found.guarantee.epsilon < 2.5


def test_no_iteration_fits():
    one = {"releases_each": 1, "delta": DELTA}
    none = iterations_within(0.01, schedule=Constant(1.0), release=sampled, **one)
    assert (none.iterations, none.guarantee.epsilon, none.start) == (0, 0.0, 1.0)
    bare = iterations_within(
        9.0, schedule=Constant(1.0), release=lambda _: NoGuarantee("raw"), **one
    )
    assert bare.iterations == 0


def test_no_more_iterations_than_asked_for_or_than_have_noise():
    one = {"releases_each": 1, "release": sampled, "delta": DELTA, "accountant": rdp.epsilon}
    noises = [30.0, 20.0, 10.0, 5.0]
    for schedule, most in [(Constant(30.0), 4), (lambda step: noises[step], 4)]:
        assert iterations_within(5.0, schedule=schedule, most=most, **one).iterations == 4
    ends = iterations_within(500.0, schedule=Linear(30.0, -1.0, over=10), **one)
    assert ends.iterations == 10  # the noise at step 10 is negative
