"""A privacy loss on a grid: once where it can only cost more, once where it can only cost less.

The proofs are in proof.md: A of `upper`, B of `lower`, C of rounding.

Releases of one family stand side by side, so that a whole block of them costs few array operations.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpkit.privacy.accountants.pld import saddle
from dpkit.privacy.accountants.pld.saddle import Seen
from dpkit.privacy.mechanisms import Floats, PrivacyLoss
from dpkit.privacy.mechanisms.base import LEAST_MASS, ROUNDING, rounding, stacked

REACH = 32  # cells around the heaviest in which shares are exact
CLOSE, CLOSER = 2.0**-14, 1e-12  # of the spacing: how exactly a centre is balanced
MOST_NODES = 2**20
TINY = 1e-300  # instead of a zero that is divided by
LOWERED = (
    4 * ROUNDING
)  # of the lower measure's nodes, so that an atom on a node can stay there
SIZE = 2**14  # numbers in an array: those of a block fit the processor's cache
FEW = 8  # nodes beside those of a loss: so many matter little
UNEVEN = 1.1  # times the narrowest loss's nodes: the widest one's in a block, at most
T = TypeVar("T")


class NoGrid(ArithmeticError):
    """The losses are too far apart for a grid of a size that can be computed."""


Whole = (
    int | np.int64 | NDArray[np.int64]
)  # of one line, or a column (m, 1) of lines side by side
Real = float | Floats


def nodes(first: Whole | Real, count: int, spacing: float, offset: Real) -> Floats:
    """(first + k) * spacing + offset for k = 0, ..., count - 1 along the last axis."""
    if not (np.abs(np.float64(first)) + count < 2**53).all():
        raise NoGrid(f"losses around {first} times {spacing} have no neighbours as floats")
    return np.asarray((first + np.arange(count)) * spacing + offset, dtype=np.float64)


class Cells(NamedTuple):
    """Masses of the losses between the nodes (first + k) * spacing + offset.

    p, q: (nodes + 1,), cell 0 is below the first node, the last cell beyond the last node.
    middle: about which node the loss has most of its mass.

    Of m losses p and q are (m, nodes + 1); first, offset and middle are (m, 1).
    """

    first: Whole
    offset: Real
    spacing: float
    p: Floats
    q: Floats
    middle: Whole

    @property
    def nodes(self) -> Floats:
        return nodes(self.first, self.p.shape[-1] - 1, self.spacing, self.offset)

    def reversed(self) -> "Cells":
        """The same for the pair (Q, P), whose loss has the opposite sign."""
        last = self.first + self.p.shape[-1] - 2
        middle = self.p.shape[-1] - 2 - self.middle
        p, q = self.q[..., ::-1], self.p[..., ::-1]
        return Cells(-last, -self.offset, self.spacing, p, q, middle)


class GridLoss(NamedTuple):
    """A measure on the nodes (first + k) * spacing + offset; `infinite` is the mass beyond.

    Of m losses masses are (m, nodes) and infinite (m,); first and offset are (m, 1).
    """

    first: Whole
    offset: Real
    spacing: float
    masses: Floats
    infinite: Real

    @property
    def nodes(self) -> Floats:
        return nodes(self.first, self.masses.shape[-1], self.spacing, self.offset)

    @property
    def furthest(self) -> Real:
        """The largest size of a node: a number, or (m,)."""
        last = self.first + self.masses.shape[-1] - 1
        low, high = (np.abs(k * self.spacing + self.offset) for k in (self.first, last))
        return np.maximum(low, high).max(axis=-1)


def fitted(spacing: float, losses: Iterable[PrivacyLoss]) -> float:
    """The spacing, made a little smaller where that lets atoms lie on nodes.

    Atoms closer to each other than the spacing stay between nodes, as a density does.
    """
    lattices = [loss.lattice[1] for loss in losses if loss.lattice is not None]
    if not lattices or not min(lattices) >= spacing:
        return spacing
    return min(lattices) / math.ceil(min(lattices) / spacing)


def cells(loss: PrivacyLoss, spacing: float, span: tuple[Real, Real], centre: Real) -> Cells:
    """Cells that cover the span of losses.

    Args:
        loss: of one release, or m of one family side by side (`stacked`).
        spacing: of the nodes.
        span: the least and the largest loss, each a number or (m, 1).
        centre: a node where the loss has no atoms, about where it has most of its mass
            (`balanced`); as the span's ends.

    Raises:
        NoGrid: the span has more than 2^20 cells, or spacing or span is not a number.
    """
    low, high = span
    if not (spacing > 0 and np.all((high - low) / spacing <= MOST_NODES)):
        raise NoGrid(f"a grid of spacing {spacing} from {low} to {high} is too large")
    offset = centre if loss.lattice is None else loss.lattice[0]
    offset = offset - np.rint(offset / spacing) * spacing
    first, last = (
        np.floor((low - offset) / spacing) - 1,
        np.ceil((high - offset) / spacing) + 1,
    )
    middle = np.clip(np.rint((centre - offset) / spacing), first, last) - first
    return _cells(loss, first, int(np.max(last - first)) + 1, spacing, offset, middle)


def _cells(
    loss: PrivacyLoss,
    first: Real,
    count: int,
    spacing: float,
    offset: Real,
    middle: Real = 0.0,
) -> Cells:
    p, q = loss.masses(nodes(first, count, spacing, offset))
    if np.isnan(p.sum() + q.sum()):
        raise ArithmeticError("a mechanism's privacy loss has a mass that is not a number")
    return Cells(np.int64(first), offset, spacing, p, q, np.int64(middle))


def balanced(
    loss: PrivacyLoss, spacing: float, centre: Real, enough: float, close: float = CLOSE
) -> Real:
    """An offset at which `lower` loses nothing where the loss has most of its mass.

    Shares that are exact from the left and shares that are exact from the right need not meet. An
    excess at one node is a lack at the next, so the sum of alternating signs shows by how much they
    miss, and it changes sign when the grid moves on by one spacing.

    Args:
        loss: of one release, or of m side by side.
        centre: about where the loss has most of its mass: a number, or (m, 1).
        enough: how much smaller `lower` may make the mean loss by missing the balance; infinity
            leaves the centre as it is, as atoms on the nodes do.
    """
    if loss.lattice is not None or not enough < math.inf:
        return centre
    signs = (-1.0) ** np.arange(-REACH + 1, REACH)

    def missed(offset: Real) -> Real:
        above, below = _sides(_cells(loss, -REACH, 2 * REACH + 1, spacing, offset), 0.0)[1:]
        above, below = (np.maximum(np.nan_to_num(one), TINY) for one in (above, below))
        ratio = below[..., :-1] / above[..., 1:]
        up = np.full(above.shape, 0.5)
        up[..., 1:REACH] = _equal(0.5, ratio[..., : REACH - 1])
        up[..., REACH:-1] = 1 - _equal(0.5, 1 / ratio[..., : REACH - 1 : -1])[..., ::-1]
        held = (1 - up[..., 1:]) * above[..., 1:] - up[..., :-1] * below[..., :-1]
        return (signs * held).sum(axis=-1, keepdims=held.ndim > 1)

    near = _cells(loss, -REACH, 2 * REACH + 1, spacing, centre)
    heaviest = np.argmax(near.p[..., 1:-1], axis=-1, keepdims=near.p.ndim > 1)
    centre = centre + (heaviest - REACH) * spacing
    low, high = centre - spacing / 2, centre + spacing / 2
    at_low, at_high = missed(low), missed(high)
    crossing, middle = at_low * at_high < 0, centre
    for _ in range(
        24 if close == CLOSE else 60
    ):  # false position, the end that stays weighing half (Illinois)
        crossing = crossing & (high - low >= spacing * close)  # less: a jump, as an atom makes
        if not np.any(crossing):
            break
        middle = np.where(
            crossing, (low * at_high - high * at_low) / (at_high - at_low), middle
        )
        at_middle = missed(middle)
        left = at_middle * at_low > 0
        low, high = np.where(left, middle, low), np.where(left, high, middle)
        at_low, at_high = (
            np.where(left, at_middle, at_low / 2),
            np.where(left, at_high / 2, at_middle),
        )
        crossing = crossing & ~(np.abs(at_middle) < enough)
    return middle


class _Excess(NamedTuple):
    """Each inner cell's p, p - q e^(lower end), q e^(upper end) - p, rounded to cost less.

    raised: the first of the two, rounded to what costs more.
    known: both masses are large enough to have kept their digits; else all three are 0.
    """

    p: Floats
    above: Floats
    below: Floats
    raised: Floats
    known: NDArray[np.bool_]


def _excess(cells: Cells, lowered: float = 0.0) -> _Excess:
    """The excesses of the inner cells, their nodes shifted down by `lowered`."""
    p, q = cells.p[..., 1:-1], cells.q[..., 1:-1]
    t, above, below = _sides(cells, lowered)
    # each mass has the errors of the tails that it is the difference of
    both = np.stack([cells.p, cells.q])
    beyond, up_to = np.cumsum(both[..., ::-1], axis=-1)[..., ::-1], np.cumsum(both, axis=-1)
    nearer = np.minimum(beyond, up_to)[..., 1:-1]
    doubt = 2 * rounding(nearer) * nearer
    with np.errstate(over="ignore", invalid="ignore"):
        slack = doubt[0] + doubt[1] * t[..., 1:]
    known = (np.minimum(p, q) > LEAST_MASS) & np.isfinite(above + below + slack)
    above, below, slack = (np.where(known, one, 0.0) for one in (above, below, slack))
    less = np.maximum(above - slack, 0.0)
    return _Excess(p, less, np.maximum(below + slack, 0.0), above + slack, known)


def _sides(cells: Cells, lowered: float) -> tuple[Floats, Floats, Floats]:
    """e^node, and of each inner cell p - q e^(lower end) and q e^(upper end) - p."""
    p, q = cells.p[..., 1:-1], cells.q[..., 1:-1]
    with np.errstate(over="ignore", invalid="ignore"):
        t = np.exp(cells.nodes - lowered)
        return t, p - q * t[..., :-1], q * t[..., 1:] - p


def upper(cells: Cells) -> GridLoss:
    """Each cell's mass on its two ends, p and q kept; the ends outside rounded up."""
    p, _, _, raised, known = _excess(cells)
    # p_high + p_low = p,  p_high e^-b + p_low e^-a = q  at the ends a < b
    high = raised / -np.expm1(-cells.spacing)
    high = np.where(known, np.clip(high, 0.0, p), p)
    masses = np.concatenate([cells.p[..., :1], high], axis=-1)
    masses[..., :-1] += p - high
    beyond = cells.p[..., -1] * (1 + ROUNDING) + LEAST_MASS
    return GridLoss(cells.first, cells.offset, cells.spacing, masses, beyond)


