"""The certified pair: the truth lies inside, wherever it is known another way."""

import math

import numpy as np
import pytest

from dpkit.privacy import Release, SampledGaussian, calibrate, parallel, pld, rdp
from dpkit.privacy.accountants.pld import large
from dpkit.privacy.mechanisms import BallsAndBinsGaussian, Gaussian, RandomizedResponse, Unsupported

# q, noise, steps, delta
CASES = [(0.01, 1.1, 10_000, 1e-5), (0.01, 0.5, 1_000, 1e-5), (64 / 60_000, 1.0, 60_000, 1e-5)]
CASES += [(1.0, 1.0, 1, 1e-5), (1e-4, 0.3, 1000, 1e-5), (0.2, 1.0, 500, 1e-5)]
CASES += [(0.01, 1.1, 10_000, 1e-12), (0.2, 0.5, 1_000, 1e-5), (0.01, 20.0, 1, 1e-5)]
CASES += [(1e-5, 1.0, 10**7, 1e-5)]
MOST = pytest.mark.slow("rounding errors of the most batches that may be drawn")


@pytest.mark.parametrize(("rate", "noise", "steps", "delta"), CASES)
def test_common_and_hard_runs_have_a_narrow_pair(rate, noise, steps, delta):
    ledger = [Release(SampledGaussian(noise, rate), steps)]
    found = pld.epsilon(ledger, delta=delta)
    assert 0 < found.epsilon - found.lower <= (3e-3 if steps > 10**6 else 1e-3) * found.epsilon
    assert found.epsilon < rdp.epsilon(ledger, delta=delta).epsilon


@pytest.mark.parametrize(("rate", "noise", "steps", "delta"), CASES[:5])
def test_a_finer_pair_lies_inside_a_coarser_one(rate, noise, steps, delta):
    ledger = [Release(SampledGaussian(noise, rate), steps)]
    wide = pld.epsilon(ledger, delta=delta, gap=0.05)
    fine = pld.epsilon(ledger, delta=delta, gap=1e-4)
    assert wide.lower <= fine.epsilon
    assert fine.lower <= wide.epsilon
    assert fine.epsilon - fine.lower < 2e-4 * fine.epsilon


def test_hundreds_of_noise_multipliers():
    noises = np.linspace(0.8, 2.0, 300)
    found = pld.epsilon([Release(SampledGaussian(float(s), 0.01)) for s in noises], delta=1e-5)
    assert found.epsilon - found.lower <= 2e-3 * found.epsilon
    for noise, below in ((0.8, True), (2.0, False)):
        end = pld.epsilon([Release(SampledGaussian(noise, 0.01), 300)], delta=1e-5)
        assert (found.epsilon < end.lower) is below


def test_few_nodes_make_a_wider_pair_never_a_wrong_one(monkeypatch):
    fine = pld.epsilon([Release(SampledGaussian(1.1, 0.01), 10_000)], delta=1e-5)
    monkeypatch.setattr(pld, "MOST_NODES", 2**10)
    monkeypatch.setattr(large, "MOST_MECHANISMS", 0)  # not at all
    wide = pld.epsilon([Release(SampledGaussian(1.1, 0.01), 10_000)], delta=1e-5)
    assert wide.lower <= fine.lower <= fine.epsilon <= wide.epsilon
    assert wide.epsilon - wide.lower > 5 * (fine.epsilon - fine.lower)


@pytest.mark.parametrize(("one", "count"), [(1.0, 1), (1.0, 3), (0.2, 1), (5.93, 920)])
def test_a_largest_loss_with_mass_of_its_own_has_a_narrow_pair(one, count):
    """Just below count * one, delta is p^count (1 - exp(epsilon - count one)), p that of `one`."""
    delta = 1e-6 if count < 900 else 1e-5
    found = pld.epsilon([Release(RandomizedResponse(one), count)], delta=delta)
    assert 0 < found.lower <= found.epsilon <= count * one * (1 + 1e-12)
    log_p = -count * math.log1p(math.exp(-one))
    truth = count * one + math.log1p(-delta / math.exp(log_p))
    if count < 900:  # else other losses matter too
        assert found.lower - 1e-9 <= truth <= found.epsilon + 1e-9
    assert found.epsilon - found.lower <= 1e-6 * found.epsilon


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("mechanism", "count", "delta"),
    [
        (Gaussian(1e7), 10**12, 1e-6),
        pytest.param(SampledGaussian(1e6, 0.001), 10**15, 1e-5, marks=MOST),
        (RandomizedResponse(0.0633), 23, 3.8e-15),
        (SampledGaussian(0.25, 1.4e-8), 1, 1.07e-5),
        (BallsAndBinsGaussian(0.8, 469, 1.0), 60, 1e-10),  # Renyi DP knows more than the pair
        (BallsAndBinsGaussian(0.5, 147, 1.0), 13, 1e-10),
    ],
)
def test_extremes_warn_of_nothing_and_cost_no_more_than_by_renyi(mechanism, count, delta):
    ledger = [Release(mechanism, count)]
    found = pld.epsilon(ledger, delta=delta)
    assert 0 <= found.lower <= found.epsilon <= rdp.epsilon(ledger, delta=delta).epsilon


def test_calibration_ends_on_the_private_side_within_a_ten_thousandth():
    run = {"sample_rate": 0.01, "steps": 10_000, "delta": 1e-5}
    noise = calibrate.noise_multiplier(9.6, **run, accountant=pld.epsilon)
    assert pld.epsilon([Release(SampledGaussian(noise, 0.01), 10_000)], delta=1e-5).epsilon <= 9.6
    least = calibrate.noise_multiplier(9.6, **run, accountant=pld.epsilon, gap=1e-5)
    assert least <= noise <= least + 1e-4
    rate = calibrate.sample_rate(
        9.6, noise_multiplier=noise, steps=10_000, delta=1e-5, accountant=pld.epsilon
    )
    assert rate == pytest.approx(0.01, rel=1e-3)


def test_where_so_much_is_neglected_that_no_grid_proves_anything_renyi_does():
    """A loss of 1,659 bins is known but for 1,659e-18 of its mass: too much for 11,719 releases."""
    ledger, delta = [Release(BallsAndBinsGaussian(17.4, batches=1659), 11_719)], 5e-12
    found = pld.epsilon(ledger, delta=delta)
    assert found.epsilon == rdp.epsilon(ledger, delta=delta).epsilon < 1.1
    assert "RDP" in found.method
    assert found.lower == 0
    with pytest.raises(Unsupported):
        pld.epsilon(parallel([Release(Gaussian(1.0))]), delta=1e-5)
