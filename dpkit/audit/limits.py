"""Exact upper limits of the two error rates of a test between two worlds."""

from typing import NamedTuple

import numpy as np
from scipy.special import betainccinv, betaincinv, ndtr, ndtri

from dpkit.privacy.mechanisms import Floats

LEAST = 1e-300  # a limit that vanishes by rounding
CUT = 1e-3  # share of 1 - confidence given up for each far end that the joint test cuts off


class Counts(NamedTuple):
    """Errors at each threshold, (thresholds,), and scores in each world; they may be expected."""

    false_positives: Floats
    absent: float
    false_negatives: Floats
    present: float

    def at(self, rows: list) -> "Counts":
        """Those of some thresholds alone."""
        return Counts(
            self.false_positives[rows], self.absent, self.false_negatives[rows], self.present
        )


class Limits(NamedTuple):
    """Upper limits, (..., pairs): with the confidence, both rates are below those of some pair."""

    fpr: Floats
    fnr: Floats


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
    fpr = upper_limit(counts.false_positives, counts.absent, z)
    fnr = upper_limit(counts.false_negatives, counts.present, z)
    return Limits(fpr[:, None], fnr[:, None])


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
