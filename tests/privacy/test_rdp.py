"""The accountant: conversions against an independent oracle, automatic orders, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from dpkit.privacy import Gaussian, Ledger, Release, SampledGaussian, conversions, parallel, rdp
from dpkit.privacy.ledger import FIXED

OPACUS_ORDERS = [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))
PEERS = [  # q, noise, steps: Opacus' epsilon, and the tight one of a privacy-loss distribution
    *((0.01, 1.1, 10_000, 5.63199, 5.18230), (0.01, 0.5, 1_000, 15.46427, 13.351)),
    (64 / 60_000, 1.0, 60_000, 1.45978, 1.320),
]


@pytest.mark.parametrize(("q", "noise", "steps", "opacus", "tight"), PEERS)
def test_the_published_orders_give_the_published_numbers(q, noise, steps, opacus, tight):
    ledger = [Release(SampledGaussian(noise, q), steps)]
    same = rdp.epsilon(ledger, delta=1e-5, orders=OPACUS_ORDERS)
    assert same.epsilon == pytest.approx(opacus, abs=6e-6)
    automatic = rdp.epsilon(ledger, delta=1e-5)
    assert tight < automatic.epsilon <= same.epsilon


def test_orders_come_close_to_1_where_the_optimum_is_there():
    """For a Gaussian the best classic epsilon is known: rho + 2 sqrt(rho log(1/delta))."""
    for noise in (1e-3, 0.01, 0.1, 1.0, 30.0, 1e3):
        rho = 1 / (2 * noise**2)
        best = rho + 2 * math.sqrt(rho * math.log(1e5))
        ours = rdp.epsilon([Release(Gaussian(noise))], delta=1e-5, conversion="classic").epsilon
        assert best * (1 - 1e-12) <= ours <= best * 1.001


@settings(max_examples=12)
@given(st.floats(1.01, 1e4), st.floats(1e-9, 1e3), st.tuples(*[st.floats(1e-15, 0.9)] * 2))
def test_at_every_order_conversions_are_ordered_and_fall_with_delta(order, cost, deltas):
    found = [
        [convert(np.array([order]), np.array([cost]), delta)[0] for delta in sorted(deltas)]
        for convert in (conversions.optimal, conversions.improved, conversions.classic)
    ]
    assert np.all(np.diff(np.maximum(found, 0), axis=0) >= -1e-9)
    assert np.all(np.diff(np.maximum(found, 0), axis=1) <= 1e-9)


def least_rdp(order: float, epsilon: float, delta: float) -> float:
    """The least divergence of two coins at (epsilon, delta), by brute force (Asoodeh et al.)."""

    def divergence(p):
        q = (p - delta) * math.exp(-epsilon)
        heads = order * np.log(p) + (1 - order) * np.log(q)
        tails = order * np.log1p(-p) + (1 - order) * np.log1p(-q)
        return np.logaddexp(heads, tails) / (order - 1)

    starts = np.geomspace(1e-9, 1 - 1e-9, 400) * (1 - delta) + delta
    best = int(np.argmin(divergence(starts)))
    span = (starts[max(best - 1, 0)], starts[min(best + 1, 399)])
    found = minimize_scalar(divergence, bounds=span, method="bounded", options={"xatol": 1e-13})
    return float(min(found.fun, divergence(starts[best])))


@pytest.mark.parametrize("order", [1.3, 2.0, 5.5, 30.0])
@pytest.mark.parametrize("cost", [0.01, 0.3, 4.0])
@pytest.mark.parametrize("delta", [1e-6, 0.02])
def test_the_optimal_conversion_equals_brute_force(order, cost, delta):
    ours = conversions.optimal(np.array([order]), np.array([cost]), delta)[0]
    if least_rdp(order, 0.0, delta) >= cost:
        assert ours == 0
        return
    high = cost + math.log(1 / delta) / (order - 1)
    expected = brentq(lambda e: least_rdp(order, e, delta) - cost, 0, high, xtol=1e-12)
    assert ours == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["classic", "improved", "optimal"])
def test_delta_is_the_inverse_of_epsilon(name: str):
    ledger = [Release(SampledGaussian(1.1, 0.01), 2000)]
    orders = np.arange(2.0, 60.0)
    spent = rdp.epsilon(ledger, delta=1e-5, conversion=name, orders=orders)
    back = rdp.delta(ledger, epsilon=spent.epsilon, conversion=name, orders=orders)
    assert (back.delta, back.epsilon) == (pytest.approx(1e-5, rel=1e-6), spent.epsilon)


def test_the_guarantee_says_how_it_was_found():
    spent = rdp.epsilon([Release(SampledGaussian(1.0, 0.1), 3)], delta=1e-5)
    assert (spent.lower, spent.adjacency) == (0, "add-remove")
    assert spent.method.startswith("RDP, improved conversion (Balle et al. 2020, Thm 21), order ")
    assert spent.assumptions[0].startswith("Poisson sampling")
    assert spent.assumptions[-1] == FIXED


def test_costs_add_up_and_adjacencies_do_not_mix():
    orders, total = rdp.curve([Release(Gaussian(1.0), 3), Release(Gaussian(2.0), 4)], [2, 8])
    np.testing.assert_allclose(total, orders * (3 / 2 + 4 / 8))
    with pytest.raises(ValueError, match="one adjacency, got add-remove and replace-one"):
        rdp.curve([Release(Gaussian(1.0)), Release(Gaussian(1.0, "replace-one"))])
    assert Ledger.of([Release(Gaussian(1.0, "replace-one"))]).adjacency == "replace-one"
    assert Ledger.of([]).adjacency == "add-remove"


def test_parallel_parts_cost_the_dearest_or_the_dearest_two():
    cheap, dear, mid = ([Release(Gaussian(1.0, "add-remove"), n)] for n in (1, 9, 4))
    assert rdp.curve(parallel(cheap, dear, mid), [2])[1] == rdp.curve(dear, [2])[1]
    cheap, dear, mid = ([Release(Gaussian(1.0, "replace-one"), n)] for n in (1, 9, 4))
    assert rdp.curve(parallel(cheap, dear, mid), [2])[1] == rdp.curve([*dear, *mid], [2])[1]


@settings(max_examples=12)
@given(st.floats(-9, -0.05).map(lambda x: 10**x), st.floats(-0.5, 1.3).map(lambda x: 10**x))
def test_one_release_is_never_priced_below_its_own_profile(rate: float, noise: float):
    """The exact delta at the epsilon that is claimed, both directions, is at most delta."""
    mechanism = SampledGaussian(noise, rate)
    for conversion in ("classic", "improved", "optimal"):
        for delta in (1e-12, 1e-7, 0.05) if conversion == "optimal" else (1e-12, 1e-10, 1e-5, 0.05):
            found = rdp.epsilon([Release(mechanism)], delta=delta, conversion=conversion)
            assert mechanism.profile([found.epsilon]).max() <= delta * (1 + 1e-6)


def test_what_is_too_small_for_a_float_still_costs_something():
    """The exact delta at epsilon 0 is the total variation, 1e-200 erf(1 / sqrt(8)) > 1e-250."""
    ledger = [Release(SampledGaussian(1.0, 1e-200))]
    for name in ("classic", "improved", "optimal"):
        assert rdp.epsilon(ledger, delta=1e-250, conversion=name).epsilon > 0
        assert rdp.delta([Release(Gaussian(1.0))], epsilon=1e3, conversion=name).delta >= 1e-300
