"""How likely a number of correct guesses about one run's canaries is, at most."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, expit, ndtr, ndtri

from dpkit.audit.bounds import NORMAL, epsilon_of_mu
from dpkit.common import checks
from dpkit.privacy.mechanisms import Floats

STEEP = 3.0  # alpha / beta at which `p_value_chosen` is least
NEAR = 16  # of alpha's terms, first


class Guesses(NamedTuple):
    """Guesses about the canaries of one run; arrays hold one element for each way of guessing.

    canaries: those that could have been guessed, with those that were not.
    made: guesses.
    correct: of them.
    """

    canaries: int
    made: Floats | float
    correct: Floats | float


def checked_guesses(canaries: int, made: int, correct: int) -> Guesses:
    """The counts, if they can be of one run."""
    canaries = checks.whole(1, canaries=canaries)
    made, correct = checks.whole(made=made, correct=correct)
    if not correct <= made <= canaries:
        raise ValueError(
            f"correct <= made <= canaries must hold, got {correct}, {made} and {canaries}"
        )
    return Guesses(canaries, made, correct)


def p_value(guesses: Guesses, epsilon: Floats | float, delta: float) -> Floats:
    """How likely that many correct guesses are, at most: beta + 2 m delta alpha.

    Steinke, Nasr, Jagielski 2023, Thm 5.2. Below 1/2 it rises with epsilon: by the derivative of a
    binomial tail, a term of alpha can fall only where v - i is below the median.
    """
    beta, alpha = tails(guesses, epsilon)
    return np.minimum(beta + 2 * guesses.canaries * delta * alpha, 1.0)


def p_value_chosen(guesses: Guesses, epsilon: Floats | float, delta: float) -> Floats:
    """As `p_value`, also where the output decides how many guesses are made; never smaller.

    By the theorem's proof, P(W >= v | t) <= beta + F(t) alpha at output t, where the mean of F is
    at most x = 2 m delta. Where v, beta and alpha differ with t, the least v at which
    (1 + c x) max(beta, alpha / c) <= p has beta <= p / (1 + c x) and alpha <= c p / (1 + c x) at
    every t, so that P(W >= v) <= p. This holds for any c fixed beforehand; with STEEP = 3 it
    loses little.
    """
    return np.minimum(combined(guesses, delta, *tails(guesses, epsilon)), 1.0)


def combined(guesses: Guesses, delta: float, beta: Floats, alpha: Floats) -> Floats:
    """`p_value_chosen` from both tails."""
    excess = 2 * guesses.canaries * delta
    return (1 + STEEP * excess) * np.maximum(beta, alpha / STEEP)


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
    beta = tail[..., 0]
    return beta, ((tail[..., 1:] - tail[..., :1]) / steps[1:]).max(axis=-1)


class Family(NamedTuple):
    """Trade-off curves f, one for each parameter >= 0; the larger it is, the less is hidden.

    assumes: what is said of a bound by it.
    least: (probability, parameter) -> the least probability of a set in the one world that has the
        given one in the other: the inverse of 1 - f.
    epsilon: (parameter, delta) -> the curve's epsilon at delta, rounded down.
    """

    assumes: str
    least: Callable[[float, float], float]
    epsilon: Callable[[float, float], float]


GAUSSIAN = Family(NORMAL, lambda p, mu: float(ndtr(ndtri(p) - mu)), epsilon_of_mu)


def refuted_fdp(
    guesses: Guesses, parameter: float, alpha: float, family: Family = GAUSSIAN
) -> bool:
    """Whether so many correct guesses have a probability below alpha under the family's curve.

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
        least = family.least(right, parameter)
        if not least > wrong:
            break  # nothing changes from here on
        right, wrong = right + i / (made - i) * (least - wrong), least
        if right + wrong > made / total:
            return True
    return right + wrong > made / total
