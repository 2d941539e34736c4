"""Tests "present where score > t": errors counted, exact limits of their rates, and which t.

Any choice of t, on scores that are not counted again, leaves a bound valid; a good one leaves it
large. The rates of few scores mislead: the best-looking threshold is a lucky one. So we also fit a
line to the rates as normal scores (exact for two normals), and take the larger of both rates, the
counted and the fitted, unless the counts contradict the line.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv, expit, ndtr, ndtri

from dpkit.audit.scores import Scores, check_rng, checked
from dpkit.common import checks
from dpkit.privacy.mechanisms import Floats

LEAST = 1e-300  # a limit that vanishes by rounding
CUT = 1e-3  # share of 1 - confidence given up for each far end that the joint test cuts
RANKS = 60  # thresholds tried, from each end of the scores that choose
CAUTION = 2.0  # deviations by which no count may be below the fitted line
FEWEST = 8  # thresholds with errors of both kinds that a line is fitted to
DEPTHS = np.array([0.7, 0.85, 1.1])  # of single limits that come near a joint test's
CELLS = 32  # of the joint test while choosing
WEIGHTS = expit(np.linspace(-6, 6, 13))  # tried for the joint test


class Counts(NamedTuple):
    """Errors at each threshold, (thresholds,), and scores in each world; or expected ones."""

    false_positives: Floats
    absent: float
    false_negatives: Floats
    present: float


class Limits(NamedTuple):
    """Upper limits, (..., pairs): with the confidence, both rates are below some pair's."""

    fpr: Floats
    fnr: Floats


# (..., pairs) to what they prove, (...): falls with the limits
Value = Callable[[Limits], Floats]


def quantile(alpha: float) -> float:
    """The normal score that is exceeded with probability alpha."""
    return float(-ndtri(alpha))


def upper_limit(errors: Floats, trials: float, z: Floats | float) -> Floats:
    """The rate at which `errors` or fewer in `trials` have probability Phi(-z), 1 where all err.

    One-sided, exact (Clopper, Pearson 1934). A limit that cannot be computed is 1.
    """
    a, b = errors + 1, np.maximum(trials - errors, 1e-9)
    tail = ndtr(-np.abs(z))
    found = np.where(np.asarray(z) > 0, betainccinv(a, b, tail), betaincinv(a, b, tail))
    return np.where((errors < trials) & (found >= 0), np.maximum(found, LEAST), 1.0)


def separate(counts: Counts, z: float) -> Limits:
    """One pair a threshold, (thresholds, 1); each limit fails with probability Phi(-z)."""
    return Limits(
        upper_limit(counts.false_positives, counts.absent, z)[:, None],
        upper_limit(counts.false_negatives, counts.present, z)[:, None],
    )


def joint(counts: Counts, alpha: float, weights: Floats, *, cells: int) -> Limits:
    """Pairs of limits, one of which is above both rates with probability 1 - alpha.

    Let P be the probability, at the true fpr, of as few false positives as were counted or fewer,
    and x = -Phi^-1(P); y likewise of the false negatives, independently. As P is a p-value, x is
    above any z with at most a normal variable's probability Phi(-z), so that

        x > end  or  y > end  or  a max(x, -end) + b y > z,    a^2 + b^2 = 1,

    has at most 3 Phi(-end) + Phi(-z) = alpha: the sum of normal scores is Liptak's (1958), the cuts
    keep what follows finite. Otherwise let x_k <= max(x, -end) <= x_(k+1) of a grid from -end to
    end: fpr is at most its limit at x_(k+1), and as y <= min((z - a x_k) / b, end), fnr is at most
    its limit there. One pair for each cell of the grid.

    Args:
        weights: a^2, (weights,), in (0, 1); fixed before the counts were seen.
        cells: pairs; the more, the less is lost to the grid.

    Returns:
        limits, (thresholds, weights, cells).
    """
    end, z = quantile(CUT * alpha), quantile((1 - 3 * CUT) * alpha)
    a, b = np.sqrt(weights)[:, None], np.sqrt(1 - weights)[:, None]
    grid = np.linspace(-end, end, cells + 1)
    y = np.minimum((z - a * grid[:-1]) / b, end)
    fpr = upper_limit(counts.false_positives[:, None], counts.absent, grid[1:])
    fnr = upper_limit(counts.false_negatives[:, None, None], counts.present, y)
    return Limits(np.broadcast_to(fpr[:, None], fnr.shape), fnr)


