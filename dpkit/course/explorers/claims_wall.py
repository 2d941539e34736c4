"""The papers' claims, computed again: a wall of all, and the card of the one chosen.

On the wall each claim is a tile, by paper, with a colour and a sign for its verdict. Its card shows
stated and computed side by side, and a line of code as it was and should be.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from html import escape
from types import ModuleType
from typing import Any, NamedTuple

import ipywidgets as widgets

from dpkit import papers
from dpkit.common import checks, plots
from dpkit.common.show import Table, at_least, at_most, short
from dpkit.course.explorers.controls import Control, choice, words
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.papers import claims
from dpkit.papers.claims import CAUSES, OUTCOMES, Claim, Curve, Outcome, Verdict, counted

ALL = "all"
VERDICTS = (ALL, *OUTCOMES)
CACHED = 1024  # claims
ROOM: Any = {"left": 0.18, "right": 0.8, "bottom": 0.2, "top": 0.95}
OPENS = "dp_cgan/per-tensor-clipping"  # a line of code, a number and a curve


class TileLook(NamedTuple):
    """A verdict's sign, and the colours of its tile and of the sign on it."""

    sign: str
    tile: str
    ink: str


# No verdict is an alarm. Signs differ without colour, and each is legible on its tile (contrast
# 4.5 and more)
LOOKS: dict[Outcome, TileLook] = {
    "holds": TileLook("✓", "#CFE0EC", "#202124"),
    "fails": TileLook("≠", "#51677A", "white"),
    "computed": TileLook("=", "#E8EAED", "#202124"),
    "cannot be checked": TileLook("?", "#F8F9FA", "#202124"),
}
INTRODUCTION = "Each tile is a statement; press one to see what is stated and what we compute."
SIZE = 22  # pixels, of a tile; with its margin 24, which a finger needs
TILE = f"width:{SIZE - 2}px;height:{SIZE - 2}px;line-height:{SIZE - 2}px;text-align:center;"
TILE += "border-radius:3px;font-weight:bold;font-size:12px;"
FRAME = (
    "max-width:940px;padding:4px 10px;background-color:#FFFFFF;color:#202124;line-height:1.45;"
)
CODE = "margin:2px 0;padding:6px 8px;background-color:#F1F3F4;color:#202124;"
CODE += "white-space:pre-wrap;font-family:monospace"
CELL = "text-align:left;vertical-align:top;width:50%;padding:2px 12px 4px 0;line-height:1.45"
LINK = "color:#0B57D0;text-decoration:underline"
MONOSPACE = ("as it was", "as it should be")
WIDE = "style='width:100%;table-layout:fixed;margin:0'"


