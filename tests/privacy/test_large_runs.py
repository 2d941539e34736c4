"""Very many or rare releases: against 50 digits, exact Gaussians, exact profiles and the FFT."""

import json

import large_runs
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truths import direction

from dpkit.privacy import Gaussian, Mechanism, Release, SampledGaussian, pld
from dpkit.privacy.accountants.pld import large, saddle

RUNS = json.loads(large_runs.STORED.read_text())


def by_series(ledger: list[Release], delta: float) -> tuple[float, float]:
    releases = pld._releases(pld.Ledger.of(ledger), delta)
    with np.errstate(all="ignore"):
        return large.epsilon(releases, pld._moments(releases), delta, 1e-3)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: "-".join(map(str, run[:4])))
def test_the_true_epsilon_lies_in_a_narrow_pair(run):
    noise, rate, releases, delta, truth, width = run
    ledger = [Release(SampledGaussian(float(noise), float(rate)), releases)]
    found = pld.epsilon(ledger, delta=float(delta))
    assert found.lower <= float(truth) * (1 + 1e-6)
    assert found.epsilon >= float(truth) * (1 - 1e-6)
    assert found.epsilon - found.lower <= width * found.lower


@pytest.mark.slow("stored truths that 50 digits do not give")
@pytest.mark.parametrize("run", [RUNS[0], RUNS[3], RUNS[9], RUNS[-4]], ids=str)
def test_the_stored_truth_is_what_is_computed(run):
    """From another guess, on another grid, with another bound, other factors."""
    guess = float(run[4]) * 0.97
    with mp.workdps(45):
        again = large_runs.epsilon([*run[:4], guess], fine=0.9)
        assert abs(again / mp.mpf(run[4]) - 1) < 1e-8


@pytest.mark.slow("an oracle that fails where draws are rare")
@pytest.mark.parametrize("epsilon", [1e-3, 0.05])
def test_the_oracle_gives_one_rare_release_as_its_closed_form_does(epsilon):
    with mp.workdps(50):
        delta = direction(0.5, 1e-6, epsilon)
        found = large_runs.epsilon([0.5, 1e-6, 1, delta, epsilon * 1.02])
        assert abs(found / epsilon - 1) < 1e-9


@settings(max_examples=14, deadline=None, derandomize=True)
@given(
    rate=st.floats(-4, 0).map(lambda x: 10**x),
    noise=st.floats(-0.3, 1).map(lambda x: 10**x),
    count=st.integers(1_000, 10**6),
    delta=st.floats(-12, -2).map(lambda x: 10**x),
    adjacency=st.sampled_from(["add-remove", "replace-one"]),
    more=st.integers(0, 3),
)
def test_what_series_prove_does_not_contradict_what_grids_prove(
    rate, noise, count, delta, adjacency, more
):
    ledger = [Release(SampledGaussian(noise * 1.1**i, rate, adjacency), count) for i in range(more)]
    ledger.append(Release(Gaussian(noise * 30, adjacency), 3))
    ledger.append(Release(SampledGaussian(noise, rate, adjacency), count))
    low, high = by_series(ledger, delta)
    releases = pld._releases(pld.Ledger.of(ledger), delta)
    with np.errstate(all="ignore"):
        other = pld._by_fft(releases, pld._moments(releases), delta, 1e-3)
    assert low <= high
    assert max(low, other[0]) <= min(high, other[1])


def hockey_stick(found: large.Atoms, epsilon: float) -> float:
    with np.errstate(over="ignore"):
        shares = np.maximum(-np.expm1(epsilon - found.nodes), 0.0)
        return float((found.masses * shares).sum() + found.infinite)


SAMPLED = [SampledGaussian(*one) for one in ((0.6, 1e-6), (1.1, 0.01), (300.0, 1e-4))]
SAMPLED.append(SampledGaussian(2.0, 0.3, "replace-one"))


@pytest.mark.parametrize("mechanism", [Gaussian(0.4), Gaussian(30.0), *SAMPLED], ids=str)
@pytest.mark.parametrize("scale", [0.003, 0.05, 1.0])
def test_atoms_are_above_and_below_the_hockey_stick(mechanism: Mechanism, scale: float):
    loss = mechanism.privacy_loss()
    coarse = saddle.coarse([loss], [1], 1e-15)[0]
    deviation = np.sqrt(saddle.moments([coarse]).variance).min()
    cells = large.wide_cells(loss, scale * deviation, coarse.span, coarse.centre)
    epsilons = np.linspace(-1, 1, 101) * min(coarse.span[1], 3.0)
    for side, one in enumerate((cells, cells.reversed())):
        exact = mechanism.profile(epsilons)[side]
        above = np.array([hockey_stick(large.upper(one), e) for e in epsilons])
        below = np.array([hockey_stick(large.lower(one), e) for e in epsilons])
        assert (above >= exact * (1 - 2e-9) - 1e-199).all()
        assert (below <= exact * (1 + 2e-9) + 1e-199).all()


def test_cells_of_no_width_or_without_room_for_rounding_errors_are_refused():
    loss = SampledGaussian(1.1, 0.01).privacy_loss()
    for spacing in (0.0, np.nan, np.inf):
        with pytest.raises(large.NoGrid, match="no nodes lie"):
            large.wide_cells(loss, spacing, (-0.01, 0.5), 0.0)
    cells = large.wide_cells(loss, 1e-16, (-0.01, 0.5), 0.0)
    for side in (large.upper, large.lower):
        with np.errstate(all="ignore"), pytest.raises(large.NoGrid, match=r"too narrow|lost"):
            side(cells)


@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1e-6])
def test_larger_rounding_errors_make_a_wider_pair_around_the_same(monkeypatch, unit: float):
    run = [Release(SampledGaussian(1.0, 1e-3), 10**5)]
    low, high = by_series(run, 1e-6)
    monkeypatch.setattr(large, "UNIT", unit)
    lower, higher = by_series(run, 1e-6)
    assert lower <= low <= high <= higher


def test_delta_of_many_releases_is_that_of_one_gaussian():
    ledger, once = [Release(Gaussian(3000.0), 9 * 10**6)], Gaussian(1.0).profile
    for epsilon in (0.0, 0.3, 2.0, 6.0):
        found = pld.delta(ledger, epsilon=epsilon)
        assert once([epsilon])[0, 0] <= found.delta * (1 + 1e-9)
        assert found.delta <= once([epsilon])[0, 0] * 1.02
        assert found.lower <= epsilon


def test_an_epsilon_is_refuted_beyond_one_that_is_in_doubt():
    low, high = by_series([Release(SampledGaussian(20.0, 0.1), 10**7)], 1e-6)
    assert 0.999 * high < low <= high
