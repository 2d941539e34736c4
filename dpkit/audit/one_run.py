"""Lower bounds on epsilon from one run: many canaries, each included by a fair coin.

A canary is a record that is planted to be detected. Whoever sees the run's output guesses "in" for
the canaries of the highest scores and "out" for those of the lowest, and abstains from the others.
Under (epsilon, delta)-DP too many correct guesses are unlikely.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, expit, ndtr, ndtri

from dpkit.audit import thresholds as choose
from dpkit.audit.bounds import NORMAL, epsilon_of_mu
from dpkit.audit.scores import LowerBound, Scores, check_asked, check_rng, checked
from dpkit.common import checks
from dpkit.privacy import Adjacency, Floats, numerics

CHOOSING = 0.15  # share of the canaries that choose which are guessed
EACH = 10  # thresholds tried for either kind of guess
INSIDE = OUTSIDE = 0.05  # shares that `one_run_fdp` guesses "in" and "out"
LARGEST = 60.0  # epsilon, or mu, beyond which no search goes
CLOSE = 1e-9  # relative, of the parameter that is searched
STEEP = 3.0  # alpha / beta at which `p_value_chosen` is least
NEAR = 16  # of alpha's terms, first
COINS = (
    "each canary was included by a fair coin of its own (no fixed number of them), and all that "
    "were tossed for have a score"
)


def coins(rng: np.random.Generator, count: int) -> NDArray[np.bool_]:
    """Draw independent fair coins, whether each candidate is included, (count,)."""
    check_rng(rng)
    return rng.random(checks.whole(1, count=count)) < 0.5


def apart(scores: Floats, included: NDArray[np.bool_]) -> Scores:
    """The scores (candidates,) of those left out, and of those included."""
    return Scores(scores[~included], scores[included])


class Guesses(NamedTuple):
    """Guesses about one run's canaries; arrays hold one element for each way of guessing.

    canaries: all that could have been guessed.
    made: guesses.
    correct: of them.
    """

    canaries: int
    made: Floats | float
    correct: Floats | float


def p_value_chosen(
    guesses: Guesses, epsilon: Floats | float, delta: float, *, near: bool = False
) -> Floats:
    """A bound on the probability of so many correct guesses; by `near`, a little less.

    Were the number of guesses fixed, it would be beta + 2 m delta alpha (Steinke, Nasr, Jagielski
    2023, Thm 5.2), which rises with epsilon below 1/2: by the derivative of a binomial tail, a term
    of alpha can fall only where v - i is below the median. But the output decides how many are
    made. By the theorem's proof, P(W >= v | t) <= beta + F(t) alpha at output t, where the mean of
    F is at most x = 2 m delta. Where v, beta and alpha differ with t, the least v at which
    (1 + c x) max(beta, alpha / c) <= p has beta <= p / (1 + c x) and alpha <= c p / (1 + c x) at
    every t, so that P(W >= v) <= p. This holds for any c fixed beforehand; with STEEP = 3 it
    loses little.
    """
    beta, alpha = (tails_near if near else tails)(guesses, epsilon)
    return (1 + 2 * STEEP * guesses.canaries * delta) * np.maximum(beta, alpha / STEEP)


def tails(guesses: Guesses, epsilon: Floats | float) -> tuple[Floats, Floats]:
    """beta = P(W >= v), and alpha = max over i >= 1 of P(v - i <= W < v) / i.

    W is binomial, one trial a guess, of probability e^epsilon / (1 + e^epsilon); v are correct.
    """
    reach = NEAR
    while True:
        beta, alpha = tails_near(guesses, epsilon, reach)
        if ((reach >= np.asarray(guesses.correct)) | (alpha * reach >= 1 - beta)).all():
            return beta, alpha  # no i beyond (1 - beta) / alpha matters
        reach *= 4


def tails_near(
    guesses: Guesses, epsilon: Floats | float, reach: int = NEAR
) -> tuple[Floats, Floats]:
    """The same with i up to `reach` alone: a lower bound on alpha, mostly alpha itself."""
    made, correct = np.asarray(guesses.made), np.asarray(guesses.correct)
    steps = np.arange(reach + 1)
    least = correct[..., None] - steps
    rate = expit(np.asarray(epsilon))[..., None]
    inside = betainc(np.maximum(least, 1e-300), made[..., None] - least + 1, rate)
    tail = np.where(least > 0, inside, 1.0)
    return tail[..., 0], ((tail[..., 1:] - tail[..., :1]) / steps[1:]).max(axis=-1)


def refuted_fdp(guesses: Guesses, mu: float, alpha: float) -> bool:
    """Whether so many correct guesses have probability < alpha under Gaussian DP's f, mu.

    Take a canary at random. With p_i the probability of i correct guesses of c', let right_k = sum
    over i >= k of i p_i / m, the chance that it is guessed correctly and at least k are; and
    wrong_k = sum of (c' - i) p_i / m, wrongly. Turning its coin makes one correct guess fewer, so
    that by f-DP right_k <= 1 - f(wrong_(k-1)) (Mahloujifar et al. 2025, Thm 3.2 and Algorithm 3).
    If the p_i from k = c up add to alpha, the least that all those below add is too much for a
    probability:
    right_0 + wrong_0 > c' / m.
    """
    total, made, correct = guesses.canaries, int(guesses.made), int(guesses.correct)
    right, wrong = alpha * correct / total, alpha * (made - correct) / total
    for i in range(correct - 1, -1, -1):
        least = float(ndtr(ndtri(right) - mu))  # the inverse of 1 - f
        if not least > wrong:
            break  # nothing changes from here on
        right, wrong = right + i / (made - i) * (least - wrong), least
        if right + wrong > made / total:
            return True
    return right + wrong > made / total


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
    (epsilon, delta)-DP in each of them. It decides how many are guessed: see `p_value_chosen`.

    Args:
        absent, present: scores of the canaries left out by their coins, and of the others.
        adjacency: under which a canary's two cases are neighbours.
        Others, and errors: as `bounds.clopper_pearson`.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    first, rest = split_canaries(absent, present, share=choosing, rng=rng)
    high, low = (
        choose.count(rest, np.array([threshold]))
        for threshold in _thresholds(first, rest, delta, 1 - confidence)
    )
    true_in, true_out = high.present - high.false_negatives, low.absent - low.false_positives
    guesses = Guesses(
        int(high.absent + high.present),
        true_in + true_out + high.false_positives + low.false_negatives,
        true_in + true_out,
    )
    found = _largest(lambda e: bool(p_value_chosen(guesses, e, delta) <= 1 - confidence))
    method = "one run: correct guesses of canaries, at thresholds chosen on other canaries"
    trials = np.size(absent) + np.size(present)
    return LowerBound(found, delta, confidence, adjacency, method, (COINS,), trials)


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
) -> LowerBound:
    """Bound epsilon by correct guesses under a Gaussian trade-off curve (f-DP in one run).

    Mahloujifar, Melis, Chaudhuri 2025. Their theorem is for a fixed number of guesses, so it is
    fixed here: 5 % of the canaries each way is near the best from epsilon 1 to 8. The bound assumes
    that the curve is that of two normals, mu deviations apart.

    Args:
        rng: breaks ties of scores.
        inside: share of the canaries guessed "in", those of the highest scores; fixed beforehand.
        outside: share guessed "out", those of the lowest; they add up to at most 1.
        Others, and errors: as `one_run`.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    check_rng(rng)
    inside, outside = checks.in_range(0, 1, inside=inside, outside=outside)
    checks.in_range(0, 1, inside_and_outside=inside + outside)
    guesses = _ranked(checked(absent, present), inside, outside, rng)
    mu = _largest(lambda mu: refuted_fdp(guesses, mu, 1 - confidence))
    return LowerBound(
        epsilon_of_mu(mu, delta),
        delta,
        confidence,
        adjacency,
        "one run by f-DP: correct guesses of canaries, their number fixed beforehand",
        (COINS, NORMAL),
        guesses.canaries,
    )


def _ranked(
    scores: Scores, inside: float, outside: float, rng: np.random.Generator
) -> Guesses:
    """Guess the highest "in" and the lowest "out", ties in random order."""
    order = rng.permutation(scores.absent.size + scores.present.size)
    canaries = order[np.argsort(np.concatenate(scores)[order], kind="stable")]
    included = canaries >= scores.absent.size  # in order of the scores
    low = int(outside * included.size)
    high = included.size - int(inside * included.size)
    return Guesses(
        included.size,
        low + included.size - high,
        int((~included[:low]).sum() + included[high:].sum()),
    )


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
    pairs = list(zip(scores, np.split(chosen, [scores.absent.size]), strict=True))
    return Scores(*(s[m] for s, m in pairs)), Scores(*(s[~m] for s, m in pairs))


def _thresholds(
    first: Scores, rest: Scores, delta: float, alpha: float
) -> tuple[float, float]:
    """The numbers of guesses "in" and "out" of the largest expected bound of the rest."""
    tried = choose.candidates(first)
    tried = tried[np.linspace(0, tried.size - 1, min(EACH * 2, tried.size)).astype(int)]
    tried = np.concatenate([[-np.inf], tried])
    counts = choose.expected(first, rest, tried)
    outside, inside = np.triu_indices(tried.size)  # the first is not larger
    made_in = counts.present - counts.false_negatives + counts.false_positives
    correct = (counts.present - counts.false_negatives)[inside]
    correct += (counts.absent - counts.false_positives)[outside]
    guesses = Guesses(
        int(counts.absent + counts.present),
        made_in[inside] + (counts.absent + counts.present - made_in)[outside],
        correct,
    )
    best = int(_several(guesses, delta, alpha).argmax())
    return float(tried[inside[best]]), float(tried[outside[best]])


def _several(guesses: Guesses, delta: float, alpha: float) -> Floats:
    """The bound by each way of guessing, to about 1e-3."""
    low, high = np.zeros_like(guesses.made), np.full_like(guesses.made, 20.0)

    def holds(epsilon: Floats):
        return ~(p_value_chosen(guesses, epsilon, delta, near=True) <= alpha)

    return numerics.halved(low, high, holds, rounds=14)[0]


def _largest(refuted: Callable[[float], bool]) -> float:
    """The largest parameter up to which all are refuted."""
    return numerics.bracket(lambda x: not refuted(x), tolerance=CLOSE, largest=LARGEST)[0]
