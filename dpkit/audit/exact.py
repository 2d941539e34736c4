"""Exact distinguishers: where nothing random hides a record, no finite epsilon fits."""

from math import inf

import numpy as np
from numpy.typing import ArrayLike

from dpkit.audit.scores import LowerBound, check_asked, check_rng, checked
from dpkit.privacy.mechanisms import Adjacency

APART = 1e3  # times the spread within a world that the gap between the worlds must have, at least
LEAST = 10  # trials of each world, with other noise each


def distinguished(
    absent: ArrayLike,
    present: ArrayLike,
    *,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> LowerBound:
    """Whether a statistic without noise tells the two worlds apart, whatever else is random.

    The statistic (the direction of a released gradient, the weights of a class that no record has)
    must be a function of the records alone: the same in every trial of a world but for rounding,
    although noise and public draws are others each time, and another one in the other world. Then
    an event has probability 1 in one world and 0 in the other, so that only delta = 1 fits.

    Args:
        absent, present: the statistic in each trial, (trials,).
        delta, adjacency: of the claim.
        confidence: plays no part; the result's is 1, since an argument decides and not a sample.
        rng: plays no part either; nothing is drawn.

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
    apart = gap > APART * max(spread, rounding)
    return LowerBound(
        inf if apart else 0.0,
        delta,
        1.0,
        adjacency,
        "exact: a released statistic that no noise reaches differs between the worlds",
        (
            "the statistic depends on the records alone, as its derivation says: that it was the "
            "same in every trial does not prove it",
        ),
        scores.absent.size + scores.present.size,
    )
