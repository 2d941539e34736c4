"""Why RDP needs many orders: the curve, epsilon by order, and what a capped list of them costs."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from dpkit import checks, plots
from dpkit.explorers.explorer import Explorer, choice, logarithmic, number
from dpkit.privacy import Release, SampledGaussian, conversions, rdp
from dpkit.privacy.mechanisms import ADJACENCIES, LARGEST_ORDER, Floats
from dpkit.show import Table, at_most

WHOLE = tuple(range(2, 65))
OPACUS = (*(1 + x / 10 for x in range(1, 100)), *range(12, 64))  # Opacus 1.5, accountants/rdp.py
LISTS = {"2 to 64": WHOLE, "Opacus' default": OPACUS}
NEAR = 48  # orders of the picture of epsilon, around the best one
FAR: Floats = 1 + np.geomspace(0.05, 1023, 80)  # orders of the picture of RDP
SHOWN = 3.0  # epsilons up to this many times the least are drawn
HEADINGS = ("conversion", "orders", "epsilon", "best order", "more than the search")
LATER = "with the picture"


class RenyiOrders(Explorer):
    """Noise, rate, steps and delta: RDP by order, and which order decides epsilon."""

    title = "Which order decides?"

    def __init__(self) -> None:
        """100 steps at sample rate 0.01 with noise multiplier 4: the best order is large."""
        super().__init__(
            {
                "noise_multiplier": logarithmic(
                    "noise multiplier", -1, 2, 4.0, "Noise standard deviation / clip norm"
                ),
                "sample_rate": logarithmic(
                    "sample rate", -5, 0, 0.01, "Probability that a record is in a batch"
                ),
                "steps": logarithmic("steps", 0, 6, 100, "Noisy updates"),
                "delta": number("delta", 1e-5, "Of (epsilon, delta)-DP, in (0, 1)"),
                "adjacency": choice(
                    "adjacency", ADJACENCIES, "What neighbouring data sets differ by"
                ),
            }
        )

    @staticmethod
    def compute(
        *, noise_multiplier: float, sample_rate: float, steps: float, delta: float, adjacency: str
    ) -> dict[str, Any]:
        """Epsilon and its order by the search and by lists of orders; `optimal` comes later.

        Raises:
            ValueError: a value is out of range.
        """
        checks.between(0, 1, delta=delta)
        checks.between(0, math.inf, steps=steps)
        if not 0 < sample_rate <= 1:
            raise ValueError(f"sample_rate must lie in (0, 1], got {sample_rate:g}")
        if not round(steps) >= 1:
            raise ValueError(f"steps must be at least 1, got {steps:g}: without one, nothing costs")
        mechanism = SampledGaussian(noise_multiplier, sample_rate, adjacency)  # type: ignore[arg-type]
        ledger = [Release(mechanism, round(steps))]
        rows = []
        for conversion in ("improved", "classic"):
            for name, orders in {"search": None, **LISTS}.items():
                found = rdp.epsilon(ledger, delta=delta, conversion=conversion, orders=orders)
                order = float(found.method.rsplit(" ", 1)[1])
                rows.append((conversion, name, found.epsilon, order))
        return {
            "noise_multiplier": noise_multiplier, "sample_rate": sample_rate,
            "steps": round(steps), "delta": delta, "adjacency": adjacency, "rows": rows,
            "ledger": ledger, "optimal": None,
        }  # fmt: skip

    def table(self, result: dict[str, Any]) -> Table:
        """A row for each conversion and list of orders."""
        least = {row[0]: row[2] for row in result["rows"] if row[1] == "search"}
        rows = [
            (
                conversion, name, at_most(value), f"{order:.4g}",
                "" if name == "search" else _more(value, least[conversion]),
            )
            for conversion, name, value, order in result["rows"]
        ]  # fmt: skip
        if result["optimal"] is None:
            rows.append(("optimal", "as drawn", LATER, "", ""))
        else:
            value, order = result["optimal"]
            rows.append(("optimal", "as drawn", at_most(value), f"{order:.4g}", ""))
        run = f"{result['steps']} steps, delta {result['delta']:g}, {result['adjacency']}"
        return Table(
            HEADINGS, rows,
            (
                f"{run}, Poisson batches. Each is proven; at every order, optimal <= improved <= "
                "classic.",
                "Opacus' default list: 1.1 to 10.9 by tenths, 12 to 63.",
            ),
        )  # fmt: skip

    def late(self, result: dict[str, Any]) -> dict[str, Any]:
        """With the optimal conversion, which takes some tenths of a second."""
        orders, _, curves = _near(*_key(result))
        best = int(np.argmin(curves["optimal"]))
        return {**result, "optimal": (float(curves["optimal"][best]), float(orders[best]))}

    def draw(self, result: dict[str, Any]) -> plots.Picture:
        """RDP by order, and epsilon by order under each conversion."""
        orders, order, curves = _near(*_key(result))
        _, _, least, _ = result["rows"][0]
        figure, (left, right) = plots.figure(width=8.6, height=3.4, panels=2)
        left.set_xscale("log")
        far, costs = rdp.curve(result["ledger"], FAR)
        shown = np.isfinite(costs) & (costs > 0)
        drawn: Any = {"RDP": (far[shown], costs[shown])}
        plots.lines(left, drawn, x="order", y="RDP (nats)", y_scale="log")
        left.set(title="RDP by order")
        right.set_xscale("log")
        right.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        right.xaxis.set_major_formatter("{x:g}")
        right.xaxis.set_minor_formatter(NullFormatter())
        top = SHOWN * (least if least > 0 else float(curves["classic"].min()))
        drawn = {}
        for name, values in curves.items():
            kept = values <= top
            drawn[name] = (orders[kept], values[kept])
        drawn = {name: xy for name, xy in drawn.items() if xy[0].size}
        plots.lines(right, drawn, x="order", y=f"epsilon (nats) at delta {result['delta']:g}")
        right.set(title="Epsilon by order", ylim=(0, top))
        right.plot(order, least, "o", color=plots.COLOURS[1], zorder=3)
        for ax in (left, right):
            _mark(ax, order, f"best order {order:.3g}", plots.COLOURS[1], side=-1)
            if order > 1.05 * WHOLE[-1]:
                _mark(ax, WHOLE[-1], "cap 64", "0.4", side=-1)
        optimal = float(curves["optimal"].min())
        words = (
            f"RDP grows from {at_most(costs[0], 3)} nats at order {far[0]:.3g} to "
            f"{at_most(costs[-1], 3)} at {far[-1]:.4g}. Epsilon is least at order "
            f"{order:.4g}: {at_most(least)} by the improved conversion, "
            f"{at_most(result['rows'][len(LISTS) + 1][2])} by the classic, {at_most(optimal)} by "
            "the optimal one."
        )
        return plots.picture(figure, words)


def _key(result: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(result["ledger"]), result["delta"], result["rows"][0][3]


@lru_cache(maxsize=16)
def _near(
    ledger: tuple[Release, ...], delta: float, best: float
) -> tuple[Floats, float, dict[str, Floats]]:
    """Orders around the best one, that one, and epsilon at each by each conversion."""
    best = max(best, 1 + 1e-6)  # of few digits, and orders are above 1
    spread = 1 + (best - 1) * np.geomspace(1 / 12, 12, NEAR)
    below = spread[spread > 1]
    orders = np.unique(np.clip(np.append(below, best), below[0], LARGEST_ORDER))
    orders, costs = rdp.curve(ledger, orders)
    curves = {}
    for one in conversions.CONVERSIONS:
        values = np.full_like(costs, np.inf)
        finite = np.isfinite(costs)
        values[finite] = one.epsilon(orders[finite], costs[finite], delta)
        curves[one.name] = values
    return orders, best, curves


def _more(value: float, least: float) -> str:
    """By how much a value is above the least one."""
    if not (math.isfinite(value) and least > 0):
        return ""
    return f"{100 * max(value / least - 1, 0):.2g} %"


def _mark(ax: Any, x: float, text: str, colour: str, *, side: int) -> None:
    ax.axvline(x, color=colour, linestyle=":", linewidth=1)
    ax.annotate(
        text, (x, 1), (3 * side, -3), xycoords=("data", "axes fraction"),
        textcoords="offset points", color=colour, fontsize=8, rotation=90, va="top",
        ha="right" if side < 0 else "left",
    )  # fmt: skip
