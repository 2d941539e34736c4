"""Pairs (lower, upper) for runs of very many releases, whose losses no even grid can hold.

A privacy loss becomes a few thousand atoms, dense where most of it lies and ever wider apart: once
above it and once below it, as `loss_grid` does on even grids (proof.md, I).

Atoms are composed by the few Fourier coefficients that a large power leaves, those of the low
frequencies. So atoms may be as close, and the window as wide, as the losses ask for. Coefficients
are computed as 1 + sum of w (exp(i angle) - 1): a power of 10^7 needs its digits.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpkit.privacy.accountants.pld import saddle
from dpkit.privacy.accountants.pld.composed_loss import (
    Parts,
    chernoff_epsilon,
    infinite_mass,
    log_1_plus,
    outside,
    tilted,
)
from dpkit.privacy.accountants.pld.loss_grid import NoGrid
from dpkit.privacy.accountants.pld.saddle import Look, Moments, Seen
from dpkit.privacy.mechanisms import Floats, PrivacyLoss
from dpkit.privacy.mechanisms.base import LEAST_MASS, ROUNDING, UNIT, rounding

WIDENING = 100  # a node's distance from the centre, in distances to the next: at most
FURTHEST = 1e18  # in distances near the centre
Complexes = NDArray[np.complex128]
Integers = NDArray[np.int64]

MOST, LAST = 2**24, 2**16  # atoms times frequencies; frequencies
GONE = 50.0  # minus the log of a coefficient that is left out, at least
TERMS = 18  # of the exponential series, for angles up to 1
PLACES = 2**40  # of the window, to which losses are rounded
UNIFORMS, SMOOTHED = 12, 1e-16  # variables that smooth the losses, and what they leave
PAIRED = 8  # releases whose coefficients are bounded at high frequencies
ROUNDS, TRIED = 6, 32  # of the search for epsilon, and how many it tries at once
MOST_MECHANISMS = 8  # different ones
ATTEMPTS = 6
FINER = 3.0


class Atoms(NamedTuple):
    """Masses at finite losses, the nodes, increasing; and the mass of an infinite loss."""

    nodes: Floats
    masses: Floats
    infinite: float

    @property
    def furthest(self) -> float:
        """The largest size of a finite loss."""
        return float(max(abs(self.nodes[0]), abs(self.nodes[-1])))


class WideCells(NamedTuple):
    """Masses between nodes; p, q: (nodes + 1,), the first and last are outside."""

    nodes: Floats
    p: Floats
    q: Floats

    def reversed(self) -> "WideCells":
        """The same for the pair (Q, P), whose loss has the opposite sign."""
        return WideCells(-self.nodes[::-1], self.q[::-1], self.p[::-1])


WIDER = WIDENING * (1 + 1 / WIDENING) ** np.arange(WIDENING * np.log(FURTHEST / WIDENING))
DISTANCES = np.concatenate([np.arange(WIDENING, dtype=float), WIDER])


def wide_cells(
    loss: PrivacyLoss, spacing: float, span: tuple[float, float], centre: float
) -> WideCells:
    """Cells that cover the span, `spacing` wide at the centre.

    Raises:
        NoGrid: the span is too wide for that, or something is not a number.
    """
    if not (spacing > 0 and np.isfinite([spacing, *span, centre]).all()):
        raise NoGrid(
            f"no nodes lie {spacing} apart around {centre}, from {span[0]} to {span[1]}"
        )
    parts = [
        DISTANCES[: np.searchsorted(DISTANCES, far / spacing) + 2] * spacing
        for far in (max(centre - span[0], 0.0), max(span[1] - centre, 0.0))
    ]
    if not max(part[-1] for part in parts) < FURTHEST * spacing / 2:
        raise NoGrid(
            f"nodes that are {spacing} apart do not reach from {span[0]} to {span[1]}"
        )
    nodes = centre + np.concatenate([-parts[0][:0:-1], parts[1]])
    p, q = loss.masses(nodes)
    heavy = np.flatnonzero(np.maximum(p, q)[1:-1] > LEAST_MASS)
    first, last = (int(heavy[0]), int(heavy[-1])) if heavy.size else (0, nodes.size - 2)
    p, q = (
        np.concatenate(
            [[m[: first + 1].sum()], m[first + 1 : last + 2], [m[last + 2 :].sum()]]
        )
        for m in (p, q)
    )
    return WideCells(nodes[first : last + 2], p, q)


def upper(cells: WideCells) -> Atoms:
    """Each cell's mass on its two ends, p and q kept; the ends outside rounded up.

    Raises:
        NoGrid: rounding errors are larger than what a cell has room for.
    """
    p, above, _ = _excess(cells)
    t, (errors, _, least) = np.exp(cells.nodes), _errors(cells)
    errors = np.maximum(
        errors - ROUNDING / 2 * least, 0.0
    )  # the rest is in the factor of delta
    needed = np.maximum.accumulate(errors[::-1])[::-1]
    above = above + t[:-1] * (needed[:-1] - needed[1:]) + 8 * UNIT * p
    # p_high + p_low = p,  p_high e^-b + p_low e^-a = q  at the ends a < b
    share = above / (p * -np.expm1(-np.diff(cells.nodes)))
    if not ((share >= 0) & (share <= 1)).all():
        raise NoGrid("cells are too narrow for their rounding errors")
    masses = np.append(cells.p[:1], share * p)
    masses[:-1] += (1 - share) * p
    beyond = float(cells.p[-1] * (1 + ROUNDING) + t[-1] * needed[-1]) + LEAST_MASS
    return Atoms(cells.nodes, masses, beyond)


def lower(cells: WideCells) -> Atoms:
    """Each cell as one output, its loss lowered by rounding errors; the ends are dropped.

    Raises:
        NoGrid: rounding errors are larger than a cell's width.
    """
    p, above, below = _excess(cells)
    lowered = 2.2 * np.maximum.accumulate(_errors(cells)[1]) + 4 * UNIT
    q = cells.q[1:-1]
    losses = np.log1p((p - q) / q) - lowered[:-1]
    apart = np.append(np.diff(losses), cells.nodes[-1] - losses[-1] - 4 * lowered[-1])
    if not ((np.minimum(above, below) > 4 * UNIT * p).all() and (apart > 0).all()):
        raise NoGrid("cells are too narrow for their rounding errors")
    return Atoms(losses, p, 0.0)


def _excess(cells: WideCells) -> tuple[Floats, Floats, Floats]:
    """Each inner cell's p, p - q e^(lower end) and q e^(upper end) - p."""
    p, q = cells.p[1:-1], cells.q[1:-1]
    if not (p.size and (np.minimum(p, q) > LEAST_MASS).all()):
        raise NoGrid("a cell has lost the digits of its mass")
    t = np.exp(cells.nodes)
    return p, p - q * t[:-1], q * t[1:] - p


