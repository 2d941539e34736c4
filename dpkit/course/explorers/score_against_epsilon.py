"""Score against epsilon: stored runs of Small Images on the axes of three accountings."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from dpkit.common import checks, plots
from dpkit.common.records import SCALES
from dpkit.common.show import Table, at_least, at_most, interval
from dpkit.course.explorers.explorer import Explorer, choice, whole
from dpkit.course.explorers.score_against_epsilon_drawing import (
    SHORT,
    draw_by_accounting,
    draw_by_step,
    draw_scores,
)
from dpkit.course.explorers.score_against_epsilon_numbers import (
    AXES,
    DELTA,
    PASS,
    VARIED,
    Row,
    numbers,
    planned,
)
from dpkit.papers.small_images.settings import EVERY

HEADINGS = (
    *("inception score", "after step", "epsilon charged", SHORT["certified"], SHORT["proven"]),
    "at least, as drawn",
)
FIGURES = {f"{name[-1]}: {what}": name for name, what in VARIED.items()}
NO_SCORES = "No scores of this figure are stored here: the picture shows epsilon by step instead."
ONE_BATCH = "a record is in at most one batch of a pass"
LESSON = (
    "The images, and so the score, are the same whichever epsilon is taken: only the accounting "
    "moves a run along the axis."
)


class ScoreAgainstEpsilon(Explorer):
    """Figures 1 to 3 of Small Images: each run's score, beside the epsilon that each accountant
    gives for it. Without stored runs, epsilon by step.
    """

    title = "Which epsilon belongs to a score?"
    presets: ClassVar = {
        "the same, certified": {"axis": "certified"},
        "the same, as drawn": {"axis": "proven"},
        "Figure 2: noise": {"figure": "figure_2"},
    }

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
                "figure": choice("figure", FIGURES, "What the paper's figure varies", width=520),
                "axis": choice(
                    "epsilon",
                    {text: axis for axis, text in AXES.items()},
                    "Whose epsilon is drawn: the same runs, the same images",
                    width=520,
                ),
                "steps": whole(
                    "read up to step",
                    EVERY[scale],
                    last,
                    last,
                    "Each run is read at its last point up to here",
                    step=EVERY[scale],
                    continuous_update=False,
                ),
            }
        )

    @staticmethod
    def compute(
        *,
        figure: str,
        axis: str,
        steps: int,
        scale: str = "reduced",
        stored: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Every run of the figure at that step: `numbers`.

        Raises:
            ValueError: a value is out of range, or a stored run is broken or of other settings.
        """
        return numbers(figure=figure, axis=axis, steps=steps, scale=scale, stored=stored)

    def says(self, result: dict[str, Any]) -> str:
        """The epsilons of the first run, charged and proven."""
        row = result["rows"][0]
        return (
            f"{result['what'].capitalize()} {row.value:g}: epsilon {at_most(row.charged.epsilon)} "
            f"is charged, {at_most(row.proven.epsilon)} is proven at delta {DELTA:g}; the score is "
            "the same."
        )

    def table(self, result: dict[str, Any]) -> Table:
        """A row for each run; the notes say how each epsilon is computed."""
        headings = (result["what"], *HEADINGS)
        rows = [
            (
                f"{row.value:g}",
                _score(row),
                str(row.step),
                f"{at_most(row.charged.epsilon)} ({_order(row)})",
                interval(row.certified.lower, row.certified.epsilon),
                at_most(row.proven.epsilon),
                at_least(row.at_least) if row.at_least else "-",
            )
            for row in result["rows"]
        ]
        return Table(headings, rows, tuple(_notes(result)))

    def draw(self, result: dict[str, Any]) -> plots.Picture:
        """Left scores (or steps) against the chosen epsilon; right each run's three epsilons."""
        room = {"left": 0.075, "right": 0.985, "bottom": 0.135, "top": 0.83, "wspace": 0.52}
        figure, (left, right) = plots.figure(width=9.8, height=3.9, panels=2, **room)
        drawn = draw_scores if result["curves"] else draw_by_step
        colours = drawn(left, result)
        draw_by_accounting(right, result, colours)
        return plots.picture(figure, _words(result))


def _score(row: Row) -> str:
    if row.score is None:
        return "no point so far" if row.seeds else "not stored"
    score = f"{row.score:.3f} ± {row.spread:.3f}"
    if row.seeds == 1:
        return score
    return f"{score} ({row.seeds} seeds, {row.lowest:.3f} to {row.highest:.3f})"


def _order(row: Row) -> str:
    return "order " + row.charged.method.rpartition("order ")[2]


def _notes(result: dict[str, Any]) -> list[str]:
    rows: list[Row] = result["rows"]
    at = f"Read up to step {result['steps']}; every epsilon at delta {DELTA:g}."
    if result["asked"] > result["end"]:
        at += f" The shortest run of this figure ends at step {result['end']}: all are read there."
    notes = [at, LESSON, *_scores_noted(result)]
    for axis in AXES:
        prices = [getattr(row, axis) for row in rows]
        methods = dict.fromkeys(price.method.partition(", order ")[0] for price in prices)
        assumed = dict.fromkeys(one for price in prices for one in price.assumptions)
        if axis == "proven":
            assumed = [ONE_BATCH, *assumed]
        notes.append(
            f"{SHORT[axis][:1].upper()}{SHORT[axis][1:]}: {prices[0].adjacency}; "
            f"{' or '.join(methods)}; assumes {'; '.join(assumed)}."
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
    note = "The score is ± its spread over splits of the generated images"
    if any(row.seeds > 1 for row in result["rows"]):
        note += ", both means over seeds"
    level = result["level"]
    if level is None:
        return [f"{note}. The non-private level is not stored here."]
    return [f"{note}. Without privacy it is {level:.3f}, the dashed line."]


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
