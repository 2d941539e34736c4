"""A privacy loss on a grid: once where it can only cost more, once where it can only cost less.

The proofs are in proof.md. In short, with p and q the masses of a cell between two nodes:
split the cell to its two ends so that p and q are both kept (the chord of the hockey-stick curve),
and nothing is underestimated; give each node shares of its two cells whose joint loss is at least
the node's (a randomised merging of outputs, which only loses information), and nothing is
overestimated.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpkit.privacy.mechanisms.privacy_loss import (
    LEAST_MASS,
    ROUNDING,
    Floats,
    PrivacyLoss,
    rounding,
)

REACH = 32  # cells around the heaviest in which shares are exact
MOST_NODES = 2**20
TINY = 1e-300  # instead of a zero that is divided by
LOWERED = 4 * ROUNDING  # of the lower measure's nodes, so that an atom on a node can stay there


class NoGrid(ArithmeticError):
    """The losses are too far apart for a grid of a size that can be computed."""


def nodes(first: int, count: int, spacing: float, offset: float) -> Floats:
    """(first + k) * spacing + offset for k = 0, ..., count - 1."""
    if not abs(first) + count < 2**53:
        raise NoGrid(f"losses around {first} times {spacing} have no neighbours as floats")
    return np.asarray((first + np.arange(count)) * spacing + offset, dtype=np.float64)


class Cells(NamedTuple):
    """Masses of the losses between the nodes (first + k) * spacing + offset.

    p, q: (nodes + 1,), cell 0 is below the first node, the last cell beyond the last node.
    middle: about which node the loss has most of its mass.
    """

    first: int
    offset: float
    spacing: float
    p: Floats
    q: Floats
    middle: int

    @property
    def nodes(self) -> Floats:
        return nodes(self.first, self.p.size - 1, self.spacing, self.offset)

    def reversed(self) -> "Cells":
        """The same for the pair (Q, P), whose loss has the opposite sign."""
        last = self.first + self.p.size - 2
        middle = self.p.size - 2 - self.middle
        return Cells(-last, -self.offset, self.spacing, self.q[::-1], self.p[::-1], middle)


class GridLoss(NamedTuple):
    """A measure on the nodes (first + k) * spacing + offset; `infinite` is the mass beyond."""

    first: int
    offset: float
    spacing: float
    masses: Floats
    infinite: float

    @property
    def nodes(self) -> Floats:
        return nodes(self.first, self.masses.size, self.spacing, self.offset)

    @property
    def furthest(self) -> float:
        """The largest size of a node."""
        at = self.nodes
        return float(max(abs(at[0]), abs(at[-1])))


def fitted(spacing: float, losses: Iterable[PrivacyLoss]) -> float:
    """The spacing, made a little smaller where that lets atoms lie on nodes.

    Atoms closer to each other than the spacing stay between nodes, as a density does.
    """
    lattices = [loss.lattice[1] for loss in losses if loss.lattice is not None]
    if not lattices or not min(lattices) >= spacing:
        return spacing
    return min(lattices) / math.ceil(min(lattices) / spacing)


def cells(
    loss: PrivacyLoss, spacing: float, span: tuple[float, float], centre: float, *, enough: float
) -> Cells:
    """Cells that cover the span of losses.

    Args:
        spacing: of the nodes.
        span: the least and the largest loss.
        centre: about where the loss has most of its mass.
        enough: how much smaller `lower` may make the mean loss by missing the balance there.

    Raises:
        NoGrid: the span has more than 2^20 cells, or spacing or span is not a number.
    """
    low, high = span
    if not (spacing > 0 and (high - low) / spacing <= MOST_NODES):
        raise NoGrid(f"a grid of spacing {spacing} from {low} to {high} is too large")
    if loss.lattice is None:
        centre = offset = _balanced(loss, spacing, centre, enough)
    else:
        offset = loss.lattice[0]
    offset -= round(offset / spacing) * spacing
    first = int(np.floor((low - offset) / spacing)) - 1
    last = int(np.ceil((high - offset) / spacing)) + 1
    middle = min(max(round((centre - offset) / spacing), first), last)
    return _cells(loss, first, last, spacing, offset, middle)


def _cells(
    loss: PrivacyLoss, first: int, last: int, spacing: float, offset: float, middle: int = 0
) -> Cells:
    p, q = loss.masses(nodes(first, last - first + 1, spacing, offset))
    if np.isnan(p.sum() + q.sum()):
        raise ArithmeticError("a mechanism's privacy loss has a mass that is not a number")
    return Cells(first, offset, spacing, p, q, middle - first)


def _balanced(loss: PrivacyLoss, spacing: float, centre: float, enough: float) -> float:
    """An offset at which `lower` loses nothing where the loss has most of its mass.

    Shares that are exact from the left and shares that are exact from the right need not meet. An
    excess at one node is a lack at the next, so the sum of alternating signs shows by how much they
    miss, and it changes sign when the grid moves on by one spacing.
    """
    if not enough < math.inf:
        return centre
    signs = (-1.0) ** np.arange(-REACH + 1, REACH)

    def missed(offset: float) -> float:
        above, below = _sides(_cells(loss, -REACH, REACH, spacing, offset), 0.0)[1:]
        above, below = (np.maximum(np.nan_to_num(one), TINY) for one in (above, below))
        ratio = below[:-1] / above[1:]
        left = _equal(0.5, ratio[: REACH - 1])
        right = _equal(0.5, 1 / ratio[REACH:][::-1])[::-1]
        up = np.array([0.5, *left, *(1 - share for share in right), 0.5])
        return float(signs @ ((1 - up[1:]) * above[1:] - up[:-1] * below[:-1]))

    near = _cells(loss, -REACH, REACH, spacing, centre)
    centre += (int(np.argmax(near.p[1:-1])) - REACH) * spacing
    low, high = centre - spacing / 2, centre + spacing / 2
    at_low, at_high = missed(low), missed(high)
    if not at_low * at_high < 0:
        return centre
    middle = centre
    for _ in range(24):  # false position, the end that stays weighing half (Illinois)
        if high - low < spacing / 16384:  # a jump, as an atom makes
            break
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        at_middle = missed(middle)
        if at_middle * at_low > 0:
            low, at_low = middle, at_middle
            at_high /= 2
        else:
            high, at_high = middle, at_middle
            at_low /= 2
        if abs(at_middle) < enough:
            return middle
    return middle


class _Excess(NamedTuple):
    """Of each inner cell: p, p - q e^(lower end), q e^(upper end) - p, and their rounding error.

    known: both masses are large enough to have kept their digits.
    """

    p: Floats
    above: Floats
    below: Floats
    slack: Floats
    known: NDArray[np.bool_]


def _excess(cells: Cells, lowered: float = 0.0) -> _Excess:
    """The excesses of the inner cells, their nodes shifted down by `lowered`."""
    p, q = cells.p[1:-1], cells.q[1:-1]
    t, above, below = _sides(cells, lowered)
    with np.errstate(over="ignore", invalid="ignore"):
        slack = _doubt(cells.p) + _doubt(cells.q) * t[1:]
    known = (np.minimum(p, q) > LEAST_MASS) & np.isfinite(above + below + slack)
    above, below, slack = (np.where(known, one, 0.0) for one in (above, below, slack))
    return _Excess(p, above, below, slack, known)


def _sides(cells: Cells, lowered: float) -> tuple[Floats, Floats, Floats]:
    """e^node, and of each inner cell p - q e^(lower end) and q e^(upper end) - p."""
    p, q = cells.p[1:-1], cells.q[1:-1]
    with np.errstate(over="ignore", invalid="ignore"):
        t = np.exp(cells.nodes - lowered)
        return t, p - q * t[:-1], q * t[1:] - p


def _doubt(masses: Floats) -> Floats:
    """The error, at most, of each inner cell's mass: that of the tails it is the difference of."""
    beyond, up_to = np.cumsum(masses[::-1])[::-1], np.cumsum(masses)
    nearer = np.minimum(beyond, up_to)[1:-1]
    return 2 * rounding(nearer) * nearer