def _errors(cells: WideCells) -> tuple[Floats, Floats, Floats]:
    """Rounding errors of the masses beyond each node: of p e^-node + q; and the relative.

    The last is delta e^-node, at least, delta being the hockey stick at the node.
    """
    errors, relative, least = np.zeros((3, cells.nodes.size))
    for masses, scale, sign in ((cells.p, np.exp(-cells.nodes), 1), (cells.q, 1.0, -1)):
        beyond, up_to = np.cumsum(masses[:0:-1])[::-1], np.cumsum(masses[:-1])
        nearer = np.minimum(beyond, up_to)
        found = rounding(nearer) * nearer + 8 * UNIT * beyond
        errors += scale * found
        least += scale * (sign - 64 * UNIT) * beyond
        relative = np.maximum(relative, found / np.maximum(beyond, LEAST_MASS))
    return errors, relative, np.maximum(least, 0.0)


class Series(NamedTuple):
    """A composed loss under a tilt, by the coefficients of the frequencies 2 pi k / width.

    coefficients: (k,) of the tilted mass, which is 1, on the window from `start` to start + width.
    wrong: (k,) bounds on their errors. left_out: on what the others add to a delta in these units.
    outside: the tilted mass beyond the window, at most.
    """

    coefficients: Complexes
    wrong: Floats
    left_out: float
    outside: float
    start: float
    width: float
    tilt: float
    log_mass: float
    infinite: float
    factor: float
    blur: float

    def epsilon_above(self, delta: float) -> float:
        """The least epsilon >= 0 in the window that this and its errors prove at delta, or inf."""
        found = self._search(lambda places: self._deltas(places, +1) <= delta, np.argmax)
        return max(found[1] + self.blur, 0.0)

    def epsilon_below(self, delta: float) -> float:
        """The largest epsilon in the window that this and its errors refute at delta, or 0."""
        found = self._search(
            lambda places: ~(self._deltas(places, -1) > delta),
            lambda good: good.size - int(np.argmin(np.append(good[::-1], False))),
        )
        return max(found[0] - self.blur, 0.0)

    def delta_above(self, epsilon: float) -> float:
        """A delta that this and its errors prove at epsilon, at most 1."""
        place = int(np.floor((epsilon - self.blur - self.start) / self.width * PLACES))
        return float(self._deltas(np.array([place]), +1)[0]) if 0 <= place < PLACES else 1.0

    def _search(
        self,
        holds: Callable[[Integers], NDArray[np.bool_]],
        start: Callable[[NDArray[np.bool_]], Any],
    ) -> tuple[float, float]:
        """Neighbouring epsilons: at the first it does not hold, at the second it does.

        `start` tells where of many it begins to hold: where it first does, or for good. The first
        epsilon is 0, the second inf, where there is none in the window.
        """
        low = int(np.clip(np.ceil(-self.start / self.width * PLACES), 0, PLACES - 1))
        high, found = PLACES - 1, (0.0, float("inf"))
        for _ in range(ROUNDS):
            tried = np.unique(np.linspace(low, high, TRIED).astype(np.int64))
            good = holds(tried)
            at = int(start(good))
            epsilons = self.start + tried * (self.width / PLACES)
            if at == good.size or not good[at]:
                return float(epsilons[-1]), found[1]
            if not at:
                return found[0], float(epsilons[0])
            low, high = int(tried[at - 1]), int(tried[at])
            found = float(epsilons[at - 1]), float(epsilons[at])
        return found

    def _deltas(self, places: Integers, side: int) -> Floats:
        """A bound on delta at start + width * place / PLACES: upper for side 1, lower for -1."""
        k = np.arange(self.coefficients.size)
        angle = _angles(np.multiply.outer(places, k))
        frequency = 2 * np.pi * k / self.width
        rest = self.width * (1 - places / PLACES)[:, None]  # of the window
        sums = [
            -np.expm1(-rate * rest - 1j * angle) / (rate - 1j * frequency)
            for rate in (self.tilt, self.tilt + 1)
        ]
        twice = np.where(k > 0, 2.0, 1.0) / self.width
        turned, payoff = self.coefficients * np.exp(1j * angle) * twice, sums[0] - sums[1]
        value = (turned * payoff).real.sum(axis=1)
        doubt = (twice * self.wrong * np.abs(payoff)).sum(axis=1)
        doubt += 64 * UNIT * (np.abs(turned) * (np.abs(sums[0]) + np.abs(sums[1]))).sum(axis=1)
        peak = np.exp(-self.tilt * np.log1p(1 / self.tilt)) / (1 + self.tilt)
        value += side * (doubt + self.left_out + self.outside * peak)
        with np.errstate(divide="ignore"):
            log = np.log(np.maximum(value, 0.0)) + self.log_mass
        log -= self.tilt * (self.start + self.width * (places / PLACES))
        found = np.exp(np.minimum(log + side * self.factor, 0.0))
        if side < 0:
            return found
        return np.where(value > 0, np.minimum(found + self.infinite, 1.0), 1.0)


