"""Score against epsilon: stored runs of Small Images on the axes of three accountings."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import ipywidgets as widgets

from dpkit import checks, plots
from dpkit.explorers.explorer import STYLE, Explorer, Table, at_least, at_most
from dpkit.explorers.score_against_epsilon_drawing import (
    SHORT,
    draw_by_accounting,
    draw_by_step,
    draw_scores,
)
from dpkit.explorers.score_against_epsilon_numbers import (
    AXES,
    DELTA,
    PASS,
    VARIED,
    Row,
    numbers,
    planned,
)
from dpkit.papers.small_images.settings import EVERY
from dpkit.records import SCALES

FIGURES = {f"{name[-1]}: {what}": name for name, what in VARIED.items()}
NO_SCORES = "No scores of this figure are stored here: the picture shows epsilon by step instead."
NO_MORE = "only that a record is in at most one batch of a pass"
LESSON = (
    "The images, and so the score, are the same whichever epsilon is taken: only the accounting "
    "moves a run along the axis."
)


class ScoreAgainstEpsilon(Explorer):
    """Figures 1 to 3 of Small Images: each run's score, beside the epsilon that each accountant
    gives for it. Without stored runs, epsilon by step.
    """

    title = "Which epsilon belongs to a score?"

    def __init__(self, stored: Mapping[str, Any] | None = None, *, scale: str = "reduced") -> None:
        """Figure 1 as it was charged, read at its end.

        Args:
            stored: parts by name, those of the three figures and of the plan "common"; None reads
                the kit's own, again at each move.
            scale: of the runs, "reduced" or "paper".

        Raises:
            ValueError: scale is another word.
        """
        checks.one_of(SCALES, scale=scale)
        last = max(run.settings.max_steps for run in planned("figure_1", scale=scale))
        self.compute = partial(type(self).compute, scale=scale, stored=stored)
        super().__init__(
            {
                "figure": _one_of("figure", FIGURES, "What the paper's figure varies"),
                "axis": _one_of(
                    "epsilon", {told: axis for axis, told in AXES.items()},
                    "Whose epsilon is drawn: the same runs, the same images",
                ),
                "steps": widgets.IntSlider(
                    value=last, min=EVERY[scale], max=last, step=EVERY[scale],
                    description="read up to step", continuous_update=False, style=STYLE,
                    tooltip="Each run is read at its last point up to here",
                    layout=widgets.Layout(width="520px"),
                ),
            }
        )  # fmt: skip

    @staticmethod
    def compute(
        *, figure: str, axis: str, steps: int, scale: str = "reduced",
        stored: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Every run of the figure at that step: `numbers`.

        Raises:
            ValueError: a value is out of range, or a stored run is broken or of other settings.
        """
        return numbers(figure=figure, axis=axis, steps=steps, scale=scale, stored=stored)

    def table(self, result: dict[str, Any]) -> Table:
        """A row for each run; then how each epsilon comes about."""
        headings = (
            result["what"], "inception score", "after step", "epsilon charged",
            "certified, if Poisson", "proven, as drawn", "at least, as drawn",
        )  # fmt: skip
        rows = [
            (
                f"{row.value:g}", _score(row), str(row.step),
                f"{at_most(row.charged.epsilon)} ({_order(row)})",
                f"{at_least(row.certified.lower)} to {at_most(row.certified.epsilon)}",
                at_most(row.proven.epsilon), at_least(row.at_least) if row.at_least else "-",
            )
            for row in result["rows"]
        ]  # fmt: skip
        return Table(headings, rows, tuple(_notes(result)))

    def draw(self, result: dict[str, Any]) -> plots.Picture:
        """Left scores (or steps) against the chosen epsilon; right each run's three epsilons."""
        figure, (left, right) = plots.figure(width=9.8, height=3.9, panels=2)
        figure.set_layout_engine(None)  # room by hand: laying out three times takes long
        figure.subplots_adjust(left=0.075, right=0.985, bottom=0.135, top=0.83, wspace=0.52)
        drawn = draw_scores if result["curves"] else draw_by_step
        colours = drawn(left, result)
        draw_by_accounting(right, result, colours)
        return plots.picture(figure, _words(result))


def _score(row: Row) -> str:
    if row.score is None:
        return "no point so far" if row.seeds else "not stored"
    told = f"{row.score:.3f} ± {row.spread:.3f}"
    if row.seeds == 1:
        return told
    return f"{told} ({row.seeds} seeds, {row.lowest:.3f} to {row.highest:.3f})"


def _order(row: Row) -> str:
    return "order " + row.charged.method.rpartition("order ")[2]


def _notes(result: dict[str, Any]) -> list[str]:
    rows: list[Row] = result["rows"]
    at = f"Read up to step {result['steps']}; every epsilon at delta {DELTA:g}."
    if result["asked"] > result["end"]:
        at += f" The shortest run of this figure ends at step {result['end']}: all are read there."
    notes = [at, LESSON, *_scores_noted(result)]
    for axis in AXES:
        found = [getattr(row, axis) for row in rows]
        methods = dict.fromkeys(one.method.partition(", order ")[0] for one in found)
        assumed = dict.fromkeys(told for one in found for told in one.assumptions)
        notes.append(
            f"{SHORT[axis][:1].upper()}{SHORT[axis][1:]}: {found[0].adjacency}; "
            f"{' or '.join(methods)}; assumes {'; '.join(assumed) or NO_MORE}."
        )
    notes[-1] += (
        f" Each pass of {PASS} batches that was begun is one Gaussian release. At least is what "
        "one whole pass costs in the worst case (Chua et al. 2024): a record is left out in place."
    )
    below = [f"{row.value:g}" for row in rows if row.charged.epsilon < row.at_least]
    if below:
        notes.append(
            f"Charged is less than the drawn batches cost at least, for {result['what']} "
            f"{', '.join(below)}: such batches cannot be priced as Poisson batches."
        )
    return notes


def _scores_noted(result: dict[str, Any]) -> list[str]:
    """What is stored, and what is not."""
    if not result["curves"]:
        command = f"python -m dpkit reproduce small_images {result['figure']}"
        make = f"`{command} --scale {result['scale']}`, and the same of `common`"
        return [f"{NO_SCORES} They are made by {make}."]
    told = "The score is ± its spread over splits of the generated images"
    if any(row.seeds > 1 for row in result["rows"]):
        told += ", both means over seeds"
    level = result["level"]
    if level is None:
        return [f"{told}. The non-private level is not stored here."]
    return [f"{told}. Without privacy it reaches {level:.3f}, the dashed line."]


def _words(result: dict[str, Any]) -> str:
    what, axis = result["what"], result["axis"]
    each = [
        f"{what} {row.value:g}: "
        + ("" if row.score is None else f"score {row.score:.2f}, ")
        + f"charged {at_most(row.charged.epsilon)}, certified if Poisson "
        f"{at_most(row.certified.epsilon)}, proven as drawn {at_most(row.proven.epsilon)}"
        for row in result["rows"]
    ]
    shown = "inception score against epsilon" if result["curves"] else "epsilon by step, no scores"
    level = "" if result["level"] is None else f", non-private level {result['level']:.2f} dashed"
    return (
        f"Left: {shown}, {SHORT[axis]}{level}. Right: three epsilons of each run up to step "
        f"{result['steps']}. {'; '.join(each)}."
    )


def _one_of(description: str, options: dict[str, str], tooltip: str) -> Any:
    return widgets.Dropdown(
        options=list(options.items()), description=description, tooltip=tooltip, style=STYLE,
        layout=widgets.Layout(width="520px"),
    )  # fmt: skip