def split(
    absent: ArrayLike, present: ArrayLike, *, share: float, rng: np.random.Generator
) -> tuple[Scores, Scores]:
    """A random share of each world's scores to choose by, and the others, one at least."""
    share = checks.between(0, 1, choosing=share)
    check_rng(rng)
    first, rest = [], []
    for world in checked(absent, present):
        mixed = rng.permutation(world)
        cut = min(max(round(share * world.size), 1), world.size - 1)
        first.append(mixed[:cut])
        rest.append(mixed[cut:])
    return Scores(*first), Scores(*rest)


def count(scores: Scores, thresholds: Floats) -> Counts:
    """The errors of "present where score > t" at each threshold."""
    absent, present = map(np.sort, scores)
    above = absent.size - np.searchsorted(absent, thresholds, side="right")
    below = np.searchsorted(present, thresholds, side="right")
    return Counts(
        above.astype(np.float64), absent.size, below.astype(np.float64), present.size
    )


def threshold(first: Scores, rest: Scores, z: float, value: Value) -> float:
    """The one whose limits at z should prove most of the rest, by the first's rates."""
    tried = candidates(first)
    return float(tried[value(separate(expected(first, rest, tried), z)).argmax()])


def threshold_and_weight(
    first: Scores, rest: Scores, alpha: float, value: Value
) -> tuple[float, float]:
    """Threshold and weight whose joint limits should prove most of the rest."""
    tried = candidates(first)
    counts = expected(first, rest, tried)
    few = [value(separate(counts, z)).argmax() for z in DEPTHS * quantile(alpha)]
    best = counts._replace(
        false_positives=counts.false_positives[few],
        false_negatives=counts.false_negatives[few],
    )
    values = value(joint(best, alpha, WEIGHTS, cells=CELLS))
    row, column = np.unravel_index(values.argmax(), values.shape)
    return float(tried[few[row]]), float(WEIGHTS[column])


def candidates(scores: Scores) -> Floats:
    """Thresholds at ranks in even ratios from both ends, and one above all scores."""
    pooled = np.sort(np.concatenate(scores))
    ranks = np.unique(np.geomspace(1, max(pooled.size, 1), RANKS).round().astype(int))
    ends = [pooled[ranks - 1], pooled[pooled.size - ranks]] if pooled.size else []
    return np.unique(np.concatenate([*ends, [np.inf]]))


def expected(first: Scores, rest: Scores, thresholds: Floats) -> Counts:
    """The errors to expect of the rest at each threshold, by the first scores' rates."""
    seen = count(first, thresholds)
    fpr = (seen.false_positives + 0.5) / (seen.absent + 1)
    fnr = (seen.false_negatives + 0.5) / (seen.present + 1)
    line = _fitted(seen, fpr, fnr)
    if _allows(seen.false_positives, line[0] * seen.absent) and _allows(
        seen.false_negatives, line[1] * seen.present
    ):
        fpr, fnr = np.maximum(fpr, line[0]), np.maximum(fnr, line[1])
    absent, present = rest.absent.size, rest.present.size
    return Counts(fpr * absent, absent, fnr * present, present)


def _allows(counted: Floats, fitted: Floats) -> bool:
    """Return whether no count is CAUTION deviations below the fitted one."""
    return bool((counted >= fitted - CAUTION * np.sqrt(fitted) - 1).all())


def _fitted(seen: Counts, fpr: Floats, fnr: Floats) -> tuple[Floats, Floats]:
    """Both rates by a weighted line through (u + v) / 2 and u - v, their normal scores u and -v."""
    with_both = (seen.false_positives > 0) & (seen.false_positives < seen.absent)
    with_both &= (seen.false_negatives > 0) & (seen.false_negatives < seen.present)
    if with_both.sum() < FEWEST:
        return fpr, fnr
    u, v = ndtri(fpr), -ndtri(fnr)
    error = np.hypot(_deviation(fpr, u, seen.absent), _deviation(fnr, v, seen.present))
    middle, apart = (u + v) / 2, v - u
    line = np.polyfit(middle[with_both], apart[with_both], 1, w=1 / error[with_both])
    half = np.polyval(line, middle) / 2
    return ndtr(middle - half), ndtr(-middle - half)


def _deviation(rate: Floats, score: Floats, trials: float) -> Floats:
    """The standard deviation of a rate's normal score, to first order."""
    density = np.exp(-score * score / 2) / np.sqrt(2 * np.pi)
    return np.sqrt(rate * (1 - rate) / trials) / density
