"""The sampled Gaussian's Renyi divergence against its definition, integrated with 40 digits."""

import math
from functools import cache
from typing import Any, get_args

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath.calculus.quadrature import GaussLegendre

from dpkit.privacy import Adjacency, Gaussian, SampledGaussian
from dpkit.privacy.mechanisms import renyi_integrals

POINTS = {  # (q, noise): orders; the first three rows hold those at which other kits fail
    **{(0.4, 12.0): [58.5, 58.9, 59.0, 59.5], (0.1, 1.0): [1.1, 1.5, 2.0]},
    **{(0.01, 20.0): [2.0, 63.5, 1100.0], (0.01, 1.1): [1.0001, 1.1, 4.67, 16.0]},
    **{(0.01, 0.5): [1.5, 2.05, 8.0], (64 / 60_000, 1.0): [2.5, 12.0, 12.25, 33.3]},
    **{(1e-4, 0.3): [1.05, 2.0, 3.7], (0.5, 0.6): [1.3, 5.0]},
    **{(0.9, 2.0): [3.0, 40.5], (0.999, 1.0): [1.7, 6.0], (1e-7, 3.0): [1.5, 30.0]},
    **{(0.02, 0.15): [1.02, 2.0], (0.02, 20.0): [10.9, 58.5]},
}
CASES = [(q, noise, order) for (q, noise), orders in POINTS.items() for order in orders]
NEIGHBOURS: tuple[Adjacency, ...] = get_args(Adjacency)


def by_quadrature(q, noise, order, adjacency: Adjacency = "add-remove") -> float:
    """log(integral of P^order Q^(1 - order)) / (order - 1), by Gauss-Legendre with 40 digits.

    P = (1-q) N(0, noise^2) + q N(1, noise^2); Q is N(0, noise^2) under add-remove and
    (1-q) N(0, noise^2) + q N(-1, noise^2) under replace-one. The pieces are halved until that
    changes the integral less 1, and so its log, by less than 1e-12 of itself.
    """
    below = 0.0 if adjacency == "add-remove" else q
    low, high = span(q, below, noise, order)
    with mpmath.workdps(40):
        s, a, up, down = (mpmath.mpf(value) for value in (noise, order, q, below))

        def integrand(x: Any) -> Any:
            """N(x) (P / N)^order (Q / N)^(1 - order), N = N(0, noise^2)."""
            log_p = mpmath.log(1 - up + up * mpmath.exp((x - 0.5) / s**2))
            log_q = mpmath.log(1 - down + down * mpmath.exp((-x - 0.5) / s**2)) if down else 0
            return mpmath.exp(a * log_p + (1 - a) * log_q - x * x / (2 * s**2))

        pieces, before = math.ceil((high - low) / (3 * noise)), mpmath.inf
        for _ in range(8):
            total = composite(integrand, low, high, pieces) / (s * mpmath.sqrt(2 * mpmath.pi))
            if abs(total - before) < 1e-12 * abs(total - 1):
                return float(mpmath.log(total) / (a - 1))
            pieces, before = 2 * pieces, total
    raise ArithmeticError(f"the quadrature does not settle at {q, noise, order, adjacency}")


def span(q: float, below: float, noise: float, order: float) -> tuple[float, float]:
    """Where the integrand is above exp(-100) of its largest value."""
    x = np.arange(-1 - 15 * noise, 2 * order + 15 * noise, noise / 50)
    with np.errstate(divide="ignore"):
        log_p = np.logaddexp(np.log1p(-q), np.log(q) + (x - 0.5) / noise**2)
        log_q = np.logaddexp(np.log1p(-below), np.log(below) + (-x - 0.5) / noise**2)
    log = order * log_p + (1 - order) * log_q - x * x / (2 * noise**2)
    inside = x[log > log.max() - 100]
    assert x[0] < inside[0] < inside[-1] < x[-1]
    return float(inside[0]), float(inside[-1])


@cache
def nodes() -> list[tuple[Any, Any]]:
    """The 24 nodes and weights of Gauss-Legendre on [-1, 1], to 40 digits."""
    with mpmath.workdps(40):
        return GaussLegendre(mpmath.mp).calc_nodes(4, mpmath.mp.prec)


def composite(function, low: float, high: float, pieces: int) -> Any:
    """The integral over [low, high], cut into equal pieces."""
    half = (mpmath.mpf(high) - low) / (2 * pieces)
    middles = [low + (2 * i + 1) * half for i in range(pieces)]
    return half * mpmath.fsum(w * function(m + half * t) for m in middles for t, w in nodes())


def test_the_quadrature_itself_gives_the_known_closed_forms():
    """Without sampling alpha shift^2 / (2 noise^2); at whole orders the binomial sum."""
    for noise, order in [(0.7, 1.3), (2.0, 30.5)]:
        for adjacency, shift in zip(NEIGHBOURS, (1, 2), strict=True):
            expected = order * shift**2 / (2 * noise**2)
            assert by_quadrature(1.0, noise, order, adjacency) == pytest.approx(expected, rel=1e-14)
    with mpmath.workdps(40):
        q, variance = mpmath.mpf(0.003), mpmath.mpf(1.7) ** 2
        chances = [mpmath.binomial(40, k) * (1 - q) ** (40 - k) * q**k for k in range(41)]
        powers = (p * mpmath.exp((k * k - k) / (2 * variance)) for k, p in enumerate(chances))
        expected = float(mpmath.log(mpmath.fsum(powers)) / 39)
    assert by_quadrature(0.003, 1.7, 40.0) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("q", "noise", "order"), CASES)
@pytest.mark.parametrize("adjacency", NEIGHBOURS)
def test_the_price_equals_the_definition(q, noise, order, adjacency):
    priced = SampledGaussian(noise, q, adjacency).rdp([order])[0]
    assert priced == pytest.approx(by_quadrature(q, noise, order, adjacency), rel=1e-11, abs=0)


