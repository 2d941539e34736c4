"""Lower bounds on epsilon from one run: many canaries, each included by a fair coin.

A canary is a record that is planted to be detected. Whoever sees the run's output guesses "in" for
the canaries of the highest scores and "out" for those of the lowest, and abstains from the others.
Under (epsilon, delta)-DP too many correct guesses are unlikely.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dpkit.audit import choosing as choose
from dpkit.audit.guesses import (
    GAUSSIAN,
    Family,
    Guesses,
    checked_guesses,
    combined,
    p_value,
    p_value_chosen,
    refuted_fdp,
    tails_near,
)
from dpkit.audit.scores import LowerBound, Scores, check_asked, check_rng, checked
from dpkit.common import checks
from dpkit.privacy import numerics
from dpkit.privacy.mechanisms import Adjacency, Floats

CHOOSING = 0.15  # share of the canaries that choose which are guessed
EACH = 10  # thresholds tried for either kind of guess
INSIDE, OUTSIDE = 0.05, 0.05  # shares of the canaries that `one_run_fdp` guesses "in" and "out"
LARGEST = 60.0  # epsilon, or mu, beyond which no search goes
CLOSE = 1e-9  # relative, of the parameter that is searched
COINS = (
    "each canary was included by a fair coin of its own (no fixed number of them), and all that "
    "were tossed for have a score"
)


def one_run(
    absent: ArrayLike,
    present: ArrayLike,
    *,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
    rng: np.random.Generator,
    choosing: float = CHOOSING,
) -> LowerBound:
    """Bound epsilon by how many guesses about one run are correct (Steinke et al. 2023).

    The two thresholds, above which "in" and up to which "out" is guessed, are those whose bound
    should be the largest, by a random share of the canaries; only the others are then guessed.

    Given the coins of that share, the others' are still independent and fair, and the output is
    (epsilon, delta)-DP in each of them; but how many are guessed depends on the output, where the
    theorem has a fixed number. `p_value_chosen` allows for it.

    Args:
        absent, present: scores of the canaries whose coins left them out, and of the others'.
        delta: in (0, 1), of the epsilon.
        adjacency: under which a canary's two cases are neighbours.
        confidence: in (0, 1).
        rng: draws which canaries choose.
        choosing: their share, in (0, 1).

    Raises:
        ValueError: an argument is out of its range, or as `checked`.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    first, rest = split_canaries(absent, present, share=choosing, rng=rng)
    guesses = _guessed(rest, *_thresholds(first, rest, delta, 1 - confidence))
    return LowerBound(
        _largest(lambda e: bool(p_value_chosen(guesses, e, delta) <= 1 - confidence)),
        delta,
        confidence,
        adjacency,
        "one run: correct guesses of canaries, at thresholds chosen on other canaries",
        (COINS,),
        sum(world.size for part in (first, rest) for world in part),
    )


def guesses_bound(
    canaries: int,
    made: int,
    correct: int,
    *,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
) -> LowerBound:
    """Bound epsilon from counts, where the number of guesses was fixed before the run.

    Args:
        canaries: each included by a fair coin of its own; guessed or not.
        made: guesses, at most one a canary.
        correct: of them.

    Raises:
        ValueError: a count is not an integer >= 0, or exceeds the one before, or an argument is
            out of its range.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    guesses = checked_guesses(canaries, made, correct)
    return LowerBound(
        _largest(lambda e: bool(p_value(guesses, e, delta) <= 1 - confidence)),
        delta,
        confidence,
        adjacency,
        "one run: correct guesses of canaries, their number fixed beforehand",
        (COINS,),
        guesses.canaries,
    )


def one_run_fdp(
    absent: ArrayLike,
    present: ArrayLike,
    *,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
    rng: np.random.Generator,
    inside: float = INSIDE,
    outside: float = OUTSIDE,
    family: Family = GAUSSIAN,
) -> LowerBound:
    """Bound epsilon by correct guesses, where a family has the trade-off curve (f-DP in one run).

    Mahloujifar, Melis, Chaudhuri 2025. Their theorem is for a fixed number of guesses, so it is
    fixed here: 5 % of the canaries each way is near the best from epsilon 1 to 8.

    Args:
        absent, present: scores of the canaries whose coins left them out, and of the others'.
        delta: in (0, 1), of the epsilon.
        adjacency: under which a canary's two cases are neighbours.
        confidence: in (0, 1).
        rng: breaks ties of scores.
        inside: share of the canaries guessed "in", those of the highest scores; fixed beforehand.
        outside: share guessed "out", those of the lowest; they add up to at most 1.
        family: of the curves that are tried; the bound assumes that one of them is true.

    Raises:
        ValueError: an argument is out of its range, or as `checked`.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    check_rng(rng)
    inside, outside = checks.in_range(0, 1, inside=inside, outside=outside)
    checks.in_range(0, 1, inside_and_outside=inside + outside)
    guesses = _ranked(checked(absent, present), inside, outside, rng)
    found = _largest(lambda one: refuted_fdp(guesses, one, 1 - confidence, family))
    return LowerBound(
        family.epsilon(found, delta),
        delta,
        confidence,
        adjacency,
        "one run by f-DP: correct guesses of canaries, their number fixed beforehand",
        (COINS, family.assumes),
        guesses.canaries,
    )


