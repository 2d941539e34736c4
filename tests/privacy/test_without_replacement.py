"""The bound for batches of a fixed size against the theorem as printed and pairs it must cover."""

import math

import numpy as np
import pytest
from truths import log_b, theorem_of_fixed_sizes

from dpkit.privacy import Gaussian, Release, SampledGaussian, rdp
from dpkit.privacy.mechanisms import without_replacement
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian, printed_bound

FAR = pytest.mark.slow("digits lost under noise far larger than any run has")
CASES = [
    *((0.3, 0.1), (0.9, 0.01), (1.8, 0.01), (1.0, 0.5), (20.0, 0.01)),
    pytest.param(1e6, 0.1, marks=FAR),
]


@pytest.mark.parametrize(
    "noise", [0.05, 0.9, 3.0, 20.0, *(pytest.param(far, marks=FAR) for far in (1e3, 1e6))]
)
def test_the_moments_equal_the_alternating_sum(noise: float):
    powers = [0, 2, 4, 10, 64, 256]
    found = without_replacement._log_moment(np.array(powers, dtype=float), noise)
    expected = [float(log_b(power, noise)) for power in powers]
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(("noise", "q"), CASES)
def test_the_printed_theorem(noise: float, q: float):
    orders = [2, 3, 4, 7, 18]
    expected = [theorem_of_fixed_sizes(order, noise, q) for order in orders]
    printed = printed_bound(orders, noise_over_sensitivity=noise, sample_rate=q)
    np.testing.assert_allclose(printed, expected, rtol=1e-12)
    ours = WithoutReplacementGaussian(noise, q).rdp(orders)
    assert (ours <= printed * (1 + 1e-15)).all()
    assert ours[0] == min(printed[0], ours[0])


@pytest.mark.parametrize(
    ("noise", "q"), [*CASES, (1e-3, 0.1), pytest.param(1e13, 0.3, marks=FAR), (1e-9, 0.5)]
)
def test_a_number_at_every_order_that_grows_and_stays_below_the_unsampled(noise: float, q: float):
    orders = np.concatenate([rdp.ORDERS, [1025.0, 3001.5, 50_000.0, 2.0**20]])
    found = WithoutReplacementGaussian(noise, q).rdp(orders)
    assert np.isfinite(found).all()
    assert (found > 0).all()
    assert (np.diff(found) >= -1e-12 * found[1:]).all()
    assert (found <= orders / (2 * noise**2) * (1 + 1e-15)).all()


@pytest.mark.parametrize(("noise", "q"), CASES)
def test_no_less_than_a_pair_it_must_cover(noise: float, q: float):
    """All other records at 0 and one at +1/2 or -1/2: a mixture against its mirror image."""
    orders = [1.01, 1.5, 2, 2.5, 3, 7.3, 20, 64, 200]
    pair = SampledGaussian(2 * noise, q, "replace-one").rdp(orders)
    assert (WithoutReplacementGaussian(noise, q).rdp(orders) >= pair).all()


def test_between_whole_orders_the_cumulant_is_a_chord():
    mechanism = WithoutReplacementGaussian(4.0, 0.01)
    cumulant = lambda order: (order - 1) * mechanism.rdp([order])[0]  # noqa: E731
    assert cumulant(5.25) == pytest.approx(0.75 * cumulant(5) + 0.25 * cumulant(6), rel=1e-12)
    np.testing.assert_allclose(mechanism.rdp([1 + 1e-8, 1.9]), mechanism.rdp([2])[0], rtol=1e-7)


def test_far_orders_use_chords_between_moments_that_cost_little_more():
    """Above 1024 only some moments are integrated, and what is read between them is larger."""
    noise, most = 200.0, 4096
    for deviation in (20.0, noise, 1e5):
        read = without_replacement._log_moments(deviation, most)
        exact = without_replacement._log_moment(np.arange(1024.0, most + 1, 2), deviation)
        above = read[512:] - exact
        assert above.min() >= -1e-12 * np.abs(exact).max()
        assert above.max() < 1 / 400
    assert above.max() > 1e-4
    grown = WithoutReplacementGaussian(200.0, 0.001).rdp([1000, 2000, 4000])
    first = 2 * np.array([1000, 2000, 4000]) * 0.001**2 / noise**2  # alpha q^2 4 / (2 s^2)
    np.testing.assert_allclose(grown, first, rtol=0.1)


def test_large_sample_rates_are_priced_by_joint_convexity():
    """E_Q[(P/Q)^alpha] of a mixture of pairs, a share 1 - q of them equal, is at most the mean."""
    orders = np.array([1.5, 2.0, 3.0])
    moved = orders * (orders - 1) / 2
    expected = np.log(0.1 + 0.9 * np.exp(moved)) / (orders - 1)
    np.testing.assert_allclose(WithoutReplacementGaussian(1.0, 0.9).rdp(orders), expected)
    whole = orders[1:]
    printed = printed_bound(whole, noise_over_sensitivity=1.0, sample_rate=0.9)
    assert (expected[1:] < 0.97 * np.minimum(printed, whole / 2)).all()


def test_the_ends_of_the_sample_rate():
    orders = [1.5, 2, 64, 2000]
    assert (WithoutReplacementGaussian(1.3, 0.0).rdp(orders) == 0).all()
    # a release that moves by 1 under the noise s: a clip of 1/2, doubled by the replacement
    unsampled = Gaussian(2 * 1.3, "replace-one").rdp(orders)
    np.testing.assert_allclose(WithoutReplacementGaussian(1.3, 1.0).rdp(orders), unsampled)


def test_another_kit_agrees():
    """dp-accounting, which takes the same least bound of each term, up to order 256."""
    accountant = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    orders = np.array([2, 3, 5, 16, 64, 200])
    for noise, q in [(0.9, 0.01), (5.0, 0.01), (2.0, 0.2), (0.5, 0.001)]:
        theirs = accountant._compute_rdp_sample_wor_gaussian(q, noise, orders.tolist())
        ours = WithoutReplacementGaussian(noise, q).rdp(orders)
        np.testing.assert_allclose(ours, np.minimum(theirs, orders / (2 * noise**2)), rtol=1e-9)


def test_what_the_theorem_gives_for_the_example_that_follows_it():
    """Lot 600 of 60,000, noise 0.9, 1800 steps, delta 1e-5, the classic conversion.

    Theorem 1 gives order 4 and 6.92. The printed order 6 and 4.0 are those of Poisson sampling
    under add-remove.
    """
    orders = np.arange(2, 65)
    tail = math.log(1e5) / (orders - 1)
    printed = printed_bound(orders, noise_over_sensitivity=0.9, sample_rate=0.01)
    epsilons = 1800 * printed + tail
    assert orders[epsilons.argmin()] == 4
    assert epsilons.min() == pytest.approx(
        1800 * theorem_of_fixed_sizes(4, 0.9, 0.01) + tail[2], rel=1e-9
    )
    ledger = [Release(WithoutReplacementGaussian(0.9, 0.01), 1800)]
    ours = rdp.epsilon(ledger, delta=1e-5, conversion="classic", orders=orders)
    assert ours.epsilon < epsilons.min()
    poisson = 1800 * SampledGaussian(0.9, 0.01).rdp(orders) + tail
    assert (orders[poisson.argmin()], round(float(poisson.min()), 1)) == (6, 4.0)