class ClaimsWall(Explorer):
    """All claims as tiles, coloured by verdict, and one's card, stated and computed."""

    title = "What do papers claim, and does it hold?"

    def __init__(self) -> None:
        """All claims of all papers, and of later literature."""
        names = (ALL, *(paper.NAME for paper in papers.with_claims()))
        every = matching(ALL, ALL)
        shown = OPENS if OPENS in every else every[0]
        self.legend = widgets.HTML()
        self.tiles = Tiles(self._press)
        told = "Only claims with this verdict"
        hint = "such as clip, batch, label"
        super().__init__(
            self.legend,
            self.tiles,
            controls=(
                Control("paper", choice, ALL, names, "paper", "Whose claims"),
                Control("verdict", choice, ALL, VERDICTS, "verdict", told),
                Control("word", words, "", hint, "word", "Only claims that mention it"),
                Control("claim", choice, shown, every, "claim", "The claim that is shown"),
            ),
        )
        *above, picture, its_words, card_shown = self.children
        self.children = (*above, card_shown, picture, its_words)
        self._mark()

    @staticmethod
    def compute(*, paper: str, verdict: str, word: str, claim: str | None) -> Result:
        """The verdict on one claim, and all that are chosen with it.

        Args:
            paper: its package's name, or "all".
            verdict: one of VERDICTS.
            word: that the claims mention, empty for all.
            claim: an id that the three choose, None where they choose none.

        Raises:
            ValueError: no claim is chosen, or one that paper, verdict and word leave out.
        """
        chosen = matching(paper, verdict, word)
        if not chosen:
            whose = "any paper" if paper == ALL else paper
            which = "" if verdict == ALL else f" with the verdict {verdict!r}"
            said = f" that mentions {word.strip()!r}" if word.strip() else ""
            raise ValueError(f"there is no claim of {whose}{which}{said}; choose another")
        if claim not in chosen:
            raise ValueError(
                f"claim must be one of those chosen, {', '.join(chosen)}; got {claim}"
            )
        found = checked(by_id()[claim])
        return {**found._asdict(), "chosen": chosen, "all": len(by_id())}

    def says(self, result: Result) -> str:
        """State the claim and its verdict."""
        return f"{result['claim'].id}: {result['verdict']}."

    def table(self, result: Result) -> Table:
        """The claim's card."""
        found = Verdict(**{name: result[name] for name in Verdict._fields})
        return card_of(
            found, f"{len(result['chosen'])} of {result['all']} claims are on the wall."
        )

    def draw(self, result: Result) -> plots.Picture:
        """The claim's curve, where it has one, beside what is stated."""
        claim: Claim = result["claim"]
        curve = curve_of(claim.id)
        if curve is None:
            return plots.Picture(None, "This claim has no curve.")
        points = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(y)]
        if not points:
            return plots.Picture(None, f"No {curve.y_name} of this claim is finite.")
        xs, ys = [x for x, _ in points], [y for _, y in points]
        shown = {"computed": (xs, ys)}
        stated = ""
        # the statement belongs to the curve where the curve ends at what is compared with it
        if claim.stated is not None and math.isclose(ys[-1], result["computed"], rel_tol=1e-6):
            shown["stated"] = ([xs[0], xs[-1]], [claim.stated] * 2)
            stated = f" Stated is {short(claim.stated)}."
        figure, (ax,) = plots.figure(width=3.75, height=2.6, **ROOM)
        plots.lines(ax, shown, x=curve.x_name, y=curve.y_name)
        words = (
            f"{curve.y_name} from {computed(claim, ys[0])} at {curve.x_name} {short(xs[0])} to "
            f"{computed(claim, ys[-1])} at {curve.x_name} {short(xs[-1])}.{stated}"
        )
        return plots.picture(figure, words[:1].upper() + words[1:])

    def _press(self, identity: str) -> None:
        self.values["claim"].value = identity

    def _changed(self, change: Any) -> None:
        if self._held:  # one change of the choice is one answer, given below
            return
        claim = self.values["claim"]
        if change["owner"] is not claim:
            before, options = claim.value, self._chosen()
            with self.held():
                claim.options = options
                if options:
                    claim.value = before if before in options else options[0]
        super()._changed(change)
        self._mark()

    def _chosen(self) -> tuple[str, ...]:
        return matching(*(self.values[name].value for name in ("paper", "verdict", "word")))

    def _mark(self) -> None:
        """Show the chosen claims on the wall."""
        chosen = self._chosen()
        self.legend.value = legend(chosen)
        self.tiles.show(chosen, self.values["claim"].value)

    def __repr__(self) -> str:
        title, _, rest = super().__repr__().partition("\n")
        signs = [
            f"{paper.NAME:<14}{''.join(LOOKS[one.verdict].sign for one in found)}"
            for paper, found in by_paper(self._chosen())
            if found
        ]
        return "\n".join((title, *signs, rest))

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None, **kwargs: Any
    ) -> Any:
        """As every explorer's, with the wall above the card in the static text."""
        data = super()._repr_mimebundle_(include=include, exclude=exclude, **kwargs)
        chosen = self._chosen()
        wall = wall_of(chosen, self.values["claim"].value) + legend(chosen)
        data["text/html"] = data["text/html"].replace("</h3>", f"</h3>{wall}", 1)
        return data