def lower(cells: Cells, *, cut: bool = False) -> GridLoss:
    """Each node with shares of its two cells, whose joint loss is at least the node's.

    What lies below the first node is dropped, what lies beyond the last is rounded down, or dropped
    too where the loss is cut: as an atom it would outweigh its neighbours under much tilt.
    """
    excess = _excess(cells, LOWERED)
    up = _allowed(_shares(excess, cells.middle), excess) * excess.p
    beyond = cells.p[..., -1:] * (not cut)
    masses = np.concatenate([excess.p - up, beyond], axis=-1)
    masses[..., 1:] += up
    none = np.zeros(masses.shape[:-1])[()]
    return GridLoss(cells.first, cells.offset - LOWERED, cells.spacing, masses, none)


def _allowed(up: Floats, excess: _Excess) -> Floats:
    """Any shares, lowered until every node keeps its loss; an unknown cell goes down whole."""
    up = np.where(excess.known, up, 0.0)
    lift = excess.above[..., 1:] / np.maximum(excess.below[..., :-1], TINY)
    lowered = np.zeros(up.shape)
    lowered[..., :-1] = np.minimum(up[..., :-1], (1 - up[..., 1:]) * lift)
    return lowered


def _shares(excess: _Excess, middle: Whole) -> Floats:
    """The share of each cell that should go to its upper end.

    Node i keeps its loss where up[i-1] below[i-1] <= (1 - up[i]) above[i], and best with equality.
    """
    above, below = excess.above, excess.below
    lift = above[..., 1:] / np.maximum(below[..., :-1], TINY)
    drop = below[..., :-1] / np.maximum(above[..., 1:], TINY)
    up = np.full(above.shape, 0.5)
    for _ in range(4):  # equality at the nodes on both sides, where masses change slowly
        from_above, from_below = up.copy(), up.copy()
        from_above[..., :-1] = np.minimum((1 - up[..., 1:]) * lift, 1.0)
        from_below[..., 1:] = np.maximum(1 - up[..., :-1] * drop, 0.0)
        up = up / 2 + (from_above + from_below) / 4
    # near the middle equality at each node, towards it from both sides (stable so)
    _equalise(up, drop, middle)
    down = 1 - up[..., ::-1]
    _equalise(down, lift[..., ::-1], excess.p.shape[-1] - middle)
    return 1 - down[..., ::-1]


