"""A claim on a card: said and computed side by side, a line of code as it was and should be."""

import math
import os
from collections.abc import Iterator
from html import escape
from types import ModuleType
from typing import Any

from dpkit import papers
from dpkit.common.show import Table, at_least, at_most
from dpkit.course.explorers.claims_wall_checked import by_id, checked
from dpkit.course.explorers.claims_wall_tiles import LOOKS, tile
from dpkit.papers.claims import CAUSES, Claim, Verdict

FRAME = "max-width:940px;padding:8px 16px;background-color:#FFFFFF;color:#202124;line-height:1.45;"
CODE = "margin:2px 0;padding:6px 8px;background-color:#F1F3F4;color:#202124;"
CODE += "white-space:pre-wrap;font-family:monospace"
CELL = "text-align:left;vertical-align:top;width:50%;padding:2px 12px 4px 0;line-height:1.45"
LINK = "color:#0B57D0;text-decoration:underline"
PAIRS = (("as it was", "as it should be"), ("stated", "computed"))
MONOSPACE = PAIRS[0]
WIDE = "style='width:100%;table-layout:fixed;margin:0'"


class Card(Table):
    """A claim's rows: (name, text), with an empty name where a text goes on."""

    def html(self, *, folded: bool = False) -> str:
        """As a card in the colour of its verdict, notes and all."""
        cells = _gathered(self)
        verdict: Any = cells["verdict"]
        edge = f"border-left:8px solid {LOOKS[verdict].tile};"
        parts = (
            f"{tile(verdict)} {_small('verdict')} <b>{escape(verdict)}</b> &nbsp; "
            f"{_small(self.headings[0])} <b>{escape(self.headings[1])}</b>",
            _text("said", cells, size=115),
            f"{_text('where', cells)}{_text('paper', cells)}{_link(cells.get('notebook', ''))}",
            f"<table {WIDE}>{''.join(_side_by_side(pair, cells) for pair in PAIRS)}</table>",
            *(_text(name, cells) for name in ("cause", "explanation")),
            *map(_small, self.notes),
        )
        inside = "".join(f"<div style='margin:5px 0'>{part}</div>" for part in parts if part)
        return f"<div style='{FRAME}{edge}'>{inside}</div>"

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()


def card(identity: str) -> Card:
    """The card of a claim, to show in a notebook.

    Raises:
        ValueError: there is no claim of that id.
    """
    known = by_id()
    if identity not in known:
        raise ValueError(f"claim must be the id of one, such as {next(iter(known))}; {identity!r}")
    return card_of(checked(known[identity]))


def card_of(found: Verdict, *notes: str) -> Card:
    """The card of a checked claim, with sentences below it."""
    claim, paper = found.claim, papers.named(found.claim.paper, papers.with_claims())
    rows = [
        ("verdict", found.verdict),
        ("said", claim.says),
        ("where", claim.where),
        *_code_rows(claim),
        ("stated", stated(claim)),
        ("computed", computed(claim, found.computed)),
        ("explanation", found.explanation),
        ("paper", paper.TITLE),
    ]
    notebook = notebook_of(paper)
    return Card(
        ("claim", claim.id), [*rows, *([("notebook", notebook)] if notebook else [])], notes
    )


def notebook_of(paper: ModuleType) -> str:
    """File name of the notebook that takes the paper apart; empty where there is none."""
    name = vars(paper).get("NOTEBOOK")  # not getattr, which looks into modules that need torch
    return f"{name}.ipynb" if name else ""


def stated(claim: Claim) -> str:
    """What is said in numbers, and how the computed value relates to it."""
    if claim.stated is None:
        return "no number"
    within = f", within {claim.tolerance:g}" if claim.tolerance else ""
    relation = "" if claim.kind == "unchecked" else f"{claim.kind} "
    return f"{relation}{claim.stated:.10g}{within}"


def computed(claim: Claim, value: float) -> str:
    """The computed value in words, rounded the way that the claim's comparison goes."""
    if not value or not math.isfinite(value):
        return claim.shown(value) or "-"
    if claim.kind == "at most":
        return at_most(value)
    if claim.kind == "at least":
        return at_least(value)
    if claim.kind == "equals" and claim.tolerance:  # a digit more than the comparison needs
        value = round(value, 1 - math.floor(math.log10(claim.tolerance)))
    return f"{value:.10g}" if claim.kind == "equals" else f"{value:.4g}"


def _code_rows(claim: Claim) -> Iterator[tuple[str, str]]:
    if claim.code is None:
        return
    for name, text in zip(MONOSPACE, (claim.code.was, claim.code.should), strict=True):
        for number, line in enumerate(text.splitlines()):
            yield ("" if number else name), line
    yield "cause", f"{claim.code.cause}: {CAUSES[claim.code.cause]}"


def _gathered(table: Table) -> dict[str, str]:
    """Name -> text, whose lines are joined."""
    cells: dict[str, str] = {}
    last = ""
    for name, text in table.rows:
        cells[name or last] = text if name else f"{cells[last]}\n{text}"
        last = name or last
    return cells


def _text(name: str, cells: dict[str, str], size: int = 100) -> str:
    if name not in cells:
        return ""
    told = f"<span style='font-size:{size}%'>{escape(cells[name])}</span>"
    return f"<div>{_small(name)} {told}</div>"


def _side_by_side(names: tuple[str, str], cells: dict[str, str]) -> str:
    if names[0] not in cells:
        return ""
    both = (_small(name) + _value(name, cells[name]) for name in names)
    inside = "".join(f"<td style={CELL!r}>{cell}</td>" for cell in both)
    return f"<tr style='background-color:transparent'>{inside}</tr>"


def _value(name: str, text: str) -> str:
    if name in MONOSPACE:
        return f"<pre style='{CODE}'>{escape(text)}</pre>"
    return f"<br><b style='font-size:115%'>{escape(text)}</b>"


def _small(text: str) -> str:
    return f"<span style='font-size:85%;color:#5F6368'>{escape(text)}</span>"


def _link(notebook: str) -> str:
    """To the paper's notebook; under Voila, which serves one page alone, only its name."""
    if not notebook:
        return ""
    alone = os.environ.get("SERVER_SOFTWARE", "").startswith("voila")
    name = escape(notebook)
    link = f"<a href='{name}' target='_blank' style='{LINK}'>{name}</a>"
    return f"<div>{_small('notebook')} {name if alone else link}</div>"
