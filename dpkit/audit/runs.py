"""Whole runs seen white box: what the releases say of one record whose gradient the attacker chose.

The attacker knows all other records, so that of each release only the record's own contribution and
the noise are unknown: along the record's direction, noise of deviation 1 and a shift.
"""

import numpy as np
from scipy.special import logsumexp

from dpkit import checks
from dpkit.audit.scores import Scores, check_rng
from dpkit.privacy.mechanisms import Floats

AT_ONCE = 2**22  # normals that are held at a time


def poisson(
    rng: np.random.Generator, trials: int, *, shift: float, rate: float, steps: int
) -> Scores:
    """Log likelihood ratios of runs with Poisson batches, under add-remove.

    Args:
        rng: draws who takes part, and the noise.
        trials: runs in each world, >= 1.
        shift: how far the record moves a release that it takes part in, in deviations of the noise:
            1 / noise multiplier where the clipping holds.
        rate: probability that a record takes part in a step, in (0, 1].
        steps: releases a run.

    Raises:
        ValueError: a number is out of range.
    """
    check_rng(rng)
    shift = checks.positive(shift=shift)
    trials, steps = checks.whole(1, trials=trials, steps=steps)
    if not 0 < rate <= 1:
        raise ValueError(f"rate must lie in (0, 1], got {rate}")
    out = np.log1p(-rate) if rate < 1 else -np.inf

    def run(count: int, present: bool) -> Floats:
        """Sum of log(1 - q + q exp(s x - s^2 / 2)) over one block of steps."""
        draws = rng.standard_normal((trials, count))
        if present:
            draws += shift * (rng.random((trials, count)) < rate)
        return np.logaddexp(out, np.log(rate) + shift * draws - shift**2 / 2).sum(axis=1)

    blocks = _blocks(steps, AT_ONCE // trials)
    return Scores(*(sum(run(n, present) for n in blocks) for present in (False, True)))  # pyright: ignore


def shuffled(
    rng: np.random.Generator, trials: int, *, shift: float, batches: int, epochs: int
) -> Scores:
    """Log likelihood ratios of runs that shuffle the data, under replace-one.

    Every epoch each record is in exactly one batch. The record's gradient is clipped at C one way,
    that of the record in whose place it stands the opposite way.

    Args:
        rng: draws the places and the noise.
        trials: runs in each world, >= 1.
        shift: a clipped gradient's length in deviations of the noise: 1 / noise multiplier.
        batches: in an epoch, >= 1.
        epochs: >= 1, each shuffled anew.

    Raises:
        ValueError: a number is out of range.
    """
    check_rng(rng)
    shift = checks.positive(shift=shift)
    trials, batches, epochs = checks.whole(1, trials=trials, batches=batches, epochs=epochs)

    def epoch(rows: int, sign: int) -> Floats:
        draws = rng.standard_normal((rows, batches))
        draws[np.arange(rows), rng.integers(batches, size=rows)] += sign * shift
        return logsumexp(shift * draws, axis=1) - logsumexp(-shift * draws, axis=1)

    def world(sign: int) -> Floats:
        blocks = _blocks(trials, AT_ONCE // batches)
        return sum(np.concatenate([epoch(n, sign) for n in blocks]) for _ in range(epochs))  # pyright: ignore

    return Scores(world(-1), world(1))


def _blocks(total: int, largest: int) -> list[int]:
    """Sizes that add up to `total`, none above `largest` (or 1)."""
    largest = max(largest, 1)
    full, rest = divmod(total, largest)
    return [largest] * full + [rest] * (rest > 0)
