"""A privacy loss as a few thousand atoms, dense where most of it lies and ever wider apart.

Once above it and once below it, as `loss_grid` does on even grids (proof.md, I). Nothing here is
larger because there are more nodes: errors of the masses beyond them add up to the largest one.
"""

from typing import NamedTuple

import numpy as np

from dpkit.privacy.accountants.pld.loss_grid import NoGrid
from dpkit.privacy.mechanisms.base import LEAST_MASS, ROUNDING, UNIT, Floats, PrivacyLoss, rounding

WIDENING = 100  # a node's distance from the centre, in distances to the next: at most
FURTHEST = 1e18  # in distances near the centre


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
    """Masses of the losses between nodes; p, q: (nodes + 1,), the first and last are outside."""

    nodes: Floats
    p: Floats
    q: Floats

    def reversed(self) -> "WideCells":
        """The same for the pair (Q, P), whose loss has the opposite sign."""
        return WideCells(-self.nodes[::-1], self.q[::-1], self.p[::-1])


def _distances() -> Floats:
    even = np.arange(WIDENING)
    wider = WIDENING * (1 + 1 / WIDENING) ** np.arange(WIDENING * np.log(FURTHEST / WIDENING))
    return np.concatenate([even.astype(float), wider])


DISTANCES = _distances()


def wide_cells(
    loss: PrivacyLoss, spacing: float, span: tuple[float, float], centre: float
) -> WideCells:
    """Cells that cover the span, `spacing` wide at the centre.

    Raises:
        NoGrid: the span is too wide for that, or something is not a number.
    """
    if not (spacing > 0 and np.isfinite([spacing, *span, centre]).all()):
        raise NoGrid(f"no nodes lie {spacing} apart around {centre}, from {span[0]} to {span[1]}")
    parts = [
        DISTANCES[: np.searchsorted(DISTANCES, far / spacing) + 2] * spacing
        for far in (max(centre - span[0], 0.0), max(span[1] - centre, 0.0))
    ]
    if not max(part[-1] for part in parts) < FURTHEST * spacing / 2:
        raise NoGrid(f"nodes that are {spacing} apart do not reach from {span[0]} to {span[1]}")
    nodes = centre + np.concatenate([-parts[0][:0:-1], parts[1]])
    p, q = loss.masses(nodes)
    heavy = np.flatnonzero(np.maximum(p, q)[1:-1] > LEAST_MASS)
    first, last = (int(heavy[0]), int(heavy[-1])) if heavy.size else (0, nodes.size - 2)
    p, q = (
        np.concatenate([[m[: first + 1].sum()], m[first + 1 : last + 2], [m[last + 2 :].sum()]])
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
    errors = np.maximum(errors - ROUNDING / 2 * least, 0.0)  # the rest is in the factor of delta
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
    """Each cell as one output, its loss lowered by the rounding errors; the ends are dropped.

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
    """Of each inner cell p, p - q e^(lower end) and q e^(upper end) - p."""
    p, q = cells.p[1:-1], cells.q[1:-1]
    if not (p.size and (np.minimum(p, q) > LEAST_MASS).all()):
        raise NoGrid("a cell has lost the digits of its mass")
    t = np.exp(cells.nodes)
    return p, p - q * t[:-1], q * t[1:] - p


def _errors(cells: WideCells) -> tuple[Floats, Floats, Floats]:
    """What rounding may do to the masses beyond each node: to p e^-node + q; and the relative.

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
