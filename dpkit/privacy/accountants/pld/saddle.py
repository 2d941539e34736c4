"""Choose the tilt and the window of the FFT by a saddle-point estimate.

Nothing certified depends on it: a poor choice makes the certified pair wider, or slower to get.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpkit.privacy import numerics
from dpkit.privacy.mechanisms import Floats, PrivacyLoss
from dpkit.privacy.mechanisms.base import stacked

SCALES = np.geomspace(1e-13, 1e18, 700)  # of losses, 10 % apart
EDGES = np.concatenate([-SCALES[::-1], [0.0], SCALES])
SKIPPED = 10  # edges from one to the next of the first look
STEPS = np.linspace(0, 1, 200)
TILTS = np.append(0.0, np.geomspace(1e-6, 1e10, 64))
BETWEEN = 30  # tilts more, where they decide
FINER = 3  # tilts for one, where the moments decide
SINGLE, GROUPS = 32, 64  # releases seen one by one, and groups of the others
TINY = 1e-99
FFT_ERROR = 1.5e-12  # of the composed masses, for each release
SERIES_ERROR = 1e-14  # of them, whatever the number of releases
NOTHING = 1e-12  # a hit's epsilon, that decides nothing
RARE, HARDLY_ONE, RARE_ERROR, SMALL = 0.1, 2.0, 1e-12, 1e-3
OUTSIDE = 1e-5  # of what decides delta, may lie outside the window


class Coarse(NamedTuple):
    """One release, seen roughly.

    edges, masses: (n,) losses and the (2, n + 1) masses between them under P and Q.
    span: losses beyond which neither P nor Q has more than a tail that is neglected.
    centre: the median of the loss.
    """

    edges: Floats
    masses: Floats
    span: tuple[float, float]
    centre: float
    count: int


def coarse(losses: Sequence[PrivacyLoss], counts: Sequence[int], tail: float) -> list[Coarse]:
    """Losses of one family at relative distances of 10 %, and evenly where their mass lies."""
    loss, rows = stacked(losses), len(losses)

    def ends(edges: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # indices (rows,)
        each = np.broadcast_to(edges, (rows, edges.size)) if rows > 1 else edges
        rough = loss.masses(each).reshape(2, rows, -1)
        rough[..., [0, -1]] *= rough[..., [0, -1]] <= tail  # not infinite losses
        up_to = np.cumsum(rough, axis=-1)
        beyond = np.cumsum(rough[..., ::-1], axis=-1)[..., ::-1]
        below = (up_to[..., :-1].max(axis=0) <= tail).sum(axis=-1)
        above = (beyond[..., 1:].max(axis=0) > tail).sum(axis=-1)
        both = np.maximum(below - 1, 0), np.minimum(above, edges.size - 1)
        return np.minimum(*both), np.maximum(*both)

    low, high = ends(EDGES[::SKIPPED])
    near = EDGES[low.min() * SKIPPED : high.max() * SKIPPED + 1]
    low, high = (near[at][:, None] for at in ends(near))
    inside = EDGES[(low.min() < EDGES) & (high.max() > EDGES)]
    edges = np.concatenate([np.clip(inside, low, high), low + (high - low) * STEPS], axis=1)
    edges = np.sort(edges, axis=1)
    fine = loss.masses(edges if rows > 1 else edges[0]).reshape(2, rows, -1)
    middle = np.minimum((np.cumsum(fine[0], axis=-1) < 0.5).sum(axis=-1), edges.shape[1] - 1)
    return [
        Coarse(
            edges[i], fine[:, i], (float(low[i, 0]), float(high[i, 0])), float(edges[i, k]), n
        )
        for i, (k, n) in enumerate(zip(middle, counts, strict=True))
    ]


class Seen(NamedTuple):
    """A release: its loss, a rough view of it, and how often it is taken."""

    loss: PrivacyLoss
    coarse: Coarse
    count: int


class Moments(NamedTuple):
    """Moments of the composed loss at each tilt: log E[exp(tilt * loss)], two derivatives.

    tilts: increasing; with each lambda also -1 - lambda.
    hits: releases, on average, whose loss is not about its centre.
    far: (3, n) such losses, and how many there are on average under P and under Q.
    closer: whether looks are to be exact, and at rare draws where draws are rare.
    """

    tilts: Floats
    log: Floats
    mean: Floats
    variance: Floats
    hits: float = 0.0
    far: Floats = np.zeros((3, 0))
    releases: Sequence[Coarse] = ()
    reverse: bool = False
    closer: bool = False

    def reversed(self) -> "Moments":
        """The same for the pair (Q, P): E_Q[(Q/P)^lambda] = E_P[(P/Q)^(-1 - lambda)]."""
        log, mean, variance = (one[::-1] for one in (self.log, -self.mean, self.variance))
        far = self.far[[0, 2, 1]] * np.array([[-1.0], [1.0], [1.0]])
        of = {"far": far, "reverse": not self.reverse}
        return self._replace(log=log, mean=mean, variance=variance, **of)

    def finer(self, low: float, high: float) -> "Moments":
        """With more tilts from `low` to `high`."""
        more = _moments(self.releases, np.geomspace(low, high, BETWEEN + 2)[1:-1])
        return self.joined(more.reversed() if self.reverse else more)

    def joined(self, more: "Moments") -> "Moments":
        order = np.argsort(np.concatenate([self.tilts, more.tilts]))
        both = zip(self[:4], more[:4], strict=True)
        tilts, log, mean, variance = (np.concatenate(one)[order] for one in both)
        return self._replace(tilts=tilts, log=log, mean=mean, variance=variance)

    def rare(self, releases: int | None) -> bool:
        """Whether few of the releases' losses are away from their centres, in all hardly one."""
        if releases is None or releases == 1 or not self.closer:  # one has its own profile
            return False
        return self.hits < min(RARE * releases, HARDLY_ONE)

    @property
    def bulk(self) -> float:
        """About the sum of all other losses: what P has less there than Q."""
        return float(self.far[2].sum() - self.far[1].sum())

    def positive(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Tilts above 0, and what belongs to them."""
        at = int(np.searchsorted(self.tilts, 0.0, side="right"))
        return self.tilts[at:], self.log[at:], self.mean[at:], self.variance[at:]


class Look(NamedTuple):
    """An estimate of a ledger's one direction: of (Q, P) where `reverse`.

    saddle: lambda at which exp(lambda * loss) moves the mean of the composed loss to `epsilon`.
    deviation: of the composed loss under that tilt.
    tilt: the lambda to compose with.
    low, high: the window that then holds nearly all of the composed loss.
    left, right: how much less and more to tilt to bound what lies outside.
    """

    saddle: float
    epsilon: float
    deviation: float
    tilt: float
    low: float
    high: float
    left: float
    right: float
    reverse: bool = False


def moments(releases: Sequence[Coarse]) -> Moments:
    """Moments of the composed loss within the spans.

    Of very many releases those with the widest spans are looked at, and of each group of the others
    its middle one, with all their counts.
    """
    if len(releases) > SINGLE + GROUPS:
        ordered = sorted(releases, key=lambda release: release.span[0] - release.span[1])
        releases = ordered[:SINGLE]
        for group in np.array_split(np.arange(SINGLE, len(ordered)), GROUPS):
            count = sum(ordered[i].count for i in group)
            releases.append(ordered[group[group.size // 2]]._replace(count=count))
    far = [_far(one) for one in releases]
    seen = {"hits": float(sum(one[1:].sum(axis=1).max() for one in far))}
    seen |= {"far": np.concatenate(far, axis=1), "releases": releases}
    rough = _moments(releases, TILTS)._replace(**seen)
    most = np.maximum(rough.log, rough.log[::-1])[-TILTS.size :]
    deciding = 1 + np.flatnonzero((most[1:-1] > 1e-2) & (most[1:-1] < 1e3))
    if not deciding.size:
        return rough
    first, last = deciding[0], deciding[-1] + 1
    between = np.geomspace(TILTS[first], TILTS[last], FINER * (last - first) + 1)
    return rough.joined(_moments(releases, between[np.arange(between.size) % FINER > 0]))


def _far(one: Coarse) -> Floats:
    """The losses that are not within a thousandth of a release's span, as `Moments.far`."""
    near = np.abs(one.edges - one.centre) <= (one.span[1] - one.span[0]) / 1_000
    away = ~(near[1:] & near[:-1])
    losses = (one.edges[1:] + one.edges[:-1]) / 2
    return np.concatenate([losses[None], one.count * one.masses[:, 1:-1]])[:, away]


def _of_one_hit(found: Moments, delta: float) -> float:
    """The epsilon of a delta if at most one release's loss is away from its centre."""
    losses, counts = found.far[0] + found.bulk, found.far[1]

    def enough(epsilon: float) -> bool:
        return not (counts * -np.expm1(np.minimum(epsilon - losses, 0.0))).sum() > delta

    return numerics.bracket(enough)[1]


def _moments(releases: Sequence[Coarse], half: Floats) -> Moments:
    """At the tilts lambda and -1 - lambda for each lambda of one half."""
    tilts = np.concatenate([-1 - half[::-1], half])
    growth = (half * (half + 1))[:, None]  # of -1 - lambda as of lambda
    total = np.zeros((3, tilts.size))
    with np.errstate(all="ignore"):
        for release in releases:
            p, q = release.masses[:, 1:-1]
            kept = (p > 0) | (q > 0)
            if not kept.any():  # nothing finite is released
                continue
            p, q, ends = p[kept], q[kept], (release.edges[:-1][kept], release.edges[1:][kept])
            far = np.where(p > q, ends[1], ends[0])  # one of the masses has vanished there
            loss = np.where((p > 1e-290) & (q > 1e-290), np.log(p / q), far)
            log_p = np.where(p > 1e-290, np.log(p), np.log(q) + loss)
            # a cell's masses at their mean, and the spread of what is even within it
            spread = np.diff(release.edges)[kept] ** 2 / 24
            logs, wider = tilts[:, None] * loss, growth * spread
            logs += log_p
            np.log1p(wider, out=wider)
            logs[half.size :] += wider
            logs[: half.size] += wider[::-1]
            most = logs.max(axis=1, keepdims=True)
            logs -= most
            weights = np.exp(logs, out=logs)
            sums = weights.sum(axis=1)
            # unlike `@`, einsum asks for no threads, which wait for each other when others work
            mean, square = (np.einsum("tn,n->t", weights, loss**k) / sums for k in (1, 2))
            variance = np.maximum(square - mean**2, 1e-9 * mean**2)
            total += release.count * np.stack([most[:, 0] + np.log(sums), mean, variance])
    return Moments(tilts, total[0], total[1], total[2])


def for_delta(found: Moments, delta: float, releases: int | None) -> Look:
    """The look at the epsilon of a delta, by the saddle-point approximation.

    Args:
        found: moments of one direction.
        delta: in (0, 1).
        releases: how many are composed by FFT; None by a series.
    """
    tilt, log, mean, variance = found.positive()
    with np.errstate(all="ignore"):
        deltas = (
            log - tilt * mean - np.log(tilt * (tilt + 1)) - np.log(7 * variance + TINY) / 2
        )
        # where the largest loss is an atom there is no saddle, but a best moment
        epsilons = (log + _peak(tilt) - np.log(delta)) / tilt
    saddle = _crossing(tilt, deltas, np.log(delta), mean)
    if found.rare(releases) and (at := _of_one_hit(found, delta)) > NOTHING:
        return _look(*_solved(found, at), np.log(delta), releases, at)
    best = float(tilt[np.argmin(np.nan_to_num(epsilons, nan=np.inf))])
    return _look(found, min(saddle, best), np.log(delta), releases)


def for_epsilon(
    found: Moments, epsilon: float, releases: int | None, delta: float | None = None
) -> Look:
    """As `for_delta`, at an epsilon or, where that is less, the largest loss."""
    tilt, _, mean, _ = found.positive()
    saddle = _crossing(tilt, -mean, -epsilon, mean)
    if found.closer:
        found, saddle = _solved(found, epsilon)
        tilt = found.positive()[0]
    proven = _log_bounds(found, epsilon)
    if (proven < -200).any():  # delta is next to nothing, and less tilt proves it better
        saddle = min(saddle, float(tilt[np.argmax(proven < -200)]))
    # what one moment proves is somewhat too much
    below = max(float(proven.min()), -200.0) - 5.0
    log_delta = below if delta is None else float(np.log(delta))
    at = epsilon if found.rare(releases) else None
    return _look(found, saddle, log_delta, releases, at)


def log_delta_at_most(found: Moments, epsilons: ArrayLike) -> Floats:
    """log(delta), between -200 and 0, about as one moment proves it at each epsilon."""
    return np.clip(_log_bounds(found, epsilons).min(axis=-1), -200.0, 0.0)


def _log_bounds(found: Moments, epsilons: ArrayLike) -> Floats:
    """log(delta) as each positive moment, along the last axis, proves it at epsilons."""
    tilt, log, *_ = found.positive()
    with np.errstate(all="ignore"):
        bounds = log + _peak(tilt) - tilt * np.expand_dims(epsilons, -1)
    return np.nan_to_num(bounds, nan=0.0)


def _peak(tilt: Floats) -> Floats:
    """log of the largest (1 - exp(-x)) exp(-tilt x) over x > 0."""
    return -np.log1p(tilt) - tilt * np.log1p(1 / tilt)


def _crossing(tilt: Floats, falling: Floats, at: float, mean: Floats) -> float:
    """The tilt at which a falling curve takes the value `at`.

    At most the one at which the largest loss has nearly all of the mass: more only costs digits.
    """
    reached = mean >= mean[-1] - 1e-4 * abs(mean[-1])  # False where they are not numbers
    most = tilt[np.argmax(reached)] if reached.any() else tilt[-1]
    kept = np.isfinite(falling)
    tilt, falling = np.log(tilt[kept]), np.minimum.accumulate(falling[kept])
    return float(min(np.exp(np.interp(-at, -falling, tilt)), TILTS[-3], most))


def _solved(found: Moments, epsilon: float) -> tuple[Moments, float]:
    """The tilt that moves the mean to epsilon, and moments close to it."""
    for _ in range(2):
        tilt, _, mean, _ = found.positive()
        saddle = _crossing(tilt, -mean, -epsilon, mean)
        at = int(np.clip(np.searchsorted(tilt, saddle), 1, tilt.size - 1))
        found = found.finer(tilt[at - 1], tilt[at])
    return found.finer(saddle / 8, saddle), saddle


def _look(
    found: Moments,
    saddle: float,
    log_delta: float,
    releases: int | None,
    epsilon: float | None = None,
) -> Look:
    """The narrowest window, by the tilt of the saddle point or by a smaller one.

    Less tilt makes far losses rarer, but errors weigh more beside what is sought.
    """
    mean, variance = (float(np.interp(saddle, found.tilts, one)) for one in found[2:4])
    epsilon = mean if epsilon is None else epsilon
    looks, tilts = [], found.positive()[0]
    seldom = found.rare(releases)
    error = SERIES_ERROR if releases is None else FFT_ERROR * releases
    if seldom:
        error = RARE_ERROR * (1 + found.hits)
    less = saddle * 0.9 ** np.arange(1, 30) if seldom else tilts[tilts < saddle][::-3]
    for tilt in [saddle, *less]:
        log = float(np.interp(tilt, found.tilts, found.log))
        # log, in units of the tilted mass
        sought = min(log_delta - (log - tilt * epsilon), 0.0)
        if seldom or releases is None:
            sought = min(sought - float(_peak(np.array(tilt))), 0.0)
        if looks and not np.log(error) < np.log(SMALL if seldom else OUTSIDE) + sought:
            break
        bound = np.log(OUTSIDE) + sought  # of the log of what may lie outside, under the tilt
        more, less = tilt * 1.001 < found.tilts, tilt > found.tilts
        above, below = found.tilts[more] - tilt, tilt - found.tilts[less]
        with np.errstate(all="ignore"):
            high = (found.log[more] - log - bound) / above
            low = (log - found.log[less] + bound) / below
        high, low = np.nan_to_num(high, nan=np.inf), np.nan_to_num(low, nan=-np.inf)
        at_high, at_low = int(np.argmin(high)), int(np.argmax(low))
        margin = 0.02 * (high[at_high] - low[at_low])
        window = [low[at_low] - margin, high[at_high] + margin, below[at_low], above[at_high]]
        if seldom:  # where nothing happens the sum is at the bulk, which the rough look misses
            window[0] = min(window[0], found.bulk - margin)
            window[1] = max(window[1], found.bulk + margin)
            window[2] = min(window[2], 50 / margin)
        deviation = float(np.sqrt(variance)) + TINY
        values = (saddle, epsilon, deviation, tilt, *window)
        looks.append(Look(*map(float, values), reverse=found.reverse))
    return min(looks, key=lambda look: look.high - look.low)
