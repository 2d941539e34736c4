"""Whole runs seen white box: the releases of a record whose gradient the attacker chose.

The attacker knows all other records, and who else is in a batch does not matter: their gradients
have no part along the record's, or are all alike where batches have a fixed size. Of each release
only the record's own contribution and the noise are then unknown: along the record's direction,
noise of deviation 1 and a shift.
"""

import numpy as np
from scipy.special import logsumexp

from dpkit.audit.scores import Scores, check_rng
from dpkit.common import checks
from dpkit.privacy.mechanisms import Floats
from dpkit.privacy.mechanisms.base import normal_masses

AT_ONCE = 2**22  # normals that are held at a time
ROWS = 2**13  # runs held at a time, where each has many numbers
CELLS = 256  # into which a release is sorted where a run is too long to draw


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
    rate = checks.in_range(0, 1, rate=checks.positive(rate=rate))

    def run(count: int, present: bool) -> Floats:
        """Sum over one block of steps."""
        draws = rng.standard_normal((trials, count))
        if present:
            draws += shift * (rng.random((trials, count)) < rate)
        return log_ratios(draws, shift, rate).sum(axis=1)

    blocks = _blocks(steps, AT_ONCE // trials)
    return Scores(*(sum(run(n, present) for n in blocks) for present in (False, True)))  # pyright: ignore


def log_ratios(draws: Floats, shift: float, rate: float) -> Floats:
    """log(1 - q + q exp(s x - s^2 / 2)) of each release x, in deviations of its noise.

    s is the shift where the record takes part, q the rate at which it does, in (0, 1].
    """
    out = np.log1p(-rate) if rate < 1 else -np.inf
    return np.logaddexp(out, np.log(rate) + shift * draws - shift**2 / 2)


def shuffled(
    rng: np.random.Generator, trials: int, *, shift: float, batches: int, epochs: int
) -> Scores:
    """Log likelihood ratios of runs that shuffle the data, under replace-one.

    Every epoch each record is in exactly one of the batches. The record's gradient is clipped at C
    one way, that of the record in whose place it stands the opposite way.

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


def left_out(
    rng: np.random.Generator, trials: int, *, shift: float, batches: int, epochs: int
) -> Scores:
    """Log likelihood ratios of runs over shuffled batches, the record left out in place.

    Every epoch it is in one batch. The clipped gradients of all others are the opposite of its own,
    so that beside what a full batch of them sums to, its batch is moved by twice its clipped
    gradient with the record and by once without it (Chua et al. 2024, "How private are DP-SGD
    implementations?"). Errors as `shuffled`.

    Args:
        rng: draws the places and the noise.
        trials: runs in each world, >= 1.
        shift: a clipped gradient's length in deviations of the noise, in (0, 10].
        batches, epochs: batches an epoch, and epochs, each shuffled anew; >= 1.
    """
    check_rng(rng)
    shift = checks.in_range(0, 10, shift=checks.positive(shift=shift))
    trials, batches, epochs = checks.whole(1, trials=trials, batches=batches, epochs=epochs)

    def epoch(rows: int, moved: float) -> Floats:
        """log of mean exp(2 s x - 2 s^2) over mean exp(s x - s^2 / 2), the largest x taken out."""
        seen = rng.standard_normal((rows, batches))
        seen[np.arange(rows), rng.integers(batches, size=rows)] += moved
        top = seen.max(axis=1)
        without = np.exp(shift * (seen - top[:, None]))
        ratio = np.square(without).sum(axis=1) / without.sum(axis=1)
        return shift * top - 1.5 * shift**2 + np.log(ratio)

    def world(moved: float) -> Floats:
        passes = ([epoch(n, moved) for _ in range(epochs)] for n in _blocks(trials, ROWS))
        return np.concatenate([np.sum(block, axis=0) for block in passes])

    return Scores(world(shift), world(2 * shift))


def sorted_runs(
    rng: np.random.Generator, trials: int, *, shift: float, rate: float, steps: int
) -> Scores:
    """Scores of runs with Poisson batches, of each release its cell alone.

    They see less than `poisson`, and take no longer for millions of steps: only the number of
    releases in each cell matters, which is drawn at once. Scores are log likelihood ratios of
    these numbers. Errors as `poisson`.

    Args:
        rng: draws the numbers.
        trials, steps: runs in each world, and releases a run; >= 1.
        shift: how far the record moves a release that it is in, in noise deviations, in (0, 10].
        rate: probability that a record takes part in a step, in (0, 1].
    """
    check_rng(rng)
    rate = checks.in_range(0, 1, rate=checks.positive(rate=rate))
    shift = checks.in_range(0, 10, shift=checks.positive(shift=shift))
    trials, steps = checks.whole(1, trials=trials, steps=steps)
    edges = np.linspace(-5, 5 + shift, CELLS - 1)
    without = normal_masses(edges)
    present = (1 - rate) * without + rate * normal_masses(edges - shift)
    ratios = np.log(present) - np.log(without)

    def world(masses: Floats) -> Floats:
        drawn = (
            rng.multinomial(steps, masses / masses.sum(), size=n)
            for n in _blocks(trials, ROWS)
        )
        return np.concatenate([np.einsum("tc,c->t", counts, ratios) for counts in drawn])

    return Scores(world(without), world(present))


def _blocks(total: int, largest: int) -> list[int]:
    """Sizes that add up to `total`, none above `largest` (or 1)."""
    largest = max(largest, 1)
    full, rest = divmod(total, largest)
    return [largest] * full + [rest] * (rest > 0)
