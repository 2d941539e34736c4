"""Lower bounds on epsilon from independent scores of two worlds, without a record and with it.

The test "present where score > t" has a false positive rate fpr in the one world and a false
negative rate fnr in the other. Under (epsilon, delta)-DP, 1 - fnr <= e^epsilon fpr + delta and
1 - fpr <= e^epsilon fnr + delta (Kairouz, Oh, Viswanath 2015, Thm 2.1). Both right-hand sides fall
with fpr and fnr, so upper limits of the two rates give a lower bound by both inequalities at once.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, betainccinv, ndtr, ndtri

from dpkit import checks
from dpkit.audit.scores import LowerBound, Scores, check_asked, check_rng, checked
from dpkit.privacy.accountants import gdp
from dpkit.privacy.ledger import Release
from dpkit.privacy.mechanisms import Adjacency, Floats, Gaussian

CHOOSING = 0.1  # share of the scores that choose the threshold, and are not counted again
CAUTION = 1.0  # deviations by which the rates of the scores that choose are raised
RANKS = 100  # thresholds tried, from each end of those scores
CELLS = 64  # pairs of limits by which a joint test of both rates is inverted
CUT = 1e-3  # share of 1 - confidence given up for cutting off each far end of the joint test
WEIGHTS = np.linspace(0.05, 0.95, 19)  # share of the false positives in the joint test, squared
INDEPENDENT = "trials are independent, and those of a world alike"
NORMAL = "the trade-off curve is a Gaussian one"


class Limits(NamedTuple):
    """Upper limits, (..., pairs): with the confidence, at least one pair is above both rates."""

    fpr: Floats
    fnr: Floats


class Counts(NamedTuple):
    """Errors at each threshold, (thresholds,), and the scores of each world; all may be means."""

    false_positives: Floats
    absent: float
    false_negatives: Floats
    present: float


Value = Callable[[Limits], Floats]  # to a lower bound at each threshold, falling with both limits


def clopper_pearson(
    absent: ArrayLike,
    present: ArrayLike,
    *,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
    rng: np.random.Generator,
    choosing: float = CHOOSING,
) -> LowerBound:
    """Bound epsilon by exact one-sided limits of both error rates, each at (1 - confidence) / 2.

    The threshold is the one whose bound, at the rates of a random share of the scores, would be the
    largest on the others; only those are then counted.

    Args:
        absent, present: scores, (trials,) each; their numbers may differ.
        delta: in (0, 1), of the epsilon.
        adjacency: of the two worlds.
        confidence: in (0, 1).
        rng: draws which scores choose.
        choosing: their share, in (0, 1).

    Raises:
        ValueError: an argument is out of its range, or as `checked`.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    first, rest = split(absent, present, choosing=choosing, rng=rng)
    z = _normal((1 - confidence) / 2)

    def value(limits: Limits) -> Floats:
        return from_rates(limits, delta)

    threshold = _best(first, rest, z, value)
    found = value(_box(_counts(rest, np.array([threshold])), z))
    return LowerBound(
        _at_least_0(found),
        delta,
        confidence,
        adjacency,
        "Clopper-Pearson limits of both error rates at a threshold chosen on other scores",
        (INDEPENDENT,),
        _trials(first, rest),
    )