def _ranked(scores: Scores, inside: float, outside: float, rng: np.random.Generator) -> Guesses:
    """Guess the highest "in" and the lowest "out", ties in random order."""
    order = rng.permutation(scores.absent.size + scores.present.size)
    canaries = order[np.argsort(np.concatenate(scores)[order], kind="stable")]
    included = canaries >= scores.absent.size  # in order of the scores
    low = int(outside * included.size)
    high = included.size - int(inside * included.size)
    correct = int((~included[:low]).sum() + included[high:].sum())
    return Guesses(included.size, low + included.size - high, correct)


def split_canaries(
    absent: ArrayLike, present: ArrayLike, *, share: float, rng: np.random.Generator
) -> tuple[Scores, Scores]:
    """A random share of the canaries, whatever their coins, and the others."""
    share = checks.between(0, 1, choosing=share)
    check_rng(rng)
    scores = checked(absent, present)
    total = scores.absent.size + scores.present.size
    chosen = np.zeros(total, dtype=bool)
    chosen[rng.permutation(total)[: min(max(round(share * total), 1), total - 1)]] = True
    masks = np.split(chosen, [scores.absent.size])
    pairs = list(zip(scores, masks, strict=True))
    return Scores(*(s[m] for s, m in pairs)), Scores(*(s[~m] for s, m in pairs))


def _guessed(scores: Scores, inside: float, outside: float) -> Guesses:
    """Guess "in" above the one threshold, "out" up to the other, which is not larger."""
    high, low = (choose.count(scores, np.array([t])) for t in (inside, outside))
    true_in = high.present - high.false_negatives
    true_out = low.absent - low.false_positives
    made = true_in + true_out + high.false_positives + low.false_negatives
    return Guesses(int(high.absent + high.present), made, true_in + true_out)


def _thresholds(first: Scores, rest: Scores, delta: float, alpha: float) -> tuple[float, float]:
    """Of guesses "in" and "out": the pair with the largest bound to expect of the rest."""
    tried = choose.candidates(first)
    tried = tried[np.linspace(0, tried.size - 1, min(EACH * 2, tried.size)).astype(int)]
    tried = np.concatenate([[-np.inf], tried])
    counts = choose.expected(first, rest, tried)
    outside, inside = np.triu_indices(tried.size)  # the first is not larger
    made_in = counts.present - counts.false_negatives + counts.false_positives
    correct = (counts.present - counts.false_negatives)[inside]
    correct += (counts.absent - counts.false_positives)[outside]
    made = made_in[inside] + (counts.absent + counts.present - made_in)[outside]
    guesses = Guesses(int(counts.absent + counts.present), made, correct)
    best = int(_several(guesses, delta, alpha).argmax())
    return float(tried[inside[best]]), float(tried[outside[best]])


def _several(guesses: Guesses, delta: float, alpha: float) -> Floats:
    """The bound by each way of guessing, to about 1e-3."""
    low, high = np.zeros_like(guesses.made), np.full_like(guesses.made, 20.0)
    for _ in range(14):
        middle = (low + high) / 2
        refuted = combined(guesses, delta, *tails_near(guesses, middle)) <= alpha
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return low


def _largest(refuted: Callable[[float], bool]) -> float:
    """The largest parameter up to which all are refuted, rounded down."""
    low, _ = numerics.bracket(lambda x: not refuted(x), tolerance=CLOSE, largest=LARGEST)
    return low
