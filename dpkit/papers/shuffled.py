"""What one pass over shuffled batches costs at least: the accountant charges Poisson batches."""

import numpy as np
from scipy.special import log_ndtr

from dpkit import checks
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
    thresholds = np.linspace(0, 2 + 8 * noise_multiplier, 4001)

    def event(moved: float):  # log of its probability, (4001,)
        below = log_ndtr((thresholds - moved) / noise_multiplier)
        below += (batches - 1) * log_ndtr(thresholds / noise_multiplier)
        return np.log(-np.expm1(below))

    with_it, without_it = event(2.0), event(1.0)
    useful = with_it > np.log(delta)
    if not useful.any():
        return 0.0
    left = with_it[useful] + np.log(-np.expm1(np.log(delta) - with_it[useful]))  # log(P - delta)
    return max(0.0, float((left - without_it[useful]).max()))
