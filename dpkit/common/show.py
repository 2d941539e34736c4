"""Bounds and tables as text: a bound is rounded to its safe side, so it stays a bound."""

import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from html import escape
from numbers import Real
from typing import Any, NamedTuple

from dpkit.common.checks import short

NUMBER = re.compile(r"-?[\d,]+(\.\d+)?|inf")


def at_most(value: float, digits: int = 4) -> str:
    """An upper bound in `digits` significant digits, rounded up."""
    return _rounded(value, digits, ROUND_CEILING)


def at_least(value: float, digits: int = 4) -> str:
    """A lower bound in `digits` significant digits, rounded down."""
    return _rounded(value, digits, ROUND_FLOOR)


def interval(low: float, high: float, digits: int = 4) -> str:
    """Both bounds, rounded outwards: "1.2 to 1.3"; "inf" or "0" where the upper one is."""
    if high == 0 or math.isinf(high):
        return at_most(high)
    return f"{at_least(low, digits)} to {at_most(high, digits)}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: "1 release", "2 releases"; `plural` where it is no -s."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def _rounded(value: float, digits: int, direction: str) -> str:
    if math.isnan(value):
        raise ValueError("a bound must be a number, got nan; a failed computation has none")
    if value == 0 or math.isinf(value):
        return short(value)
    # repr is the shortest decimal that means this float: 0.1 is 0.1, not 0.1000000000000000055
    shown = Context(prec=digits, rounding=direction).create_decimal(repr(float(value)))
    return short(float(shown), digits)


class Table(NamedTuple):
    """Rows of text under headings; `notes` are sentences below them."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    def html(self, *, folded: bool = False) -> str:
        """As an HTML table; `folded` shows all notes but the first on demand."""
        head = _cells("th", self.headings)
        rows = "".join(_cells("td", row) for row in self.rows)
        first, *more = [f"<p>{escape(note)}</p>" for note in self.notes] or [""]
        rest = "".join(more)
        if rest and folded:
            rest = f"<details><summary>More</summary>{rest}</details>"
        return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{first}{rest}"

    def text(self) -> str:
        """As lines of text, for screens without HTML."""
        lines = [self.headings, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([*shown, *self.notes])


def tabled(rows: Any, columns: Sequence[str] | None = None, *, digits: int = 3) -> Table:
    """Rows of numbers and words as a Table without an index; what is missing is left blank.

    Args:
        rows: a data frame, dicts by heading, or rows in the order of `columns`.
        columns: headings; of dicts and data frames, those that are shown.
        digits: decimals of a number below 1,000; whole numbers and larger ones have none.

    Raises:
        ValueError: a column has no value in any row.
    """
    records = rows.to_dict("records") if hasattr(rows, "to_dict") else list(rows)
    if records and isinstance(records[0], Mapping):
        columns = columns or list({name: None for row in records for name in row})
        records = [[row.get(name) for name in columns] for row in records]
    told = [_told(column, digits) for column in zip(*records, strict=True)]
    if empty := [
        name for name, cells in zip(columns or (), told, strict=False) if not any(cells)
    ]:
        raise ValueError(f"columns must have a value in some row, {empty} have none")
    return Table([str(name) for name in columns or ()], list(zip(*told, strict=True)))


def _told(column: Sequence[Any], digits: int) -> list[str]:
    """One column's values in words."""
    numbers = [value for value in column if _is_number(value) and math.isfinite(value)]
    whole = all(value == int(value) for value in numbers)
    return [_word(value, 0 if whole else digits) for value in column]


def _word(value: Any, digits: int) -> str:
    if value is None or (_is_number(value) and math.isnan(value)):
        return ""
    if not _is_number(value):
        return str(value)
    if math.isinf(value):
        return f"{value:g}"
    return f"{value + 0.0:,.{0 if abs(value) >= 1000 else digits}f}"


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _cells(tag: str, row: Sequence[str]) -> str:
    sides = ("right" if NUMBER.fullmatch(cell) else "left" for cell in row)
    cells = (
        f"<{tag} style='text-align:{side}'>{escape(cell)}</{tag}>"
        for side, cell in zip(sides, row, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"
