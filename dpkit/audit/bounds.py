"""Lower bounds on epsilon from independent scores of two worlds, without a record and with it.

The test "present where score > t" has a false positive rate fpr in the one world and a false
negative rate fnr in the other. Under (epsilon, delta)-DP, 1 - fnr <= e^epsilon fpr + delta and
1 - fpr <= e^epsilon fnr + delta (Kairouz, Oh, Viswanath 2015, Thm 2.1). Both right-hand sides fall
with fpr and fnr, so upper limits of the two rates give a lower bound by both inequalities at once.
"""

from math import inf

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dpkit.audit import thresholds as choose
from dpkit.audit.scores import LowerBound, Scores, check_asked, check_rng, checked
from dpkit.audit.thresholds import Limits, joint, quantile, separate
from dpkit.privacy import Adjacency, Floats, Gaussian, Release, gdp

CHOOSING = 0.1  # share of the scores that choose the threshold, and are not counted again
CELLS = 400  # of the joint test
INDEPENDENT = "trials are independent, and those of a world alike"
JOINT = "joint test of both error rates at a threshold chosen on other scores"
NORMAL = "the trade-off curve is a Gaussian one"
# Times the spread within a world that the gap between worlds must have, at least
APART = 1e3
LEAST = 10  # trials of each world of `distinguished`, with other noise each


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

    The threshold is the one whose bound, by a random share of the scores, would be the largest on
    the others; only those are then counted.

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
    first, rest = choose.split(absent, present, share=choosing, rng=rng)
    z = quantile((1 - confidence) / 2)

    chosen = choose.threshold(first, rest, z, lambda limits: from_rates(limits, delta))
    found = _most(from_rates(separate(choose.count(rest, np.array([chosen])), z), delta))
    method = "Clopper-Pearson limits of both error rates at a threshold chosen on other scores"
    trials = np.size(absent) + np.size(present)
    return LowerBound(found, delta, confidence, adjacency, method, (INDEPENDENT,), trials)


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
    each (Bonferroni); both inequalities follow from the same two limits.

    Args:
        thresholds: (thresholds,), not NaN.
        rng: plays no part; nothing is drawn.
        Others: as `clopper_pearson`.

    Raises:
        ValueError: there is no threshold, or one is NaN, or as `clopper_pearson`.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    check_rng(rng)
    scores = checked(absent, present)
    tried = np.asarray(thresholds, dtype=np.float64)
    if tried.ndim != 1 or tried.size == 0 or np.isnan(tried).any():
        raise ValueError(f"thresholds must be a list of at least one number, got {thresholds}")
    z = quantile((1 - confidence) / (2 * tried.size))
    found = _most(from_rates(separate(choose.count(scores, tried), z), delta))
    return LowerBound(
        found,
        delta,
        confidence,
        adjacency,
        "Clopper-Pearson limits of both error rates at thresholds fixed beforehand: "
        f"{tried.size}",
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
    """Bound epsilon by one joint test of both error rates.

    Two exact binomial tails, as normal scores, are added with weights that other scores chose
    (proof: `thresholds.joint`). To first order, the weighted sum is the signed root of the
    likelihood ratio of both rates; but it holds at every number of trials. For the same bound it
    needs, to first order, 0.35 of `clopper_pearson`'s trials where both rates are equally
    uncertain, and 0.7 where one decides (at 95 %).

    Arguments and errors: as `clopper_pearson`.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    parts = choose.split(absent, present, share=choosing, rng=rng)
    found = _joint(*parts, 1 - confidence, lambda limits: from_rates(limits, delta))
    trials = np.size(absent) + np.size(present)
    return LowerBound(found, delta, confidence, adjacency, JOINT, (INDEPENDENT,), trials)


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
    """Bound epsilon where the trade-off curve is that of normals mu deviations apart.

    mu >= Phi^-1(1 - fpr) - Phi^-1(fnr) (Dong, Roth, Su 2022, eq. 6; Nasr et al. 2023), by the same
    joint test as `likelihood_ratio`, and epsilon at delta is that of the Gaussian mechanism with
    noise 1 / mu. Where the curve is another, the result bounds nothing.

    Arguments and errors: as `clopper_pearson`.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    parts = choose.split(absent, present, share=choosing, rng=rng)
    mu = _joint(
        *parts, 1 - confidence, lambda pair: -(ndtri(pair.fpr) + ndtri(pair.fnr)).max(-1)
    )
    return LowerBound(
        epsilon_of_mu(mu, delta),
        delta,
        confidence,
        adjacency,
        f"Gaussian DP: {JOINT}",
        (INDEPENDENT, NORMAL),
        np.size(absent) + np.size(present),
    )


def distinguished(
    absent: ArrayLike,
    present: ArrayLike,
    *,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> LowerBound:
    """Bound epsilon by a statistic without noise: inf where it tells the two worlds apart.

    The statistic (the direction of a released gradient, the weights of a class that no record has)
    must be a function of the records alone: the same in every trial of a world but for rounding,
    although noise and public draws change each time, and another one in the other world. Then
    an event has probability 1 in one world and 0 in the other, so that only delta = 1 fits.

    Args:
        absent, present: the statistic in each trial, (trials,).
        delta, adjacency: of the claim.
        confidence, rng: play no part; the result's confidence is 1, as an argument decides, not a
            sample.

    Returns:
        epsilon inf, or 0 where the worlds' values meet or the statistic is random.

    Raises:
        ValueError: scores that `checked` refuses, infinite ones, or fewer than 10 trials a world.
    """
    delta, _ = check_asked(delta, confidence, adjacency)
    check_rng(rng)
    scores = checked(absent, present)
    for name, world in zip(scores._fields, scores, strict=True):
        if world.size < LEAST:
            raise ValueError(
                f"{name} must hold at least {LEAST} trials, each with other noise, got {world.size}"
            )
        if not np.isfinite(world).all():
            raise ValueError(f"{name} must hold finite values of the statistic, got inf")
    spread = max(float(np.ptp(world)) for world in scores)
    gap = max(
        scores.present.min() - scores.absent.max(), scores.absent.min() - scores.present.max()
    )
    rounding = 1e-12 * max(float(np.abs(world).max()) for world in scores)
    assumed = (
        "the statistic depends on the records alone, as its derivation says: that it was the "
        "same in every trial does not prove it"
    )
    return LowerBound(
        inf if gap > APART * max(spread, rounding) else 0.0,
        delta,
        1.0,
        adjacency,
        "exact: a released statistic that no noise reaches differs between the worlds",
        (assumed,),
        scores.absent.size + scores.present.size,
    )


def from_rates(limits: Limits, delta: float) -> Floats:
    """The larger of both inequalities' epsilons, each the least over pairs of limits."""
    with np.errstate(divide="ignore"):
        ways = [
            np.log(np.maximum(1 - one - delta, 0) / other).min(axis=-1)
            for one, other in (limits, limits[::-1])
        ]
    return np.maximum(*ways)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The epsilon at delta of two normals that are mu deviations apart, rounded down."""
    if not mu > 1e-9:  # the mechanism's range ends: epsilon is far below delta
        return 0.0
    return gdp.epsilon([Release(Gaussian(1 / mu), 1)], delta=delta).lower


def _joint(first: Scores, rest: Scores, alpha: float, value: choose.Value) -> float:
    """The joint test's bound from the rest, at thresholds chosen by the first scores."""
    threshold, weight = choose.threshold_and_weight(first, rest, alpha, value)
    counts = choose.count(rest, np.array([threshold]))
    return _most(value(joint(counts, alpha, np.array([weight]), cells=CELLS)))


def _most(values: Floats) -> float:
    return max(float(values.max()), 0.0)
