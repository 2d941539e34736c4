"""Releases side by side: the same as one by one; few coefficients: those of the whole transform."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkit.privacy import Gaussian, Release, SampledGaussian, pld
from dpkit.privacy.accountants.pld import composed_loss, loss_grid, saddle
from dpkit.privacy.accountants.pld.composed_loss import Power, compose
from dpkit.privacy.accountants.pld.loss_grid import GridLoss
from dpkit.privacy.accountants.pld.saddle import Look

H = 0.01
FAMILY = [SampledGaussian(*one) for one in ((0.6, 0.3), (1.1, 0.01), (1.2, 0.02))]


@given(
    seed=st.integers(0, 2**32 - 1),
    nodes=st.integers(1, 60),
    rows=st.integers(1, 4),
    count=st.integers(1, 30),
    size=st.integers(100, 10**6),
)
def test_few_coefficients_are_off_by_no_more_than_they_say(seed, nodes, rows, count, size):
    """Against sums in 40 digits, for any length of the window."""
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=(rows, nodes)) ** 3
    weights /= weights.sum(axis=1, keepdims=True)
    middles = rng.integers(0, nodes, rows)
    found, error = _lowest(size, weights, middles, count)
    assert found.shape == (rows, count)
    assert (error < 1e-12).all()
    with mp.workdps(40):
        for i in range(rows):
            for j in rng.integers(0, count, 3).tolist():
                turns = [mp.mpf(2 * j * (k - int(middles[i]))) / size for k in range(nodes)]
                exact = mp.fsum(w * mp.expjpi(-t) for w, t in zip(weights[i], turns, strict=True))
                assert abs(exact - complex(found[i, j])) <= error[i, 0]


def _lowest(size: int, weights: np.ndarray, middles: np.ndarray, count: int):
    power = object.__new__(Power)  # for a window of any size, 5-smooth or not
    power.size, power.chirps = size, np.zeros(0, dtype=complex)
    return power._lowest(weights, middles, count)


def test_few_coefficients_of_a_long_release_are_those_of_the_whole_transform():
    size, rng = 3 * 2**13, np.random.default_rng(0)
    weights = rng.exponential(size=(2, 5000)) * np.exp(-((np.arange(5000) - 2000) ** 2) / 1e5)
    weights /= weights.sum(axis=1, keepdims=True)
    found, error = _lowest(size, weights, np.array([1990, 2100]), 200)
    for i, middle in enumerate((1990, 2100)):
        exact = np.fft.rfft(np.roll(np.pad(weights[i], (0, size - 5000)), -middle))[:200]
        assert np.abs(found[i] - exact).max() <= error[i, 0] < 1e-11


@pytest.mark.parametrize("length", [7, 14, 22])
def test_no_bound_is_stated_for_other_lengths(length: int):
    with pytest.raises(ValueError, match="5-smooth"):
        composed_loss._fft_error(length)


def test_measured_rounding_of_transforms_is_within_the_bound():
    rng = np.random.default_rng(1)
    for length in (2**12, 3**7, 5**5, 2**4 * 3**3 * 5**2):
        x = rng.normal(size=length)
        exact = np.fft.fft(x.astype(np.longdouble))
        wrong = np.linalg.norm(np.fft.fft(x) - exact) / np.linalg.norm(exact)
        assert wrong <= composed_loss._fft_error(length) <= 1.1 * 9 * np.log2(length) * 2.0**-53


@pytest.mark.parametrize("short", [0, 3, np.inf])
def test_a_composed_block_is_its_rows_composed(monkeypatch, short: float):
    """Whichever way its transforms are computed."""
    losses = [mechanism.privacy_loss() for mechanism in FAMILY]
    block = loss_grid._block(loss_grid.seen(losses, [3, 40, 7], 1e-12))
    part = loss_grid.upper(loss_grid.cells(block.loss, H, block.span, block.centre))
    look = Look(2.0, 2.0, 1.0, 2.0, -20.0, 40.0, 2.0, 2.0)
    assert isinstance(part.first, np.ndarray)
    assert isinstance(part.offset, np.ndarray)
    firsts, offsets, infinite = map(np.ravel, (part.first, part.offset, part.infinite))
    rows = [
        (GridLoss(int(firsts[i]), offsets[i], H, part.masses[i], infinite[i]), n)
        for i, n in enumerate(np.ravel(block.counts).tolist())
    ]
    alone = compose(rows, look)
    monkeypatch.setattr(composed_loss, "SHORT", short)
    monkeypatch.setattr(composed_loss, "ROOM", 10_000)
    found = compose([(part, block.counts)], look)
    assert found.epsilon_above(1e-6) == pytest.approx(alone.epsilon_above(1e-6), rel=1e-9)
    for name in ("losses", "log_scale", "infinite", "factor", "blur"):
        np.testing.assert_allclose(getattr(found, name), getattr(alone, name), rtol=1e-12)
    wrong = np.abs(found.weights - alone.weights).sum()
    assert wrong <= found.error + alone.error < 1e-8


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_a_ledger_costs_what_it_costs_line_by_line(monkeypatch, delta: float, adjacency):
    rng = np.random.default_rng(3)
    both = zip(rng.uniform(0.6, 9, 40), rng.integers(1, 90, 40), strict=True)
    ledger = [Release(SampledGaussian(z, 0.02, adjacency), int(count)) for z, count in both]
    ledger += [Release(Gaussian(noise, adjacency), 2) for noise in (40.0, 60.0, 90.0)]
    found = pld.epsilon(ledger, delta=delta)
    monkeypatch.setattr(loss_grid, "UNEVEN", 0.0)
    monkeypatch.setattr(loss_grid, "SIZE", saddle.EDGES.size)
    monkeypatch.setattr(composed_loss, "SHORT", np.inf)
    alone = pld.epsilon(ledger, delta=delta)
    assert found[:3] == pytest.approx(alone[:3], rel=1e-5)


@pytest.mark.parametrize("rows", [1, 3])
def test_coefficients_that_are_not_numbers_spoil_the_stated_error(rows: int):
    power = Power(6000)
    weights = np.full((rows, 20), 0.05)
    power.multiply(np.zeros((rows, 1), dtype=int), weights, np.full(rows, 500.0))
    weights[-1] = np.nan
    power.multiply(np.zeros((rows, 1), dtype=int), weights, np.full(rows, 500.0))
    assert np.isnan(power.result(0)[1])
