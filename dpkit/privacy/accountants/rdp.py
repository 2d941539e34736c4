"""The Renyi accountant: epsilon or delta, read from a ledger's curve of orders."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from dpkit.common import checks
from dpkit.privacy.accountants import conversions
from dpkit.privacy.accountants.conversions import classic, improved, optimal
from dpkit.privacy.ledger import Guarantee, Ledger, Releases
from dpkit.privacy.mechanisms import LARGEST_ORDER, Floats, as_orders

__all__ = ["ORDERS", "classic", "curve", "delta", "epsilon", "improved", "optimal"]

# Dense near 1, where an expensive ledger is decided, whole from 11 to 64, then sparse to 1024.
ORDERS: Floats = np.concatenate(
    [
        1 + np.geomspace(1e-4, 0.09, 20),
        np.arange(11, 110) / 10,
        np.arange(11.0, 65.0),
        np.round(np.geomspace(68, 1024, 32)),
    ]
)
NET: Floats = 1 + np.exp2(np.arange(-13.0, 11.0))  # where the search for the best order begins
SMALLEST_ABOVE_1 = 1e-8
WHOLE_ABOVE = 1000  # orders up there are whole, for speed: less than a thousandth of epsilon
TOLERANCE = 1e-7  # relative: neighbours this close to the best order end the search
ROUNDS = 30  # of the search, at most; fewer where one takes a tenth of a second
LEAST = 1e-300  # a delta below it is rounded up to it


def curve(ledger: Releases, orders: ArrayLike | None = None) -> tuple[Floats, Floats]:
    """(orders, rdp): the ledger's RDP in nats at each order, both of shape (len(orders),).

    Raises:
        ValueError: an order is not > 1, a count is not an integer >= 0, or adjacencies are mixed.
        ArithmeticError: a price came out as NaN or negative.
    """
    chosen = ORDERS if orders is None else as_orders(orders)
    return chosen, Ledger.of(ledger).rdp(chosen)


def epsilon(
    ledger: Releases,
    *,
    delta: float,
    conversion: str = "improved",
    orders: ArrayLike | None = None,
) -> Guarantee:
    """The smallest epsilon the ledger's RDP proves at `delta`.

    Args:
        ledger: releases under one adjacency.
        delta: in (0, 1).
        conversion: "classic", "improved" or "optimal" (see `conversions`).
        orders: the orders to use; by default those of a search in (1, 2^20] for the best one.

    Raises:
        ValueError: delta is not in (0, 1), or as `curve`.
        ArithmeticError: a price or a conversion came out as NaN.
    """
    ledger, delta = Ledger.of(ledger), checks.between(0, 1, delta=delta)

    def score(conversion: conversions.Conversion, orders: Floats, rdp: Floats) -> Floats:
        return _converted(conversion.epsilon, orders, rdp, delta, otherwise=float("inf"))

    value, method = _least(ledger, orders, conversions.named(conversion), score)
    return ledger.guarantee(epsilon=value, delta=delta, method=method)


def delta(
    ledger: Releases,
    *,
    epsilon: float,
    conversion: str = "improved",
    orders: ArrayLike | None = None,
) -> Guarantee:
    """The smallest delta the ledger's RDP proves at `epsilon` >= 0 (arguments as `epsilon`).

    At least 1e-300 where the ledger costs anything.
    """
    ledger, epsilon = Ledger.of(ledger), checks.non_negative(epsilon=epsilon)

    def score(conversion: conversions.Conversion, orders: Floats, rdp: Floats) -> Floats:
        found = _converted(conversion.delta, orders, rdp, epsilon, otherwise=1.0)
        return np.maximum(found, LEAST)

    value, method = _least(ledger, orders, conversions.named(conversion), score)
    return ledger.guarantee(epsilon=epsilon, delta=value, method=method)


Score = Callable[[conversions.Conversion, Floats, Floats], Floats]


def _converted(
    convert: Callable[[Floats, Floats, float], Floats],
    orders: Floats,
    rdp: Floats,
    at: float,
    *,
    otherwise: float,
) -> Floats:
    """A conversion's value at each order, `otherwise` at infinite RDP; never NaN."""
    values = np.full_like(rdp, otherwise)
    finite = np.isfinite(rdp)
    if finite.any():
        values[finite] = convert(orders[finite], rdp[finite], at)
    if np.isnan(values).any():
        raise ArithmeticError(f"the {convert.__name__} conversion gave NaN at {at}")
    return values


