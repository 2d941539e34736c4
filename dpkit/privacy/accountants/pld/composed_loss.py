"""Grid losses composed by FFT under an exponential tilt, with a bound on every error.

The proofs are in proof.md. Tilting by exp(tilt * loss) puts the part of the composed loss that
decides delta in the middle, where rounding errors are relative to what is sought, so that a delta
of 1e-12 keeps its digits as one of 1e-3 does.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft

from dpkit.privacy.accountants.pld.loss_grid import (
    MOST_NODES,
    GridLoss,
    NoGrid,
    Real,
    Whole,
    nodes,
)
from dpkit.privacy.accountants.pld.saddle import Look
from dpkit.privacy.mechanisms import Floats
from dpkit.privacy.mechanisms.base import ROUNDING, UNIT

FLOOR = 1e-290  # below it sums have lost digits
ENOUGH = 1e-7  # of the tilted mass, outside the window, to look no further
SPARE = 32  # nodes beside the window
NEGLIGIBLE = -50.0  # log of a Fourier coefficient that is left out
SHORT = 3  # times a convolution by chirps takes as long as a real transform of its length
ROOM = 2**15  # complex numbers in an array
MOSTLY, ABOUT = 0.9, (4, 16, 64)  # of all mass; nodes about the middle that may have it
MANY = 1e4  # releases elsewhere, with which these digits are lost anyway
ENOUGH_DIGITS = 1e-15  # of all mass, may be wrong for that of the others
Complexes = NDArray[np.complex128]


class Measure(Protocol):
    """Masses on finite losses, the nodes, and of an infinite one; or m side by side."""

    @property
    def nodes(self) -> Floats: ...
    @property
    def masses(self) -> Floats: ...
    @property
    def infinite(self) -> Real: ...
    @property
    def furthest(self) -> Real: ...


class ComposedLoss(NamedTuple):
    """The sums that decide delta at epsilons between the nodes s:

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
        for near in (True, False):
            s, first, second, doubt = self._sums(near=near)
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
        for near in (True, False):
            s, first, second, doubt = self._sums(near=near)
            failing = np.flatnonzero(first - second - doubt > target)
            if failing.size:
                break
        if failing.size == 0 or (last := int(failing[-1])) == s.size - 1:
            return 0.0
        return max(
            self._between(last, target + doubt[last], s, first, second) - self.blur, 0.0
        )

    @staticmethod
    def _between(last: int, target: float, s: Floats, first: Floats, second: Floats) -> float:
        """Where delta / scale falls to the target, between a node and the next."""
        # delta / scale = first - exp(epsilon - s) second, of the node above
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (first[last + 1] - target) / second[last + 1]
        inside = s[last + 1] + np.log(ratio) if ratio > 0 else s[last]
        return float(np.clip(inside, s[last], s[last + 1]))

    def delta_above(self, epsilons: ArrayLike) -> Floats:
        """Deltas that this and its errors prove at epsilons, at most 1, of the same shape."""
        s, first, second, doubt = self._sums()
        if not s.size:
            return np.ones(np.shape(epsilons))
        at = np.asarray(epsilons) - self.blur
        above = np.searchsorted(s, at)
        beyond = (above == s.size) | ((above == 0) & bool(s[0] > self.losses[0]))
        above = np.minimum(above, s.size - 1)
        more = np.where(
            above > 0, doubt[above - 1], doubt[0] * np.exp(self.tilt * (s[0] - at))
        )
        found = first[above] - np.exp(at - s[above]) * second[above] + more
        beyond |= ~(found > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_delta = np.minimum(np.log(found) + self.log_scale + self.factor, 0.0)
        return np.where(beyond, 1.0, np.minimum(np.exp(log_delta) + self.infinite, 1.0))

    def _sums(self, *, near: bool = False) -> tuple[Floats, Floats, Floats, Floats]:
        """The nodes s; sums from each one on, of weights without and with exp(-s).

        Near: of the nodes from a little below where epsilon is expected on, which are likely to do.
        The second is relative to the node it starts at. The last is the doubt: how far errors can
        move delta / scale at epsilons from the node on.
        """
        start = int(np.searchsorted(self.losses, self.around - 300 / self.tilt))
        if near:
            step = max(self.losses.size // 16, 1)
            start = max(start, int(np.searchsorted(self.losses, self.around)) - step)
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
        kept = untilted > FLOOR  # beyond, terms that matter may have vanished
        return s[kept], first[kept], second[kept], doubt[kept]


def _discounted(weights: Floats, spacing: float) -> Floats:
    """The sum over j >= k of weights_j exp(-(j - k) spacing), for each k, in rows (proof.md, E)."""
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


def chernoff_delta(parts: Parts, tilt: float, epsilons: ArrayLike) -> Floats:
    """Deltas that one moment proves at epsilons, at most 1."""
    found = np.exp(np.minimum(_log_bound(parts, tilt) - tilt * np.asarray(epsilons), 0.0))
    found = found + infinite_mass(parts)
    return np.where(found <= 1, found, 1.0)


def _log_bound(parts: Parts, tilt: float) -> float:
    """log of E[exp(tilt * loss)] times the largest (1 - exp(-x)) exp(-tilt x), errors included."""
    slack = _total((n, ROUNDING + 20 * UNIT * tilt * part.furthest) for part, n in parts)
    return log_moment(parts, tilt) + slack - tilt * np.log1p(1 / tilt) - np.log1p(tilt)


def infinite_mass(parts: Parts) -> float:
    """The probability, at most, that some release has an infinite loss."""
    none = _total((n, np.log1p(-np.minimum(part.infinite, 1.0))) for part, n in parts)
    return float(-np.expm1(none) * (1 + 8 * UNIT))


def compose(parts: Grids, look: Look, blur: float = 0.0) -> ComposedLoss:
    """The composition of grid losses of one spacing, each taken `count` times.

    blur: how far, in all, edges are off beside what their sizes say (`PrivacyLoss`).
    """
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
    factor += power.factor
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
        20 * UNIT * furthest + blur,
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


# The L2 norm of rows; along an axis it asks for no threads, which wait for each other.
_norm = partial(np.linalg.norm, axis=-1, keepdims=True)


def _fft_error(length: int) -> float:
    """The largest error of a transform of a 5-smooth length, over the 2-norm (proof.md, D)."""
    error = 0.0
    for prime, one in ((2, 4.72), (3, 12.5), (5, 19.7)):
        while length % prime == 0:
            length, error = length // prime, error + one * UNIT
    if length > 1:
        raise ValueError("only transforms of 5-smooth lengths have a bound on their rounding")
    return error


def _bits(length: int) -> int:
    """The least exponent of a power of 2 that is at least `length`."""
    return (length - 1).bit_length()


def log_1_plus(z: Complexes) -> tuple[Complexes, Floats]:
    """log(1 + z), and a bound on its rounding error, which is small where z is."""
    x, y = z.real, z.imag
    small = np.abs(z) <= 0.5
    size = np.where(small, np.log1p(x * (2 + x) + y * y) / 2, np.log(np.abs(1 + z)))
    angle = np.angle(1 + z).astype(float)
    return size.astype(float) + 1j * angle, UNIT * np.where(small, 32 * np.abs(z), 16.0)


def _near(weights: Floats, middle: int, nodes: int = 4) -> Floats:
    return weights[max(middle - nodes, 0) : middle + nodes + 1]


class Power:
    """A product of powers of Fourier transforms, with a bound on its error (proof.md, D)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rounding = _fft_error(size)
        self.alive = np.arange(size // 2 + 1)  # coefficients that are not negligible
        self.log_size = np.zeros(self.alive.size)
        self.log_worst = np.zeros(self.alive.size)  # the same with every error added
        self.log_more = np.zeros(self.alive.size)  # by coefficients' own errors alone
        self.phase = np.zeros(self.alive.size)
        self.drift = np.zeros(self.alive.size)  # what rounding may have moved both by
        self.chirps = np.zeros(0, dtype=complex)
        self.apart = 0.0  # bound on the 2-norm of what the transforms' errors move all by
        self.largest = 0.0  # bound on the log of what all errors may multiply
        self.dropped = 0.0  # bound on each coefficient that was left out
        self.factor = 0.0  # relative error of all masses
        self.start = 0

    def multiply(self, first: Whole, weights: Floats, count: Real) -> None:
        """Multiply by transforms of weights at indices first, first + 1, ... to the power count.

        weights: (n,), or (m, n) with first (m, 1) and count (m,).
        """
        weights, counts = np.atleast_2d(weights), np.ravel(count).tolist()
        middles = np.argmax(
            np.cumsum(weights, axis=1) >= 0.5, axis=1
        )  # phases near it stay small
        mostly = [
            bool(_near(row, middle).sum() >= MOSTLY)
            for row, middle in zip(weights, middles.tolist(), strict=True)
        ]
        start, rows = 0, weights.shape[0]
        while start < rows:
            lowest, about = int(self.alive.max(initial=0)) + 1, mostly[start]
            near = weights.shape[1] + lowest
            few = not about and SHORT * near < self.size
            end = start + 1
            while few and end < min(start + ROOM // near, rows) and not mostly[end]:
                end += 1
            some, apart = slice(start, end), 0.0
            if few:
                found, single = self._lowest(weights[some], middles[some], lowest)
                found = found[:, self.alive]
            elif about:
                found, single, apart = self._about(
                    weights[start], int(middles[start]), counts[start]
                )
                self.factor += counts[start] * 64 * UNIT / weights[start, middles[start]]
            else:
                found, single, apart = self._whole(weights[start], int(middles[start]))
            size = np.abs(1 + found if about else found)
            worst = self.log_worst + sum(
                n * logs
                for n, logs in zip(counts[some], np.log(size + single + apart), strict=True)
            )
            self.apart += counts[start] * apart
            self.largest += float(np.dot(counts[some], single.max(axis=1) + apart + 64 * UNIT))
            kept = ~(worst <= NEGLIGIBLE)  # what is not a number stays, and spoils the result
            if not kept.all():
                self.dropped = max(self.dropped, float(np.exp(worst[~kept].max())))
                found, size = found[:, kept], size[:, kept]
                single = single[:, kept] if single.shape[1] > 1 else single
            self.alive, self.log_worst = self.alive[kept], worst[kept]
            self.log_size, self.phase, self.drift, self.log_more = (
                one[kept] for one in (self.log_size, self.phase, self.drift, self.log_more)
            )
            with np.errstate(divide="ignore"):
                if about:
                    logs, rounding = log_1_plus(found)
                else:
                    logs, rounding = np.log(size) + 1j * np.angle(found), 8 * UNIT
                more = np.log1p(single / size)
            for n, log, added in zip(counts[some], logs, more, strict=True):
                self.log_size += n * log.real
                self.phase += n * log.imag
                self.log_more += n * added
                self.drift += UNIT * (np.abs(self.phase) + np.abs(self.log_size))
                self.drift += n * np.ravel(rounding)
            start = end
        for n, at in zip(counts, (np.ravel(first) + middles).tolist(), strict=True):
            self.start += int(n) * at

    def _whole(self, weights: Floats, middle: int) -> tuple[Complexes, Floats, float]:
        """All living coefficients about the middle (1, n), errors (1, 1), and their 2-norm."""
        shift = -middle % self.size
        padded = np.zeros(-(-(shift + weights.size) // self.size) * self.size)
        padded[shift : shift + weights.size] = weights
        folded = padded.reshape(-1, self.size).sum(axis=0)
        found = np.asarray(fft.rfft(folded))[None]
        if self.alive.size < found.shape[1]:
            found = found[:, self.alive]
        single = UNIT * (1 + weights.size / self.size) * weights.sum(keepdims=True)
        return (
            found,
            single[None],
            self.rounding * np.sqrt(self.size) * float(_norm(folded)[0]),
        )

    def _about(
        self, weights: Floats, middle: int, count: float
    ) -> tuple[Complexes, Floats, float]:
        """As `_whole`, but coefficients less 1, of a loss that is hardly ever off its middle.

        They are sums of w_k (exp(-i k angle) - 1): near the middle term by term, which keeps their
        digits; by a transform elsewhere, whose error is that of the little that is elsewhere.
        """
        for nodes_near in ABOUT:
            rest = weights.copy()
            _near(rest, middle, nodes_near)[:] = 0.0
            wrong = count * self.rounding * np.sqrt(self.size) * float(_norm(rest)[0])
            if wrong < ENOUGH_DIGITS or count * rest.sum() > MANY:
                break
        z, error, apart = self._whole(rest, middle)
        z, error = z - rest.sum(), error + (64 + 2 * nodes_near) * UNIT * rest.sum()
        j = np.arange(2 * self.size)
        sines = np.sin(np.pi * np.minimum(j % self.size, -j % self.size) / self.size)
        sines[self.size :] *= -1  # of pi j / size
        for k in range(nodes_near, 0, -1):  # small terms first
            before = weights[middle - k] if k <= middle else 0.0
            after = weights[middle + k] if middle + k < weights.size else 0.0
            turn = k * self.alive % (2 * self.size)
            half, whole = np.abs(sines[turn]), sines[2 * turn % (2 * self.size)]
            z -= 2 * (after + before) * half**2 + 1j * (after - before) * whole
            error = error + (20 + 2 * k) * UNIT * (after + before) * half * (1 + half)
        return z, error, apart

    def _lowest(
        self, weights: Floats, middles: NDArray[np.int64], count: int
    ) -> tuple[Complexes, Floats]:
        """The first `count` coefficients (m, count) by chirps (proof.md, D), and errors (m, 1)."""
        before, after = int(middles.max()), weights.shape[1] - int(middles.min())
        least = before + count + after
        length = min(2 ** _bits(least), 3 * 2 ** _bits(-(-least // 3)))  # that round least
        places = (np.arange(weights.shape[1]) - middles[:, None]) % length
        padded = np.zeros((weights.shape[0], length))
        padded[np.arange(weights.shape[0])[:, None], places] = weights
        filtered = np.asarray(fft.fft(np.conj(self._chirp(length, before + count))))
        product = np.asarray(fft.fft(padded * self._chirp(length, after))) * filtered
        found = np.asarray(fft.ifft(product))[:, :count] * self._chirp(length, length)[:count]
        rounding = _fft_error(length)
        error = (
            2 * (rounding + 20 * UNIT) * np.sqrt(length) + rounding * np.abs(filtered).max()
        )
        return found, error * _norm(weights) + 20 * UNIT

    def _chirp(self, length: int, positive: int) -> Complexes:
        """exp(-i pi k^2 / size) for k = 0, ..., positive - 1 and then negative k up to -1."""
        if self.chirps.size < length:
            k = np.arange(length)
            turn = k * k % (2 * self.size)
            angle = np.pi * (turn - 2 * self.size * (turn > self.size)) / self.size
            self.chirps = np.cos(angle) - 1j * np.sin(angle)
        return np.concatenate(
            [self.chirps[:positive], self.chirps[length - positive : 0 : -1]]
        )

    def result(self, first: int) -> tuple[Floats, float]:
        """The weights at first, first + 1, ..., and a bound on the sum of their errors."""
        product = np.zeros(self.size // 2 + 1, dtype=complex)
        product[self.alive] = np.exp(self.log_size + 1j * self.phase)
        at_middle, less_1 = 0.0, np.expm1(self.log_size + 1j * self.phase)
        if less_1.size == product.size and _norm(np.abs(less_1)) < _norm(np.abs(product)):
            at_middle, product = 1.0, less_1  # little is elsewhere, and keeps its digits
        found = np.asarray(fft.irfft(product, self.size))
        found[0] += at_middle
        weights = np.roll(found, -((first - self.start) % self.size))
        wrong = -np.expm1(-self.log_more)
        wrong += 2 * self.drift + 8 * UNIT * (np.abs(self.phase) + np.abs(self.log_size))
        wrong *= np.exp(self.log_worst)
        error = np.sqrt(2) * _norm(wrong) + np.sqrt(self.size) * self.dropped
        error += self.apart * np.exp(self.largest + float(self.drift.max(initial=0.0)))
        error += (self.rounding + 4 * UNIT) * np.sqrt(2) * _norm(np.abs(product))
        return weights, float(error[0])
