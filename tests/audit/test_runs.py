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


def test_one_batch_shuffled_is_the_gaussian_at_twice_the_shift():
    rng = np.random.default_rng(2)
    absent, present = runs.shuffled(rng, TRIALS, shift=0.5, batches=1, epochs=4)
    # 4 releases that move by 2 * 0.5 deviations: losses 2 * 0.5 * x, of mean +-mu^2 / 2, mu = 2
    assert present.mean() == pytest.approx(2.0, abs=5 * 2 / np.sqrt(TRIALS))
    assert absent.mean() == pytest.approx(-2.0, abs=5 * 2 / np.sqrt(TRIALS))
    assert present.std() == pytest.approx(2.0, rel=0.02)


def test_mean_of_the_likelihood_ratio_is_one():
    """Within 5 standard errors, of shuffled epochs, whose ratio has no other oracle here."""
    absent, _ = runs.shuffled(np.random.default_rng(3), TRIALS, shift=0.5, batches=10, epochs=2)
    ratios = np.exp(absent)
    assert ratios.mean() == pytest.approx(1.0, abs=5 * ratios.std() / np.sqrt(TRIALS))


def test_a_shift_must_be_a_positive_number_and_a_rate_a_probability():
    rng = np.random.default_rng(0)
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="shift must be a finite number > 0"):
            runs.poisson(rng, 10, shift=bad, rate=0.5, steps=1)
        with pytest.raises(ValueError, match="shift must be a finite number > 0"):
            runs.shuffled(rng, 10, shift=bad, batches=2, epochs=1)
    for rate in (0.0, 1.5, np.nan):
        with pytest.raises(ValueError, match="rate must lie in"):
            runs.poisson(rng, 10, shift=1.0, rate=rate, steps=1)