class Tiles(widgets.VBox):
    """Tiles that can be pressed, a row for each paper.

    Buttons are made once; a choice only moves them in and out of their rows. They share four styles
    and two layouts, which keeps a hundred as quick as a few.
    """

    def __init__(self, press: Callable[[str], None]) -> None:
        """Args: press, called with the id of the claim whose tile is pressed."""
        self.looks = {
            verdict: widgets.ButtonStyle(
                button_color=look.tile,
                text_color=look.ink,
                font_weight="bold",
                font_size="12px",
            )
            for verdict, look in LOOKS.items()
        }
        square = {"width": f"{SIZE}px", "height": f"{SIZE}px", "padding": "0", "margin": "1px"}
        self.at_rest, self.pressed = (
            widgets.Layout(**square, border=border)
            for border in ("2px solid transparent", "3px solid #202124")
        )
        look = self.looks["computed"]  # its verdict's, when it is shown
        self.buttons = {
            one: widgets.Button(layout=self.at_rest, style=look) for one in by_id()
        }
        for identity, button in self.buttons.items():
            button.on_click(lambda _, identity=identity: press(identity))
        self.rows = {paper.NAME: _row() for paper in papers.with_claims()}
        super().__init__(tuple(self.rows.values()))

    def show(self, chosen: Sequence[str], shown: str | None) -> None:
        """Put the chosen claims' tiles on the wall, and mark the shown one."""
        for paper, found in by_paper(chosen):
            for one in found:
                button = self.buttons[one.claim.id]
                button.description, button.tooltip = LOOKS[one.verdict].sign, title_of(one)
                button.style = self.looks[one.verdict]
                button.layout = self.pressed if one.claim.id == shown else self.at_rest
            row = self.rows[paper.NAME]
            label, tiles = row.children
            label.value = heading(paper, found)
            tiles.children = tuple(self.buttons[one.claim.id] for one in found)
            row.layout.display = None if found else "none"


def _row() -> Any:
    label = widgets.HTML(layout=widgets.Layout(flex="1 0 230px", max_width="100%"))
    wrapped = {"flex_flow": "row wrap", "align_content": "flex-start"}
    tiles = widgets.HBox(layout=widgets.Layout(flex="3 1 300px", min_width="0", **wrapped))
    return widgets.HBox((label, tiles), layout=widgets.Layout(margin="3px 0", **wrapped))


def legend(chosen: Sequence[str]) -> str:
    """Each sign's meaning and number of chosen claims, as HTML."""
    count = Counter(checked(by_id()[one]).verdict for one in chosen)
    parts = (
        f"{tile(verdict)} {count[verdict]} "
        f"{verdict if count[verdict] == 1 else several} &nbsp; "
        for verdict, several in OUTCOMES.items()
    )
    told = f"<p style='margin:4px 0'>{INTRODUCTION}</p><div>{''.join(parts)}</div>"
    return f"<div style='line-height:1.4'>{told}</div>"


def tile(verdict: Outcome, title: str = "", *, chosen: bool = False) -> str:
    """One tile as HTML."""
    sign, colour, ink = LOOKS[verdict]
    edge = "outline:3px solid #202124;outline-offset:1px;" if chosen else ""
    style = f"display:inline-block;margin:2px;{TILE}{edge}"
    told = f" title='{escape(title, quote=True)}'" if title else ""
    return f"<span style='{style}background-color:{colour};color:{ink}'{told}>{sign}</span>"


def title_of(found: Verdict) -> str:
    """A tile's tooltip."""
    return f"{found.claim.name}: {found.verdict}. {found.claim.says}"


def wall_of(chosen: Sequence[str], shown: str | None) -> str:
    """The chosen claims' tiles, as an HTML table with a row for each paper."""
    rows = []
    for paper, found in by_paper(chosen):
        tiles = (tile(v.verdict, title_of(v), chosen=v.claim.id == shown) for v in found)
        cells = (heading(paper, found), f"<div style='max-width:720px'>{''.join(tiles)}</div>")
        if found:
            rows.append("".join(f"<td style='text-align:left'>{cell}</td>" for cell in cells))
    return f"<table><tbody>{''.join(f'<tr>{row}</tr>' for row in rows)}</tbody></table>"


