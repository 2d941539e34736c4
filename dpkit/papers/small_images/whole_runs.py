"""Whole runs seen white box that `audit.runs` does not draw: shuffled with a record left out in
place, and Poisson ones of millions of steps.
"""

import numpy as np
from scipy.special import ndtr

from dpkit import checks
from dpkit.audit.scores import Scores, check_rng
from dpkit.privacy.mechanisms import Floats

ROWS = 2**13  # runs that are drawn at a time
CELLS = 256  # into which a release is sorted where a run is too long to draw


def left_out(
    rng: np.random.Generator, trials: int, *, shift: float, batches: int, epochs: int
) -> Scores:
    """Log likelihood ratios of runs over shuffled batches, the record left out in place.

    Every epoch it is in one batch. The clipped gradients of all others are the opposite of its own,
    so that beside what a full batch of them sums to, its batch is moved by twice its clipped
    gradient with the record and by once without it (Chua et al. 2024; `shuffled.at_least`).

    Args:
        rng: draws the places and the noise.
        trials: runs in each world, >= 1.
        shift: a clipped gradient's length in deviations of the noise, at most 10.
        batches: in an epoch, >= 1.
        epochs: >= 1, each shuffled anew.

    Raises:
        ValueError: a number is out of range.
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
        passes = ([epoch(n, moved) for _ in range(epochs)] for n in _blocks(trials))
        return np.concatenate([np.sum(block, axis=0) for block in passes])

    return Scores(world(shift), world(2 * shift))


def sorted_runs(
    rng: np.random.Generator, trials: int, *, shift: float, rate: float, steps: int
) -> Scores:
    """Scores of runs with Poisson batches, of each release only the cell that it falls into.

    What is seen is less than `runs.poisson` scores, and takes no longer for millions of steps: only
    the number of releases in each cell matters, which is drawn at once. Scores are log likelihood
    ratios of these numbers. Arguments and errors as there, with shift at most 10.
    """
    check_rng(rng)
    if not 0 < rate <= 1:
        raise ValueError(f"rate must lie in (0, 1], got {rate}")
    shift = checks.in_range(0, 10, shift=checks.positive(shift=shift))
    trials, steps = checks.whole(1, trials=trials, steps=steps)
    edges = np.concatenate([[-np.inf], np.linspace(-5, 5 + shift, CELLS - 1), [np.inf]])
    without = _masses(edges)
    present = (1 - rate) * without + rate * _masses(edges - shift)
    ratios = np.log(present) - np.log(without)

    def world(masses: Floats) -> Floats:
        chances = masses / masses.sum()
        drawn = (rng.multinomial(steps, chances, size=n) for n in _blocks(trials))
        return np.concatenate([np.einsum("tc,c->t", counts, ratios) for counts in drawn])

    return Scores(world(without), world(present))


def _masses(edges: Floats) -> Floats:
    """Normal probability of each cell, from the nearer tail."""
    low, high = edges[:-1], edges[1:]
    return np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))


def _blocks(trials: int) -> list[int]:
    """Sizes that add up to `trials`, none above ROWS."""
    return [min(ROWS, trials - start) for start in range(0, trials, ROWS)]
