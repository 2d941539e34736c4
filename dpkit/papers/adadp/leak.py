"""What Algorithm 1's history of raw gradients gives away, on two data sets that differ in a record.

Line 23 squares gradients without noise, and the squares decide clipping, noise and the branch of
line 7. The loss here is linear, so that every record's gradient is itself and does not change.
"""

import math
from collections.abc import Iterable

import numpy as np
from scipy.special import log_ndtr, ndtr

from dpkit.common import checks
from dpkit.privacy.mechanisms import Floats

BETA, HISTORY, THRESHOLD, NORM = 1.2, 0.9, 1e-6, 4.0  # beta, gamma', G and C (section IV)
ONLY, NOBODY = 2, 3  # coordinates: one that a single record moves, and one that none does
OTHERS = np.tile([1.0, 0.5, 0.0, 0.0], (99, 1))  # gradients of 99 records
RECORD = np.array([[0.5, 0.5, 1.0, 0.0]])  # and of one more


def released(
    lots: Iterable[Floats], *, noise_multiplier: float, expected: float, rng: np.random.Generator
) -> Floats:
    """The noised sums of Algorithm 1, (lots, m), to the letter: its lines 6 to 20, and 23.

    Noise lies on a lot's sum, and the history is of its mean; with noise on every example, or
    another scale of the history, a bound of 0 remains one of 0.

    Args:
        lots: each one's gradients, (any number, m).
        noise_multiplier: sigma_*, > 0.
        expected: expected lot size L, > 0.
        rng: of the noise.
    """
    checks.positive(noise_multiplier=noise_multiplier, expected=expected)
    sums: list[Floats] = []
    history = np.zeros(1)
    for lot in lots:
        root = np.broadcast_to(np.sqrt(history), lot.shape[1:])
        if root.var() > THRESHOLD:
            bound = BETA * root
            clipped = lot.clip(-bound, bound)
            deviation = noise_multiplier * math.sqrt(root.size) * bound
        else:
            lengths = np.sqrt((lot**2).sum(axis=1, keepdims=True))
            clipped = lot / np.maximum(1.0, lengths / NORM)
            deviation = np.full(root.size, noise_multiplier * NORM)
        sums.append(clipped.sum(axis=0) + deviation * rng.standard_normal(root.size))
        history = HISTORY * history + (1 - HISTORY) * (lot.sum(axis=0) / expected) ** 2
    return np.stack(sums)


def gives_away(sums: Floats) -> bool:
    """Whether a step has noise at the record's coordinate and none where nobody has a gradient.

    Before the switch both have noise. After it a coordinate has noise if its history is not 0, so
    that without the record both have none: this never happens then.
    """
    return bool(((sums[:, ONLY] != 0) & (sums[:, NOBODY] == 0)).any())


def chance(sample_rate: float, *, steps: int) -> float:
    """How likely `gives_away` is with the record: it must enter a lot before the last one.

    Args:
        sample_rate: q, of each record to enter a lot, in [0, 1].
        steps: T >= 1.
    """
    checks.in_range(0, 1, sample_rate=sample_rate)
    return -math.expm1((checks.whole(1, steps=steps) - 1) * math.log1p(-sample_rate))


def epsilon(sample_rate: float, *, steps: int, delta: float, noise_multiplier: float) -> float:
    """Epsilon of releasing the noised sums, from the two data sets.

    Infinite if the event happens with the record in the first lot, cannot happen without it, and is
    likelier than delta: then p <= e^epsilon 0 + delta for no epsilon. Else 0, which proves nothing.
    """
    rng = np.random.default_rng(0)
    with_record = np.concatenate([OTHERS, RECORD])
    events = [
        gives_away(
            released(
                [first, OTHERS], noise_multiplier=noise_multiplier, expected=len(OTHERS), rng=rng
            )
        )
        for first in (with_record, OTHERS)
    ]
    separated = events == [True, False]
    return math.inf if separated and chance(sample_rate, steps=steps) > delta else 0.0


def epsilon_of_wider_noise(ratio: float, *, sample_rate: float, delta: float) -> float:
    """A lower bound on epsilon where the record widens a coordinate's noise, from any > 0.

    Two steps: if the record enters the first lot, the second has noise `ratio` times as wide. The
    events are |z| > t for many t, of centred noise: the sum of clipped gradients is taken as small
    beside it. The chance of each without the record is 2 Phi(-t).

    Args:
        ratio: > 1. Line 23 squares a gradient that nothing has clipped, so it can be any.
        sample_rate: q, in (0, 1].
        delta: in (0, 1).
    """
    checks.between(1, math.inf, ratio=ratio)
    checks.positive(sample_rate=checks.in_range(0, 1, sample_rate=sample_rate))
    checks.between(0, 1, delta=delta)
    t = np.linspace(0, 10 * ratio, 10_001)
    narrow = log_ndtr(-t) + math.log(2)
    with_record = (1 - sample_rate) * np.exp(narrow) + sample_rate * 2 * ndtr(-t / ratio)
    likelier = with_record > delta
    return float((np.log(with_record[likelier] - delta) - narrow[likelier]).max())
