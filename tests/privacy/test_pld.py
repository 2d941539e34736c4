"""The certified pair against truths that share no code with it, and under provoked errors."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr
from truths import epsilon_where, gaussian_epsilon, larger

from dpkit.privacy import Gaussian, Guarantee, Ledger, Release, SampledGaussian, pld, rdp
from dpkit.privacy.mechanisms import DiscreteGaussian, Laplace, RandomizedResponse

BOTH = ("add-remove", "replace-one")
ODD = pytest.mark.slow("an odd number of releases composed wrongly")
THREE = pytest.param(0.3, 1.2, 3, 501, marks=ODD)
LEDGERS: list[Ledger] = [
    [Release(SampledGaussian(1.1, 0.01), 1000)],
    [Release(SampledGaussian(0.3, 1e-4), 1000)],
    [Release(SampledGaussian(1.0, 0.2, "replace-one"), 50)],
    [Release(SampledGaussian(0.8, 0.02), 200), Release(Gaussian(6.0), 5), Release(Laplace(9.0), 3)],
    [Release(RandomizedResponse(0.3, 3), 40)],
]
FAR = pytest.mark.slow("a window that tens of thousands leave")


def enclosed(found: Guarantee, true: mp.mpf, gap: float = 1e-3) -> None:
    assert found.lower <= true <= found.epsilon
    assert found.epsilon - found.lower <= gap * found.epsilon


@settings(max_examples=15)
@given(
    noise=st.floats(-0.5, 2).map(lambda x: 10**x),
    count=st.floats(0, 3.5).map(lambda x: int(10**x)),
    delta=st.floats(-12, -1).map(lambda x: 10**x),
    adjacency=st.sampled_from(BOTH),
    gap=st.floats(-7, -1).map(lambda x: 10**x),
)
def test_composed_gaussians_are_one_gaussian(noise, count, delta, adjacency, gap):
    """At any gap asked for: a finer grid is where rounding would show."""
    found = pld.epsilon([Release(Gaussian(noise, adjacency), count)], delta=delta, gap=gap)
    moved = BOTH.index(adjacency) + 1
    with mp.workdps(40):
        true = gaussian_epsilon(mp.mpf(noise) / (moved * mp.sqrt(count)), delta)
    enclosed(found, true, max(gap, 1e-3))


@settings(max_examples=15)
@given(
    noise=st.floats(-0.5, 1.5).map(lambda x: 10**x),
    rate=st.floats(-3, -0.01).map(lambda x: 10**x),
    delta=st.floats(-10, -3).map(lambda x: 10**x),
    adjacency=st.sampled_from(BOTH),
)
def test_one_release_is_its_own_profile(noise, rate, delta, adjacency):
    found = pld.epsilon([Release(SampledGaussian(noise, rate, adjacency))], delta=delta)
    with mp.workdps(40):
        true = epsilon_where(lambda e: larger(noise, rate, e, adjacency), delta)
    assert found.lower <= true <= found.epsilon
    assert found.epsilon - found.lower <= 2e-3 * found.epsilon + 1e-6


def sampled_delta(q: float, s: float, adjacency: str, count: int, points: int):
    """delta(epsilon) of `count` (2 or 3) releases: outputs on a grid, the last one in closed form.

    The trapezoidal rule of smooth densities: exact to rounding once steps are below s / 3.
    """
    x = np.linspace(-9 * s - 1, 9 * s + 1, points)
    zero, one, back = (np.exp(-(((x - m) / s) ** 2) / 2) for m in (0, 1, -1))
    other = zero if adjacency == "add-remove" else (1 - q) * zero + q * back
    p, o = ((1 - q) * zero + q * one, other)
    loss = np.log(p / o)
    p, o = p / zero.sum(), o / zero.sum()

    def direction(epsilon: float, sign: int) -> float:
        weight = p if sign > 0 else o
        losses, weights = sign * loss, weight
        for _ in range(count - 2):
            losses = np.add.outer(losses, sign * loss).ravel()
            weights = np.multiply.outer(weights, weight).ravel()
        left = sign * (epsilon - losses)  # what the last release's loss must pass
        if adjacency == "add-remove":
            with np.errstate(divide="ignore", invalid="ignore"):
                t = np.nan_to_num(s * s * np.log(np.expm1(left) / q + 1) + 0.5, nan=-np.inf)
            mean = 0.0
        else:
            c = (1 - q) / q * np.exp(1 / (2 * s * s))
            t, mean = s * s * (left / 2 + np.arcsinh(c * np.sinh(left / 2))), -1.0
        tails = ((1 - q) * ndtr(-sign * t / s) + q * ndtr(-sign * (t - m) / s) for m in (1, mean))
        first, second = tails if sign > 0 else reversed(list(tails))
        return float(weights @ (first - np.exp(epsilon - losses) * second))

    return lambda epsilon: max(direction(epsilon, +1), direction(epsilon, -1))


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize(
    ("rate", "noise", "count", "points"),
    [(0.3, 1.0, 2, 6001), (0.02, 0.8, 2, 6001), (0.9, 2.0, 2, 3001), THREE],
)
@pytest.mark.parametrize("delta", [1e-7, 1e-4])
def test_few_releases_are_a_dense_integral(adjacency, rate, noise, count, points, delta):
    direct = sampled_delta(rate, noise, adjacency, count, points)
    true = brentq(lambda e: np.log(direct(e) / delta), 0.0, 12.0, xtol=1e-12)
    check = sampled_delta(rate, noise, adjacency, count, points // 2)(true)
    assert check == pytest.approx(delta, rel=1e-7)  # the oracle's own error
    found = pld.epsilon([Release(SampledGaussian(noise, rate, adjacency), count)], delta=delta)
    enclosed(found, mp.mpf(true))


@pytest.mark.parametrize(("scale", "count", "delta"), [(0.7, 3, 1e-4), (2.0, 4, 1e-6)])
def test_discrete_gaussians_are_a_sum_over_integers(scale: float, count: int, delta: float):
    """The noises' sum decides: their law by convolution, the loss linear in it."""
    with mp.workdps(30):
        s, reach = mp.mpf(scale), int(12 * scale) + 2
        law = [mp.exp(-mp.mpf(x * x) / (2 * s * s)) for x in range(-reach, reach + 1)]
        law = np.array(law) / mp.fsum(law)
        sums = law
        for _ in range(count - 1):
            sums = np.convolve(sums, law)  # of mpmath's numbers
        # around 1 against around 0: x - 1/2 over s^2 at x = 1 + noise
        first = mp.mpf(count) / 2 - count * reach
        atoms = [((first + k) / (s * s), m) for k, m in enumerate(sums)]
        true = epsilon_where(
            lambda e: mp.fsum(m * -mp.expm1(e - x) for x, m in atoms if x > e), delta
        )
    enclosed(pld.epsilon([Release(DiscreteGaussian(scale), count)], delta=delta), true)


