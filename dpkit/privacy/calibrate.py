"""The least noise, the most steps or the highest sample rate for a target epsilon.

By any accountant: what is returned was itself priced at or under the target.
"""

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from dpkit.common import checks
from dpkit.privacy import numerics
from dpkit.privacy.accountants import gdp, pld, rdp
from dpkit.privacy.ledger import MOST_RELEASES, Guarantee, Release
from dpkit.privacy.mechanisms import Adjacency, Gaussian, Mechanism, SampledGaussian

Accountant = Callable[..., Guarantee]
LARGEST_TARGET = 1e6  # an epsilon beyond it is no privacy, and its search no use
FAR = 60.0  # stands for the log of an epsilon of 0 or infinity over the target


class ApproximationWarning(UserWarning):
    """A result that meets only an approximation of its target, which the truth may exceed."""


def noise_multiplier(
    target_epsilon: float,
    *,
    sample_rate: float,
    steps: int,
    delta: float,
    accountant: Accountant = rdp.epsilon,
    adjacency: Adjacency | None = None,
    mechanism: Callable[[float], Mechanism] | None = None,
    tolerance: float = 1e-5,
    **options: Any,
) -> float:
    """The least noise multiplier of DP-SGD whose epsilon is <= target_epsilon.

    The value returned was itself priced at or under the target, and one smaller by the relative
    `tolerance` was priced above it. 0 where nothing is released (steps or sample_rate 0).

    Args:
        target_epsilon: nats, > 0.
        sample_rate: chance of each record to enter a batch, in [0, 1].
        steps: batches, >= 0.
        delta: in (0, 1).
        accountant: `rdp.epsilon`, `pld.epsilon` or another of their kind; `options` go to it.
        adjacency: of the Poisson-sampled Gaussian that is priced by default; "add-remove" if not
            given.
        mechanism: what to price instead, from its noise; its adjacency is its own.

    Warns:
        ApproximationWarning: the accountant's epsilon (`gdp` with sampling) is no upper bound.

    Raises:
        ValueError: bad input, or a target that no noise between 2^-20 and 2^40 meets.
    """
    target_epsilon = _target(target_epsilon)
    tolerance = checks.positive(tolerance=tolerance)
    sample_rate = checks.in_range(0, 1, sample_rate=sample_rate)
    steps, delta = checks.whole(steps=steps), checks.between(0, 1, delta=delta)
    if mechanism is not None and adjacency is not None:
        raise ValueError(
            f"adjacency {adjacency} has no effect with `mechanism`, which has its own; leave it out"
        )
    chosen: Adjacency = adjacency or "add-remove"
    one = mechanism or (lambda noise: SampledGaussian(noise, sample_rate, chosen))

    @cache
    def over(log_noise: float) -> float:
        ledger = [Release(one(math.exp(log_noise)), steps)]
        return log_over(accountant(ledger, delta=delta, **options), target_epsilon)

    if steps == 0 or sample_rate == 0:
        return 0.0
    low, high = math.log(0.5), 0.0
    while not over(high) <= 0:
        low, high = high, high + math.log(2)
        if high > 40 * math.log(2):
            raise ValueError(
                f"no noise_multiplier below 2^40 meets epsilon {target_epsilon}; take fewer steps"
            )
    while over(low) <= 0:
        low, high = low - math.log(2), low
        if low < -20 * math.log(2):
            raise ValueError(
                f"target_epsilon {target_epsilon} is met even by noise 2^-20; lower it"
            )
    return math.exp(_edge(over, high, low, math.log1p(tolerance)))


def gaussian_noise_multiplier(target_epsilon: float, *, delta: float) -> float:
    """The least noise multiplier of one Gaussian release that the PLD accountant certifies.

    More than the least of all by a relative 3e-4 at most, as its upper ends are.

    Raises: as `noise_multiplier`.
    """
    return noise_multiplier(
        target_epsilon,
        sample_rate=1,
        steps=1,
        delta=delta,
        accountant=pld.epsilon,
        mechanism=Gaussian,
    )