@pytest.mark.parametrize("adjacency", NEIGHBOURS)
def test_orders_priced_together_cost_what_each_costs_alone(adjacency: Adjacency):
    orders = np.concatenate([1 + np.geomspace(1e-6, 30, 40), [64.0, 90.5, 700.25]])
    for q, noise in [(0.01, 0.7), (0.3, 5.0), (0.05, 0.09)]:
        mechanism = SampledGaussian(noise, q, adjacency)
        alone = [mechanism.rdp([order])[0] for order in orders[orders < 5 + 100 * noise]]
        together = mechanism.rdp(orders[orders < 5 + 100 * noise])
        np.testing.assert_allclose(together, alone, rtol=1e-11)


@given(
    q=st.floats(1e-8, 1 - 1e-8),
    noise=st.floats(0.02, 100),
    start=st.floats(1.001, 50),
    ratio=st.floats(1.0005, 1.08),
    adjacency=st.sampled_from(NEIGHBOURS),
)
def test_over_a_fine_net_it_grows_up_to_the_unsampled_and_its_moment_is_convex(
    q, noise, start, ratio, adjacency
):
    """(alpha - 1) rdp is a log-moment, convex in alpha by Hölder: the search for orders needs it.

    Whole orders are among the net, so that both ways to the price are compared.
    """
    net = 1 + (start - 1) * ratio ** np.arange(20)
    orders = np.union1d(net, np.ceil(net[[0, 7, 19]]))
    rdp = SampledGaussian(noise, q, adjacency).rdp(orders)
    assert (rdp > 0).all()
    assert (np.diff(rdp) >= -1e-12 * rdp[1:]).all()
    assert (rdp <= Gaussian(noise, adjacency).rdp(orders)).all()
    moment = (orders - 1) * rdp
    slopes, error = np.diff(moment) / np.diff(orders), 1e-12 * moment[1:] / np.diff(orders)
    assert (np.diff(slopes) >= -(error[1:] + error[:-1])).all()


def test_a_price_below_the_smallest_float_is_rounded_up():
    """0 would claim that nothing was released."""
    for adjacency in NEIGHBOURS:
        rdp = SampledGaussian(1.0, 1e-200, adjacency).rdp([1.5, 2.0, 30.0])
        assert (rdp == np.finfo(float).tiny).all()


def test_an_order_with_too_many_points_costs_as_if_nothing_were_sampled():
    orders = [1e5 + 0.5, 5e5]
    price, unsampled = SampledGaussian(1.0, 0.01, "replace-one").rdp, Gaussian(1.0, "replace-one")
    for found in (price(orders), price([2.5, *orders])[1:]):  # alone, and beside others
        np.testing.assert_array_equal(found, unsampled.rdp(orders))


@pytest.mark.parametrize("price", [renyi_integrals.add_remove, renyi_integrals.replace_one])
def test_a_failed_integral_is_an_exception(price, monkeypatch: pytest.MonkeyPatch):
    def one_nan(order, log_ratio, v):
        return np.where(np.arange(v.size) == 70, math.nan, 0.0) + 0 * order

    monkeypatch.setattr(renyi_integrals, "_log_excess", one_nan)
    with pytest.raises(ArithmeticError, match="could not be computed"):
        price(np.array([2.5]), q=0.1, noise=1.0)


def test_the_ends_of_the_sample_rate():
    orders = [1.5, 2, 64]
    for adjacency in NEIGHBOURS:
        none, near, all_of = (
            SampledGaussian(1.3, rate, adjacency).rdp(orders) for rate in (0.0, 1 - 1e-12, 1.0)
        )
        assert (none == 0).all()
        np.testing.assert_array_equal(all_of, Gaussian(1.3, adjacency).rdp(orders))
        np.testing.assert_allclose(near[:2], all_of[:2], rtol=1e-9)


@pytest.mark.parametrize("noise", [1e-3, 0.01, 0.05, 1e4])
def test_extreme_noise_stays_a_number(noise: float):
    for adjacency in NEIGHBOURS:
        mechanism = SampledGaussian(noise, 0.01, adjacency)
        rdp = mechanism.rdp([1.0001, 1.5, 2, 10.9, 64, 1024])
        assert np.isfinite(rdp).all()
        assert (np.diff(rdp) > 0).all()


@pytest.mark.parametrize("q", [1e-12, 0.05, 0.9999])
def test_little_noise_needs_only_the_peaks(q: float, monkeypatch: pytest.MonkeyPatch):
    """With little noise only windows around the peaks are summed: the same as summing all."""
    orders = np.array([1.0001, 1.3, 2.5, 4.5])
    for price in (renyi_integrals.add_remove, renyi_integrals.replace_one):
        monkeypatch.setattr(renyi_integrals, "FAR_APART", 0.1)
        windows = price(orders, q=q, noise=0.06)
        monkeypatch.setattr(renyi_integrals, "FAR_APART", 0.0)
        np.testing.assert_allclose(windows, price(orders, q=q, noise=0.06), rtol=1e-12)


@pytest.mark.parametrize("adjacency", NEIGHBOURS)
def test_a_profile_far_out_is_no_failed_computation(adjacency):
    """exp(1000) overflows, and delta is all the same about the sample rate."""
    found = SampledGaussian(0.02, 0.5, adjacency).profile([1000.0, math.inf])
    assert found[0] == pytest.approx([0.5, 0.0], abs=1e-6)
    assert (Gaussian(1.0, adjacency).profile([math.inf]) == 0).all()
    assert Gaussian(0.02, adjacency).profile([1000.0])[0, 0] == pytest.approx(1.0)
