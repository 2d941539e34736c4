"""Attacks on releases whose worlds can be drawn: the best one, and two that learn from draws.

The likelihood ratio is the best score there is (Neyman, Pearson 1933). The learned ones know no
density: they show how near an attacker gets who can only run the mechanism. They learn on draws of
their own; the scores come from others.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpkit.audit.scores import Scores
from dpkit.privacy.mechanisms import Floats
from own_mechanisms.worlds import Worlds

Attack = Callable[[np.random.Generator, int], Scores]
Score = Callable[[Floats], Floats]  # outputs (trials, width) -> (trials,)

AT_ONCE = 2**20  # numbers drawn at a time
LEARNING = 20_000  # draws of each world that a learned attack starts from
BINS = 64
DIGITS = 9  # after the point: losses that are equal stay equal, however a processor rounds


def likelihood_ratio(worlds: Worlds) -> Attack:
    """Score each output by its privacy loss, written from the two densities."""
    return lambda rng, trials: scored(worlds, worlds.loss, rng=rng, trials=trials)


def statistic(worlds: Worlds, *, coordinate: int) -> Attack:
    """Score each output by one of its numbers, for `bounds.distinguished`."""
    return lambda rng, trials: scored(
        worlds, lambda outputs: outputs[:, coordinate], rng=rng, trials=trials
    )


def histogram(worlds: Worlds) -> Attack:
    """Score by counts: how much likelier each number's bin is with the record than without it.

    Of each number there are as many draws in one bin as in another. The ratios of a release's
    numbers are multiplied, as if these were independent.
    """

    def attack(rng: np.random.Generator, trials: int) -> Scores:
        score = learned_ratios(*_drawn(worlds, rng), bins=BINS)
        return scored(worlds, score, rng=rng, trials=trials)

    return attack


def classifier(worlds: Worlds) -> Attack:
    """Score by a classifier of scikit-learn, `spline_regression`."""

    def attack(rng: np.random.Generator, trials: int) -> Scores:
        drawn = np.concatenate(_drawn(worlds, rng))
        fitted = spline_regression().fit(drawn, np.repeat([0, 1], LEARNING))
        return scored(worlds, fitted.decision_function, rng=rng, trials=trials)

    return attack


def spline_regression() -> Any:
    """A logistic regression on piecewise linear functions of each number, straight in the tails."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer

    curves = SplineTransformer(
        n_knots=5, degree=1, knots="quantile", extrapolation="linear", include_bias=False
    )
    return make_pipeline(curves, LogisticRegression(max_iter=1000))


def scored(worlds: Worlds, score: Score, *, rng: np.random.Generator, trials: int) -> Scores:
    """The scores of `trials` fresh outputs of each world."""
    size = max(1, AT_ONCE // worlds.absent.width)
    sizes = [min(size, trials - start) for start in range(0, trials, size)]

    def of(*, present: bool) -> Floats:
        parts = [score(worlds.draw(rng, n, present=present)) for n in sizes]
        return np.round(np.concatenate(parts), DIGITS)

    return Scores(of(present=False), of(present=True))


def learned_ratios(absent: Floats, present: Floats, *, bins: int) -> Score:
    """The sum over numbers of log((count in the bin with + 1) / (count without + 1)).

    What is learned from has the shape (trials, width).
    """
    inner = np.linspace(0, 1, bins + 1)[1:-1]
    cuts = np.quantile(np.concatenate([absent, present]), inner, axis=0).T
    edges = [np.unique(each) for each in cuts]

    def places(outputs: Floats) -> list[np.ndarray]:
        return [np.searchsorted(e, outputs[:, at], side="right") for at, e in enumerate(edges)]

    def counts(outputs: Floats) -> list[Floats]:
        pairs = zip(places(outputs), edges, strict=True)
        found = [np.bincount(place, minlength=e.size + 1) for place, e in pairs]
        return [(count + 1).astype(np.float64) for count in found]

    ratios = [np.log(b / a) for a, b in zip(counts(absent), counts(present), strict=True)]

    def score(outputs: Floats) -> Floats:
        each = [ratio[place] for ratio, place in zip(ratios, places(outputs), strict=True)]
        return np.asarray(np.sum(each, axis=0), dtype=np.float64)

    return score


def _drawn(worlds: Worlds, rng: np.random.Generator) -> list[Floats]:
    return [worlds.draw(rng, LEARNING, present=present) for present in (False, True)]