def _equalise(up: Floats, drop: Floats, middle: Whole) -> None:
    """Make the node above each of the last cells before the middle equal, in turn."""
    places = middle + np.arange(-REACH, 0)
    at = np.maximum(places, 0)
    ratios = np.take_along_axis(drop, at[..., :-1], axis=-1)
    ratios = np.where(places[..., :-1] >= 0, ratios, -1.0)
    shares = np.take_along_axis(up, at, axis=-1)
    shares[..., 1:] = _equal(shares[..., 0], ratios)
    np.put_along_axis(up, at, shares, axis=-1)


def _equal(share: Any, ratios: Floats) -> Floats:
    """Shares after the first that use up, or fill, the nodes in turn.

    A negative ratio, -1, leaves the share as it is.
    """
    steps: Any = np.minimum(ratios, 1 / TINY).T
    found = []
    if ratios.ndim == 1:  # plain numbers are faster
        share, steps = float(share), steps.tolist()
    for ratio in steps:
        share = (ratio >= 0) - share * ratio
        share = share * (share > 0)
        found.append(share)
    return np.array(found).T


class Block(NamedTuple):
    """Releases of one family, or a single one.

    span, centre: as of `saddle.Coarse`, numbers of a single release, else (m, 1).
    counts: how often each is taken: a number, or (m,).
    """

    loss: PrivacyLoss
    span: tuple[Real, Real]
    centre: Real
    counts: Real