def sample_rate(
    target_epsilon: float,
    *,
    noise_multiplier: float,
    steps: int,
    delta: float,
    accountant: Accountant = rdp.epsilon,
    adjacency: Adjacency = "add-remove",
    tolerance: float = 1e-5,
    **options: Any,
) -> float:
    """The highest sample rate of Poisson-sampled DP-SGD whose epsilon is <= target_epsilon.

    1 where every record may enter every batch. Arguments as `noise_multiplier`.

    Raises:
        ValueError: bad input, or a target that no rate above 2^-40 meets.
    """
    target_epsilon = _target(target_epsilon)
    tolerance = checks.positive(tolerance=tolerance)
    steps, delta = checks.whole(steps=steps), checks.between(0, 1, delta=delta)

    @cache
    def over(log_rate: float) -> float:
        rate = min(math.exp(log_rate), 1.0)
        ledger = [Release(SampledGaussian(noise_multiplier, rate, adjacency), steps)]
        return log_over(accountant(ledger, delta=delta, **options), target_epsilon)

    if over(0.0) <= 0:
        return 1.0
    low, high = -math.log(2), 0.0
    while not over(low) <= 0:
        low, high = 2 * low, low
        if low < -40 * math.log(2):
            raise ValueError(
                f"no sample_rate above 2^-40 meets epsilon {target_epsilon}; add noise"
            )
    return math.exp(_edge(over, low, high, math.log1p(tolerance)))


def steps(
    target_epsilon: float,
    *,
    mechanism: Mechanism,
    delta: float,
    accountant: Accountant = rdp.epsilon,
    **options: Any,
) -> int:
    """The largest number of releases of `mechanism` whose epsilon is <= target_epsilon.

    0 where already one costs more. `options` go to the accountant.

    Raises:
        ValueError: bad input, or a mechanism that costs nothing (no number is the largest).
    """
    target_epsilon = _target(target_epsilon)

    def private(count: int) -> bool:
        spent = accountant([Release(mechanism, count)], delta=delta, **options)
        return log_over(spent, target_epsilon) <= 0

    try:
        return numerics.most(private, limit=MOST_RELEASES)
    except OverflowError:
        raise ValueError(
            f"{mechanism} costs nothing: every number of steps is allowed"
        ) from None


def _target(target_epsilon: float) -> float:
    checks.positive(target_epsilon=target_epsilon)
    return checks.in_range(0, LARGEST_TARGET, target_epsilon=target_epsilon)


def log_over(spent: Guarantee, target: float) -> float:
    """log(epsilon / target), finite: <= 0 exactly where epsilon <= target; NaN counts as over."""
    if gdp.APPROXIMATE in spent.assumptions:
        warnings.warn(
            f"{spent.method}: the result may exceed epsilon {target:g}; use pld.epsilon",
            ApproximationWarning,
            stacklevel=2,
        )
    if not spent.epsilon < math.inf:
        return FAR
    if spent.epsilon <= target:
        return max(math.log(spent.epsilon / target), -FAR) if spent.epsilon > 0 else -FAR
    return min(max(math.log(spent.epsilon / target), 1e-15), FAR)


def _edge(
    over: Callable[[float], float], private: float, beyond: float, tolerance: float
) -> float:
    """A place where `over` is <= 0, within tolerance of one where it is > 0."""
    from scipy.optimize import brentq  # slow to import, and accounting alone does without

    seen: dict[float, float] = {}

    def remembered(x: float) -> float:
        if x not in seen:
            seen[x] = over(x)
        return seen[x]

    brentq(remembered, private, beyond, xtol=tolerance / 2)
    while True:
        places = sorted(seen, reverse=private > beyond)
        first = next(i for i, x in enumerate(places) if seen[x] > 0)
        inside, outside = places[first - 1], places[first]
        if abs(outside - inside) <= tolerance:
            return inside
        step = math.copysign(
            0.98 * tolerance, outside - inside
        )  # the edge is near one of them
        near = inside + step if abs(seen[inside]) < abs(seen[outside]) else outside - step
        remembered(near)