def series(parts: Parts, look: Look, *, side: int) -> Series:
    """The composition of releases, each `count` times, smoothed upwards or downwards.

    Args:
        parts: atoms of each release, and how often it is taken.
        look: the tilt and the window.
        side: 1 for losses that are too large, -1 for losses that are too small.

    Raises:
        NoGrid: too many frequencies matter.
    """
    width, shift = look.high - look.low, -look.low
    log_mass = factor = 0.0
    blur = width / PLACES + 8 * UNIT * (width + abs(look.low))
    found = []
    for part, count in parts:
        weights, log_sum = tilted(part.masses, part.nodes, look.tilt)
        mean = float((weights * part.nodes).sum())
        places = part.nodes - mean
        found.append((places, weights, count))
        shift += float(count * mean)
        log_mass += float(count * log_sum)
        furthest = float(part.furthest)
        factor += float(count * (ROUNDING + 4 * UNIT * look.tilt * furthest))
        spread = float((weights * np.abs(places)).sum()) + abs(mean)
        blur += float(count * UNIT * (20 * furthest + 64 * spread))
    if not (width > 0 and np.isfinite([width, shift, log_mass]).all()):
        raise NoGrid(f"the window from {look.low} to {look.high} holds nothing")
    last, top, left_out = _low(found, width)
    k = np.arange(last + 1)
    frequencies: Floats = 2 * np.pi / width * k.astype(float)
    log, error = np.zeros(k.size, complex), np.full(k.size, 16 * UNIT * UNIFORMS)
    for places, weights, count in found:
        z, wrong = _coefficients(places, weights, frequencies)
        power, rounding = log_1_plus(z)
        log += count * power
        error += count * (wrong / np.abs(1 + z) + rounding) + 4 * UNIT * np.abs(log)
    each = 2 * SMOOTHED ** (-1 / UNIFORMS) / top  # uniform variables are between 0 and this
    rate = (look.tilt - 1j * frequencies) * (side * each)
    log += UNIFORMS * np.log(np.expm1(rate) / rate)
    coefficients = np.exp(log - 1j * _angles(int(np.round(shift / width * PLACES)) * k))
    beyond = outside(parts, look, log_mass, look.high - UNIFORMS * each, look.right)
    beyond += outside(parts, look, log_mass, look.low + UNIFORMS * each, -look.left)
    larger = float(np.exp(UNIFORMS * look.tilt * each))  # that the tilt makes smoothed masses
    return Series(
        coefficients,
        np.abs(coefficients) * np.expm1(error),
        (left_out + 2 * SMOOTHED) * larger,
        beyond * larger,
        look.low,
        width,
        look.tilt,
        log_mass,
        infinite_mass(parts),
        factor,
        blur,
    )


