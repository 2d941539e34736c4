"""What one pass over shuffled batches costs at least: the accountant charges Poisson batches."""

import numpy as np

from dpkit import checks
from dpkit.privacy import as_drawn
from dpkit.privacy.mechanisms.base import check_noise


def at_least(noise_multiplier: float, *, batches: int, delta: float) -> float:
    """An epsilon that one pass of `batches` noised sums cannot be below, at `delta`.

    Two data sets: all records' clipped gradients are alike, but one record's is the opposite, or 0
    where it is left out in place (zero-out: Poisson batches cost the same as under add-remove).
    Beside -C times its size, the sum of the batch that holds the place is 2C with the record and C
    without it. The event that some sum lies above a threshold tells the two apart, with
    delta >= P(event) - e^epsilon Q(event) (Chua et al. 2024, "How private are DP-SGD
    implementations?"); the best of 4,001 thresholds is taken.

    Raises:
        ValueError: noise_multiplier is not in [1e-9, 1e13], batches not an integer >= 1, or delta
            not in (0, 1).
    """
    check_noise(noise_multiplier)
    checks.whole(1, batches=batches)
    checks.between(0, 1, delta=delta)
    thresholds = np.linspace(0, 2 + 8 * noise_multiplier, as_drawn.THRESHOLDS)
    with_it, without_it = (
        as_drawn.log_largest(thresholds, moved, noise_multiplier, batches) for moved in (2.0, 1.0)
    )
    return as_drawn.refuted(with_it, without_it, delta)
