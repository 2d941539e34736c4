"""What the papers say, computed again: a wall of all claims, and the card of the one chosen."""

import math
from html import escape
from typing import Any

import ipywidgets as widgets

from dpkit import papers
from dpkit.common import plots
from dpkit.common.show import Table
from dpkit.course.explorers import claims_wall_tiles as tiles
from dpkit.course.explorers.claims_wall_card import card_of, computed
from dpkit.course.explorers.claims_wall_checked import (
    ALL,
    VERDICTS,
    by_id,
    checked,
    curve_of,
    matching,
)
from dpkit.course.explorers.explorer import FINE, Explorer, choice, control
from dpkit.papers.claims import Claim, Verdict

ROOM: Any = {"left": 0.13, "right": 0.86, "bottom": 0.16, "top": 0.95}
OPENS = "dp_cgan/per-tensor-clipping"  # a line of code, a number and a curve


class ClaimsWall(Explorer):
    """All claims as tiles, coloured by verdict; the card of one: what is said, what is computed."""

    title = "What do papers claim, and does it hold?"

    def __init__(self) -> None:
        """All claims of all papers, and of later literature."""
        names = (ALL, *(paper.NAME for paper in papers.with_claims()))
        every = matching(ALL, ALL)
        shown = OPENS if OPENS in every else every[0]
        self._filtering = False
        self.legend = widgets.HTML()
        self.tiles = tiles.Tiles(self._press)
        super().__init__(
            {
                "paper": choice("paper", names, "Whose claims", width=220),
                "verdict": choice("verdict", VERDICTS, "Only claims with this verdict", width=240),
                "word": control(
                    *(widgets.Text, 300, "word", "Only claims that mention it"),
                    placeholder="such as clip, batch, label",
                ),
                "claim": choice("claim", every, "The claim that is shown", width=470, value=shown),
            }
        )
        heading, paper, verdict, word, claim, *below = self.shown
        wrapped = widgets.Layout(flex_flow="row wrap", grid_gap="0 16px")
        filters = widgets.HBox((paper, verdict, word), layout=wrapped)
        self.children = (heading, filters, self.legend, self.tiles, claim, *below)
        self._mark()

    @staticmethod
    def compute(*, paper: str, verdict: str, word: str, claim: str | None) -> dict[str, Any]:
        """The verdict on one claim, and which ones are chosen with it.

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
            raise ValueError(f"claim must be one of those chosen, {', '.join(chosen)}; got {claim}")
        found = checked(by_id()[claim])
        return {**found._asdict(), "chosen": chosen, "all": len(by_id())}

    def says(self, result: dict[str, Any]) -> str:
        """The claim and its verdict."""
        return f"{result['claim'].id}: {result['verdict']}."

    def table(self, result: dict[str, Any]) -> Table:
        """The claim's card."""
        found = Verdict(**{name: result[name] for name in Verdict._fields})
        note = f"{len(result['chosen'])} of {result['all']} claims are on the wall."
        return card_of(found, note)

    def draw(self, result: dict[str, Any]) -> plots.Picture:
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
            stated = f" Stated is {claim.stated:.6g}."
        figure, (ax,) = plots.figure(width=6.4, height=3.2, **ROOM)
        plots.lines(ax, shown, x=curve.x_name, y=curve.y_name)
        words = (
            f"{curve.y_name} from {computed(claim, ys[0])} at {curve.x_name} {xs[0]:g} to "
            f"{computed(claim, ys[-1])} at {curve.x_name} {xs[-1]:g}.{stated}"
        )
        return plots.picture(figure, words[:1].upper() + words[1:])

    def _press(self, identity: str) -> None:
        self.values["claim"].value = identity

    def _changed(self, change: Any) -> None:
        if self._filtering:  # one change of the choice is one answer, given below
            return
        claim = self.values["claim"]
        if change["owner"] is not claim:
            before = claim.value
            options = self._chosen()
            self._filtering = True
            try:
                claim.options = options
                if options:
                    claim.value = before if before in options else options[0]
            finally:
                self._filtering = False
        super()._changed(change)
        self._mark()

    def _chosen(self) -> tuple[str, ...]:
        return matching(*(self.values[name].value for name in ("paper", "verdict", "word")))

    def _mark(self) -> None:
        """Let the wall show what the controls choose."""
        chosen = self._chosen()
        self.legend.value = tiles.legend(chosen)
        self.tiles.show(chosen, self.values["claim"].value)

    def _set_picture(self, picture: plots.Picture | None, dpi: float = FINE) -> None:
        super()._set_picture(picture, dpi)
        self.picture.layout.display = None if self.picture.value else "none"

    def __repr__(self) -> str:
        title, _, rest = super().__repr__().partition("\n")
        return "\n".join((title, tiles.line(self._chosen()), rest))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **kwargs: Any) -> Any:
        """As every explorer's, with the wall above the card in the static text."""
        data = super()._repr_mimebundle_(include=include, exclude=exclude, **kwargs)
        chosen = self._chosen()
        wall = tiles.wall(chosen, self.values["claim"].value) + tiles.legend(chosen)
        data["text/html"] = (
            f"<h3>{escape(self.title)}</h3>{wall}{self.sentence.value}{self.numbers.value}"
        )
        return data