@settings(max_examples=15)
@given(
    noise=st.floats(-0.7, 2).map(lambda x: 10**x),
    rate=st.floats(-4, 0).map(lambda x: 10**x),
    count=st.floats(0, 4).map(lambda x: int(10**x)),
    delta=st.floats(-12, -0.5).map(lambda x: 10**x),
    adjacency=st.sampled_from(BOTH),
)
def test_anywhere_what_must_hold_holds(noise, rate, count, delta, adjacency):
    """Ordered, not above Renyi's bound, and monotone in count and noise up to its own width."""

    def price(noise: float, count: int) -> Guarantee:
        return pld.epsilon([Release(SampledGaussian(noise, rate, adjacency), count)], delta=delta)

    found = price(noise, count)
    ledger = [Release(SampledGaussian(noise, rate, adjacency), count)]
    assert 0 <= found.lower <= found.epsilon
    renyi = rdp.epsilon(ledger, delta=delta).epsilon
    assert found.lower <= renyi * (1 + 1e-9)
    assert found.epsilon <= renyi * 1.01 + 1e-9
    assert found.lower <= price(noise, count + 1).epsilon
    assert price(noise * 1.01, count).lower <= found.epsilon
    assert price(noise, 1).lower <= found.epsilon


@pytest.mark.parametrize("ledger", LEDGERS, ids=str)
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 3.0, 30.0])
def test_delta_is_the_inverse_of_epsilon(ledger: Ledger, epsilon: float):
    found = pld.delta(ledger, epsilon=epsilon)
    assert found.epsilon == epsilon
    assert 0 <= found.delta <= 1
    assert found.delta > 0 or epsilon >= pld.epsilon(ledger, delta=0).epsilon
    assert found.lower <= epsilon
    # refuted nowhere, and not given away by more than the gaps
    assert pld.epsilon(ledger, delta=found.delta).lower <= epsilon
    if found.delta > 1e-9 and epsilon > 0:
        assert pld.epsilon(ledger, delta=found.delta * 0.99).epsilon >= epsilon * (1 - 1e-3)


@pytest.mark.parametrize(
    ("noise", "rate", "steps"),
    [(0.001, 0.0032, 50), pytest.param(0.005, 0.0064, 30_000, marks=FAR)],
)
def test_noise_that_hides_next_to_nothing_is_priced_all_the_same(noise, rate, steps):
    """A window far from where the mass lies proves little by FFT; one moment proves the rest."""
    ledger = [Release(SampledGaussian(noise, rate), steps)]
    found = pld.epsilon(ledger, delta=1e-5, gap=0.01)
    # given that the record is in k batches, the run is a Gaussian of noise z / sqrt(k); k is at
    # least 1 with a chance far above delta, and one batch alone gives epsilon 1 / (2 z^2) - 5 / z
    assert 0.5 / noise**2 - 5 / noise < found.lower < found.epsilon
    assert found.epsilon <= rdp.epsilon(ledger, delta=1e-5).epsilon
