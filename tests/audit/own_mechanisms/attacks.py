"""Attacks on releases whose worlds can be drawn: the best one, and two that learn from draws.

The likelihood ratio is the best score there is (Neyman, Pearson 1933). The learned ones know no
density: they show how near an attacker gets who can only run the mechanism.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpkit.audit.scores import Scores, check_rng
from dpkit.common import checks
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
    """Score each output by one of its numbers, for `exact.distinguished`.

    Raises:
        ValueError: there is no such coordinate.
    """
    checks.whole(coordinate=coordinate)
    if not coordinate < worlds.absent.width:
        raise ValueError(
            f"coordinate must be below the width {worlds.absent.width}, got {coordinate}"
        )
    return lambda rng, trials: scored(
        worlds, lambda outputs: outputs[:, coordinate], rng=rng, trials=trials
    )


def histogram(worlds: Worlds, *, bins: int = BINS, learning: int = LEARNING) -> Attack:
    """Score by counts: how much likelier each number's bin is with the record than without it.

    The bins and their ratios are learned on draws of their own; the scores come from others. The
    ratios of a release's numbers are multiplied, as if these were independent.

    Args:
        worlds: the two worlds.
        bins: of each number, >= 2, as many draws in one as in another.
        learning: draws of each world to learn from, >= bins.

    Raises:
        ValueError: a number is out of range.
    """
    bins = checks.whole(2, bins=bins)
    learning = checks.whole(bins, learning=learning)

    def attack(rng: np.random.Generator, trials: int) -> Scores:
        score = learned_ratios(*_drawn(worlds, rng, learning), bins=bins)
        return scored(worlds, score, rng=rng, trials=trials)

    return attack


def classifier(
    worlds: Worlds, *, model: Callable[[], Any] | None = None, learning: int = LEARNING
) -> Attack:
    """Score by a classifier of scikit-learn that tells outputs of the two worlds apart.

    It is fitted to draws of its own; the scores come from others.

    Args:
        worlds: the two worlds.
        model: makes an unfitted classifier with `decision_function`; by default
            `spline_regression`, a logistic regression on curves of each number.
        learning: draws of each world to learn from, >= 2.

    Raises:
        ValueError: learning is not an integer >= 2.
    """
    learning = checks.whole(2, learning=learning)
    make = spline_regression if model is None else model

    def attack(rng: np.random.Generator, trials: int) -> Scores:
        absent, present = _drawn(worlds, rng, learning)
        labels = np.repeat([0, 1], learning)
        fitted = make().fit(np.concatenate([absent, present]), labels)
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
    """The scores of `trials` fresh outputs of each world.

    Raises:
        ValueError: rng is no Generator, or trials is not an integer >= 1.
    """
    check_rng(rng)
    checks.whole(1, trials=trials)
    size = max(1, AT_ONCE // worlds.absent.width)
    sizes = [min(size, trials - start) for start in range(0, trials, size)]

    def of(*, present: bool) -> Floats:
        parts = [score(worlds.draw(rng, n, present=present)) for n in sizes]
        return np.round(np.concatenate(parts), DIGITS)

    return Scores(of(present=False), of(present=True))


def learned_ratios(absent: Floats, present: Floats, *, bins: int) -> Score:
    """The sum over numbers of log((count in the bin with + 1) / (count without + 1)).

    Args:
        absent, present: draws to learn from, (trials, width) each.
        bins: of each number.
    """
    both = np.concatenate([absent, present])
    inner = np.linspace(0, 1, bins + 1)[1:-1]
    edges = [np.unique(q) for q in np.quantile(both, inner, axis=0).T]

    def counts(outputs: Floats, at: int) -> Floats:
        where = np.searchsorted(edges[at], outputs[:, at], side="right")
        return (np.bincount(where, minlength=edges[at].size + 1) + 1).astype(np.float64)

    ratios = [np.log(counts(present, at) / counts(absent, at)) for at in range(len(edges))]

    def score(outputs: Floats) -> Floats:
        places = [np.searchsorted(e, outputs[:, at], side="right") for at, e in enumerate(edges)]
        each = [ratio[place] for ratio, place in zip(ratios, places, strict=True)]
        return np.asarray(np.sum(each, axis=0), dtype=np.float64)

    return score


def _drawn(worlds: Worlds, rng: np.random.Generator, trials: int) -> tuple[Floats, Floats]:
    check_rng(rng)
    return (worlds.draw(rng, trials, present=False), worlds.draw(rng, trials, present=True))
