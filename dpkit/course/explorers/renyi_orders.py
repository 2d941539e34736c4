"""RDP's need of many orders: the curve, epsilon by order, and the cost of a capped list."""

import math
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_most, short
from dpkit.course.explorers.controls import DELTA, RunInput, run_controls, run_input
from dpkit.course.explorers.explorer import LATER, Explorer, Result
from dpkit.papers.claims import OPACUS_ORDERS
from dpkit.privacy import conversions, rdp
from dpkit.privacy.mechanisms import LARGEST_ORDER, Floats

WHOLE = tuple(range(2, 65))
LISTS = {"2 to 64": WHOLE, "Opacus' default": OPACUS_ORDERS}
ROOM: Any = {"left": 0.11, "right": 0.92, "bottom": 0.15, "top": 0.91, "wspace": 0.42}
NEAR = 32  # orders of the picture of epsilon, around the best one
FAR: Floats = 1 + np.geomspace(0.05, 1023, 32)  # orders of the picture of RDP
SHOWN = 3.0  # epsilons up to this multiple of the smallest are drawn
HEADINGS = ("conversion", "orders", "epsilon", "best order", "more than the search")


class RenyiOrders(Explorer):
    """Noise, rate, steps and delta: RDP by order, and the order that decides epsilon.

    It opens with 100 steps at sample rate 0.01, noise multiplier 4: the best order is large.
    """

    title = "Which order decides?"
    controls: ClassVar = {**run_controls(4.0, 100), "delta": DELTA}
    presets: ClassVar = {
        "much noise, one step": {"noise_multiplier": 50.0, "steps": 1.0},
        "little noise": {"noise_multiplier": 0.7, "steps": 1_000.0},
        "DP-CGAN, as charged": {"noise_multiplier": 1.232, "steps": 30_303.0},
    }

    @staticmethod
    def compute(*, delta: float, **run: Any) -> Result:
        """Epsilon and its order by the search and by lists of orders; `optimal` comes later.

        Args: delta, and the arguments of `run_input`.
        """
        checks.between(0, 1, delta=delta)
        described = run_input(**run)
        rows = []
        for conversion in ("improved", "classic"):
            for name, orders in {"search": None, **LISTS}.items():
                rule: dict[str, Any] = {"conversion": conversion, "orders": orders}
                spent = rdp.epsilon(described.ledger, delta=delta, **rule)
                order = float(spent.method.rsplit(" ", 1)[1])
                rows.append((conversion, name, spent.epsilon, order))
        return {"run": described, "delta": delta, "rows": rows, "optimal": None}

    def says(self, result: Result) -> str:
        """State the order that decides, and the cost of a list that ends at 64."""
        (_, _, least, order), (_, _, capped, _), *_ = result["rows"]
        more = _more(capped, least)
        return (
            f"Order {order:.4g} decides: epsilon {at_most(least)} at delta "
            f"{short(result['delta'])}; orders 2 to 64 alone prove "
            f"{at_most(capped)}{f', {more} more' if more else ''}."
        )

    def table(self, result: Result) -> Table:
        """A row for each conversion and list of orders."""
        least = {row[0]: row[2] for row in result["rows"] if row[1] == "search"}
        rows = [
            (
                conversion,
                name,
                at_most(value),
                f"{order:.4g}",
                "" if name == "search" else _more(value, least[conversion]),
            )
            for conversion, name, value, order in result["rows"]
        ]
        value, order = result["optimal"] or (None, None)
        epsilon = LATER if value is None else at_most(value)
        rows.append(("optimal", "as drawn", epsilon, f"{order:.4g}" if order else "", ""))
        (step, steps), delta = result["run"], result["delta"]
        note = (
            f"{steps:,} steps, delta {short(delta)}, {step.adjacency}, Poisson batches. Each is "
            "proven; at every order, optimal <= improved <= classic."
        )
        opacus = "Opacus' default list: 1.1 to 10.9 by tenths, 12 to 63."
        return Table(HEADINGS, rows, (note, opacus))

    def late(self, result: Result) -> Result:
        """Add the optimal conversion, which takes some tenths of a second."""
        orders, costs, _ = _near(result["run"], result["rows"][0][3])
        curve = _by(conversions.named("optimal"), orders, costs, result["delta"])
        best = int(np.argmin(curve))
        optimal = float(curve[best]), float(orders[best])
        return {**result, "optimal": optimal, "optimal curve": curve}

    def draw(self, result: Result) -> plots.Picture:
        """RDP by order, and epsilon by order under each conversion."""
        orders, costs, order = _near(result["run"], result["rows"][0][3])
        curves = {
            name: _by(conversions.named(name), orders, costs, result["delta"])
            for name in ("improved", "classic")
        }
        if result["optimal"] is not None:
            curves["optimal"] = result["optimal curve"]
        _, _, least, _ = result["rows"][0]
        figure, (left, right) = plots.figure(width=8.6, height=3.4, panels=2, **ROOM)
        left.set_xscale("log")
        far, costs = rdp.curve(result["run"].ledger, FAR)
        shown = np.isfinite(costs) & (costs > 0)
        drawn: Any = {"RDP": (far[shown], costs[shown])}
        plots.lines(left, drawn, x="order", y="RDP (nats)", y_scale="log")
        left.set_title(y=1.0, label="RDP by order")
        right.set_xscale("log")
        for axis in (left.xaxis, left.yaxis, right.xaxis):
            plots.plain(axis, subs=(1,) if axis is not right.xaxis else (1, 2, 5), numticks=6)
        top = SHOWN * (least if least > 0 else float(curves["classic"].min()))
        kept = {name: values <= top for name, values in curves.items()}
        drawn = {name: (orders[k], curves[name][k]) for name, k in kept.items() if k.any()}
        plots.lines(
            right, drawn, x="order", y=f"epsilon (nats) at delta {short(result['delta'])}"
        )
        right.set(ylim=(0, top))
        right.set_title(y=1.0, label="Epsilon by order")
        right.plot(order, least, "o", color=plots.COLOURS[1], zorder=3)
        for ax in (left, right):
            plots.mark(ax, order, f"best order {order:.3g}", colour=plots.COLOURS[1])
            if order > 1.05 * WHOLE[-1]:
                plots.mark(ax, WHOLE[-1], "cap 64")
        words = (
            f"RDP grows from {at_most(costs[0], 3)} nats at order {far[0]:.3g} to "
            f"{at_most(costs[-1], 3)} at {far[-1]:.4g}. Epsilon is least at order "
            f"{order:.4g}: {at_most(least)} by the improved conversion, "
            f"{at_most(result['rows'][len(LISTS) + 1][2])} by the classic"
        )
        if result["optimal"] is not None:
            words += f", {at_most(result['optimal'][0])} by the optimal one"
        return plots.picture(figure, f"{words}.")


@lru_cache(maxsize=16)
def _near(run: RunInput, best: float) -> tuple[Floats, Floats, float]:
    """Orders around the best one, their RDP, and that one."""
    best = max(best, 1 + 1e-6)  # of few digits, and orders are above 1
    spread = 1 + (best - 1) * np.geomspace(1 / 12, 12, NEAR)
    below = spread[spread > 1]
    orders = np.unique(np.clip(np.append(below, best), below[0], LARGEST_ORDER))
    return *rdp.curve(run.ledger, orders), best


def _by(
    conversion: conversions.Conversion, orders: Floats, costs: Floats, delta: float
) -> Floats:
    """Epsilon at each order by one conversion, inf where RDP is."""
    values = np.full_like(costs, np.inf)
    finite = np.isfinite(costs)
    values[finite] = conversion.epsilon(orders[finite], costs[finite], delta)
    return values


def _more(value: float, least: float) -> str:
    """A value's excess over the least one, in words."""
    if not (math.isfinite(value) and least > 0):
        return ""
    return f"{100 * max(value / least - 1, 0):.2g} %"