def upper(cells: Cells) -> GridLoss:
    """Each cell's mass on its two ends, p and q kept; the ends outside rounded up."""
    p, above, _, slack, known = _excess(cells)
    # p_high + p_low = p,  p_high e^-b + p_low e^-a = q  at the ends a < b
    high = (above + slack) / -np.expm1(-cells.spacing)
    high = np.where(known, np.clip(high, 0.0, p), p)
    masses = np.concatenate([cells.p[:1], high])
    masses[:-1] += p - high
    beyond = float(cells.p[-1] * (1 + ROUNDING)) + LEAST_MASS
    return GridLoss(cells.first, cells.offset, cells.spacing, masses, beyond)


def lower(cells: Cells) -> GridLoss:
    """Each node with shares of its two cells, whose joint loss is at least the node's.

    What lies below the first node is dropped, what lies beyond the last is rounded down.
    """
    excess = _excess(cells, LOWERED)
    up = _allowed(_shares(excess, cells.middle), excess) * excess.p
    masses = np.append(excess.p - up, cells.p[-1])
    masses[1:] += up
    return GridLoss(cells.first, cells.offset - LOWERED, cells.spacing, masses, 0.0)


def _safe(excess: _Excess) -> tuple[Floats, Floats]:
    """The excesses with their rounding errors on the side that costs less."""
    above = np.maximum(excess.above - excess.slack, 0.0)
    return above, np.where(excess.known, np.maximum(excess.below + excess.slack, 0.0), 0.0)


def _allowed(up: Floats, excess: _Excess) -> Floats:
    """Any shares, lowered until every node keeps its loss; an unknown cell goes down whole."""
    above, below = _safe(excess)
    up = np.where(excess.known, up, 0.0)
    lift = above[1:] / np.maximum(below[:-1], TINY)
    return np.append(np.minimum(up[:-1], (1 - up[1:]) * lift), 0.0)


def _shares(excess: _Excess, middle: int) -> Floats:
    """The share of each cell that should go to its upper end.

    Node i keeps its loss where up[i-1] below[i-1] <= (1 - up[i]) above[i], and best with equality.
    """
    above, below = _safe(excess)
    lift = above[1:] / np.maximum(below[:-1], TINY)
    drop = below[:-1] / np.maximum(above[1:], TINY)
    up = np.full(above.size, 0.5)
    for _ in range(4):  # equality at the nodes on both sides, where masses change slowly
        from_above, from_below = up.copy(), up.copy()
        from_above[:-1] = np.minimum((1 - up[1:]) * lift, 1.0)
        from_below[1:] = np.maximum(1 - up[:-1] * drop, 0.0)
        up = up / 2 + (from_above + from_below) / 4
    # near the middle equality at each node, towards it from both sides (stable so)
    low, high = max(middle - REACH, 0), min(middle + REACH, up.size) - 1
    found = _equal(float(up[low]), drop[low : middle - 1])
    up[low + 1 : low + 1 + len(found)] = found
    found = _equal(1 - float(up[high]), lift[middle:high][::-1])
    up[high - len(found) : high] = 1 - np.array(found[::-1])
    return up


def _equal(share: float, ratios: Floats) -> list[float]:
    """Shares after the first that use up, or fill, one node after the other."""
    found = []
    for ratio in ratios.tolist():
        share = 1 - share * ratio
        if share < 0:
            share = 0.0
        found.append(share)
    return found
