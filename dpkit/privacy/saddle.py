"""Where a ledger's privacy loss matters for one delta: a quick look before the exact computation.

Nothing certified depends on this: a poor look makes the certified pair wider or slower to get.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpkit.privacy.privacy_loss import Floats, PrivacyLoss

SCALES = np.geomspace(1e-9, 1e6, 700)  # of losses, 5 % apart
EDGES = np.concatenate([-SCALES[::-1], [0.0], SCALES])
SOME = np.geomspace(1e-3, 1e6, 50)
TILTS = np.concatenate([-1 - SOME[::-1], [-1.0, 0.0], SOME])  # lambda and -1 - lambda
POSITIVE = TILTS > 0
TINY = 1e-99
FFT_ERROR = 1.5e-12  # of the composed masses, for each release
OUTSIDE = 1e-5  # of what decides delta, may lie outside the window


class Coarse(NamedTuple):
    """One release seen on EDGES: cell masses (2, cells), its count and the middle of its loss."""

    masses: Floats
    count: int
    centre: float

    def span(self, tail: float) -> tuple[float, float]:
        """Losses beyond which neither P nor Q has more than `tail`."""
        inside = np.cumsum(self.masses, axis=1)[:, :-1].max(axis=0) > tail
        beyond = np.cumsum(self.masses[:, ::-1], axis=1)[:, ::-1][:, 1:].max(axis=0) > tail
        low = EDGES[max(int(np.argmax(inside)) - 1, 0)] if inside.any() else EDGES[-1]
        high = EDGES[min(int(beyond.sum()), EDGES.size - 1)]
        return float(min(low, high)), float(max(low, high))


def coarse(loss: PrivacyLoss, count: int) -> Coarse:
    """One release seen on EDGES."""
    masses = loss.masses(EDGES)
    middle = int(np.searchsorted(np.cumsum(masses[0]), 0.5))
    return Coarse(masses, count, float(EDGES[min(middle, EDGES.size - 1)]))


class Moments(NamedTuple):
    """Of the composed loss at each of TILTS: log E[exp(lambda * loss)], its two derivatives."""

    log: Floats
    mean: Floats
    variance: Floats

    def reversed(self) -> "Moments":
        """The same for the pair (Q, P): E_Q[(Q/P)^lambda] = E_P[(P/Q)^(-1 - lambda)]."""
        return Moments(self.log[::-1], -self.mean[::-1], self.variance[::-1])


class Look(NamedTuple):
    """What to expect of one direction of a ledger.

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


def moments(releases: Sequence[Coarse], tail: float) -> Moments:
    """Of the composed loss without what lies beyond `tail`, each cell split to its two ends."""
    total = np.zeros((3, TILTS.size))
    with np.errstate(all="ignore"):
        for release in releases:
            p, q = release.masses[:, 1:-1]
            share = (p - q * np.exp(EDGES[:-1])) / -np.expm1(-np.diff(EDGES))
            high = np.where(np.isfinite(share), np.clip(share, 0.0, p), p)
            mass = np.concatenate([[release.masses[0, 0]], high])
            mass[:-1] += p - high
            low, top = release.span(tail)
            kept = (mass > 0) & (low <= EDGES) & (top >= EDGES)
            loss = EDGES[kept]
            logs = np.log(mass[kept]) + TILTS[:, None] * loss
            most = logs.max(axis=1, keepdims=True)
            weights = np.exp(logs - most)
            sums = weights.sum(axis=1)
            mean = weights @ loss / sums
            variance = np.maximum(weights @ loss**2 / sums - mean**2, 1e-4 * mean**2)
            total += release.count * np.stack([most[:, 0] + np.log(sums), mean, variance])
    return Moments(*total)


def for_delta(found: Moments, delta: float, releases: int) -> Look:
    """The look at the epsilon of a delta, by the saddle-point approximation."""
    tilt = TILTS[POSITIVE]
    log, mean, variance = (one[POSITIVE] for one in found)
    with np.errstate(all="ignore"):
        log_delta = log - tilt * mean - np.log(tilt * (tilt + 1)) - np.log(7 * variance + TINY) / 2
    return _look(found, _crossing(tilt, log_delta, np.log(delta)), releases)


def for_epsilon(found: Moments, epsilon: float, releases: int) -> Look:
    """The look at an epsilon."""
    tilt = _crossing(TILTS[POSITIVE], -found.mean[POSITIVE], -epsilon)
    return _look(found, tilt, releases)._replace(epsilon=epsilon)


def _crossing(tilt: Floats, falling: Floats, at: float) -> float:
    """The tilt at which a falling curve reaches `at`."""
    kept = np.isfinite(falling)
    tilt, falling = np.log(tilt[kept]), np.minimum.accumulate(falling[kept])
    return float(np.exp(np.interp(-at, -falling, tilt)))


def _look(found: Moments, saddle: float, releases: int) -> Look:
    """The narrowest window, by the tilt of the saddle point or by a smaller one.

    Less tilt makes far losses rarer, but errors weigh more beside what is sought.
    """
    log, epsilon, variance = (float(np.interp(saddle, TILTS, one)) for one in found)
    deviation = float(np.sqrt(variance)) + TINY
    sought = -np.log1p(saddle * (saddle + 1) * deviation * 2.5)  # log of what decides delta
    room = np.log(OUTSIDE) + sought - np.log(FFT_ERROR * releases)
    looks = []
    for tilt in [saddle, *TILTS[POSITIVE & (saddle > TILTS)][::-3]]:
        at = float(np.interp(tilt, TILTS, found.log))
        weight = max((at - tilt * epsilon) - (log - saddle * epsilon), 0.0)
        if looks and not weight < room:
            break
        window = _window(found, tilt, at, np.log(OUTSIDE) + sought - weight)
        looks.append(Look(saddle, epsilon, deviation, float(tilt), *window))
    return min(looks, key=lambda look: look.high - look.low)


def _window(
    found: Moments, tilt: float, log: float, bound: float
) -> tuple[float, float, float, float]:
    """low, high, left, right of a look, outside of which lies at most exp(bound) under the tilt."""
    more, less = tilt * 1.001 < TILTS, tilt > TILTS
    with np.errstate(all="ignore"):
        high = (found.log[more] - log - bound) / (TILTS[more] - tilt)
        low = (log - found.log[less] + bound) / (tilt - TILTS[less])
    high, low = np.nan_to_num(high, nan=np.inf), np.nan_to_num(low, nan=-np.inf)
    best_high, best_low = int(np.argmin(high)), int(np.argmax(low))
    margin = 0.02 * (high[best_high] - low[best_low])
    return (
        float(low[best_low] - margin),
        float(high[best_high] + margin),
        float(tilt - TILTS[less][best_low]),
        float(TILTS[more][best_high] - tilt),
    )
