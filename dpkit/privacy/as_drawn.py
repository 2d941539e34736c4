"""The cost of one run under each way to draw its batches, as pairs (lower, upper).

Ways differ in adjacency, which the guarantee states.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from scipy.special import bdtrc

from dpkit.common import checks
from dpkit.privacy import numerics
from dpkit.privacy.ledger import Guarantee
from dpkit.privacy.sampling import (
    BallsAndBins,
    FixedSizeBatches,
    PoissonSampling,
    ShuffledBatches,
    TruncatedPoisson,
    WithReplacement,
    sample_rate,
)

WAYS = {  # how batches are drawn, in words
    "poisson": "each record enters each batch by chance",
    "truncated": "each record by chance, and a batch too large loses some",
    "balls-and-bins": "in each pass each record enters one batch by chance",
    "with-replacement": "each batch as many draws, a record perhaps more than once",
    "shuffled": "passes over shuffled data",
    "fixed": "each batch a fresh sample of one size",
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

    def guarantee(self, way: str, *, delta: float, largest: int | None = None) -> Guarantee:
        """The run's price where batches are drawn in one of WAYS.

        Replace-one for "shuffled" and "fixed", add-remove for the others.

        Args:
            delta: in (0, 1).
            largest: records of a truncated batch, at most; None for `largest_batch`.

        Raises:
            ValueError: a number is out of range, or the batch is larger than the data; largest is
                less than the batch; or a batch with replacement has more than 4,096 records.
        """
        checks.one_of(tuple(WAYS), way=way)
        sampling: Callable[[int], PoissonSampling | TruncatedPoisson] = {
            "poisson": PoissonSampling,
            "truncated": lambda batch: TruncatedPoisson(
                batch, largest_batch(self, delta=delta) if largest is None else largest
            ),
            "balls-and-bins": BallsAndBins,
            "with-replacement": WithReplacement,
            "shuffled": lambda batch: ShuffledBatches(batch, "replace-one"),
            "fixed": FixedSizeBatches,
        }[way]
        noise, batch, records, steps = self
        return sampling(batch).guarantee(
            noise_multiplier=noise, public_size=records, steps=steps, delta=delta
        )


def every_way(
    run: DrawnRun,
    *,
    delta: float,
    largest: int | None = None,
    ways: Collection[str] = tuple(WAYS),
) -> dict[str, Guarantee]:
    """The guarantee of one run under each of `ways`, which are some of WAYS."""
    return {
        way: run.guarantee(way, delta=delta, largest=largest) for way in WAYS if way in ways
    }


def largest_batch(run: DrawnRun, *, delta: float) -> int:
    """The least size that a batch of the run exceeds with probability delta / 100 at most.

    Raises:
        ValueError: a number is out of range, or the batch is larger than the data.
    """
    rate = sample_rate(PoissonSampling(run.batch_size), public_size=run.public_size)
    enough = checks.between(0, 1, delta=delta) / 100

    largest = numerics.most(
        lambda most: run.steps * float(bdtrc(most, run.public_size, rate)) > enough,
        limit=2 * run.public_size,
    )
    return max(run.batch_size, largest + 1)
