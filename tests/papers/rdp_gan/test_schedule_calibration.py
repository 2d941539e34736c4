"""Solved schedules against ledgers written out by hand, and on the private side of the target."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from refusals import refused

from dpkit.papers.rdp_gan.schedule_calibration import initial_noise, iterations_within
from dpkit.privacy import Gaussian, Guarantee, NoGuarantee, Release, SampledGaussian
from dpkit.privacy.accountants import composition, gdp, moments, pld, rdp
from dpkit.privacy.schedules import Constant, ExponentialDecay, Linear, StepDecay, TimeDecay

NAN, INF = float("nan"), float("inf")
DELTA, RATE, EACH = 1e-5, 0.1, 3
FIVE = Constant(5.0)
ACCOUNTANTS = {
    **{"pld": pld.epsilon, "rdp": rdp.epsilon},
    "rdp, optimal at order 6": partial(rdp.epsilon, conversion="optimal", orders=[6]),
    **{"moments": partial(moments.epsilon, moments=12), "gdp": gdp.epsilon},
    **{"basic": composition.basic, "advanced": composition.advanced},
}
DEAR = ("rdp, optimal at order 6", "advanced")
MISLED = pytest.mark.slow("a search misled by an accountant that is itself a search")
every_accountant = pytest.mark.parametrize(
    "accountant",
    [
        pytest.param(price, id=name, marks=MISLED if name in DEAR else ())
        for name, price in ACCOUNTANTS.items()
    ],
)


def sampled(noise: float) -> SampledGaussian:
    return SampledGaussian(noise, RATE)


def start_of(target: float = 1.0, schedule: Any = Constant, **changed: Any):
    given = {"iterations": 3, "releases_each": EACH, "release": sampled, "delta": DELTA}
    return initial_noise(target, schedule=schedule, **(given | changed))


def count_of(target: float = 1.0, schedule: Any = FIVE, **changed: Any):
    given = {"releases_each": EACH, "release": sampled, "delta": DELTA}
    return iterations_within(target, schedule=schedule, **(given | changed))


def by_hand(noises: list[float], accountant: Any) -> float:
    """Epsilon of EACH releases with each of the noises."""
    return accountant([Release(sampled(z), EACH) for z in noises], delta=DELTA).epsilon


def rising(start: float) -> Any:
    return lambda t: start * min((t + 1) / 3, 1.0)


def exponential(rate: float) -> Any:
    return lambda start: ExponentialDecay(start, rate)


FORMULAS = {
    "time": (lambda start: TimeDecay(start, 0.5), lambda start, t: start / (1 + 0.5 * t)),
    "exponential": (exponential(0.3), lambda start, t: start * math.exp(-0.3 * t)),
    "step": (lambda start: StepDecay(start, 0.6, 2), lambda start, t: start * 0.6 ** (t // 2)),
    "constant": (Constant, lambda start, t: start),
    "rising": (rising, lambda start, t: rising(start)(t)),
}


@every_accountant
def test_the_start_is_enough_and_a_little_less_is_not(accountant):
    schedule, formula = FORMULAS["time"]
    start, guarantee, iterations = start_of(2.0, schedule, accountant=accountant)

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
    found = start_of(target, schedule, iterations=4, accountant=price, tolerance=1e-4)
    starts = found.start * np.exp(np.arange(-100, 100) * 1e-3)
    prices = [by_hand([formula(start, t) for t in range(4)], price) for start in starts]
    first = starts[np.argmax(np.array(prices) <= target)]
    assert found.start == pytest.approx(first, rel=1.2e-3)
    assert found.guarantee.epsilon <= target


@pytest.mark.parametrize(
    "schedule",
    [Constant(6.0), ExponentialDecay(6.0, 0.02), StepDecay(9.0, 0.5, 20), Linear(8.0, 1.0, 90)],
    ids=lambda schedule: type(schedule).__name__,
)
@pytest.mark.parametrize("target", [0.3, 1.0, 6.0])
def test_iterations_against_one_after_another(schedule, target: float):
    orders = [1.5, 4, 16, 64]
    price = partial(rdp.epsilon, orders=orders)
    found = count_of(target, schedule, releases_each=2, accountant=price, most=400)
    cost, spent, count = rdp.curve([], orders)[1], 0.0, 0
    while count < 400:
        cost = cost + 2 * sampled(schedule(count)).rdp(orders)
        again = rdp.improved(np.array(orders), cost, DELTA).min()
        if not again <= target:
            break
        spent, count = again, count + 1
    assert (found.iterations, found.start) == (count, schedule(0))
    assert found.guarantee.epsilon == pytest.approx(spent, rel=1e-9)
    assert found.guarantee.epsilon <= target


def test_a_start_and_the_iterations_it_affords_agree():
    start = start_of(1.0, lambda s: StepDecay(s, 0.5, 10), iterations=40, releases_each=5).start
    for factor, count in ((1.0, 40), (0.99, 39)):
        schedule = StepDecay(start * factor, 0.5, 10)
        assert count_of(1.0, schedule, releases_each=5).iterations == count


def test_the_certified_pair_of_a_thousand_iterations():
    """5,000 releases of 64 of 20,000 records, and epsilon .5 in all."""
    release = partial(SampledGaussian, sample_rate=64 / 20_000)
    schedule = partial(StepDecay, factor=0.5, every=100)
    asked = {"iterations": 1000, "releases_each": 5, "release": release}
    start, guarantee, _ = start_of(0.5, schedule, **asked)
    assert 0.4985 < guarantee.lower <= guarantee.epsilon <= 0.5
    again = [Release(release(start / 2**k), 500) for k in range(10)]
    assert pld.epsilon(again, delta=1e-5)[:2] == guarantee[:2]


def test_releases_that_cost_next_to_nothing_are_priced_as_well():
    price = partial(rdp.epsilon, orders=[32])
    asked = {"iterations": 1000, "releases_each": 5, "accountant": price}
    asked["release"] = partial(SampledGaussian, sample_rate=0.0032)
    found = start_of(0.5, exponential(0.01), **asked)
    assert found.start > 5e3
    noises = [found.start * math.exp(-0.01 * t) for t in range(1000)]
    prices = (5 * SampledGaussian(z, 0.0032).rdp([32])[0] for z in noises)
    exact = rdp.improved(np.array([32.0]), np.array([math.fsum(prices)]), DELTA)[0]
    assert found.guarantee.epsilon == pytest.approx(exact, rel=1e-9)


def test_a_price_that_leaps_still_ends_close_to_its_edge():
    """Noise that is rounded down to a power of 2: no start's price is near the target."""

    def release(noise: float) -> Gaussian:
        return Gaussian(2.0 ** math.floor(math.log2(noise)))

    found = start_of(3.0, iterations=1, releases_each=1, release=release)
    assert found.start == pytest.approx(2.0, rel=2e-3)
    assert found.start >= 2.0
    assert found.guarantee.epsilon < 2.5