def _angles(turns: Integers) -> Floats:
    """2 pi turns / PLACES, reduced exactly to [-pi, pi]."""
    return 2 * np.pi * (((turns + PLACES // 2) % PLACES - PLACES // 2) / PLACES)


def _coefficients(x: Floats, w: Floats, frequencies: Floats) -> tuple[Complexes, Floats]:
    """sum of w (exp(-i frequency x) - 1) where sum of w x is 0, and a bound on its error.

    The bound leaves out what shifts the loss: errors in proportion to the frequency.
    """
    most = frequencies[-1]
    far = np.abs(x) * most > 1
    y, v = x[~far] * most, w[~far]
    share = frequencies / most
    z = np.zeros(frequencies.size, complex)
    powers, moments = v * y, []
    error = 64 * UNIT * share**2 * (v * y * y).sum()
    for term in range(2, TERMS + 1):
        powers *= y / term
        moments.append(powers.sum() * (-1j) ** term)
    for moment in moments[::-1]:
        z = (z + moment) * share
    z *= share
    if far.any():
        y, v = x[far], w[far]
        z += _far(frequencies, y, v) - v.sum() + 1j * frequencies * (v * y).sum()
        added = 2 * np.sqrt(y.size) + 64  # roundings of each term, at most
        error += UNIT * (added * v.sum() + 40 * frequencies * (v * np.abs(y)).sum())
    return z, error + 64 * UNIT * np.abs(z) * frequencies * (w * np.abs(x)).sum()


def _far(frequencies: Floats, x: Floats, w: Floats) -> Complexes:
    """sum of w exp(-i frequency x) at evenly spaced frequencies, by products of few exponentials.

    In groups, so that each term sees few additions; and by einsum, which unlike `@` asks for no
    threads: they wait for each other when others work.
    """
    groups = 1 + int(np.sqrt(x.size))
    x, w = (np.pad(one, (0, -one.size % groups)).reshape(groups, -1) for one in (x, w))
    step = 1 + int(np.sqrt(frequencies.size))
    coarse = w * np.exp(-1j * np.multiply.outer(frequencies[::step], x))
    fine = np.exp(-1j * np.multiply.outer(frequencies[:step], x))
    return np.einsum("agn,bgn->abg", coarse, fine).sum(axis=2).ravel()[: frequencies.size]


def _low(
    parts: Sequence[tuple[Floats, Floats, int]], width: float
) -> tuple[int, float, float]:
    """The last frequency that matters, one up to which none does, and what those may add."""
    pairs = [(_pairs(x, w), n) for x, w, n in sorted(parts, key=lambda one: -one[2])[:PAIRED]]
    atoms = sum(x.size for x, *_ in parts)
    unit, last = 2 * np.pi / width, 16
    closest = min(float(distances[0].min()) for (distances, _), _ in pairs)
    while last <= LAST and last * atoms <= MOST:
        low = (
            unit
            * last
            * 2.0 ** np.arange(max(np.ceil(np.log2(np.pi / closest / unit / last)), 1))
        )
        gone = np.sum([n * _shrunk(*pair, low) for pair, n in pairs], axis=0)
        enough = int(np.argmin(np.append(gone > GONE, False)))
        if enough and gone[0] > GONE and 2 * low[enough - 1] * closest > 0.2:
            return last, float(2 * low[enough - 1]), float(np.exp(-gone[:enough]).sum())
        last = int(last * 1.3)
    raise NoGrid("too many frequencies matter")


def _pairs(x: Floats, w: Floats) -> tuple[list[Floats], list[Floats]]:
    """Atoms paired with one that is 1, 2, 4, ... further: distances, and a b / (a + b) twice."""
    distances, sizes, step = [], [], 1
    while 2 * step <= x.size:
        rows = x.size // (2 * step)
        (near, far), (a, b) = (
            v[: rows * 2 * step].reshape(rows, 2, step).swapaxes(0, 1).reshape(2, -1)
            for v in (x, w)
        )
        distances.append(far - near)
        sizes.append(2 * a * b / np.where(a + b > 0, a + b, 1.0))
        step *= 2
    return distances, sizes


def _shrunk(distances: list[Floats], sizes: list[Floats], low: Floats) -> Floats:
    """1 minus the size of a coefficient of a frequency between low and 2 low, at least."""
    best = np.zeros(low.size)
    for d, c in zip(distances, sizes, strict=True):
        order = np.argsort(d)
        total = np.concatenate([[0.0], np.cumsum((c * d * d)[order])])
        at = np.searchsorted(d[order], np.pi / 2 / low, side="right")
        best = np.maximum(best, total[at] * low**2 / np.pi**2)
    return best


def epsilon(
    releases: Sequence[Seen], moments: Sequence[Moments], delta: float, gap: float
) -> tuple[float, float]:
    """(lower, upper); (0, inf) where nothing is proven this way.

    Args:
        releases: of one ledger.
        moments: of both directions.
        delta: in (0, 1).
        gap: target of (upper - lower) / upper.
    """
    low, high = 0.0, float("inf")
    looks = [saddle.for_delta(one, delta, None) for one in moments]
    if not _suited(releases):
        return low, high
    spacing = _spacing(releases, looks, gap * max(look.epsilon for look in looks))
    for _ in range(ATTEMPTS):
        before = high - low
        try:
            found = _pair(_directions(releases, looks, spacing), delta)
        except NoGrid:
            break
        low, high = max(low, found[0]), min(high, found[1])
        if high - low <= gap * high or high - low > 0.8 * before:
            break
        spacing /= FINER
        at = high if low < high / 2 else (low + high) / 2
        looks = [saddle.for_epsilon(one, at, None, delta) for one in moments]
    return low, high


def delta(
    releases: Sequence[Seen], moments: Sequence[Moments], epsilon: float, gap: float
) -> float:
    """The least delta proven at epsilon, 1 where nothing is proven this way."""
    value = 1.0
    if not _suited(releases):
        return value
    looks = [saddle.for_epsilon(one, epsilon, None) for one in moments]
    spacing = _spacing(releases, looks, gap * max(epsilon, looks[0].deviation))
    for _ in range(ATTEMPTS):
        before = value
        try:
            both = _directions(releases, looks, spacing)
            above = [([(upper(one), n) for one, n in cells], look) for look, cells in both]
            found = max(series(*one, side=1).delta_above(epsilon) for one in above)
        except NoGrid:
            break
        value = min(value, found)
        if not 0 < value < (1 - gap) * before:
            break
        spacing /= FINER
        looks = [saddle.for_epsilon(one, epsilon, None, value) for one in moments]
    return value


def _suited(releases: Sequence[Seen]) -> bool:
    return len(releases) <= MOST_MECHANISMS and not any(
        release.loss.lattice or release.loss.blur for release in releases
    )


def _spacing(releases: Sequence[Seen], looks: Sequence[Look], wanted: float) -> float:
    """The spacing of even nodes whose chords would add about `wanted` to epsilon."""
    total = sum(release.count for release in releases)
    return float(np.sqrt(2 * wanted / (total * (1 + max(look.saddle for look in looks)))))


def _directions(
    releases: Sequence[Seen], looks: Sequence[Look], spacing: float
) -> list[tuple[Look, Sequence[tuple[WideCells, int]]]]:
    """The direction expected to cost more, and the other: all cells, seen that way."""
    cells = [
        (wide_cells(one.loss, spacing, one.coarse.span, one.coarse.centre), one.count)
        for one in releases
    ]
    back = [(one.reversed(), count) for one, count in cells]
    ordered = sorted(looks, key=lambda look: -look.epsilon)
    return [(look, back if look.reverse else cells) for look in ordered]


def _pair(
    directions: Sequence[tuple[Look, Sequence[tuple[WideCells, int]]]], delta: float
) -> tuple[float, float]:
    """(lower, upper) by both directions, the second where it may cost more."""
    low = high = 0.0
    for look, cells in directions:
        above = [(upper(one), n) for one, n in cells]
        if low and chernoff_epsilon(above, look.saddle, delta) <= low:
            continue
        high = max(high, series(above, look, side=1).epsilon_above(delta))
        below = [(lower(one), n) for one, n in cells]
        low = max(low, series(below, look, side=-1).epsilon_below(delta))
    return low, high