def _least(
    ledger: Ledger, orders: ArrayLike | None, rule: conversions.Conversion, score: Score
) -> tuple[float, str]:
    """The smallest value a conversion gives over the orders, and how it was found."""
    slow = orders is None and rule.name == "optimal"
    first = partial(score, conversions.named("improved") if slow else rule)
    table = _table(ledger, NET if orders is None else orders, first)
    if not table[1].any():  # the releases do not depend on the data at all
        table[2] = 0.0
    elif orders is None:
        table = _searched(ledger, table, first, rounds=ROUNDS)
    if slow and table[1].any():
        # The best order of `optimal` is that of `improved` or somewhat below, as trials show. No
        # proof says that it has one valley alone, so the rest of the net is looked at too.
        best = table[0, np.argmin(table[2])]
        around = np.clip(
            1 + (best - 1) * np.geomspace(0.25, 1.5, 64), table[0, 0], LARGEST_ORDER
        )
        table = _joined(table, _table(ledger, np.setdiff1d(around, table[0]), first))
        table[2] = score(rule, table[0], table[1])
        table = _searched(ledger, table, partial(score, rule), rounds=2)
    order, _, value = table[:, np.argmin(table[2])].tolist()
    return value, f"RDP, {rule.name} conversion ({rule.source}), order {order:.6g}"


def _table(
    ledger: Ledger, orders: ArrayLike, score: Callable[[Floats, Floats], Floats]
) -> Floats:
    """(3, n): orders, the ledger's RDP, the score."""
    tried = as_orders(orders)
    rdp = ledger.rdp(tried)
    return np.stack([tried, rdp, score(tried, rdp)])


def _joined(table: Floats, more: Floats) -> Floats:
    """Both tables' columns, by increasing order."""
    both = np.concatenate([table, more], axis=1)
    return both[:, np.argsort(both[0])]


def _searched(
    ledger: Ledger, table: Floats, score: Callable[[Floats, Floats], Floats], *, rounds: int
) -> Floats:
    """The table of a net of orders, with orders added around the best one.

    With l = alpha - 1, l * rdp is convex in l (Hölder's inequality; sums and maxima stay convex),
    and so is what the classic and the improved conversion add to it to make l * epsilon. Hence
    epsilon falls with l, then rises: the best order lies between the neighbours of the best one of
    a net. The same holds of delta, whose log is convex.
    """
    for _ in range(rounds):
        extra = np.setdiff1d(_promising(table[0], table[2]), table[0])
        if extra.size == 0:
            break
        table = _joined(table, _table(ledger, extra, score))
    return table


def _promising(orders: Floats, values: Floats) -> Floats:
    """Orders to try next: beyond an edge that is best, else between the best's neighbours."""
    best = int(np.argmin(values))
    above_1 = orders - 1
    if not values[best] > LEAST:
        return orders[:0]
    if best == orders.size - 1 and orders[-1] < LARGEST_ORDER:
        return np.minimum(1 + above_1[-1] * 2.0 ** np.arange(1, 4), LARGEST_ORDER)
    if best == 0 and above_1[0] > SMALLEST_ABOVE_1:
        return 1 + np.maximum(above_1[0] * 2.0 ** -np.arange(1, 5), SMALLEST_ABOVE_1)
    three = [max(best - 1, 0), best, min(best + 1, orders.size - 1)]
    if not values[three].max() > values[best] * (1 + TOLERANCE):
        return orders[:0]
    place = np.log(above_1[three])
    # where the parabola through the three points is least, the middle one the lowest of them
    with np.errstate(all="ignore"):
        slopes = np.abs(np.diff(np.log(values[three])) / np.diff(place))
        share = slopes[0] / slopes.sum()
    vertex = (place[0] + place[1]) / 2 + share * (place[2] - place[0]) / 2
    if not 0 <= share <= 1:  # an end is infinite, or the middle is an end
        vertex = place[1]
    shares = 4.0 ** -np.arange(0.5, 5)  # ever closer to the vertex
    spread = [vertex + (end - vertex) * shares for end in (place[0], place[2])]
    extra = 1 + np.exp(np.concatenate([[vertex], *spread]))
    return np.where(extra > WHOLE_ABOVE, np.round(extra), extra)
