"""The privacy-loss-distribution accountant: a certified pair (lower, upper) around epsilon.

Each release's loss is moved onto a grid twice, once where it only costs more and once where it only
costs less (`loss_grid`), the grids are composed by FFT with a bound on every error
(`composed_loss`), and epsilon is read from both. proof.md says why the pair holds.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from dpkit.common import checks
from dpkit.privacy import numerics
from dpkit.privacy.accountants import composition, rdp
from dpkit.privacy.accountants.pld import large, loss_grid, saddle
from dpkit.privacy.accountants.pld.composed_loss import (
    Grids,
    chernoff_delta,
    chernoff_epsilon,
    compose,
    log_moment,
)
from dpkit.privacy.accountants.pld.loss_grid import MOST_NODES, Cells, NoGrid, Real
from dpkit.privacy.accountants.pld.saddle import Look, Moments, Seen
from dpkit.privacy.ledger import Guarantee, Ledger, Releases
from dpkit.privacy.mechanisms import Floats, Unsupported
from dpkit.privacy.mechanisms.base import LEAST_MASS

__all__ = ["delta", "epsilon", "profile"]

GAP = 1e-3  # (upper - lower) / upper that is aimed at
COARSER = 4  # times the spacing: of a profile, and to prove that a direction costs less
HOPELESS = 4  # times the gap
SLOPES = 1, 0.1, 0.01, 1e-3  # of moments, for one of the look's
FINE = 2**15  # nodes of all releases, after which the grid is not made finer to close a gap
NEGLECTED = 3e-5  # of delta, may lie beyond each end of a release's grid
REACHED = 12.0  # log of deltas that one composition proves well
LEAST_DELTA = 1e-15  # of a profile, that is proven well
MOST_MECHANISMS = 4096  # different ones in a ledger: what fits in memory
CHORDS = 17  # epsilons at which deltas are proven one by one
LARGE = 10**6  # releases from which coefficients are summed one by one before an FFT is tried
METHOD = "PLD by FFT, certified (lower, upper)"
BY_PROFILE = "exact privacy profile, certified (lower, upper)"
BY_RDP = (
    "PLD by FFT, lower end certified; upper end by RDP, whose rounding has no proven bound"
)


def __dir__() -> list[str]:
    return __all__


@np.errstate(all="ignore")  # what overflows proves nothing: every comparison lets NaN fail
def epsilon(ledger: Releases, *, delta: float, gap: float = GAP) -> Guarantee:
    """The epsilon of a ledger at `delta`, as a certified pair.

    Args:
        ledger: releases under one adjacency, whose mechanisms know their privacy loss.
        delta: in (0, 1), or 0 for pure DP.
        gap: target of (upper - lower) / upper; a pair that misses it is wider, but still valid.

    Raises:
        ValueError: delta or gap is out of range, a count is not an integer >= 0, adjacencies
            are mixed, or there are more than 4,096 different mechanisms.
        Unsupported: a mechanism's privacy loss is not known.
        ArithmeticError: a bound came out as NaN.
    """
    ledger, gap = Ledger.of(ledger), checks.between(0, 1, gap=gap)
    if delta == 0:
        return composition.basic(ledger, delta=0)
    delta = checks.between(0, 1, delta=delta)
    low, high, method = _epsilon(ledger, delta, gap)
    return ledger.guarantee(epsilon=high, delta=delta, lower=low, method=method)


def _epsilon(ledger: Ledger, delta: float, gap: float) -> tuple[float, float, str]:
    """(lower, upper, method)."""
    releases = _releases(ledger, delta)
    if not releases:
        return 0.0, 0.0, METHOD
    low, high, method = 0.0, float("inf"), METHOD
    if _unbounded(releases) < delta:
        low, high = _composed(releases, delta, gap)
    close = high - low <= gap * high < float("inf")
    # first: RDP may know more than a dominating pair
    low = _lower(ledger, delta, gap, releases, low)
    if not close:  # grids round too much
        if (exact := _by_profile(ledger, delta)) is not None:
            low, high, method = max(low, exact[0]), min(high, exact[1]), BY_PROFILE
        else:
            with suppress(Unsupported, ArithmeticError):
                if (known := rdp.epsilon(ledger, delta=delta).epsilon) < high:
                    high, method = known, BY_RDP
            known, least = composition.stated(ledger)
            if known < high and least <= delta * composition.ROUNDED_UP:
                high, method = known, composition.BASIC
        if not low <= high:
            raise ArithmeticError(f"the bounds {low} and {high} of {method} are out of order")
    return low, high, method


def _lower(
    ledger: Ledger, delta: float, gap: float, releases: list[Seen], low: float
) -> float:
    """The lower bound of dominating pairs, `low`, or of attained ones where these differ."""
    if not low or all(release.loss.attained is None for release in releases):
        return low
    return min(low, _composed(_releases(ledger, delta, attained=True), delta, gap)[0])


def _composed(releases: list[Seen], delta: float, gap: float) -> tuple[float, float]:
    """(lower, upper), in the way that suits the number of releases, or in both."""
    low, high, moments = 0.0, float("inf"), _moments(releases)
    closer = [one._replace(closer=True) for one in moments]
    # (way, moments, width at which the next one is not asked)
    ways = [(_by_fft, moments, 0.75 * gap), (large.epsilon, moments, gap)]
    ways = ways if sum(one.count for one in releases) < LARGE else ways[::-1]
    for way, seen, enough in [*ways, (_by_fft, closer, gap)]:
        found = way(releases, seen, delta, gap)
        low, high = max(low, found[0]), min(high, found[1])
        if not low <= high:
            raise ArithmeticError(f"the PLD's bounds are out of order: {low} and {high}")
        if high - low <= enough * high < float("inf"):
            break
    return low, high


def _by_fft(
    releases: list[Seen], moments: Sequence[Moments], delta: float, gap: float
) -> tuple[float, float]:
    """(lower, upper), on grids that become finer while that narrows the pair.

    (0, inf) where the releases' losses are of too different sizes for one grid.
    """
    total = sum(release.count for release in releases)
    looks = [saddle.for_delta(one, delta, total) for one in moments]
    if looks[1].epsilon > looks[0].epsilon:  # the one that is expected to cost more first
        looks, moments = looks[::-1], moments[::-1]
    wanted = gap * max(looks[0].epsilon, looks[0].deviation / 99)
    wanted = min(wanted, looks[0].deviation / 8)  # or the window is elsewhere
    low, high = 0.0, np.inf
    first = not moments[0].closer and moments[0]._replace(closer=True).rare(total)
    hopeless = HOPELESS * gap if first else np.inf  # so wide, it is not tried again so
    for attempt in range(6):
        before = high - low
        try:
            cut = moments[0].closer and (attempt > 0 or moments[0].rare(total))
            worse, other = _directions(releases, looks, wanted, cut=cut)
            uppers = []
            for direction in (worse, other):
                if uppers and _at_most(other, releases, delta, low):
                    break
                parts, look = direction.upper, direction.look
                upper = compose(parts, look, direction.blur).epsilon_above(delta)
                if not upper < np.inf:  # the FFT's errors are too large to prove anything
                    upper = chernoff_epsilon(parts, look.saddle, delta) + direction.blur
                uppers.append(upper)
                lower = compose(direction.lower, look, direction.blur)
                low = max(low, lower.epsilon_below(delta))
        except NoGrid:
            break
        high = min(high, max(0.0, *uppers))
        if high - low <= gap * high or high - low > 0.9 * before:
            break
        fine = sum(c.p.size for c in worse.cells) > FINE
        if fine and (attempt or high - low > hopeless * high):
            break
        # the look foresees sums of many losses, not of a few: look again, where the bounds are
        at = high if low < high / 2 else (low + high) / 2
        looks = [saddle.for_epsilon(one, at, total, delta) for one in moments]
        wanted = min(wanted / 2, gap * at)
    return low, high


def _by_profile(ledger: Ledger, delta: float) -> tuple[float, float] | None:
    """The pair by profiles, of one release, or where all need no epsilon at this delta."""
    errors = [getattr(one, "profile_error", math.inf) for one, _ in ledger.releases]
    if not max(errors) < 1:
        return None
    at_0 = sum(count * mechanism.profile([0.0]).max() for mechanism, count in ledger.releases)
    if at_0 * (1 + max(errors)) <= delta:  # total variations add up, at most
        return 0.0, 0.0
    if ledger.total > 1 or not delta > LEAST_MASS:
        return None
    profile = ledger.releases[0].mechanism.profile
    lower, upper = (
        numerics.bracket(lambda e, f=factor: bool((profile([e]) * f <= delta).all()))[side]
        for side, factor in enumerate((1 - errors[0], 1 + errors[0]))
    )
    return lower, upper


@np.errstate(all="ignore")
def delta(ledger: Releases, *, epsilon: float, gap: float = GAP) -> Guarantee:
    """The least delta proven at `epsilon` >= 0 (arguments as `epsilon`; gap is relative to delta).

    The guarantee's `lower` is a proven lower bound on the ledger's epsilon at that delta.
    """
    ledger, epsilon = Ledger.of(ledger), checks.non_negative(epsilon=epsilon)
    low, value, method = _delta(ledger, epsilon, checks.between(0, 1, gap=gap))
    known, least = composition.stated(ledger)
    if known <= epsilon and least < value:
        value, method = least, composition.BASIC
    return ledger.guarantee(
        epsilon=epsilon, delta=value, lower=min(low, epsilon), method=method
    )


def _delta(ledger: Ledger, epsilon: float, gap: float) -> tuple[float, float, str]:
    """The largest epsilon refuted at the least delta proven, that delta, and the method."""
    releases = _releases(ledger, 1e-12)
    if releases:  # again, with tails that are little beside this delta
        about = max(saddle.log_delta_at_most(one, epsilon) for one in _moments(releases))
        releases = _releases(ledger, float(np.exp(about)) / 10)
    if not releases:
        return 0.0, 0.0, METHOD
    if not _unbounded(releases) < 1:
        return 0.0, 1.0, METHOD
    moments, total = _moments(releases), ledger.total
    if total >= LARGE and (value := large.delta(releases, moments, epsilon, gap)) < 1:
        for _ in range(4):  # again, with tails that are little beside what was found
            releases = _releases(ledger, max(value, LEAST_MASS) / 10)
            before, moments = value, _moments(releases)
            value = min(value, large.delta(releases, moments, epsilon, gap))
            if value > 0.9 * before:
                break
        low = large.epsilon(releases, moments, value, gap)[0] if value > 0 else 0.0
        return _lower(ledger, value, gap, releases, low), value, METHOD
    value, low = None, 0.0
    for _ in range(4):
        looks = [saddle.for_epsilon(one, epsilon, total, value) for one in moments]
        looks.sort(key=lambda look: look.saddle)  # the more expensive direction first
        wanted = gap * min(1 / looks[0].saddle, looks[0].deviation)
        cut = moments[0].closer
        try:
            both = _directions(releases, looks, wanted, cut=cut)
            deltas = [float(one.delta_above(epsilon)) for one in both]
        except NoGrid:
            break
        worst, found = both[int(np.argmax(deltas))], max(deltas)
        if not 0 <= found <= 1:
            raise ArithmeticError(f"the PLD's deltas must lie in [0, 1], got {deltas}")
        before, value = value or 1.0, min(value or 1.0, found)
        if 0 < value < 1:
            below = compose(worst.lower, worst.look, worst.blur).epsilon_below(value)
            low = max(low, below)
        if not 0 < value < 0.9 * before or epsilon - low <= gap * epsilon:
            break
        releases = _releases(ledger, value / 10)  # with tails that are little beside it
        moments = _moments(releases, closer=True)
    if value is None:
        with suppress(Unsupported, ArithmeticError):
            return 0.0, rdp.delta(ledger, epsilon=epsilon).delta, BY_RDP
        return 0.0, 1.0, BY_RDP
    return _lower(ledger, value, gap, releases, low), value, METHOD


@np.errstate(all="ignore")
def profile(ledger: Releases, epsilons: ArrayLike) -> Floats:
    """The deltas proven at each of `epsilons` >= 0: (len(epsilons),), in either direction.

    Up to 17 are what `delta` proves; more, by a few compositions, are somewhat larger.

    Raises: as `delta`.
    """
    ledger, asked = Ledger.of(ledger), np.asarray(epsilons, dtype=np.float64)
    if not ((asked >= 0) & (asked < np.inf)).all() or asked.ndim != 1:
        raise ValueError(f"epsilons must be a list of finite numbers >= 0, got {epsilons}")
    releases, total = _releases(ledger, LEAST_DELTA), ledger.total
    if not releases:
        return np.zeros(asked.size)
    if not _unbounded(releases) < 1 or total >= LARGE or asked.size <= CHORDS:
        return _by_chords(ledger, asked)
    moments = _moments(releases, closer=True)
    most = np.maximum(*(saddle.log_delta_at_most(one, asked) for one in moments))
    left = np.ones(asked.size, dtype=bool)
    order, found = np.argsort(asked), np.ones((2, asked.size))
    anchors = [float(asked.min(initial=np.inf))]
    while left.any():
        group = left & (most > most[left].max() - REACHED)
        left &= ~group
        anchors.append(float(np.median(asked[group])))
    for at in anchors if asked.size else ():
        looks = [saddle.for_epsilon(one, at, total) for one in moments]
        looks.sort(key=lambda look: look.saddle)
        wanted = COARSER * GAP * min(1 / looks[0].saddle, looks[0].deviation)
        with suppress(NoGrid):
            for one in _directions(releases, looks, wanted, cut=True):
                row = int(one.look.reverse)
                found[row] = np.minimum(found[row], one.delta_above(asked))
    proven = found.max(axis=0)
    if (failed := (proven >= 1) & (most < 0)).any():
        proven[failed] = _by_chords(ledger, asked[failed])
    # what holds at an epsilon holds beyond it
    proven[order] = np.minimum.accumulate(proven[order])
    return proven


def _by_chords(ledger: Ledger, asked: Floats) -> Floats:
    """Deltas at some of the epsilons; between them chords, as delta is convex in e^epsilon."""
    chosen = np.linspace(0, asked.size - 1, min(asked.size, CHORDS)).astype(int)
    at = np.unique(np.sort(asked)[chosen])
    deltas = np.minimum.accumulate([delta(ledger, epsilon=float(one)).delta for one in at])
    below = np.clip(np.searchsorted(at, asked, side="right") - 1, 0, max(at.size - 2, 0))
    above = np.minimum(below + 1, at.size - 1)
    low, high, fall = at[below], at[above], deltas[below] - deltas[above]
    share = np.exp(asked - high) * np.expm1(low - asked) / np.expm1(low - high - 1e-300)
    return deltas[below] - share * fall * (1 - 1e-12)


@dataclass(frozen=True)
class _Direction:
    """A record removed, or added: the cells of all releases, and what to expect of their sum."""

    cells: list[Cells]
    counts: list[Real]
    look: Look
    cut: bool = False
    blur: float = 0.0

    @cached_property
    def upper(self) -> Grids:
        return [(loss_grid.upper(c), n) for c, n in zip(self.cells, self.counts, strict=True)]

    @cached_property
    def lower(self) -> Grids:
        found = [loss_grid.lower(c, cut=self.cut) for c in self.cells]
        return list(zip(found, self.counts, strict=True))

    def delta_above(self, epsilons: ArrayLike) -> Floats:
        """By the composition or a moment: looks may be too poor for the grid."""
        at, looked = np.asarray(epsilons) - self.blur, self.look.saddle
        moments = (chernoff_delta(self.upper, looked * slope, at) for slope in SLOPES)
        composed = compose(self.upper, self.look, self.blur).delta_above(epsilons)
        return np.minimum.reduce([composed, *moments])


def _releases(ledger: Ledger, delta: float, *, attained: bool = False) -> list[Seen]:
    """Each mechanism with a rough view of its loss: of a pair that dominates, or is attained."""
    if len(ledger.releases) > MOST_MECHANISMS:
        raise ValueError(
            f"ledger must have at most {MOST_MECHANISMS} different mechanisms for PLD, got "
            f"{len(ledger.releases)}; round noise multipliers down to fewer values"
        )
    tail = NEGLECTED * delta / max(ledger.total, 1)
    losses = [(mechanism.privacy_loss(), count) for mechanism, count in ledger.releases]
    if attained:
        losses = [(loss.attained or loss, count) for loss, count in losses]
    return loss_grid.seen([loss for loss, _ in losses], [count for _, count in losses], tail)


def _unbounded(releases: Sequence[Seen]) -> float:
    """A bound on the chance that a loss is beyond what a grid can hold.

    Raises:
        ArithmeticError: a loss has a mass that is not a number.
    """
    if any(np.isnan(release.coarse.masses).any() for release in releases):
        raise ArithmeticError("a mechanism's privacy loss has a mass that is not a number")
    counts = np.array([float(release.count) for release in releases])
    ends = np.array([release.coarse.masses[[0, 1], [-1, 0]] for release in releases])
    return float(-np.expm1(counts @ np.log1p(-np.minimum(ends, 1.0))).min())


def _moments(releases: Sequence[Seen], *, closer: bool = False) -> list[Moments]:
    """Moments for a record removed and for a record added."""
    found = saddle.moments([release.coarse for release in releases])._replace(closer=closer)
    return [found, found.reversed()]


def _directions(
    releases: Sequence[Seen], looks: Sequence[Look], wanted: float, *, cut: bool = False
) -> list[_Direction]:
    """Both directions on a grid where the first is as narrow as wanted and nodes allow."""
    if {look.reverse for look in looks} != {False, True}:
        raise ValueError("looks must be one of each direction")
    look, total = looks[0], sum(release.count for release in releases)
    blur = sum(release.count * release.loss.blur for release in releases)
    spans = (release.coarse.span for release in releases)
    finest = max(look.high - look.low, *(8 * (b - a) for a, b in spans)) / MOST_NODES
    # a step's chords add (tilt + 1) h^2 / 12 to epsilon, its merged cells take twice that away
    spacing = np.sqrt(2 * wanted / (total * (look.saddle + 1)))
    width = np.inf
    for _ in range(8):
        spacing = loss_grid.fitted(max(float(spacing), finest), (r.loss for r in releases))
        close = loss_grid.CLOSER if cut else loss_grid.CLOSE
        found = loss_grid.blocks(releases, spacing, enough=wanted / (15 * total), close=close)
        counts = [block.counts for block in found]
        cells = [loss_grid.cells(b.loss, spacing, b.span, b.centre) for b in found]
        back = [one.reversed() for one in cells]
        both = [
            _Direction(back if look.reverse else cells, counts, look, cut, blur)
            for look in looks
        ]
        # what moving the losses onto the grid adds to the distance of the bounds on epsilon
        upper, lower = (log_moment(one, look.saddle) for one in (both[0].upper, both[0].lower))
        before, width = width, (upper - lower) / look.saddle
        if width <= wanted or spacing <= finest or width > 0.7 * before:
            break  # fine enough, or finer only adds rounding errors
        spacing *= max(0.8 * np.sqrt(wanted / width), 0.3)
    return both


def _at_most(
    direction: _Direction, releases: Sequence[Seen], delta: float, epsilon: float
) -> bool:
    """Whether one moment, or a coarse grid, bounds the direction's cost by epsilon."""
    look, spacing = direction.look, COARSER * direction.cells[0].spacing
    if look.epsilon > epsilon:
        return False
    parts = []
    for loss, span, centre, counts in loss_grid.blocks(releases, spacing, enough=math.inf):
        cells = loss_grid.cells(loss, spacing, span, centre)
        parts.append((loss_grid.upper(cells.reversed() if look.reverse else cells), counts))
    about = -np.log(delta) / max(epsilon, 1e-9)
    for tilt in (*look.saddle * 4.0 ** -np.arange(8), *about * 2.0 ** np.arange(-3, 3)):
        if chernoff_epsilon(parts, tilt, delta) + direction.blur <= epsilon:
            return True
    return compose(parts, look, direction.blur).epsilon_above(delta) <= epsilon
