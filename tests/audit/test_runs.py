"""Whole runs seen white box, against the mechanisms' own prices."""

import numpy as np
import pytest

from dpkit.audit import runs
from dpkit.privacy import Release, SampledGaussian, pld

TRIALS = 200_000


def hockey_stick(losses: np.ndarray, epsilon: float) -> tuple[float, float]:
    """E over P of (1 - e^(epsilon - loss))+, and its standard error."""
    values = np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses, 0.0)))
    return values.mean(), values.std() / np.sqrt(values.size)


@pytest.mark.parametrize(
    ("shift", "rate", "steps"), [(1.0, 1.0, 1), (1.0, 0.1, 10), (2.0, 0.02, 30)]
)
def test_losses_of_poisson_runs_have_the_ledgers_profile(shift, rate, steps):
    """Both directions within 5 standard errors: a false alarm in 1 of 10^5 runs or fewer."""
    rng = np.random.default_rng(1)
    absent, present = runs.poisson(rng, TRIALS, shift=shift, rate=rate, steps=steps)
    ledger = [Release(SampledGaussian(1 / shift, rate), steps)]
    for epsilon in (0.1, 0.5, 1.0):
        added, error = hockey_stick(present, epsilon)
        removed, other = hockey_stick(-absent, epsilon)
        proven = pld.delta(ledger, epsilon=epsilon).delta
        assert max(added - 5 * error, removed - 5 * other) <= proven * 1.001
        assert max(added + 5 * error, removed + 5 * other) >= proven * 0.98


def test_sorting_releases_into_cells_hides_little_and_shows_nothing_more():
    """Delta of the sorted runs against the ledger's own, within 5 standard errors."""
    run = {"shift": 2.0, "rate": 0.01, "steps": 100}
    _, present = runs.sorted_runs(np.random.default_rng(3), 50_000, **run)
    ledger = [Release(SampledGaussian(1 / run["shift"], run["rate"]), run["steps"])]
    for epsilon in (0.5, 2.0, 3.0):
        found, error = hockey_stick(present, epsilon)
        exact = pld.delta(ledger, epsilon=epsilon).delta
        assert 0.98 * exact - 5 * error <= found <= exact * 1.001 + 5 * error


@pytest.mark.parametrize(("run", "mu"), [("shuffled", 2.0), ("left_out", 1.0)])
def test_epochs_of_one_batch_are_gaussians(run, mu):
    """Four that move by 2 * 0.5 deviations, or 0.5: losses of mean +-mu^2 / 2, deviation mu."""
    worlds = getattr(runs, run)(np.random.default_rng(2), TRIALS, shift=0.5, batches=1, epochs=4)
    for world, sign in zip(worlds, (-1, 1), strict=True):
        assert world.mean() == pytest.approx(sign * mu**2 / 2, abs=5 * mu / np.sqrt(TRIALS))
        assert world.std() == pytest.approx(mu, rel=0.02)


@pytest.mark.parametrize(
    ("run", "more"),
    [
        ("shuffled", {"shift": 0.5, "batches": 10, "epochs": 2}),
        ("left_out", {"shift": 0.5, "batches": 10, "epochs": 2}),
        ("sorted_runs", {"shift": 1.0, "rate": 0.02, "steps": 100}),
    ],
)
def test_mean_of_the_likelihood_ratio_is_one(run, more):
    """Without the record, within 5 standard errors."""
    absent, _ = getattr(runs, run)(np.random.default_rng(3), 100_000, **more)
    ratios = np.exp(absent)
    assert ratios.mean() == pytest.approx(1.0, abs=5 * ratios.std() / np.sqrt(ratios.size))


@pytest.mark.parametrize("run", ["poisson", "sorted_runs", "shuffled", "left_out"])
def test_a_shift_must_be_a_positive_number_and_a_rate_a_probability(run):
    """And in some one whose exponentials fit."""
    rated = run in ("poisson", "sorted_runs")
    good = {"rate": 0.5, "steps": 1} if rated else {"batches": 2, "epochs": 1}
    bad = [{"shift": one} for one in (0.0, -1.0, np.nan, np.inf)]
    bad += [{"shift": 11.0}] if run in ("sorted_runs", "left_out") else []
    bad += [{"rate": one} for one in (0.0, 1.5, np.nan)] if rated else []
    for one in bad:
        ((name, value),) = one.items()
        with pytest.raises(ValueError, match=f"{name} must .* got {value}"):
            getattr(runs, run)(np.random.default_rng(0), 10, **{"shift": 1.0, **good, **one})