def seen(losses: Sequence[PrivacyLoss], counts: Sequence[int], tail: float) -> list[Seen]:
    """Each loss with a rough view of it."""
    found: dict[int, Seen] = {}
    rows = SIZE // saddle.EDGES.size
    for family in _families(range(len(losses)), lambda i: losses[i]):
        family.sort(key=lambda i: losses[i].parameters)  # alike losses need like edges
        for start in range(0, len(family), rows):
            places = family[start : start + rows]
            some, times = [losses[i] for i in places], [counts[i] for i in places]
            views = saddle.coarse(some, times, tail)
            found |= zip(places, map(Seen, some, views, times), strict=True)
    return [found[i] for i in range(len(losses))]


def blocks(
    releases: Sequence[Seen], spacing: float, *, enough: float, close: float = CLOSE
) -> list[Block]:
    """Releases in blocks of about as many nodes, the widest losses first.

    Centres are balanced for nodes of this spacing (`balanced`, as are the others).
    """
    found = []
    for family in _families(releases, lambda one: one.loss):
        widest_first = sorted(family, key=lambda one: one.coarse.span[0] - one.coarse.span[1])
        family, rows = [], SIZE // (4 * REACH)
        for start in range(0, len(widest_first), rows):
            some = widest_first[start : start + rows]
            block = _block(some)
            centres = balanced(block.loss, spacing, block.centre, enough, close)
            for one, centre in zip(some, np.ravel(centres).tolist(), strict=True):
                family.append(one._replace(coarse=one.coarse._replace(centre=centre)))
        widths = [high - low for low, high in (one.coarse.span for one in family)]
        start = 0
        for end, width in enumerate(widths):
            widest, nodes = (each / spacing + FEW for each in (widths[start], width))
            if (end - start + 1) * widest > SIZE or widest > UNEVEN * nodes:
                found.append((widths[start], family[start:end]))
                start = end
        found.append((widths[start], family[start:]))
    return [_block(some) for _, some in sorted(found, key=lambda one: -one[0]) if some]


def _families(items: Sequence[T], loss: Callable[[T], PrivacyLoss]) -> list[list[T]]:
    """The items whose losses are of one family together, each of the others alone."""
    found: dict[int, list[T]] = {}
    for i, item in enumerate(items):
        family = loss(item).family
        found.setdefault(-1 - i if family is None else id(family), []).append(item)
    return list(found.values())


def _block(rows: Sequence[Seen]) -> Block:
    if len(rows) == 1:
        one = rows[0]
        return Block(one.loss, one.coarse.span, one.coarse.centre, float(one.count))
    low, high, centre = np.array([(*one.coarse.span, one.coarse.centre) for one in rows]).T[
        ..., None
    ]
    counts = np.array([one.count for one in rows], dtype=np.float64)
    return Block(stacked([one.loss for one in rows]), (low, high), centre, counts)
