"""A test of a claimed epsilon that may stop at any time: betting against the claim.

Each round draws one score from either world. Under (epsilon, delta)-DP, whatever set of scores was
chosen before the round, P(present in it) - e^epsilon P(absent in it) - delta <= 0, and so with the
worlds exchanged. A gambler who stakes a share of a capital of 1 on that difference cannot expect to
gain, so the capital exceeds 1 / alpha at any time with probability alpha at most (Ville). E-values
for auditing: Gonzalez, Dulce Rubio, Ramdas, Ribero 2025; betting: Waudby-Smith, Ramdas 2024.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpkit.audit import thresholds as choose
from dpkit.audit.scores import Scores, check_asked, checked
from dpkit.common import checks
from dpkit.privacy.mechanisms import Adjacency, Floats

# shares of the capital that may be lost
STAKES = np.array([0.03, 0.1, 0.2, 0.35, 0.55, 0.8, 0.97])
GROWTH = 1.25  # of the rounds from one choice of thresholds to the next


class Refutation(NamedTuple):
    """The outcome of betting against one claim.

    epsilon, delta, adjacency, confidence: of the claim and the test.
    draws: from each world, after which the claim was refuted; None where it was not.
    read: draws from each world that were read.
    log_capital: the largest log of the capital, which began at 0: from log(1 / (1 -
        confidence)) on, the claim is refuted.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    confidence: float
    draws: int | None
    read: int
    log_capital: float


def refute(
    absent: ArrayLike,
    present: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
) -> Refutation:
    """Bet against a claim, reading the scores in their order as pairs, until it is refuted.

    Args:
        absent, present: scores; where one world has more, the last are not read. All must be
            independent, and those of a world alike.
        epsilon: claimed, in [0, 50].
        delta: in (0, 1), claimed with it.
        adjacency: of the two worlds.
        confidence: in (0, 1); a true claim is refuted with probability 1 - confidence at most.

    Raises:
        ValueError: an argument is out of its range, or as `checked`.
    """
    pairs = zip(*(world.tolist() for world in checked(absent, present)), strict=False)
    *_, last = watch(
        pairs, epsilon=epsilon, delta=delta, adjacency=adjacency, confidence=confidence
    )
    return last


def watch(
    pairs: Iterable[tuple[float, float]],
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    confidence: float = 0.95,
) -> Iterator[Refutation]:
    """The state of `refute` again and again, from pairs (absent, present), maybe endless.

    Pairs are read in blocks, each a quarter of all before it; ends with the pairs, or with the
    block in which the claim is refuted.

    Args:
        pairs: scores (absent, present), one pair a round, independent, and those of a world alike.
        Others, and errors: as `refute`.
    """
    delta, confidence = check_asked(delta, confidence, adjacency)
    epsilon = checks.in_range(0, 50, epsilon=epsilon)
    stream, past = iter(pairs), Scores(np.empty(0), np.empty(0))
    capitals = np.full((2, STAKES.size), -log(2 * STAKES.size))  # logs, of each way and stake
    highest, draws = 0.0, None
    while block := list(islice(stream, max(1, int((GROWTH - 1) * past.absent.size)))):
        new = checked(*np.array(block, dtype=np.float64).T)
        paths = capitals[..., None] + np.cumsum(_gains(past, new, epsilon, delta), axis=-1)
        total = np.logaddexp.reduce(paths, axis=(0, 1))
        over = np.flatnonzero(total >= -log(1 - confidence))
        draws = past.absent.size + int(over[0]) + 1 if over.size else None
        past = Scores(*(np.concatenate(both) for both in zip(past, new, strict=True)))
        capitals, highest = paths[..., -1], max(highest, float(total.max()))
        yield Refutation(
            epsilon, delta, adjacency, confidence, draws, past.absent.size, highest
        )
        if draws is not None:
            return


def _gains(past: Scores, new: Scores, epsilon: float, delta: float) -> Floats:
    """Logs of each round's factors of the capitals, (2, stakes, rounds), as the past teaches.

    Way 0 bets on "score > t" being likelier with the record, way 1 on "score <= t" without it. A
    stake s loses the share s where the bet's set is met in the wrong world alone.
    """
    table = _factors(epsilon, delta)  # (stakes, 4)
    if past.absent.size == 0:
        return np.zeros((2, STAKES.size, new.absent.size))
    high, low = _learned(past, table)
    ways = [(new.present > high, new.absent > high), (new.absent <= low, new.present <= low)]
    return np.stack([table[:, 2 * right + wrong] for right, wrong in ways])


def _factors(epsilon: float, delta: float) -> Floats:
    """log(1 + bet (right - e^epsilon wrong - delta)) for each stake, (stakes, 4).

    Columns: neither world's score is in the set, the wrong one's, the right one's, both.
    """
    worst = exp(epsilon) + delta
    gain = np.array([-delta, -worst, 1 - delta, 1 - worst])
    return np.log1p(STAKES[:, None] / worst * gain)


def _learned(past: Scores, table: Floats) -> tuple[float, float]:
    """Either way's threshold of the fastest expected growth, by the past's rates."""
    tried = choose.candidates(past)
    counts = choose.expected(past, past, tried)
    fpr, fnr = counts.false_positives / counts.absent, counts.false_negatives / counts.present
    best = []
    for right, wrong in ((1 - fnr, fpr), (1 - fpr, fnr)):
        chances = [
            (1 - right) * (1 - wrong),
            (1 - right) * wrong,
            right * (1 - wrong),
            right * wrong,
        ]
        growth = table @ np.stack(chances)  # (stakes, thresholds)
        best.append(float(tried[growth.max(axis=0).argmax()]))
    return best[0], best[1]