def test_no_more_iterations_than_fit_are_asked_for_or_have_noise():
    none = count_of(0.01, Constant(1.0), releases_each=1)
    assert (none.iterations, none.guarantee.epsilon, none.start) == (0, 0.0, 1.0)
    assert count_of(9.0, Constant(1.0), release=lambda _: NoGuarantee("raw")).iterations == 0
    one = {"releases_each": 1, "accountant": rdp.epsilon}
    for schedule in (Constant(30.0), [30.0, 20.0, 10.0, 5.0].__getitem__):
        assert count_of(5.0, schedule, most=4, **one).iterations == 4
    ends = count_of(500.0, Linear(30.0, -1.0, over=10), **one)
    assert ends.iterations == 10  # the noise at step 10 is negative


def test_an_accountant_that_says_nan_lets_nothing_through():
    def broken(ledger, *, delta: float) -> Guarantee:
        return pld.epsilon([], delta=delta)._replace(epsilon=NAN)

    assert count_of(accountant=broken).iterations == 0
    with pytest.raises(ValueError, match="no start of the schedule meets epsilon 1"):
        start_of(accountant=broken)


TOO_LITTLE = "no start of the schedule meets"
RAW = {"release": lambda _: NoGuarantee("raw data"), "accountant": rdp.epsilon}

test_bad_values_are_refused = refused(
    (lambda: start_of(NAN), "target_epsilon must be a finite number > 0, got nan"),
    (lambda: start_of(iterations=NAN), "iterations must be an integer >= 1, got nan"),
    (lambda: start_of(releases_each=0), "releases_each must be an integer >= 1, got 0"),
    (lambda: start_of(delta=NAN), r"delta must lie in \(0, 1\)"),
    (lambda: start_of(tolerance=NAN), r"tolerance must lie in \(0, 1\)"),
    (lambda: start_of(1.0, lambda s: lambda t: NAN if t == 2 else s), "step 2 .* got nan"),
    (lambda: start_of(1.0, lambda s: lambda t: s * (1 - t)), "step 1 of .* got 0.0"),
    (
        lambda: start_of(1.0, exponential(0.06), iterations=1000),
        TOO_LITTLE + r" epsilon 1.0 with noise multipliers in \[1e-9, 1e",
    ),
    (lambda: start_of(1e-9, accountant=partial(rdp.epsilon, orders=[2])), "epsilon 1e-09"),
    (lambda: start_of(**RAW), TOO_LITTLE),
    (lambda: start_of(1e25, accountant=rdp.epsilon), r"1e\+25 is met by the smallest noise"),
    (lambda: start_of(release=lambda z: SampledGaussian(z, 2.0)), r"sample_rate .*, got 2"),
    (lambda: count_of(NAN), "target_epsilon must be a finite number > 0, got nan"),
    (lambda: count_of(most=0), "most must be an integer >= 1, got 0"),
    (lambda: count_of(releases_each=NAN), "releases_each must be an integer >= 1, got nan"),
    (lambda: count_of(delta=0.0), r"delta must lie in \(0, 1\)"),
    (lambda: count_of(1.0, lambda t: NAN if t == 7 else 5.0), "step 7 of .* lie in .* got nan"),
    (lambda: count_of(1.0, lambda step: INF), "step 0 of the schedule: .* got inf"),
)


@pytest.mark.parametrize("noise", [0.5, 50.0])
def test_a_schedule_that_ignores_its_start_is_an_error(noise: float):
    one = {"release": lambda _: sampled(noise), "accountant": rdp.epsilon}
    with pytest.raises(ArithmeticError, match="its price must fall as the start rises"):
        start_of(1.0, lambda _: Constant(1.0), **one)