def heading(paper: ModuleType, found: Sequence[Verdict]) -> str:
    """A paper's name, its authors, and its claims' verdicts, as HTML."""
    name, _, authors = paper.TITLE.partition(" (")
    told = f"{authors.removesuffix(')')}: {counted(found)}"
    small = f"<span style='font-size:85%'>{escape(told)}</span>"
    return f"<div style='line-height:1.3'><b>{escape(name)}</b> {small}</div>"


class Card(Table):
    """A claim's rows: (name, text), with an empty name where a text goes on."""

    def html(self, *, folded: bool = False) -> str:
        """The card in the colour of its verdict, with its notes."""
        cells: dict[str, Any] = {}  # name -> text, whose lines are joined
        for name, text in self.rows:
            name = name or [*cells][-1]
            cells[name] = f"{cells[name]}\n{text}" if name in cells else text
        verdict = cells["verdict"]
        edge = f"border-left:8px solid {LOOKS[verdict].tile};"
        pairs = (_side_by_side(pair, cells) for pair in (MONOSPACE, ("stated", "computed")))
        parts = (
            f"{tile(verdict)} {_small('verdict')} <b>{escape(verdict)}</b> &nbsp; "
            f"{_small(self.headings[0])} <b>{escape(self.headings[1])}</b>",
            _text("said", cells, size=115),
            _text("explanation", cells),
            f"<table {WIDE}>{''.join(pairs)}</table>",
            _text("cause", cells),
            f"{_text('paper', cells)}{_link(cells.get('notebook', ''))}",
            _text("where", cells, size=85),
            *map(_small, self.notes),
        )
        inside = "".join(f"<div style='margin:3px 0'>{part}</div>" for part in parts if part)
        return f"<div style='{FRAME}{edge}'>{inside}</div>"


def card(identity: str) -> Card:
    """Return the card of a claim, to show in a notebook.

    Raises:
        ValueError: there is no claim of that id.
    """
    known = by_id()
    if identity not in known:
        raise ValueError(
            f"id must be a claim's, such as {next(iter(known))}, got {identity!r}"
        )
    return card_of(checked(known[identity]))


def card_of(found: Verdict, *notes: str) -> Card:
    """The card of a checked claim, with sentences below it."""
    claim, paper = found.claim, papers.named(found.claim.paper, papers.with_claims())
    rows = [
        ("verdict", found.verdict),
        ("said", claim.says),
        ("explanation", found.explanation),
    ]
    if claim.code is not None:
        for name, text in zip(MONOSPACE, (claim.code.was, claim.code.should), strict=True):
            first, *others = text.splitlines()
            rows += [(name, first), *(("", line) for line in others)]
        rows.append(("cause", f"{claim.code.cause}: {CAUSES[claim.code.cause]}"))
    rows += [
        ("stated", stated(claim)),
        ("computed", computed(claim, found.computed)),
        ("paper", paper.TITLE),
        ("where", claim.where),
    ]
    if name := vars(paper).get("NOTEBOOK"):  # getattr would import modules that need torch
        rows.append(("notebook", f"{name}.ipynb"))
    return Card(("claim", claim.id), rows, notes)


def stated(claim: Claim) -> str:
    """The stated number, and its relation to the computed value."""
    if claim.stated is None:
        return "no number"
    within = f", within {short(claim.tolerance)}" if claim.tolerance else ""
    relation = "" if claim.kind == "unchecked" else f"{claim.kind} "
    return f"{relation}{short(claim.stated, 10)}{within}"


def computed(claim: Claim, value: float) -> str:
    """The computed value in words, rounded in the direction of the claim's comparison."""
    if not value or not math.isfinite(value):
        return claim.shown(value) or "-"
    near = claim.stated is not None and abs(value - claim.stated) <= claim.tolerance
    if near and claim.kind != "equals":  # rounded up, it would seem to exceed what it meets
        return short(value, 4)
    if claim.kind == "at most":
        return at_most(value)
    if claim.kind == "at least":
        return at_least(value)
    if claim.kind == "equals" and claim.tolerance:  # a digit more than the comparison needs
        value = round(value, 1 - math.floor(math.log10(claim.tolerance)))
    return short(value, 10) if claim.kind == "equals" else short(value, 4)


