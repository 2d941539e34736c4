"""The cost of one run under each way to draw its batches, as pairs (lower, upper).

Ways differ in adjacency, which the guarantee states.
"""

from collections.abc import Collection
from functools import partial
from typing import Any, NamedTuple

from scipy.special import bdtrc

from dpkit.common import checks
from dpkit.privacy.accountants import pld
from dpkit.privacy.ledger import Guarantee, Release
from dpkit.privacy.sampling import (
    BallsAndBins,
    FixedSizeBatches,
    PoissonSampling,
    Sampling,
    ShuffledBatches,
    TruncatedPoisson,
    WithReplacement,
    mechanism,
    sample_rate,
)

WAYS = {  # how batches are drawn, in words
    "poisson": "each record enters each batch by chance",
    "truncated": "so, and a batch that is too large loses records",
    "balls-and-bins": "in each pass each record enters one batch by chance",
    "shuffled": "passes over shuffled data",
    "fixed": "each batch a fresh sample of one size",
    "with-replacement": "each batch as many draws, a record perhaps more than once",
}


class DrawnRun(NamedTuple):
    """A run of DP-SGD, but for how its batches are drawn.

    noise_multiplier: noise standard deviation on a step's clipped sum / clip norm C.
    batch_size: records a batch, on average or always.
    public_size: declared number of records.
    steps: batches, >= 0.
    """

    noise_multiplier: float
    batch_size: int
    public_size: int
    steps: int

    def drawn(self) -> dict[str, Any]:
        """All but the size of a batch, as `guarantee` of a way to draw batches takes it."""
        return {name: value for name, value in self._asdict().items() if name != "batch_size"}


def every_way(
    run: DrawnRun,
    *,
    delta: float,
    largest: int | None = None,
    ways: Collection[str] = tuple(WAYS),
) -> dict[str, Guarantee]:
    """The guarantee of one run under each of `ways`, which are some of WAYS.

    Arguments and errors as `truncated`.
    """
    priced = {
        "poisson": poisson,
        "truncated": partial(truncated, largest=largest),
        "balls-and-bins": balls_and_bins,
        "shuffled": shuffled,
        "fixed": fixed,
        "with-replacement": with_replacement,
    }
    return {way: price(run, delta=delta) for way, price in priced.items() if way in ways}


def poisson(run: DrawnRun, *, delta: float) -> Guarantee:
    """Batches that each record enters independently; add-remove.

    Raises:
        ValueError: a number is out of range, or the batch is larger than the data.
    """
    return _priced(PoissonSampling(run.batch_size), run, delta)


def fixed(run: DrawnRun, *, delta: float) -> Guarantee:
    """Batches of a fixed size, each drawn afresh without replacement; replace-one.

    Raises:
        ValueError: as `poisson`.
    """
    return _priced(FixedSizeBatches(run.batch_size), run, delta)


def truncated(run: DrawnRun, *, delta: float, largest: int | None = None) -> Guarantee:
    """Poisson batches of at most `largest` records, as fixed shapes need; add-remove.

    Args:
        run: what else is known of it.
        delta: in (0, 1).
        largest: None for `largest_batch`.

    Raises:
        ValueError: as `poisson`, or largest is not an integer >= the batch size.
    """
    most = largest_batch(run, delta=delta) if largest is None else largest
    return _priced(TruncatedPoisson(run.batch_size, most), run, delta)


def largest_batch(run: DrawnRun, *, delta: float) -> int:
    """The least size that a batch of the run exceeds with probability delta / 100 at most.

    Raises:
        ValueError: as `poisson`.
    """
    rate = sample_rate(PoissonSampling(run.batch_size), public_size=run.public_size)
    low, high = run.batch_size - 1, run.public_size
    enough = checks.between(0, 1, delta=delta) / 100
    while high - low > 1:
        middle = (low + high) // 2
        rare = run.steps * float(bdtrc(middle, run.public_size, rate)) <= enough
        low, high = (low, middle) if rare else (middle, high)
    return high


def balls_and_bins(run: DrawnRun, *, delta: float) -> Guarantee:
    """Passes in which every record enters one batch, uniformly at random; add-remove.

    Raises:
        ValueError: as `poisson`.
    """
    return BallsAndBins(run.batch_size).guarantee(**run.drawn(), delta=delta)


def with_replacement(run: DrawnRun, *, delta: float) -> Guarantee:
    """Batches of one size, each draw of any record; add-remove.

    Raises:
        ValueError: as `poisson`, or the batch has more than 4,096 records.
    """
    return _priced(WithReplacement(run.batch_size), run, delta)


def shuffled(run: DrawnRun, *, delta: float) -> Guarantee:
    """Passes over shuffled data in batches of a fixed size, the rest dropped; replace-one.

    Raises:
        ValueError: as `poisson`.
    """
    return ShuffledBatches(run.batch_size, "replace-one").guarantee(**run.drawn(), delta=delta)


def _priced(sampling: Sampling, run: DrawnRun, delta: float) -> Guarantee:
    step = mechanism(
        sampling, noise_multiplier=run.noise_multiplier, public_size=run.public_size
    )
    return pld.epsilon([Release(step, run.steps)], delta=delta)