def at_thresholds(
    absent: ArrayLike,
    present: ArrayLike,
    *,
    thresholds: ArrayLike,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> LowerBound:
    """Bound epsilon by the best of thresholds that were fixed before the scores were seen.

    All scores are counted. Each threshold's two limits hold at (1 - confidence) / (2 thresholds)
    each (Bonferroni); both inequalities follow from the same two limits, and cost nothing more.

    Args:
        thresholds: (thresholds,), not NaN.
        rng: plays no part; nothing is drawn. The others are `clopper_pearson`'s.

    Raises:
        ValueError: there is no threshold, or one is NaN, or as `clopper_pearson`.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    check_rng(rng)
    scores = checked(absent, present)
    tried = np.asarray(thresholds, dtype=np.float64)
    if tried.ndim != 1 or tried.size == 0 or np.isnan(tried).any():
        raise ValueError(f"thresholds must be a list of at least one number, got {thresholds}")
    z = _normal((1 - confidence) / (2 * tried.size))
    return LowerBound(
        _at_least_0(from_rates(_box(_counts(scores, tried), z), delta)),
        delta,
        confidence,
        adjacency,
        f"Clopper-Pearson limits of both error rates at {tried.size} thresholds fixed beforehand",
        (INDEPENDENT, "the thresholds were fixed before the scores were seen"),
        scores.absent.size + scores.present.size,
    )


def likelihood_ratio(
    absent: ArrayLike,
    present: ArrayLike,
    *,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
    rng: np.random.Generator,
    choosing: float = CHOOSING,
) -> LowerBound:
    """Bound epsilon by one joint test of both error rates, instead of one limit for each.

    Two exact binomial tails, as normal scores, are added with weights that other scores chose
    (`joint_limits` has the proof). To first order, the weighted sum is the signed root of the
    likelihood ratio of both rates; but it holds at every number of trials. Where both rates are as
    uncertain it needs about 0.35 of `clopper_pearson`'s trials, where one rate decides 0.7.

    Arguments and errors are `clopper_pearson`'s.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    first, rest = split(absent, present, choosing=choosing, rng=rng)
    found = _joint(first, rest, 1 - confidence, lambda limits: from_rates(limits, delta))
    return LowerBound(
        found,
        delta,
        confidence,
        adjacency,
        "joint test of both error rates at a threshold chosen on other scores",
        (INDEPENDENT,),
        _trials(first, rest),
    )


def gaussian(
    absent: ArrayLike,
    present: ArrayLike,
    *,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
    rng: np.random.Generator,
    choosing: float = CHOOSING,
) -> LowerBound:
    """Bound epsilon where the trade-off curve is that of two normals mu deviations apart.

    mu >= Phi^-1(1 - fpr) - Phi^-1(fnr) (Dong, Roth, Su 2022, eq. 6; Nasr et al. 2023), by the same
    joint test as `likelihood_ratio`, and epsilon at delta is that of the Gaussian mechanism with
    noise 1 / mu. Where the curve is another, the result bounds nothing.

    Arguments and errors are `clopper_pearson`'s.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    first, rest = split(absent, present, choosing=choosing, rng=rng)
    mu = _joint(first, rest, 1 - confidence, mu_from_rates)
    return LowerBound(
        epsilon_of_mu(mu, delta),
        delta,
        confidence,
        adjacency,
        "Gaussian DP: joint test of both error rates at a threshold chosen on other scores",
        (INDEPENDENT, NORMAL),
        _trials(first, rest),
    )


def fewest_draws(
    absent: ArrayLike,
    present: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> int | None:
    """The fewest draws a world, of 2^(k/2), whose `clopper_pearson` is above `epsilon`, or None.

    What a test with that number fixed beforehand would have needed; the number itself is read from
    the scores, so it is no test. Draws are taken in their order.

    Args:
        epsilon: >= 0, what is to be refuted. The others are `clopper_pearson`'s.
    """
    epsilon = checks.non_negative(epsilon=epsilon)
    scores = checked(absent, present)
    most = min(scores.absent.size, scores.present.size)
    sizes = sorted({round(2 ** (k / 2)) for k in range(2 * most.bit_length() + 1)})
    for size in (size for size in sizes if size <= most):
        found = clopper_pearson(
            *(world[:size] for world in scores),
            delta=delta,
            adjacency=adjacency,
            confidence=confidence,
            rng=rng,
        )
        if found.epsilon > epsilon:
            return size
    return None


def from_rates(limits: Limits, delta: float) -> Floats:
    """The larger of both inequalities' epsilons, each the least over the pairs of limits."""
    with np.errstate(divide="ignore"):
        ways = [
            np.log(np.maximum(1 - one - delta, 0) / other).min(axis=-1)
            for one, other in (limits, limits[::-1])
        ]
    return np.maximum(*ways)


def mu_from_rates(limits: Limits) -> Floats:
    """The least mu of the pairs of limits."""
    return (-ndtri(limits.fpr) - ndtri(limits.fnr)).min(axis=-1)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The epsilon at delta of two normals that are mu deviations apart, rounded down."""
    if not mu > 1e-9:  # where the mechanism's range ends, epsilon is far below delta
        return 0.0
    return gdp.epsilon([Release(Gaussian(1 / mu), 1)], delta=delta).lower


def upper_limit(errors: Floats, trials: float, z: Floats | float) -> Floats:
    """The rate at which `errors` or fewer in `trials` have probability Phi(-z), 1 where all err.

    One-sided, exact (Clopper, Pearson 1934). A limit that cannot be computed is 1.
    """
    a, b = errors + 1, np.maximum(trials - errors, 1e-9)
    tail = ndtr(-np.abs(z))
    found = np.where(np.asarray(z) > 0, betainccinv(a, b, tail), betaincinv(a, b, tail))
    return np.where((errors < trials) & (found >= 0), found, 1.0)


def joint_limits(counts: Counts, alpha: float, weight: Floats) -> Limits:
    """Pairs of limits, one of which is above both rates with probability 1 - alpha.

    Let P be the probability of as few false positives as counted or fewer, at the true fpr, and z =
    -Phi^-1(P): P(z > x) <= Phi(-x) for all x, as for a normal variable, and likewise of y for the
    false negatives, independently. So
        z > end,  y > end,  or  a max(z, -end) + b y > x,    a^2 + b^2 = 1,
    has at most the probability 3 Phi(-end) + Phi(-x) = alpha (the sum of normal scores is
    Liptak's 1958; the cuts are ours). Otherwise let z_k <= max(z, -end) <= z_(k+1) of a grid from
    -end to end. Then fpr is at most the limit at z_(k+1), and as y <= min((x - a z_k) / b, end), fnr
    is at most the limit at that.

    Args:
        counts: (thresholds,).
        weight: a^2, (weights,), in (0, 1).

    Returns:
        limits, (thresholds, weights, CELLS).
    """
    end, x = _normal(CUT * alpha), _normal((1 - 3 * CUT) * alpha)
    a, b = np.sqrt(weight)[:, None], np.sqrt(1 - weight)[:, None]
    grid = np.linspace(-end, end, CELLS + 1)
    y = np.minimum((x - a * grid[:-1]) / b, end)
    fpr = upper_limit(counts.false_positives[:, None], counts.absent, grid[1:])
    fnr = upper_limit(counts.false_negatives[:, None, None], counts.present, y)
    return Limits(np.broadcast_to(fpr[:, None], fnr.shape), fnr)


def split(
    absent: ArrayLike, present: ArrayLike, *, choosing: float, rng: np.random.Generator
) -> tuple[Scores, Scores]:
    """A random share of each world's scores, and the others; each has one if there are two."""
    choosing = checks.between(0, 1, choosing=choosing)
    check_rng(rng)
    parts = []
    for world in checked(absent, present):
        mixed = rng.permutation(world)
        cut = min(max(round(choosing * world.size), 1), world.size - 1)
        parts.append((mixed[:cut], mixed[cut:]))
    return Scores(*(part[0] for part in parts)), Scores(*(part[1] for part in parts))


def candidates(scores: Scores) -> Floats:
    """Thresholds at ranks in even ratios from both ends, and one that no score exceeds."""
    pooled = np.sort(np.concatenate(scores))
    ranks = np.unique(np.geomspace(1, max(pooled.size, 1), RANKS).round().astype(int))
    ends = [pooled[ranks - 1], pooled[pooled.size - ranks]] if pooled.size else []
    return np.unique(np.concatenate([*ends, [np.inf]]))


def _counts(scores: Scores, thresholds: Floats) -> Counts:
    absent, present = map(np.sort, scores)
    above = absent.size - np.searchsorted(absent, thresholds, side="right")
    below = np.searchsorted(present, thresholds, side="right")
    return Counts(above.astype(np.float64), absent.size, below.astype(np.float64), present.size)


def _expected(first: Scores, rest: Scores, thresholds: Floats) -> Counts:
    """The counts to expect of the rest, from the upper limits of the first's rates: few may mislead."""
    seen = _counts(first, thresholds)
    fpr = upper_limit(seen.false_positives, seen.absent, CAUTION)
    fnr = upper_limit(seen.false_negatives, seen.present, CAUTION)
    absent, present = rest.absent.size, rest.present.size
    return Counts(fpr * absent, absent, fnr * present, present)


def _box(counts: Counts, z: float) -> Limits:
    """One pair of limits a threshold, (thresholds, 1)."""
    fpr = upper_limit(counts.false_positives, counts.absent, z)
    fnr = upper_limit(counts.false_negatives, counts.present, z)
    return Limits(fpr[:, None], fnr[:, None])


def _best(first: Scores, rest: Scores, z: float, value: Value) -> float:
    """The threshold whose pair of limits would give most, at the rates of the first scores."""
    tried = candidates(first)
    return float(tried[value(_box(_expected(first, rest, tried), z)).argmax()])


def _joint(first: Scores, rest: Scores, alpha: float, value: Value) -> float:
    """The value by the joint test, at the threshold and weight that the first scores choose."""
    threshold = np.array([_best(first, rest, _normal(alpha) / np.sqrt(2), value)])
    expected = value(joint_limits(_expected(first, rest, threshold), alpha, WEIGHTS))
    weight = WEIGHTS[expected.argmax(axis=-1)]
    return _at_least_0(value(joint_limits(_counts(rest, threshold), alpha, weight)))


def _normal(alpha: float) -> float:
    return float(-ndtri(alpha))


def _at_least_0(values: Floats) -> float:
    return max(float(values.max()), 0.0)


def _trials(*parts: Scores) -> int:
    return sum(world.size for part in parts for world in part)