def _text(name: str, cells: dict[str, str], size: int = 100) -> str:
    if name not in cells:
        return ""
    told = f"<span style='font-size:{size}%'>{escape(cells[name])}</span>"
    return f"<div>{_small(name)} {told}</div>"


def _side_by_side(names: tuple[str, str], cells: dict[str, str]) -> str:
    if names[0] not in cells:
        return ""
    ends = "<br><b style='font-size:115%'>{}</b>", f"<pre style='{CODE}'>{{}}</pre>"
    value = ends[names == MONOSPACE]
    both = (_small(name) + value.format(escape(cells[name])) for name in names)
    inside = "".join(f"<td style={CELL!r}>{cell}</td>" for cell in both)
    return f"<tr style='background-color:transparent'>{inside}</tr>"


def _small(text: str) -> str:
    return f"<span style='font-size:85%;color:#5F6368'>{escape(text)}</span>"


def _link(notebook: str) -> str:
    """A link to the paper's notebook; its name under Voila, which serves one page alone."""
    if not notebook:
        return ""
    alone = os.environ.get("SERVER_SOFTWARE", "").startswith("voila")
    name = escape(notebook)
    told = name if alone else f"<a href='{name}' target='_blank' style='{LINK}'>{name}</a>"
    return f"<div>{_small('notebook')} {told}</div>"


def matching(paper: str, verdict: str, word: str = "") -> tuple[str, ...]:
    """Ids of the claims of that paper with that verdict that mention the word.

    Args:
        paper: its package's name; "all" leaves it open.
        verdict: one of VERDICTS.
        word: any part of a claim's text, in capitals or not.

    Raises:
        ValueError: the paper or the verdict is unknown.
    """
    checks.one_of(VERDICTS, verdict=verdict)
    every = (
        by_id().values() if paper == ALL else papers.named(paper, papers.with_claims()).CLAIMS
    )
    found = tuple(c for c in every if verdict == ALL or checked(c).verdict == verdict)
    wanted = word.strip().casefold()
    return tuple(c.id for c in found if not wanted or wanted in _said(c).casefold())


def by_id() -> dict[str, Claim]:
    """All claims of all papers, and of later literature."""
    return {claim.id: claim for paper in papers.with_claims() for claim in paper.CLAIMS}


def by_paper(chosen: Sequence[str]) -> Iterator[tuple[ModuleType, list[Verdict]]]:
    """Each paper, and the verdicts on those of its claims that are chosen."""
    for paper in papers.with_claims():
        yield paper, [checked(claim) for claim in paper.CLAIMS if claim.id in set(chosen)]


def checked(claim: Claim) -> Verdict:
    """The verdict, computed once, and again when the stored evidence is another.

    A check that fails is a claim that cannot be checked, and its explanation says why.
    """
    if claim.evidence is None:
        return _checked(claim.id, None)
    path = claim.evidence.path
    changed = path.stat().st_mtime_ns if path.exists() else None
    return _checked(claim.id, (str(path), changed))


@lru_cache(CACHED)
def curve_of(identity: str) -> Curve | None:
    """The claim's curve, where it has one."""
    curve = by_id()[identity].curve
    return None if curve is None else curve()


@lru_cache(CACHED)
def _checked(identity: str, _evidence: tuple[str, int | None] | None) -> Verdict:
    claim = by_id()[identity]
    try:
        return claims.check(claim)
    except (ValueError, ArithmeticError, OSError) as error:
        return Verdict(claim, math.nan, "cannot be checked", f"The check failed: {error}")


def _said(claim: Claim) -> str:
    """All text on a claim, its line of code included."""
    code = () if claim.code is None else (claim.code.was, claim.code.should, claim.code.cause)
    return " ".join((claim.id, claim.where, claim.says, checked(claim).explanation, *code))
