"""The least noise, or the most steps, for a target epsilon; both end on the private side."""

import math
from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from dpkit import checks
from dpkit.privacy import rdp
from dpkit.privacy.ledger import MOST_RELEASES, Guarantee, Release
from dpkit.privacy.mechanisms import Adjacency, Mechanism, SampledGaussian

Accountant = Callable[..., Guarantee]


def noise_multiplier(
    target_epsilon: float,
    *,
    sample_rate: float,
    steps: int,
    delta: float,
    accountant: Accountant = rdp.epsilon,
    adjacency: Adjacency = "add-remove",
    tolerance: float = 1e-5,
    **options: Any,
) -> float:
    """The least noise multiplier of Poisson-sampled DP-SGD whose epsilon is <= target_epsilon.

    The value returned was itself priced at or under the target, and one smaller by the relative
    `tolerance` was priced above it. 0 where nothing is released (steps or sample_rate 0).

    Args:
        target_epsilon: nats, > 0.
        sample_rate: chance of each record to enter a batch, in [0, 1].
        steps: batches, >= 0.
        delta: in (0, 1).
        accountant: `rdp.epsilon` or another of its signature; `options` go to it.

    Raises:
        ValueError: bad input, or a target that no noise below 2^40 reaches.
    """
    checks.positive(target_epsilon=target_epsilon, tolerance=tolerance)
    checks.in_range(0, 1, sample_rate=sample_rate)
    checks.whole(steps=steps)
    checks.between(0, 1, delta=delta)

    def private(noise: float) -> bool:
        ledger = [Release(SampledGaussian(noise, sample_rate, adjacency), steps)]
        return accountant(ledger, delta=delta, **options).epsilon <= target_epsilon

    if steps == 0 or sample_rate == 0:
        return 0.0
    low, high = 0.5, 1.0
    while not private(high):
        low, high = high, 2 * high
        if high > 2**40:
            raise ValueError(f"no noise_multiplier below 2^40 reaches epsilon {target_epsilon}")
    while high == 1.0 or low < 0.5:
        if not private(low):
            break
        low, high = low / 2, low
        if low < 2**-20:
            raise ValueError(f"target_epsilon {target_epsilon} needs no noise worth naming")
    while high > low * (1 + tolerance):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if private(middle) else (middle, high)
    return high


def steps(
    target_epsilon: float,
    *,
    mechanism: Mechanism,
    delta: float,
    conversion: str = "improved",
    orders: ArrayLike | None = None,
) -> int:
    """The largest number of releases of `mechanism` whose epsilon is <= target_epsilon.

    0 where already one costs more.

    Raises:
        ValueError: bad input, or a mechanism that costs nothing (no number is the largest).
    """
    checks.positive(target_epsilon=target_epsilon)

    def private(count: int) -> bool:
        ledger = [Release(mechanism, count)]
        spent = rdp.epsilon(ledger, delta=delta, conversion=conversion, orders=orders)
        return spent.epsilon <= target_epsilon

    low, high = 0, 1
    while private(high):
        low, high = high, 2 * high
        if high >= MOST_RELEASES:
            raise ValueError(f"{mechanism} costs nothing: every number of steps is allowed")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if private(middle) else (low, middle)
    return low
