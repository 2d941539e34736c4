"""A tile for each claim, by paper: a colour and a sign for its verdict, to look at or to choose."""

from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from types import ModuleType
from typing import Any, NamedTuple

import ipywidgets as widgets

from dpkit import papers
from dpkit.course.explorers.claims_wall_checked import by_id, checked
from dpkit.papers.claims import OUTCOMES, Outcome, Verdict, counted


class Look(NamedTuple):
    """How a verdict looks: its sign, and the colours of a tile and of the sign on it."""

    sign: str
    tile: str
    ink: str


# Blue and vermilion differ to all common kinds of colour vision (Okabe and Ito 2008); each sign is
# legible on its tile (contrast 4.5 and more)
LOOKS: dict[Outcome, Look] = {
    "holds": Look("✓", "#0072B2", "white"),
    "fails": Look("✗", "#BC4700", "white"),
    "computed": Look("=", "#5F6368", "white"),
    "cannot be checked": Look("?", "#E3E3E3", "#202124"),
}
SIZE = 30  # pixels, of a tile
TILE = f"width:{SIZE - 2}px;height:{SIZE - 2}px;line-height:{SIZE - 2}px;text-align:center;"
TILE += "border-radius:3px;font-weight:bold;font-size:15px;"


def legend(chosen: Sequence[str]) -> str:
    """What the signs mean, and how many of the chosen claims have each, as HTML."""
    count = Counter(checked(by_id()[one]).verdict for one in chosen)
    parts = (
        f"{tile(verdict)} {count[verdict]} "
        f"{verdict if count[verdict] == 1 else several} &nbsp; &nbsp;"
        for verdict, several in OUTCOMES.items()
    )
    return f"<div>{''.join(parts)}</div>"


def tile(verdict: Outcome, title: str = "", *, chosen: bool = False) -> str:
    """One tile as HTML."""
    sign, colour, ink = LOOKS[verdict]
    edge = "outline:3px solid #202124;outline-offset:1px;" if chosen else ""
    style = f"display:inline-block;margin:2px;{TILE}{edge}"
    told = f" title='{escape(title, quote=True)}'" if title else ""
    return f"<span style='{style}background-color:{colour};color:{ink}'{told}>{sign}</span>"


def title_of(found: Verdict) -> str:
    """What a tile says when it is pointed at."""
    return f"{found.claim.name}: {found.verdict}. {found.claim.says}"


def wall(chosen: Sequence[str], shown: str | None) -> str:
    """All tiles of the chosen claims, as an HTML table with a row for each paper."""
    rows = []
    for paper in papers.with_claims():
        found = [checked(claim) for claim in paper.CLAIMS if claim.id in set(chosen)]
        tiles = (tile(v.verdict, title_of(v), chosen=v.claim.id == shown) for v in found)
        cells = (heading(paper, found), f"<div style='max-width:720px'>{''.join(tiles)}</div>")
        if found:
            rows.append("".join(f"<td style='text-align:left'>{cell}</td>" for cell in cells))
    return f"<table><tbody>{''.join(f'<tr>{row}</tr>' for row in rows)}</tbody></table>"


def line(chosen: Sequence[str]) -> str:
    """The signs of the chosen claims, a line of text for each paper."""
    lines = []
    for paper in papers.with_claims():
        found = [checked(claim) for claim in paper.CLAIMS if claim.id in set(chosen)]
        signs = "".join(LOOKS[one.verdict].sign for one in found)
        lines += [f"{paper.NAME:<14}{signs}"] if found else []
    return "\n".join(lines)


def heading(paper: ModuleType, found: Sequence[Verdict]) -> str:
    """A paper's name, its authors, and how its claims fare, as HTML."""
    name, _, authors = paper.TITLE.partition(" (")
    below = f"{escape(authors.removesuffix(')'))}<br>{counted(found)}"
    small = f"<span style='font-size:85%'>{below}</span>"
    return f"<div style='line-height:1.35'><b>{escape(name)}</b><br>{small}</div>"


class Tiles(widgets.VBox):
    """Tiles that can be pressed, a row for each paper.

    Buttons are made once; what is chosen only moves them in and out of their rows. They share four
    styles and two layouts, so that a hundred of them are as quick as a few.
    """

    def __init__(self, press: Callable[[str], None]) -> None:
        """Args: press, called with the id of the claim whose tile is pressed."""
        self.looks = {
            verdict: widgets.ButtonStyle(
                button_color=look.tile, text_color=look.ink, font_weight="bold", font_size="15px"
            )
            for verdict, look in LOOKS.items()
        }
        self.at_rest = _tile_layout("2px solid transparent")
        self.pressed = _tile_layout("3px solid #202124")
        self.buttons = {identity: self._button(identity, press) for identity in by_id()}
        self.rows = {paper.NAME: _row() for paper in papers.with_claims()}
        super().__init__(tuple(self.rows.values()))

    def show(self, chosen: Sequence[str], shown: str | None) -> None:
        """Let the wall hold the chosen claims' tiles, and mark the one that is shown."""
        for paper in papers.with_claims():
            found = [checked(claim) for claim in paper.CLAIMS if claim.id in set(chosen)]
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

    def _button(self, identity: str, press: Callable[[str], None]) -> Any:
        look = self.looks["computed"]
        button = widgets.Button(layout=self.at_rest, style=look)  # its verdict's, when it is shown
        button.on_click(lambda _: press(identity))
        return button


def _tile_layout(border: str) -> Any:
    size = f"{SIZE}px"
    return widgets.Layout(width=size, height=size, padding="0", margin="1px", border=border)


def _row() -> Any:
    label = widgets.HTML(layout=widgets.Layout(width="240px", flex="0 0 auto"))
    tiles = widgets.HBox(layout=widgets.Layout(flex_flow="row wrap", align_content="flex-start"))
    return widgets.HBox((label, tiles), layout=widgets.Layout(margin="4px 0"))
