"""Pairs (lower, upper) for runs of very many releases, whose losses no even grid can hold."""

from collections.abc import Sequence

import numpy as np

from dpkit.privacy.accountants.pld import atoms, saddle
from dpkit.privacy.accountants.pld.atoms import WideCells
from dpkit.privacy.accountants.pld.composed_loss import Parts, chernoff_epsilon
from dpkit.privacy.accountants.pld.loss_grid import NoGrid
from dpkit.privacy.accountants.pld.saddle import Look, Moments, Seen
from dpkit.privacy.accountants.pld.series import series

MOST_MECHANISMS = 8  # different ones
ATTEMPTS = 6
FINER = 3.0


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
        if not low <= high:
            raise ArithmeticError(f"the bounds of a series are out of order: {low} and {high}")
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
            found = max(series(one.upper(), one.look, side=1).delta_above(epsilon) for one in both)
        except NoGrid:
            break
        value = min(value, found)
        if not 0 < value < (1 - gap) * before:
            break
        spacing /= FINER
        looks = [saddle.for_epsilon(one, epsilon, None, value) for one in moments]
    return value


def _suited(releases: Sequence[Seen]) -> bool:
    return len(releases) <= MOST_MECHANISMS and all(r.loss.lattice is None for r in releases)


def _spacing(releases: Sequence[Seen], looks: Sequence[Look], wanted: float) -> float:
    """Of nodes whose chords add about `wanted` to epsilon, were they even."""
    total = sum(release.count for release in releases)
    return float(np.sqrt(2 * wanted / (total * (1 + max(look.saddle for look in looks)))))


class _Direction:
    """The atoms of every release, in the direction of a look."""

    def __init__(self, releases: Sequence[Seen], cells: Sequence[WideCells], look: Look) -> None:
        self.look = look
        self.cells = [one.reversed() if look.reverse else one for one in cells]
        self.counts = [release.count for release in releases]

    def upper(self) -> Parts:
        return [(atoms.upper(one), n) for one, n in zip(self.cells, self.counts, strict=True)]

    def lower(self) -> Parts:
        return [(atoms.lower(one), n) for one, n in zip(self.cells, self.counts, strict=True)]


def _directions(
    releases: Sequence[Seen], looks: Sequence[Look], spacing: float
) -> list[_Direction]:
    """The direction that is expected to cost more, and the other."""
    cells = [
        atoms.wide_cells(one.loss, spacing, one.coarse.span, one.coarse.centre) for one in releases
    ]
    ordered = sorted(looks, key=lambda look: -look.epsilon)
    return [_Direction(releases, cells, look) for look in ordered]


def _pair(directions: Sequence[_Direction], delta: float) -> tuple[float, float]:
    """(lower, upper) by both directions, the second only where it may cost more."""
    low = high = 0.0
    for direction in directions:
        upper, look = direction.upper(), direction.look
        if low and chernoff_epsilon(upper, look.saddle, delta) <= low:
            continue
        high = max(high, series(upper, look, side=1).epsilon_above(delta))
        low = max(low, series(direction.lower(), look, side=-1).epsilon_below(delta))
    return low, high
