"""Bounds and tables as text: a bound is rounded to its safe side, so it stays a bound."""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from html import escape
from typing import NamedTuple


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


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 release", "2 releases"."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _rounded(value: float, digits: int, direction: str) -> str:
    if math.isnan(value):
        raise ValueError("a bound must be a number, got nan; a failed computation has none")
    if value == 0 or math.isinf(value):
        return f"{value + 0.0:g}"
    # repr is the shortest decimal that means this float: 0.1 is 0.1, not 0.1000000000000000055
    exact = repr(float(value))
    shown = Context(prec=digits, rounding=direction).create_decimal(exact)
    return f"{float(shown):.{digits}g}"


class Table(NamedTuple):
    """Rows of text under headings; `notes` are sentences below them."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    def html(self) -> str:
        """As an HTML table."""
        head = _cells("th", self.headings)
        rows = "".join(_cells("td", row) for row in self.rows)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{notes}"

    def text(self) -> str:
        """As lines of text, for screens without HTML."""
        lines = [self.headings, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([*shown, *self.notes])


def _cells(tag: str, row: Sequence[str]) -> str:
    cells = (f"<{tag} style='text-align:left'>{escape(cell)}</{tag}>" for cell in row)
    return f"<tr>{''.join(cells)}</tr>"
