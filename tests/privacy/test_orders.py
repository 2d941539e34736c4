"""The search for the best order: none is missed, few are priced, and no failure is passed over."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from dpkit.privacy import Gaussian, Release, SampledGaussian, conversions, parallel, rdp

LEDGERS = {
    "dear": [Release(SampledGaussian(0.3, 0.05), 20_000)],
    "usual": [Release(SampledGaussian(1.1, 0.01), 10_000)],
    "cheap": [Release(SampledGaussian(20.0, 0.01))],
    "steep": [Release(SampledGaussian(1.0, 1e-5), 100)],
    "replaced": [Release(SampledGaussian(1.3, 0.02, "replace-one"), 500)],
    "unsampled": [Release(Gaussian(5.0), 3)],
    "two": [Release(SampledGaussian(1.0, 1e-3), 1_000), Release(Gaussian(30.0), 5)],
    "parallel": parallel(
        [Release(SampledGaussian(1.0, 1e-3), 9_000)],
        [Release(SampledGaussian(6.0, 0.2), 9_000)],
        [Release(Gaussian(1.5))],
    ),
}
OPTIMAL = pytest.mark.slow("an order that the search for the optimal conversion's best one misses")
FAULT = "an order without a price that `optimal` takes"
ALONE = pytest.param("optimal", marks=pytest.mark.slow(FAULT))


@pytest.mark.parametrize("delta", [1e-10, 1e-5, 0.03])
@pytest.mark.parametrize("name", LEDGERS)
def test_the_search_misses_no_order_of_a_fine_net(name: str, delta: float):
    """Wherever the valley is, and as it has one alone."""
    net = fine_net(name)
    for conversion in ("classic", "improved"):
        found = compared(name, delta, conversion, net)
        if found > 0:
            spent = {"epsilon": found, "conversion": conversion}
            back = rdp.delta(LEDGERS[name], **spent).delta
            assert back == pytest.approx(delta, rel=1e-4)
            assert back <= rdp.delta(LEDGERS[name], **spent, orders=net).delta * (1 + 1e-7)


@pytest.mark.parametrize(
    "name", ["usual", *(pytest.param(one, marks=OPTIMAL) for one in LEDGERS if one != "usual")]
)
def test_the_search_for_the_optimal_conversion_misses_no_order_either(name: str):
    compared(name, 1e-5, "optimal", fine_net(name))


def fine_net(name: str) -> np.ndarray:
    net = 1 + np.geomspace(1e-5, 1e4, 500)
    net = np.unique(np.where(net > 100, np.round(net), net))
    return net[net < 200] if name == "replaced" else net


def compared(name: str, delta: float, conversion: str, net: np.ndarray) -> float:
    """The epsilon that the search finds, which is near the net's and not above it."""
    fixed, found = (
        rdp.epsilon(LEDGERS[name], delta=delta, conversion=conversion, orders=orders).epsilon
        for orders in (net, None)
    )
    assert found <= fixed * (1 + 1e-7)
    assert found >= fixed * 0.9
    return found


class Watched:
    """A mechanism that notes the orders at which it is priced."""

    adjacency = "add-remove"
    assumptions = ()

    def __init__(self, price):
        self.price = price
        self.seen: list[float] = []

    def rdp(self, orders):
        self.seen.extend(orders)
        return self.price(np.asarray(orders))


def released(mechanism: Any, count: int = 1) -> list[Release]:
    """A ledger of one mechanism, which need not be complete."""
    return [Release(mechanism, count)]


def test_few_orders_are_priced():
    """What makes the search fast: about a hundred orders, where a fixed list has 205."""
    for q, noise, steps in [(0.01, 1.1, 10_000), (0.01, 0.5, 1_000), (64 / 60_000, 1.0, 60_000)]:
        watched = Watched(SampledGaussian(noise, q).rdp)
        rdp.epsilon(released(watched, steps), delta=1e-5)
        assert len(set(watched.seen)) == len(watched.seen) < 120


def test_a_curve_has_all_the_listed_orders():
    orders, price = rdp.curve([Release(Gaussian(2.0))])
    np.testing.assert_array_equal(orders, rdp.ORDERS)
    assert price.shape == (205,)
    assert orders[0] < 1.001
    assert orders[-1] == 1024


@pytest.mark.parametrize("conversion", ["classic", "improved", ALONE])
def test_orders_without_a_price_are_passed_over(conversion: str):
    """Finite below order 1.3, or above 20, or nowhere."""
    low = Watched(lambda a: np.where(a < 1.3, a / 50, math.inf))
    high = Watched(lambda a: np.where(a > 20, a / 5000, math.inf))
    never = Watched(lambda a: np.full_like(a, math.inf))
    for watched, order in ((low, 1.299999), (high, 400.0)):
        found = rdp.epsilon(released(watched), delta=1e-5, conversion=conversion).epsilon
        at_one = rdp.epsilon(released(watched), delta=1e-5, conversion=conversion, orders=[order])
        assert 0 < found <= at_one.epsilon * 1.0001 < math.inf
        assert rdp.delta(released(watched), epsilon=found, conversion=conversion).delta < 2e-5
    assert rdp.epsilon(released(never), delta=1e-5, conversion=conversion).epsilon == math.inf
    assert rdp.delta(released(never), epsilon=9.0, conversion=conversion).delta == 1


@pytest.mark.parametrize("where", [1.001, 5.0, 40.3, 1025.0])
def test_a_price_that_fails_at_one_order_is_an_exception(where: float):
    """NaN is never passed over as if it were no price."""
    failing = Watched(lambda a: np.where(np.isclose(a, a[np.argmin(abs(a - where))]), np.nan, a))
    for conversion in ("classic", "improved", "optimal"):
        for price in (partial(rdp.epsilon, delta=1e-5), partial(rdp.delta, epsilon=1.0)):
            with pytest.raises(ArithmeticError, match="not a number >= 0"):
                price(released(failing), conversion=conversion)


@pytest.mark.parametrize("orders", [None, [2.0, 8.0, 30.0]])
def test_a_conversion_that_fails_at_one_order_is_an_exception(orders, monkeypatch):
    def fails(orders, *_):
        return np.where(orders == orders.max(), np.nan, 1.0)

    broken = conversions.Conversion("broken", "nowhere", fails, fails)
    monkeypatch.setattr(conversions, "named", lambda _: broken)
    with pytest.raises(ArithmeticError, match="conversion gave NaN at 1e-05"):
        rdp.epsilon([Release(Gaussian(1.0))], delta=1e-5, orders=orders)
    with pytest.raises(ArithmeticError, match="conversion gave NaN at 2"):
        rdp.delta([Release(Gaussian(1.0))], epsilon=2.0, orders=orders)
