"""Where a ledger's privacy loss matters for one delta: a quick look before the exact computation.

Nothing certified depends on this: a poor look makes the certified pair wider or slower to get.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpkit.privacy.privacy_loss import Floats, PrivacyLoss

SCALES = np.geomspace(1e-9, 1e6, 1000)  # of losses, 3.5 % apart
EDGES = np.concatenate([-SCALES[::-1], [0.0], SCALES])
SOME = np.geomspace(1e-3, 1e6, 70)
TILTS = np.concatenate([-SOME[::-1], [0.0], SOME])
OUTSIDE = 1e-6  # of what decides delta, may lie outside the window


class Coarse(NamedTuple):
    """One release seen on EDGES: cell masses (2, cells), its count and the middle of its loss."""

    masses: Floats
    count: int
    centre: float

    def reversed(self) -> "Coarse":
        """The same for the pair (Q, P)."""
        return Coarse(self.masses[::-1, ::-1], self.count, -self.centre)

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


class Look(NamedTuple):
    """What to expect of one direction of a ledger.

    tilt: lambda at which exp(lambda * loss) moves the mean of the composed loss to `epsilon`.
    deviation: of the composed loss under that tilt.
    low, high: the window that holds nearly all of it.
    left, right: how much less and more to tilt to bound what lies outside.
    """

    tilt: float
    epsilon: float
    deviation: float
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


def for_delta(found: Moments, delta: float) -> Look:
    """The look at the epsilon of a delta, by the saddle-point approximation."""
    positive = TILTS > 0
    tilt, log, mean, variance = TILTS[positive], *(one[positive] for one in found)
    with np.errstate(all="ignore"):
        log_delta = log - tilt * mean - np.log(tilt * (tilt + 1)) - 0.5 * np.log(7 * variance + 1e-99)
    return _look(found, _crossing(tilt, log_delta, np.log(delta)))


def for_epsilon(found: Moments, epsilon: float) -> Look:
    """The look at an epsilon."""
    positive = TILTS > 0
    return _look(found, _crossing(TILTS[positive], -found.mean[positive], -epsilon))


def _crossing(tilt: Floats, falling: Floats, at: float) -> float:
    """The tilt at which a falling curve reaches `at`."""
    kept = np.isfinite(falling)
    tilt, falling = np.log(tilt[kept]), np.minimum.accumulate(falling[kept])
    return float(np.exp(np.interp(-at, -falling, tilt)))


def _look(found: Moments, tilt: float) -> Look:
    log, mean, variance = (np.interp(tilt, TILTS, one) for one in found)
    deviation = float(np.sqrt(variance)) + 1e-300
    bound = np.log(OUTSIDE) - np.log1p(tilt * (tilt + 1) * deviation * 2.5)  # negative
    more, less = tilt * 1.001 < TILTS, tilt > TILTS
    with np.errstate(all="ignore"):
        high = (found.log[more] - log - bound) / (TILTS[more] - tilt)
        low = (log - found.log[less] + bound) / (tilt - TILTS[less])
    high, low = np.nan_to_num(high, nan=np.inf), np.nan_to_num(low, nan=-np.inf)
    best_high, best_low = int(np.argmin(high)), int(np.argmax(low))
    margin = 0.02 * (high[best_high] - low[best_low])
    return Look(
        tilt,
        float(mean),
        deviation,
        float(low[best_low] - margin),
        float(high[best_high] + margin),
        float(tilt - TILTS[less][best_low]),
        float(TILTS[more][best_high] - tilt),
    )
