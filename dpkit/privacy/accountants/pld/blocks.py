"""Releases of one family side by side, so that a whole block of them costs few array operations."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from dpkit.privacy.accountants.pld import loss_grid, saddle
from dpkit.privacy.accountants.pld.loss_grid import Real
from dpkit.privacy.accountants.pld.saddle import Seen
from dpkit.privacy.mechanisms.base import PrivacyLoss, stacked

SIZE = 2**14  # numbers in an array: those of a block fit the processor's cache
FEW = 8  # nodes beside those of a loss: so many matter little
UNEVEN = 1.1  # times the narrowest loss's nodes: the widest one's in a block, at most
T = TypeVar("T")


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


def of(releases: Sequence[Seen], spacing: float, *, enough: float) -> list[Block]:
    """Releases whose losses have about as many nodes in blocks, the widest losses first.

    Centres are balanced for nodes of this spacing (`loss_grid.balanced`, as is `enough`).
    """
    found = []
    for family in _families(releases, lambda one: one.loss):
        family = _balanced(sorted(family, key=_width, reverse=True), spacing, enough)
        start = 0
        for end, one in enumerate(family):
            widest, nodes = (_width(x) / spacing + FEW for x in (family[start], one))
            if (end - start + 1) * widest > SIZE or widest > UNEVEN * nodes:
                found.append(family[start:end])
                start = end
        found.append(family[start:])
    found = [rows for rows in found if rows]
    return [_block(rows) for rows in sorted(found, key=lambda rows: -_width(rows[0]))]


def _balanced(family: list[Seen], spacing: float, enough: float) -> list[Seen]:
    found, rows = [], SIZE // (4 * loss_grid.REACH)
    for start in range(0, len(family), rows):
        some = family[start : start + rows]
        block = _block(some)
        centres = loss_grid.balanced(block.loss, spacing, block.centre, enough)
        for one, centre in zip(some, np.ravel(centres).tolist(), strict=True):
            found.append(one._replace(coarse=one.coarse._replace(centre=centre)))
    return found


def _families(items: Sequence[T], loss: Callable[[T], PrivacyLoss]) -> list[list[T]]:
    """The items whose losses are of one family together, each of the others alone."""
    found: dict[int, list[T]] = {}
    for i, item in enumerate(items):
        family = loss(item).family
        found.setdefault(-1 - i if family is None else id(family), []).append(item)
    return list(found.values())


def _width(one: Seen) -> float:
    return one.coarse.span[1] - one.coarse.span[0]


def _block(rows: Sequence[Seen]) -> Block:
    if len(rows) == 1:
        one = rows[0]
        return Block(one.loss, one.coarse.span, one.coarse.centre, float(one.count))
    low, high, centre = np.array([(*one.coarse.span, one.coarse.centre) for one in rows]).T[
        ..., None
    ]
    counts = np.array([one.count for one in rows], dtype=np.float64)
    return Block(stacked([one.loss for one in rows]), (low, high), centre, counts)
