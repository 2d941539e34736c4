"""Grid losses composed by FFT under an exponential tilt, with a bound on every error.

The proofs are in proof.md. Tilting by exp(tilt * loss) puts the part of the composed loss that
decides delta in the middle, where rounding errors are relative to what is sought, so that a delta
of 1e-12 keeps its digits as one of 1e-3 does.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy import fft

from dpkit.privacy.accountants.pld.loss_grid import MOST_NODES, GridLoss, NoGrid, Real, nodes
from dpkit.privacy.accountants.pld.powers import Power
from dpkit.privacy.accountants.pld.saddle import Look
from dpkit.privacy.mechanisms.base import ROUNDING, UNIT, Floats

FLOOR = 1e-290  # below it sums have lost digits
ENOUGH = 1e-7  # of the tilted mass, outside the window, to look no further
SPARE = 32  # nodes beside the window


class Measure(Protocol):
    """Masses on finite losses, the nodes, and the mass of an infinite one; or m side by side."""

    @property
    def nodes(self) -> Floats: ...
    @property
    def masses(self) -> Floats: ...
    @property
    def infinite(self) -> Real: ...
    @property
    def furthest(self) -> Real: ...


class ComposedLoss(NamedTuple):
    """What decides delta at epsilons between the nodes s:

        scale * sum of weights * exp(-tilt * (s - around)) * (1 - exp(epsilon - s)) over s > epsilon

    losses, weights: (n,) the nodes and the tilted masses on them.
    error: bound on the sum of what is wrong in the weights or lies outside the window.
    infinite: probability of an infinite loss.
    factor: relative error of the scale. blur: error of the nodes.
    """

    losses: Floats
    weights: Floats
    spacing: float
    tilt: float
    around: float
    log_scale: float
    error: float
    infinite: float
    factor: float
    blur: float

    def epsilon_above(self, delta: float) -> float:
        """The least epsilon that this and its errors prove at delta; inf where they do not."""
        target = delta * np.exp(-self.factor) - self.infinite
        if not target > 0:
            return float("inf")
        with np.errstate(over="ignore"):
            target = np.exp(np.log(target) - self.log_scale)
        if not target > FLOOR:  # the look is far from what decides
            return float("inf")
        for start in (self._near(), 0):
            s, first, second, doubt = self._sums(start)
            failing = ~(first - second + doubt <= target)
            if s.size == 0 or failing[-1]:
                return float("inf")
            if failing.any():
                break
        else:
            return float(s[0] + self.blur)
        last = int(np.flatnonzero(failing)[-1])
        return self._between(last, target - doubt[last], s, first, second) + self.blur

    def epsilon_below(self, delta: float) -> float:
        """The largest epsilon that this and its errors refute at delta, at least 0."""
        with np.errstate(over="ignore"):
            target = np.exp(np.log(delta) + self.factor - self.log_scale)
        for start in (self._near(), 0):
            s, first, second, doubt = self._sums(start)
            failing = np.flatnonzero(first - second - doubt > target)
            if failing.size:
                break
        if failing.size == 0 or (last := int(failing[-1])) == s.size - 1:
            return 0.0
        return max(self._between(last, target + doubt[last], s, first, second) - self.blur, 0.0)

    @staticmethod
    def _between(last: int, target: float, s: Floats, first: Floats, second: Floats) -> float:
        """Where delta / scale falls to the target, between a node and the next."""
        # delta / scale = first - exp(epsilon - s) second, of the node above
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (first[last + 1] - target) / second[last + 1]
        inside = s[last + 1] + np.log(ratio) if ratio > 0 else s[last]
        return float(np.clip(inside, s[last], s[last + 1]))

    def delta_above(self, epsilon: float) -> float:
        """A delta that this and its errors prove at epsilon, at most 1."""
        s, first, second, doubt = self._sums()
        at = epsilon - self.blur
        above = int(np.searchsorted(s, at))
        if above == s.size or (above == 0 and s[0] > self.losses[0]):
            return 1.0
        more = doubt[above - 1] if above else doubt[0] * np.exp(self.tilt * (s[0] - at))
        found = first[above] - np.exp(at - s[above]) * second[above] + more
        if not found > 0:
            return 1.0
        log_delta = min(np.log(found) + self.log_scale + self.factor, 0.0)
        return float(min(np.exp(log_delta) + self.infinite, 1.0))

    def _near(self) -> int:
        """A node a little below where epsilon is expected: none before it is likely to matter."""
        step = max(self.losses.size // 16, 1)
        return max(int(np.searchsorted(self.losses, self.around)) - step, 0)

    def _sums(self, start: int = 0) -> tuple[Floats, Floats, Floats, Floats]:
        """The nodes s from `start`; sums from each one on, of weights without and with exp(-s).

        The second is relative to the node it starts at. The last is the doubt: how far errors can
        move delta / scale at epsilons from the node on.
        """
        start = max(start, int(np.searchsorted(self.losses, self.around - 300 / self.tilt)))
        s = self.losses[start:]
        untilted = np.exp(-self.tilt * (s - self.around))
        weights = self.weights[start:] * untilted
        # exp(-tilt x) (1 - exp(-x)) is largest where exp(-x) = tilt / (1 + tilt)
        peak = np.exp(-self.tilt * np.log1p(1 / self.tilt)) / (1 + self.tilt)
        first = np.cumsum(weights[::-1])[::-1]
        with np.errstate(invalid="ignore"):  # a doubt that is not a number proves nothing
            sizes = np.cumsum(np.abs(weights)[::-1])[::-1]
            doubt = self.error * peak * untilted + 4 * UNIT * (s.size + 128) * sizes
        second = _discounted(weights, self.spacing)
        near = untilted > FLOOR  # beyond, terms that matter may have vanished
        return s[near], first[near], second[near], doubt[near]


def _discounted(weights: Floats, spacing: float) -> Floats:
    """The sum over j >= k of weights_j exp(-(j - k) spacing), for each k.

    In rows over which the exponential falls to exp(-200) at least, and what is beyond the next row
    is left out.
    """
    columns = max(min(int(200 / spacing) + 1, weights.size), 1)
    rows = -(-weights.size // columns)
    padded = np.zeros((rows, columns))
    padded.ravel()[: weights.size] = weights
    falling = np.exp(-spacing * np.arange(columns + 1))
    found = np.cumsum((padded * falling[:-1])[:, ::-1], axis=1)[:, ::-1] / falling[:-1]
    found[:-1] += found[1:, :1] * falling[:0:-1]
    return found.ravel()[: weights.size]


Grids = Sequence[tuple[GridLoss, Real]]  # with how often each is taken: a number, or (m,)
Parts = Sequence[tuple[Measure, Real]]


def log_moment(parts: Parts, tilt: float) -> float:
    """log E[exp(tilt * loss)] of the composition, infinite losses apart."""
    return _total((count, tilted(part.masses, part.nodes, tilt)[1]) for part, count in parts)


def _total(terms: Iterable[tuple[Real, Real]]) -> float:
    """The sum of counts times values, of single releases and of blocks of them."""
    return float(sum((np.float64(count) * value).sum() for count, value in terms))


def chernoff_epsilon(parts: Parts, tilt: float, delta: float) -> float:
    """An epsilon that one moment proves at delta (Balle et al. 2020, Thm 21, order tilt + 1)."""
    left = delta - infinite_mass(parts)
    if not left > 0:
        return float("inf")
    found = float((_log_bound(parts, tilt) - np.log(left)) / tilt)
    return found if np.isfinite(found) else float("inf")


def chernoff_delta(parts: Parts, tilt: float, epsilon: float) -> float:
    """A delta that one moment proves at epsilon, at most 1."""
    found = float(np.exp(min(_log_bound(parts, tilt) - tilt * epsilon, 0.0)) + infinite_mass(parts))
    return found if found <= 1 else 1.0


def _log_bound(parts: Parts, tilt: float) -> float:
    """log of E[exp(tilt * loss)] times the largest (1 - exp(-x)) exp(-tilt x), errors included."""
    slack = _total((n, ROUNDING + 4 * UNIT * tilt * part.furthest) for part, n in parts)
    return log_moment(parts, tilt) + slack - tilt * np.log1p(1 / tilt) - np.log1p(tilt)


def infinite_mass(parts: Parts) -> float:
    """The probability, at most, that some release has an infinite loss."""
    return _total((count, part.infinite) for part, count in parts)


def compose(parts: Grids, look: Look) -> ComposedLoss:
    """The composition of grid losses of one spacing, each taken `count` times."""
    spacing = parts[0][0].spacing
    room = MOST_NODES / 2 * spacing  # a window cut short proves less, and takes no longer
    if not np.isfinite([look.low, look.high, look.epsilon]).all():
        raise NoGrid(f"the window from {look.low} to {look.high} has no end")
    low = max(look.low, look.epsilon - room)
    span = min(look.high, look.epsilon + room) - low
    wanted = max(int(np.ceil(span / spacing)), 0) + SPARE  # `outside` bounds the rest
    size = int(fft.next_fast_len(wanted, real=True))  # type: ignore[arg-type]
    power = Power(size)
    log_mass = 0.0
    for part, count in parts:
        weights, log_sum = tilted(part.masses, part.nodes, look.tilt)
        log_mass += _total([(count, log_sum)])
        power.multiply(part.first, weights, count)
    offset = _total((n, np.ravel(part.offset)) for part, n in parts)
    furthest = _total((n, part.furthest) for part, n in parts)
    factor = ROUNDING * _total((n, 1.0) for _, n in parts) + 4 * UNIT * look.tilt * furthest
    first = int(np.ceil((low - offset) / spacing)) - SPARE // 2
    weights, error = power.result(first)
    losses = nodes(first, size, spacing, offset)
    beyond = outside(parts, look, log_mass, losses[-1], look.right)
    beyond += outside(parts, look, log_mass, losses[0], -look.left)
    log_scale = log_mass - look.tilt * look.epsilon
    return ComposedLoss(
        losses,
        weights,
        spacing,
        look.tilt,
        look.epsilon,
        log_scale,
        error + beyond,
        infinite_mass(parts),
        factor,
        20 * UNIT * furthest,
    )


def outside(parts: Parts, look: Look, log_mass: float, edge: float, change: float) -> float:
    """A bound on the tilted mass beyond an edge (Chernoff), by changing the tilt."""
    best = np.inf
    for part in (1, 4, 16, 64):  # the look is rough: less change may prove more
        moment = log_moment(parts, look.tilt + change / part) - log_mass
        moment += 64 * UNIT * _total((n, 1.0) for _, n in parts)  # of both, by rounding
        with np.errstate(over="ignore"):
            best = min(best, float(np.exp(moment - change / part * edge)))
        if best < ENOUGH:
            break
    return best


def tilted(masses: Floats, nodes: Floats, tilt: float) -> tuple[Floats, Real]:
    """masses * exp(tilt * nodes) with sum 1 along the last axis, and the log of the divisor."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        logs = np.where(masses > 0, tilt * nodes, -np.inf)
        top = logs.max(axis=-1, keepdims=True)
        weights = masses * np.exp(logs - top)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / total, (np.log(total) + top)[..., 0]
