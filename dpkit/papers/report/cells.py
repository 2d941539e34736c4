"""Rows of tables as the text of cells."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from dpkit.common.show import at_most
from dpkit.papers.experiments.store import Shown, Stored

NOTHING = "–"
_FOLDED = ("lowest", "highest")


class Grid(NamedTuple):
    """A table as text.

    heads: of each column its name, and what its numbers are ("" where that is said elsewhere).
    numeric: of each column whether it holds numbers.
    """

    title: str
    heads: list[tuple[str, str]]
    numeric: list[bool]
    rows: list[list[str]]


def grid(shown: Shown, stored: Mapping[str, Stored]) -> Grid:
    """A report's table from the stored parts of all plans of its paper, by plan.

    A column's lowest and highest value stand in brackets beside it. What its name or its unit calls
    an epsilon is rounded upwards.
    """
    rows = [_folded(row) for row in shown.rows(*(stored.get(name, {}) for name in shown.of))]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return Grid(
        shown.title,
        [(column.replace("_", " "), shown.units.get(column, "")) for column in columns],
        [any(_number(row.get(column)) for row in rows) for column in columns],
        [[_cell(row.get(column), column, shown) for column in columns] for row in rows],
    )


def epsilon(value: Any) -> str:
    """An epsilon as its cell shows it, rounded upwards: the text of an upper bound is one."""
    finite = isinstance(value, float) and math.isfinite(value)
    return at_most(value) if finite else text(value)


def text(value: Any) -> str:
    """A value as its cell shows it; "none" where it is infinite: no such guarantee exists."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Ranged):
        alone = value.seeds == 1 or value.lowest is None or value.mean is None
        ends = "" if alone else f" ({text(value.lowest)} to {text(value.highest)})"
        return text(value.mean) + ends
    if isinstance(value, int):
        return f"{value:,}"
    if value == "inf" or (isinstance(value, float) and math.isinf(value)):
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Ranged(NamedTuple):
    """A number with the lowest and highest one over seeds."""

    mean: float | None
    lowest: float | None
    highest: float | None
    seeds: int | None = None


def _cell(value: Any, column: str, shown: Shown) -> str:
    named = f"{column} {shown.units.get(column, '')}"
    return epsilon(value) if "epsilon" in named else text(value)


def _folded(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with each range beside its number: of "lowest" the column before it."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if name == "lowest":
            last = next(reversed(found))
            ends = value, row["highest"], row.get("seeds")
            found[last] = Ranged(found[last], *ends)
        elif name.endswith("_range") and name.removesuffix("_range") in found:
            key = name.removesuffix("_range")
            found[key] = Ranged(found[key], *(value or (None, None)))
        elif name not in _FOLDED:
            found[name] = Ranged(**value) if _is_spread(value) else value
    return found


def _is_spread(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == set(Ranged._fields)


def _number(value: Any) -> bool:
    return isinstance(value, int | float | Ranged) and not isinstance(value, bool)
