"""Prices against the definitions by quadrature, by high-precision sums, and against other kits."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkit.privacy import Gaussian, SampledGaussian
from dpkit.privacy.mechanisms import renyi_integrals

CASES = [
    (0.01, 1.1),
    (0.01, 0.5),
    (64 / 60000, 1.0),
    (0.4, 12.0),
    (0.1, 1.0),
    (1e-4, 0.3),
    (0.5, 0.6),
    (0.9, 2.0),
    (0.02, 20.0),
    (0.999, 1.0),
]
ORDERS = [1.1, 1.5, 2.7, 10.9, 58.5]


def by_mpmath(q: float, noise: float, order: float) -> float:
    """Mironov, Talwar, Zhang 2019, section 3, read literally, with 25 digits."""
    with mpmath.workdps(25):
        q, noise, order = mpmath.mpf(q), mpmath.mpf(noise), mpmath.mpf(order)

        def term(x: mpmath.mpf) -> mpmath.mpf:
            ratio = 1 - q + q * mpmath.exp((2 * x - 1) / (2 * noise**2))
            return mpmath.npdf(x, 0, noise) * ratio**order

        low, high = -11 * noise, order + 11 * noise
        count = max(2, int((high - low) / (12 * noise)))  # Gauss-Legendre on wide pieces
        pieces = [low + (high - low) * i / count for i in range(count + 1)]
        total = mpmath.quad(term, pieces, method="gauss-legendre", maxdegree=5)
        return float(mpmath.log(total) / (order - 1))


@pytest.mark.parametrize(("q", "noise"), CASES)
def test_sampled_gaussian_equals_quadrature_with_25_digits(q: float, noise: float):
    rdp = SampledGaussian(noise, q).rdp(ORDERS)
    expected = [by_mpmath(q, noise, order) for order in ORDERS]
    np.testing.assert_allclose(rdp, expected, rtol=1e-8)


@given(
    q=st.floats(1e-6, 1 - 1e-6),
    noise=st.floats(0.02, 100),
    order=st.floats(1.001, 200),
    adjacency=st.sampled_from(["add-remove", "replace-one"]),
)
def test_never_negative_grows_with_order_and_less_than_unsampled(q, noise, order, adjacency):
    orders = [order, order * 1.01, math.ceil(order * 1.01) + 1, math.ceil(order * 1.01) + 1.5]
    rdp = SampledGaussian(noise, q, adjacency).rdp(orders)
    assert (rdp >= 0).all()
    assert (np.diff(rdp) >= -1e-9 * rdp[1:]).all()
    assert (rdp <= Gaussian(noise, adjacency).rdp(orders)).all()


def test_the_ends_of_the_sample_rate():
    orders = [1.5, 2, 64]
    for adjacency in ("add-remove", "replace-one"):
        assert (SampledGaussian(1.3, 0.0, adjacency).rdp(orders) == 0).all()
        np.testing.assert_array_equal(
            SampledGaussian(1.3, 1.0, adjacency).rdp(orders), Gaussian(1.3, adjacency).rdp(orders)
        )
        near = SampledGaussian(1.3, 1 - 1e-12, adjacency).rdp(orders[:2])
        np.testing.assert_allclose(near, Gaussian(1.3, adjacency).rdp(orders[:2]), rtol=1e-9)


def test_tiny_costs_keep_their_digits():
    """log(A) / (alpha - 1) is alpha q^2 (exp(1 / noise^2) - 1) / 2 to first order."""
    q, noise = 1e-9, 3.0
    first = np.array([1.0001, 1.5, 2.0, 9.0]) * q**2 * math.expm1(1 / noise**2) / 2
    rdp = SampledGaussian(noise, q).rdp([1.0001, 1.5, 2.0, 9.0])
    np.testing.assert_allclose(rdp, first, rtol=1e-6)


@pytest.mark.parametrize("noise", [1e-3, 0.01, 0.05, 1e4])
def test_extreme_noise_stays_a_number(noise: float):
    for adjacency in ("add-remove", "replace-one"):
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


def test_gaussian_moves_twice_as_far_under_replace_one():
    """Its exact epsilon at noise 1, delta 1e-5 is 9.9973, not the 4.7 of a shift of one clip."""
    profile = Gaussian(1.0, "replace-one").profile([9.99, 9.9973, 10.0])[0]
    assert profile[0] > 1e-5 > profile[2]
    assert profile[1] == pytest.approx(1e-5, rel=1e-4)
    np.testing.assert_allclose(Gaussian(1.0, "replace-one").rdp([2]), 4 * Gaussian(1.0).rdp([2]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(math.nan), "noise_multiplier must be a finite number > 0, got nan"),
        (lambda: Gaussian(math.inf), "noise_multiplier must be a finite number > 0, got inf"),
        (lambda: Gaussian(0.0), "noise_multiplier must be a finite number > 0, got 0.0"),
        (lambda: SampledGaussian(-1.0, 0.1), "noise_multiplier must be a finite number > 0"),
        (lambda: SampledGaussian(1.0, 3.0), r"sample_rate must lie in \[0, 1\], got 3.0"),
        (lambda: SampledGaussian(1.0, math.nan), r"sample_rate must lie in \[0, 1\], got nan"),
        (lambda: Gaussian(1.0, "add"), "adjacency must be one of add-remove, replace-one"),
        (lambda: Gaussian("1"), "noise_multiplier must be a number, got '1'"),
        (lambda: Gaussian(1.0).rdp([]), "orders must be a non-empty list"),
    ],
)
def test_bad_values_are_refused_with_their_name(make, message: str):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_profile_far_out_is_no_failed_computation(adjacency):
    """exp(1000) overflows, and delta is all the same about the sample rate."""
    found = SampledGaussian(0.02, 0.5, adjacency).profile([1000.0, math.inf])
    assert found[0] == pytest.approx([0.5, 0.0], abs=1e-6)
    assert (Gaussian(1.0, adjacency).profile([math.inf]) == 0).all()
    assert Gaussian(0.02, adjacency).profile([1000.0])[0, 0] == pytest.approx(1.0)
