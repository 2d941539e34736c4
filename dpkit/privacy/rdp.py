"""The Renyi accountant: a ledger folds into a curve of orders; epsilon or delta is read from it."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dpkit import checks
from dpkit.privacy import conversions
from dpkit.privacy.conversions import classic, improved, optimal
from dpkit.privacy.ledger import Guarantee, Ledger, adjacency_of, assumptions_of, rdp_of
from dpkit.privacy.mechanisms import LARGEST_ORDER, Floats, as_orders

__all__ = ["ORDERS", "classic", "curve", "delta", "epsilon", "improved", "optimal"]

# Dense near 1, where a dear ledger is decided, whole from 11 to 64, then sparse to 1024.
ORDERS: Floats = np.concatenate(
    [
        1 + np.geomspace(1e-4, 0.09, 20),
        np.arange(11, 110) / 10,
        np.arange(11.0, 65.0),
        np.round(np.geomspace(68, 1024, 32)),
    ]
)
SMALLEST_ABOVE_1 = 1e-8


def curve(ledger: Ledger, orders: ArrayLike | None = None) -> tuple[Floats, Floats]:
    """(orders, rdp): the ledger's RDP in nats at each order, both of shape (len(orders),).

    Raises:
        ValueError: an order is not > 1, a count is not an integer >= 0, or adjacencies are mixed.
        ArithmeticError: a price came out as NaN or negative.
    """
    adjacency_of(ledger)
    chosen = ORDERS if orders is None else as_orders(orders)
    rdp = rdp_of(ledger, chosen)
    if not (rdp >= 0).all():
        raise ArithmeticError(f"the ledger's RDP is not a number >= 0 at every order: {rdp}")
    return chosen, rdp


def epsilon(
    ledger: Ledger,
    *,
    delta: float,
    conversion: str = "improved",
    orders: ArrayLike | None = None,
    assumptions: tuple[str, ...] = (),
) -> Guarantee:
    """The smallest epsilon the ledger's RDP proves at `delta`.

    Args:
        ledger: releases under one adjacency.
        delta: in (0, 1).
        conversion: "classic", "improved" or "optimal" (see `conversions`).
        orders: the orders to use; by default integer and fractional ones, beyond 1024 or closer
            to 1 where the smallest epsilon would lie at the edge, and finer around it.
        assumptions: further ones to state beside those of the mechanisms.

    Raises:
        ValueError: delta is not in (0, 1), or as `curve`.
    """
    checks.between(0, 1, delta=delta)
    rule = conversions.named(conversion)
    value, order = _least(ledger, orders, rule, lambda one: (one.epsilon, delta))
    method = f"RDP, {rule.name} conversion ({rule.source}), order {order:.6g}"
    told = (*assumptions_of(ledger), *assumptions)
    return Guarantee(value, 0.0, delta, adjacency_of(ledger), method, told)


def delta(
    ledger: Ledger,
    *,
    epsilon: float,
    conversion: str = "improved",
    orders: ArrayLike | None = None,
    assumptions: tuple[str, ...] = (),
) -> Guarantee:
    """The smallest delta the ledger's RDP proves at `epsilon` >= 0 (arguments as `epsilon`)."""
    checks.non_negative(epsilon=epsilon)
    rule = conversions.named(conversion)
    value, order = _least(ledger, orders, rule, lambda one: (one.delta, epsilon))
    method = f"RDP, {rule.name} conversion ({rule.source}), order {order:.6g}"
    told = (*assumptions_of(ledger), *assumptions)
    return Guarantee(epsilon, 0.0, value, adjacency_of(ledger), method, told)


Rule = Callable[[conversions.Conversion], tuple[Callable[..., Floats], float]]


def _least(
    ledger: Ledger, orders: ArrayLike | None, rule: conversions.Conversion, which: Rule
) -> tuple[float, float]:
    """The smallest value a conversion gives over the orders, and its order."""
    tried, rdp = curve(ledger, orders)
    if not rdp.any():  # the releases do not depend on the data at all
        return 0.0, float(tried[0])
    cheap = conversions.named("improved") if rule.name == "optimal" else rule
    guide, at = which(cheap)  # the order that decides is nearly the same
    if orders is None:
        tried, rdp = _widened(ledger, tried, rdp, lambda o, r: guide(o, r, at))
    if rule.name == "optimal" and tried.size > 24:
        keep = np.argsort(guide(tried, rdp, at))[:24]
        tried, rdp = tried[keep], rdp[keep]
    convert, at = which(rule)
    finite = np.isfinite(rdp)
    if not finite.any():
        return (float("inf") if convert == rule.epsilon else 1.0), float(tried[0])
    values = convert(tried[finite], rdp[finite], at)
    if np.isnan(values).any():
        raise ArithmeticError(f"the {rule.name} conversion gave NaN at {at}")
    best = int(np.argmin(values))
    return float(values[best]), float(tried[finite][best])


def _widened(
    ledger: Ledger, orders: Floats, rdp: Floats, score: Callable[[Floats, Floats], Floats]
) -> tuple[Floats, Floats]:
    """Orders added beyond an edge while the best one is there, then between its neighbours."""
    while True:
        best = int(np.argmin(score(orders, np.where(np.isfinite(rdp), rdp, np.inf))))
        if best == orders.size - 1 and orders[-1] < LARGEST_ORDER:
            extra = np.round(orders[-1] * np.geomspace(1.15, 4, 10))
            extra = np.unique(np.minimum(extra, LARGEST_ORDER))
        elif best == 0 and orders[0] - 1 > SMALLEST_ABOVE_1:
            extra = 1 + (orders[0] - 1) * np.geomspace(0.05, 0.8, 10)
        else:
            break
        orders, rdp = _merged(ledger, orders, rdp, extra)
    low, high = orders[max(best - 1, 0)], orders[min(best + 1, orders.size - 1)]
    between = np.linspace(low, high, 14)[1:-1]
    return _merged(ledger, orders, rdp, between if high < 100 else np.unique(np.round(between)))


def _merged(ledger: Ledger, orders: Floats, rdp: Floats, extra: Floats) -> tuple[Floats, Floats]:
    all_orders = np.concatenate([orders, extra])
    order = np.argsort(all_orders)
    return all_orders[order], np.concatenate([rdp, curve(ledger, extra)[1]])[order]
