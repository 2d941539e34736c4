"""A Renyi filter: a budget for releases whose noise depends on earlier outcomes.

A ledger's costs may be added up as they stand where every noise and count was fixed in advance.
Where they follow earlier outputs they are random themselves, and a curve of many orders, or a PLD,
of what came to be spent proves nothing. At one order fixed beforehand sums still hold: as long as
every release is refused that would take the sum beyond a budget fixed beforehand, all that is
released together has Renyi divergence of at most that budget at that order (Feldman, Zrnic 2021,
"Individual privacy accounting via a Renyi filter", Thm 3.1 and 4.3; see also Lecuyer 2021,
"Practical privacy filters and odometers with Renyi differential privacy").
"""

import math
from fractions import Fraction
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike

from dpkit.common import checks
from dpkit.privacy.accountants import conversions, rdp
from dpkit.privacy.ledger import Guarantee, Ledger, Releases
from dpkit.privacy.mechanisms import ADJACENCIES, Adjacency, Mechanism, as_orders

__all__ = ["OverBudget", "RenyiFilter", "best_order", "budget"]

ROUNDING = 1e-12  # relative: of prices and conversions, taken off every budget
FINER = 16  # orders that are tried between two neighbours of the best one
FLOATS = 10**308  # larger ones are infinite as floats
ADAPTIVE = (
    "each release, its noise and when to stop are chosen from earlier released values and public "
    "ones alone; the order and the budget were fixed before the first"
)


class OverBudget(ValueError):
    """A release that would cost more than what is left of a budget."""


class RenyiFilter:
    """A Renyi budget at one order, for releases whose noise is chosen on the way.

    The order and the budget must be fixed before the first release, and a refused release must not
    be made. What is allowed depends on the noises alone, which are released anyway.

    Args:
        order: of the Renyi divergence, in (1, 2^20]; `best_order` picks one from a plan.
        budget: nats of Renyi divergence at that order, > 0.
        delta: in (0, 1), at which `guarantee` states an epsilon.
        conversion: "classic", "improved" or "optimal" (see `conversions`).
        adjacency: of every release.

    Raises:
        ValueError: order, budget or delta is out of range, conversion or adjacency unknown.
    """

    def __init__(
        self,
        order: float,
        budget: float,
        *,
        delta: float,
        conversion: str = "improved",
        adjacency: Adjacency = "add-remove",
    ) -> None:
        order, budget = checks.positive(order=order, budget=budget)
        delta = checks.between(0, 1, delta=delta)
        checks.one_of(ADJACENCIES, adjacency=adjacency)
        self._adjacency: Adjacency = adjacency
        self._orders = as_orders(order)
        self._rule = conversions.named(conversion)
        self._budget, self._delta = budget, delta
        self._epsilon = float(_converted(self._rule, self._orders, self._budget, delta))
        self._spent = Fraction(0)  # exact: no sum of floats that could fall short
        self._assumptions: dict[str, None] = {}
        self._lock = (
            Lock()
        )  # between the look at what is left and the charge nobody else charges

    @classmethod
    def for_target(
        cls,
        target_epsilon: float,
        *,
        delta: float,
        order: float,
        conversion: str = "improved",
        adjacency: Adjacency = "add-remove",
    ) -> "RenyiFilter":
        """The filter with the largest budget at `order` that is worth target_epsilon at `delta`.

        Raises:
            ValueError: bad input, or no budget at that order converts to an epsilon this small.
        """
        most = budget(target_epsilon, delta=delta, order=order, conversion=conversion)
        made = cls(order, most, delta=delta, conversion=conversion, adjacency=adjacency)
        if not made._epsilon <= target_epsilon:
            raise ArithmeticError(f"{most} at order {order} converts to {made._epsilon}")
        made._epsilon = checks.positive(target_epsilon=target_epsilon)
        return made

    @property
    def order(self) -> float:
        """The order that was fixed beforehand."""
        return float(self._orders[0])

    @property
    def budget(self) -> float:
        """Nats of Renyi divergence at that order, as given."""
        return self._budget

    @property
    def spent(self) -> float:
        """Nats charged so far, rounded up."""
        value = float(self._spent)
        return value if Fraction(value) >= self._spent else math.nextafter(value, math.inf)

    @property
    def remaining(self) -> float:
        """Nats that are left, rounded down."""
        left = Fraction(self._budget) - self._spent
        value = float(left)
        return value if Fraction(value) <= left else math.nextafter(value, -math.inf)

    def allows(self, mechanism: Mechanism, count: int = 1) -> bool:
        """Return whether `count` releases of the mechanism fit in the remaining budget.

        Raises:
            ValueError: count is not an integer >= 1, or the mechanism has another adjacency.
            Unsupported: its Renyi divergence is not known.
            ArithmeticError: its price is not a number >= 0.
        """
        cost = self._cost(mechanism, count)
        return cost is not None and self._fits(cost)

    def charge(self, mechanism: Mechanism, count: int = 1) -> None:
        """Take the price of `count` releases off the budget; call it before they are made.

        Raises:
            OverBudget: they cost more than what is left; nothing was charged then.
            ValueError, Unsupported, ArithmeticError: as `allows`.
        """
        cost = self._cost(mechanism, count)
        with self._lock:
            if cost is None or not self._fits(cost):
                price = math.inf if cost is None or cost > FLOATS else float(cost)
                raise OverBudget(
                    f"{count} x {mechanism} costs {checks.short(price)} nats at order "
                    f"{self.order:g}, and {checks.short(self.remaining)} of "
                    f"{checks.short(self.budget)} is left: take more noise, or stop"
                )
            self._spent += cost
            self._assumptions.update(dict.fromkeys(mechanism.assumptions))

    def guarantee(self) -> Guarantee:
        """The guarantee of all past and future releases within the budget, at its delta.

        The same before, during and after the run: it does not depend on what was chosen.
        """
        rule = self._rule
        method = (
            f"Renyi filter at order {self.order:.6g} (Feldman, Zrnic 2021, Thm 4.3), "
            f"{rule.name} conversion ({rule.source})"
        )
        assumptions = (*self._assumptions, ADAPTIVE)
        return Guarantee(self._epsilon, self._delta, 0.0, self._adjacency, method, assumptions)

    def _cost(self, mechanism: Mechanism, count: int) -> Fraction | None:
        """Exactly count times the mechanism's price; None where it is infinite."""
        count = checks.whole(1, count=count)
        if mechanism.adjacency != self._adjacency:
            raise ValueError(
                f"adjacency of every release must be the filter's, {self._adjacency}, got "
                f"{mechanism.adjacency}"
            )
        price = float(mechanism.rdp(self._orders)[0])
        if not price >= 0:
            raise ArithmeticError(f"the price of {mechanism} is not a number >= 0: {price}")
        return Fraction(price) * count if price < math.inf else None

    def _fits(self, cost: Fraction) -> bool:
        return self._spent + cost <= Fraction(self._budget)


