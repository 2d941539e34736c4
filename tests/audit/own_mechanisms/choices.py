"""Batches cut to a size, passes, groups and the best of several runs: run by their definitions."""

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from dpkit.privacy.best_of import NumberOfRuns
from dpkit.privacy.mechanisms import Floats
from dpkit.privacy.normals import standard_normals
from own_mechanisms.worlds import World


def moved_sum(
    draw_moves: Callable[[np.random.Generator, int], Floats],
    moves: Floats,
    chances: Floats,
    deviation: float,
) -> World:
    """A sum plus normal noise, where what the sum is follows from chance.

    Args:
        draw_moves: (rng, trials) -> sums (trials,), by running what draws them.
        moves, chances: the sums that there are, and their probabilities, for the density.
        deviation: the noise's standard deviation, > 0.
    """
    there = chances > 0
    at, logs = moves[there], np.log(chances[there])

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        sums = draw_moves(rng, trials)
        return (sums + deviation * standard_normals(trials, rng=rng))[:, None]

    def log_density(outputs: Floats) -> Floats:
        return np.logaddexp.reduce(logs - ((outputs - at) / deviation) ** 2 / 2, axis=1)

    return World(1, draw, log_density)


def group_sum(records: int, *, rate: float, deviation: float) -> World:
    """A Poisson batch's sum, `records` of a group in the data, each of which adds 1."""
    counts = np.arange(records + 1)
    return moved_sum(
        lambda rng, trials: rng.binomial(records, rate, trials).astype(float),
        counts.astype(float),
        binom.pmf(counts, records, rate),
        deviation,
    )


def truncated_sum(records: int, *, others: int, rate: float, most: int, deviation: float) -> World:
    """A Poisson batch's sum, of which a random `most` are kept: others are -1, the record is 1.

    Args:
        records: 1 with the record, 0 without.
        others: the number of the other records.
        rate: chance of each to be drawn.
        most: of those drawn, at least 1.
        deviation: the noise's standard deviation.
    """
    counts = np.arange(others + 1)
    drawn = binom.pmf(counts, others, rate)

    def draw_moves(rng: np.random.Generator, trials: int) -> Floats:
        other = rng.binomial(others, rate, trials)
        own = (rng.random(trials) < rate * records).astype(int)
        kept = own * (rng.random(trials) * (other + own) < most)
        return kept - np.minimum(other, most - kept).astype(float)

    held = np.minimum(1.0, most / (counts + 1)) * rate * records
    moves = [-np.minimum(counts, most), 1 - np.minimum(counts, most - 1)]
    chances = [drawn * (1 - held), drawn * held]
    return moved_sum(draw_moves, np.concatenate(moves), np.concatenate(chances), deviation)


def one_pass(move: float, *, batches: int, deviation: float) -> World:
    """All noised sums of a pass, of which one, at random, has the record: (trials, batches)."""

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        sums = deviation * standard_normals(trials * batches, rng=rng).reshape(trials, batches)
        sums[np.arange(trials), rng.integers(0, batches, trials)] += move
        return sums

    def log_density(outputs: Floats) -> Floats:
        each = (outputs * move - move**2 / 2) / deviation**2
        plain = -((outputs / deviation) ** 2).sum(axis=1) / 2
        return plain + np.logaddexp.reduce(each, axis=1) - np.log(batches)

    return World(batches, draw, log_density)


def best_sum(move: float, *, runs: NumberOfRuns, deviation: float) -> World:
    """The largest of a random number, at least 1, of noised sums, as a run with its score."""
    gamma, eta = runs.gamma, runs.shape

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        counts = np.array([runs.draw(u) for u in rng.random(trials)])
        ends = np.cumsum(counts)
        sums = move + deviation * standard_normals(int(ends[-1]), rng=rng)
        return np.maximum.reduceat(sums, ends - counts)[:, None]

    def log_density(outputs: Floats) -> Floats:
        z = (outputs[:, 0] - move) / deviation
        # the law's generating function has this derivative, but for a constant
        return -(z**2) / 2 - (eta + 1) * np.log1p(-(1 - gamma) * ndtr(z))

    return World(1, draw, log_density)
