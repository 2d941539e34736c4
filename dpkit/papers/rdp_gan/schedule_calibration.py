"""The least start of a noise schedule, or the most of its iterations, within a target epsilon.

A ledger of a thousand different noises takes an accountant seconds, so the search goes from rough
to true: first on a few groups of noises, each group as one effective noise, at last on the ledger
itself, where every release is priced as it is. The result was itself priced so, at or under the
target; a rough price only guides the search.
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from dpkit.common import checks
from dpkit.privacy import Floats, Guarantee, Mechanism, Release, pld
from dpkit.privacy.calibrate import FAR, Accountant, log_over
from dpkit.privacy.schedules import Schedule, noise_ledger, values

LEAST, MOST = 1e-9, 1e13  # noise multipliers that mechanisms accept
ROUGH = (6, 32)  # groups of noises that are priced as one, the rougher first
LARGEST_STEP = 3.0  # of log(start), while nothing is known of the other side
ROUNDS = 80  # of a search, at most

OneRelease = Callable[[float], Mechanism]  # noise multiplier -> one release


class Solved(NamedTuple):
    """A schedule's start and length, and their cost.

    start: the schedule's noise multiplier, or its first.
    guarantee: the accountant's, of every release: epsilon at or under the target. By `pld.epsilon`,
        `lower` is proven too.
    iterations: number, each of `releases_each` releases.
    """

    start: float
    guarantee: Guarantee
    iterations: int


def initial_noise(
    target_epsilon: float,
    *,
    schedule: Callable[[float], Schedule],
    iterations: int,
    releases_each: int,
    release: OneRelease,
    delta: float,
    accountant: Accountant = pld.epsilon,
    tolerance: float = 2e-3,
) -> Solved:
    """The least start of a noise schedule whose iterations all stay within target_epsilon.

    Its epsilon is within the relative `tolerance` of the target, or a start smaller by no more than
    that was priced above it.

    Args:
        target_epsilon: nats, > 0; delta in (0, 1).
        schedule: the noise multipliers of all iterations from that of the first, such as
            `lambda start: TimeDecay(start, 0.04)`; none may fall when the start rises.
        iterations, releases_each: >= 1; releases of one iteration have one noise.
        release: what one of them is, from its noise multiplier, such as
            `lambda noise: SampledGaussian(noise, sample_rate)`.
        accountant: `pld.epsilon`, `rdp.epsilon` or another of their kind.
        tolerance: in (0, 1), not below the width of the accountant's own answers (pld's `gap`).

    Raises:
        ValueError: bad input, or no start meets the target with noise multipliers in [1e-9, 1e13].
        ArithmeticError: the accountant's prices do not fall as the start rises.
    """
    target_epsilon = checks.positive(target_epsilon=target_epsilon)
    iterations, releases_each = checks.whole(
        1, iterations=iterations, releases_each=releases_each
    )
    delta, tolerance = checks.between(0, 1, delta=delta, tolerance=tolerance)
    priced: dict[float, Guarantee] = {}

    def noises(x: float) -> Floats:
        found = values(schedule(math.exp(x)), steps=iterations)
        if not (np.isfinite(found) & (found >= 0)).all():
            # Names the step
            noise_ledger(schedule(math.exp(x)), steps=iterations, release=release)
        return found

    def rough(x: float, groups: int) -> float:
        found = noises(x)
        if not found.max() <= MOST:
            return -FAR
        if not found.min() >= LEAST:
            return FAR
        ledger = _grouped(found, groups, release, releases_each)
        return log_over(accountant(ledger, delta=delta), target_epsilon)

    def true(x: float) -> float:
        if noises(x).min() < LEAST:
            return FAR
        ledger = noise_ledger(schedule(math.exp(x)), steps=iterations, release=release)
        ledger = [Release(one, count * releases_each) for one, count in ledger]
        priced[x] = accountant(ledger, delta=delta)
        return log_over(priced[x], target_epsilon)

    lowest = float(noises(0.0).min())
    # Where the least noise is 1
    place = min(-math.log(lowest), math.log(MOST)) if lowest > 0 else 0.0
    aim, slope, resolution = -tolerance / 2, -1.5, math.log1p(tolerance)
    search = (
        (lambda x: rough(x, ROUGH[0]), 0.05),
        (lambda x: rough(x, ROUGH[1]), tolerance / 5),
    )
    for over, within in search:
        place, slope = _settled(
            over, place, slope, aim=aim, within=within, resolution=resolution
        )
    found = noises(place)
    if not found.max() < MOST / (1 + 2 * tolerance):
        raise ValueError(
            f"no start of the schedule meets epsilon {target_epsilon} with noise multipliers in "
            f"[{checks.short(LEAST)}, {checks.short(MOST)}], got {checks.short(found.max())} to "
            f"{checks.short(found.min())}; let the noise fall less, take fewer iterations or a "
            "higher target_epsilon"
        )
    if not found.min() > LEAST * (1 + 2 * tolerance):
        raise ValueError(
            f"target_epsilon {target_epsilon} is met by the smallest noise that mechanisms accept"
        )
    place, _ = _settled(
        true, place, slope, aim=aim, within=tolerance / 2, resolution=resolution
    )
    return Solved(math.exp(place), priced[place], iterations)


def iterations_within(
    target_epsilon: float,
    *,
    schedule: Schedule,
    releases_each: int,
    release: OneRelease,
    delta: float,
    accountant: Accountant = pld.epsilon,
    most: int = 100_000,
) -> Solved:
    """The most iterations, up to `most`, of a given noise schedule within target_epsilon in total.

    One iteration more was priced above it, or is beyond `most`, or has a noise multiplier below
    1e-9. 0 iterations where already one costs more. A list is a schedule too: `lambda step:
    noises[step]`, with `most=len(noises)`.
    Other arguments as `initial_noise`.

    Raises:
        ValueError: bad input, or a noise multiplier that is not a number or above 1e13.
    """
    target_epsilon = checks.positive(target_epsilon=target_epsilon)
    releases_each, most = checks.whole(1, releases_each=releases_each, most=most)
    delta = checks.between(0, 1, delta=delta)
    noises = values(schedule, steps=most)
    noises = noises[: (noises < LEAST).argmax() or most]  # until one that has no price
    bad = np.isnan(noises) | (noises > MOST)
    bad[0] |= noises[0] < LEAST
    if bad.any():
        step = int(bad.argmax())
        raise ValueError(
            f"step {step} of the schedule: noise_multiplier must lie in [{checks.short(LEAST)}, "
            f"{checks.short(MOST)}], got {noises[step]}"
        )
    priced: dict[int, Guarantee] = {}

    def over(count: int, *, groups: int | None) -> float:
        if not 0 < count <= len(noises):
            return FAR if count > 0 else -FAR
        if groups:
            ledger = _grouped(noises[:count], groups, release, releases_each)
            return log_over(accountant(ledger, delta=delta), target_epsilon)
        if count not in priced:
            ledger = noise_ledger(schedule, steps=count, release=release)
            ledger = [Release(one, n * releases_each) for one, n in ledger]
            priced[count] = accountant(ledger, delta=delta)
        return log_over(priced[count], target_epsilon)

    found = 64
    for groups in (*ROUGH, None):
        found = _last(partial(over, groups=groups), found)
    start = float(noises[0])
    if not found:
        priced[0] = accountant([Release(release(start), 0)], delta=delta)
    return Solved(start, priced[found], found)


def _grouped(
    noises: Floats, groups: int, release: OneRelease, releases_each: int
) -> list[Release]:
    """The noises' approximate cost: each group of like ones as the mean of their 1 / z^2.

    To leading order in 1 / z a Gaussian release costs in proportion to it, sampled or not, so the
    groups have equal shares of its sum: all of the cheapest releases become one group.
    """
    distinct, counts = np.unique(noises, return_counts=True)
    if distinct.size > groups:
        power = counts * distinct**-2.0
        share = (np.cumsum(power) - power / 2) / power.sum()
        group = np.minimum((share * groups).astype(int), groups - 1)
        sums = np.bincount(group, weights=power, minlength=groups)
        counts = np.bincount(group, weights=counts, minlength=groups).astype(int)
        distinct = np.sqrt(counts[counts > 0] / sums[counts > 0])
        counts = counts[counts > 0]
    return [
        Release(release(float(noise)), int(count) * releases_each)
        for noise, count in zip(distinct, counts, strict=True)
    ]


def _settled(
    over: Callable[[float], float],
    x: float,
    slope: float,
    *,
    aim: float,
    within: float,
    resolution: float,
) -> tuple[float, float]:
    """(x, slope there) where the falling `over` is <= 0 and within `within` of `aim`.

    Or, where it leaps, an x that is by no more than `resolution` above one where it is > 0.
    Newton's steps, by secants as they become known, and halves where those would leave the bracket;
    ArithmeticError if there is no such place.
    """
    inside, outside, before = math.inf, -math.inf, None
    for attempt in range(ROUNDS):
        y = over(x)
        if abs(y - aim) <= within and y <= 0:
            return x, slope
        if y <= 0:
            inside, outside = x, (outside if outside < x else -math.inf)
        else:
            outside, inside = x, (inside if inside > x else math.inf)
        if inside - outside <= resolution:
            return inside, slope
        if before and max(abs(y), abs(before[1])) < FAR and x != before[0]:
            slope = min(max((y - before[1]) / (x - before[0]), -30.0), -0.1)
        before = x, y
        x += min(max((aim - y) / slope, -LARGEST_STEP), LARGEST_STEP)
        if inside - outside < math.inf and (attempt % 4 == 3 or not outside < x < inside):
            x = (inside + outside) / 2
        if abs(x) > 100:
            break
    raise ArithmeticError(
        "no start of the schedule meets the target: its price must fall as the start rises"
    )


def _last(over: Callable[[int], float], guess: int) -> int:
    """The last whole number at which the rising `over` is <= 0: in a bracket about a guess."""
    step = 1
    while over(guess - step) > 0 or over(guess + step) <= 0:
        step *= 2
    return guess - step - 1 + bisect_right(range(guess - step, guess + step), 0, key=over)