def budget(
    target_epsilon: float, *, delta: float, order: float, conversion: str = "improved"
) -> float:
    """The largest Renyi divergence at `order` that converts to target_epsilon at most.

    Nats; less by 1e-12 of the sum's largest part, for the rounding of prices and conversions.

    Raises:
        ValueError: bad input, or at that order not even a divergence of 0 converts to so little.
        ArithmeticError: the conversion gave NaN.
    """
    target_epsilon = checks.positive(target_epsilon=target_epsilon)
    delta = checks.between(0, 1, delta=delta)
    rule, orders = conversions.named(conversion), as_orders(order)
    value = float(_budgets(rule, orders, target_epsilon, delta)[0])
    if not value > 0:
        raise ValueError(
            f"order {order:g} converts no Renyi divergence to epsilon "
            f"{checks.short(target_epsilon)} at delta {checks.short(delta)}; take a larger order, "
            "or best_order"
        )
    for _ in range(60):
        if _converted(rule, orders, value, delta) <= target_epsilon:
            return value
        value -= ROUNDING * value  # the inverse and the conversion round apart
    raise ArithmeticError(
        f"no Renyi divergence at order {order:g} is proven to be within target"
    )


def best_order(
    target_epsilon: float,
    *,
    delta: float,
    ledger: Releases,
    conversion: str = "improved",
    orders: ArrayLike | None = None,
) -> float:
    """The order at which a plan takes the least share of the budget for a target.

    To be called before the run: an order chosen after it, from what was spent, proves nothing. The
    share there is <= 1 where that conversion prices the plan within the target, and only there.

    Args:
        target_epsilon: nats, > 0.
        delta: in (0, 1).
        ledger: the releases as planned, without regard to outcomes.
        conversion: as `RenyiFilter`.
        orders: to choose from; by default `rdp.ORDERS`, and more around the best of them.

    Raises:
        ValueError: bad input, a plan that costs nothing or has no finite price, or a target that no
            order's budget meets.
    """
    target_epsilon = checks.positive(target_epsilon=target_epsilon)
    ledger, delta = Ledger.of(ledger), checks.between(0, 1, delta=delta)
    rule = conversions.named(conversion)

    def shares(tried: np.ndarray) -> np.ndarray:
        budgets = _budgets(rule, tried, target_epsilon, delta)
        spent, out = rdp.curve(ledger, tried)[1], np.full_like(tried, np.inf)
        out[budgets > 0] = spent[budgets > 0] / budgets[budgets > 0]
        return out

    chosen = rdp.ORDERS if orders is None else np.unique(as_orders(orders))
    found = shares(chosen)
    best = int(np.argmin(found))
    if not 0 < found[best] < math.inf:
        raise ValueError(
            f"at no order is the plan's share of epsilon {checks.short(target_epsilon)} at delta "
            f"{checks.short(delta)} > 0 and finite (least: {found[best]}); change the ledger or "
            "the target"
        )
    if orders is not None:
        return float(chosen[best])
    ends = chosen[max(best - 1, 0)], chosen[min(best + 1, chosen.size - 1)]
    finer = 1 + np.geomspace(ends[0] - 1, ends[1] - 1, FINER + 2)[1:-1]
    finer = np.unique(np.where(finer > rdp.WHOLE_ABOVE, np.round(finer), finer))
    again = shares(finer)
    return float(finer[np.argmin(again)] if again.min() < found[best] else chosen[best])


def _converted(
    rule: conversions.Conversion, orders: np.ndarray, divergence: float, delta: float
) -> float:
    value = float(rule.epsilon(orders, np.full_like(orders, divergence), delta)[0])
    if math.isnan(value):
        raise ArithmeticError(
            f"the {rule.name} conversion of {divergence} at {orders[0]} is NaN"
        )
    return value


def _budgets(
    rule: conversions.Conversion, orders: np.ndarray, target: float, delta: float
) -> np.ndarray:
    """Each order's largest divergence worth the target, <= 0 where there is none."""
    if rule.epsilon is conversions.optimal:  # the definition of its inverse
        value = conversions.least_rdp(orders, np.full_like(orders, target), delta)
        return value - ROUNDING * np.abs(value)
    large = target + 100.0  # where epsilon = divergence + what depends on the order alone
    added = rule.epsilon(orders, np.full_like(orders, large), delta) - large
    return target - added - ROUNDING * np.maximum(target, np.abs(added))
