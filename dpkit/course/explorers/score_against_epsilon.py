"""Score against epsilon: stored runs of Small Images on the axes of three accountings."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator

from dpkit.common import checks, plots
from dpkit.common.records import SCALES
from dpkit.common.show import Table, at_least, at_most, interval, short
from dpkit.course.explorers.controls import choice, whole
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.course.explorers.score_against_epsilon_numbers import (
    AXES,
    COARSE,
    DELTA,
    FINE,
    PASS,
    VARIED,
    Planned,
    ScoreRow,
    numbers,
    planned,
    price,
)
from dpkit.papers.small_images.settings import EVERY

SHORT = {
    "charged": "charged",
    "certified": "certified, if Poisson",
    "proven": "proven, as drawn",
}
MARKERS = {"charged": "o", "certified": "D", "proven": "s"}
UNSTORED, RANGE = "0.45", "0.87"  # greys: of a run that is not stored, and of what is open
POINTS = 12  # of a line of epsilon by step
TICKS = 6  # at most, of an axis of epsilons

Colours = dict[float, str]
HEADINGS = (
    *("inception score", "after step", "epsilon charged", SHORT["certified"], SHORT["proven"]),
    "at least, as drawn",
)
FIGURES = {f"{name[-1]}: {what}": name for name, what in VARIED.items()}
NO_SCORES = (
    "No scores of this figure are stored here: the picture shows epsilon by step instead."
)
ONE_BATCH = "a record is in at most one batch of a pass"
LESSON = (
    "The images, and so the score, are the same whichever epsilon is taken: only the accounting "
    "moves a run along the axis."
)


class ScoreAgainstEpsilon(Explorer):
    """Figures 1 to 3 of Small Images: each run's score by each accountant's epsilon.

    Without stored runs, epsilon by step.
    """

    title = "Which epsilon belongs to a score?"
    presets: ClassVar = {
        "the same, certified": {"axis": "certified"},
        "the same, as drawn": {"axis": "proven"},
        "Figure 2: noise": {"figure": "figure_2"},
    }

    def __init__(
        self, stored: Mapping[str, Any] | None = None, *, scale: str = "reduced"
    ) -> None:
        """Figure 1 as it was charged, read at its end.

        Args:
            stored: parts by name, those of the three figures and of the plan "common"; None reads
                the kit's own, again at each move.
            scale: of the runs, "reduced" or "paper".

        Raises:
            ValueError: an unknown scale.
        """
        checks.one_of(SCALES, scale=scale)
        last = max(run.settings.max_steps for run in planned("figure_1", scale=scale))
        self.compute = partial(type(self).compute, scale=scale, stored=stored)
        super().__init__(
            controls={
                "figure": choice(
                    "figure", FIGURES, "What the paper's figure varies", width=520
                ),
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

    compute: Any = staticmethod(numbers)

    def says(self, result: Result) -> str:
        """State the epsilons of the first run, charged and proven."""
        row = result["rows"][0]
        return (
            f"{result['what'].capitalize()} {row.value:g}: epsilon {at_most(row.charged.epsilon)} "
            f"is charged, {at_most(row.proven.epsilon)} is proven at delta {short(DELTA)}; the "
            "score is the same."
        )

    def table(self, result: Result) -> Table:
        """A row for each run, with notes on each epsilon's computation."""
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

    def draw(self, result: Result) -> plots.Picture:
        """Draw left scores (or steps) by the chosen epsilon, right each run's three epsilons."""
        room = {"left": 0.075, "right": 0.985, "bottom": 0.135, "top": 0.83, "wspace": 0.52}
        figure, (left, right) = plots.figure(width=9.8, height=3.9, panels=2, **room)
        drawn = draw_scores if result["curves"] else draw_by_step
        colours = drawn(left, result)
        draw_by_accounting(right, result, colours)
        return plots.picture(figure, _words(result))


def _score(row: ScoreRow) -> str:
    if row.score is None:
        return "no point so far" if row.seeds else "not stored"
    score = f"{row.score:.3f} ± {row.spread:.3f}"
    if row.seeds == 1:
        return score
    return f"{score} ({row.seeds} seeds, {row.lowest:.3f} to {row.highest:.3f})"


def _order(row: ScoreRow) -> str:
    return "order " + row.charged.method.rpartition("order ")[2]


def _notes(result: Result) -> list[str]:
    rows: list[ScoreRow] = result["rows"]
    at = f"Read up to step {result['steps']:,}; every epsilon at delta {short(DELTA)}."
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


def _scores_noted(result: Result) -> list[str]:
    """The stored and the missing scores, in words."""
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


def _words(result: Result) -> str:
    what, axis = result["what"], result["axis"]
    each = [
        f"{what} {row.value:g}: "
        + ("" if row.score is None else f"score {row.score:.2f}, ")
        + f"charged {at_most(row.charged.epsilon)}, certified if Poisson "
        f"{at_most(row.certified.epsilon)}, proven as drawn {at_most(row.proven.epsilon)}"
        for row in result["rows"]
    ]
    shown = (
        "inception score against epsilon" if result["curves"] else "epsilon by step, no scores"
    )
    level = (
        "" if result["level"] is None else f", non-private level {result['level']:.2f} dashed"
    )
    return (
        f"Left: {shown}, {SHORT[axis]}{level}. Right: three epsilons of each run up to step "
        f"{result['steps']}. {'; '.join(each)}."
    )


def draw_scores(ax: Axes, result: Result) -> Colours:
    """Draw score against the chosen epsilon, bold up to the step read, coloured by value."""
    runs: dict[float, Planned] = {run.value: run for run in result["runs"]}
    drawn = result["curves"]
    epsilons = {
        value: np.array([_epsilon(result, runs[value], step) for step in curve.steps])
        for value, curve in drawn.items()
    }
    colours: Colours = dict(zip(drawn, plots.COLOURS, strict=False))
    ax.set_xscale("log")
    label = f"epsilon at delta {short(DELTA)}, {SHORT[result['axis']]}"
    named = {f"{value:g}": (epsilons[value], drawn[value].scores) for value in drawn}
    ax.margins(y=0.12)
    every = np.concatenate(list(epsilons.values()))
    room = 1.03 * (every.max() / every.min()) ** 0.09  # on a logarithmic axis, 0.09 of it
    ax.set_xlim(every.min() / room, every.max() * room)
    if result["level"] is not None:
        ax.axhline(result["level"], color="0.3", linestyle="--", linewidth=1)
    plots.lines(ax, named, x=label, y="inception score")  # type: ignore[arg-type]
    for line in ax.lines:
        line.set_alpha(0.35 if line.get_linestyle() == "-" else 1)
    for value, curve in drawn.items():
        read = sum(step <= result["steps"] for step in curve.steps)
        xs, ys, spreads = (
            many[:read] for many in (epsilons[value], curve.scores, curve.spreads)
        )
        thin: Any = {"linewidth": 1.8, "elinewidth": 0.9, "capsize": 1.5}
        ax.errorbar(xs, ys, yerr=spreads, color=colours[value], zorder=3, **thin)
        if read:
            mark = MARKERS[result["axis"]]
            ax.plot(xs[-1], ys[-1], mark, color=colours[value], markersize=7, zorder=4)
    if result["level"] is not None:
        across, at = ("axes fraction", "data"), (0, result["level"])
        plots.note(ax, "non-private", at, (3, 3), xycoords=across, fontsize=8, color="0.3")
    _plain(ax.xaxis)
    _clear(ax)
    ax.set_title(
        y=1.0,
        label=f"Score by {result['what']}, up to step {result['steps']}",
        fontsize=11,
        pad=18,
    )
    return colours


def draw_by_step(ax: Axes, result: Result) -> Colours:
    """The chosen epsilon by step, a line for each noise; a dot at the step read."""
    every, end, at = EVERY[result["scale"]], result["end"], result["steps"]
    grid = np.unique([*range(every, end + 1, every), end])
    few = grid[np.unique(np.linspace(0, len(grid) - 1, POINTS).round().astype(int))]
    steps = np.union1d(few, at)
    alike: dict[float, list[Planned]] = {}  # by noise, which with the steps decides the price
    for run in result["runs"]:
        alike.setdefault(run.settings.noise_multiplier, []).append(run)
    named, colours, dots = {}, {}, []
    for (noise, runs), colour in zip(alike.items(), plots.COLOURS, strict=False):
        name = f"{runs[0].value:g}" if len(alike) > 1 else f"noise {noise:g}"
        epsilons = [_epsilon(result, runs[0], int(step)) for step in steps]
        named[name] = (steps, epsilons)
        colours |= {run.value: colour for run in runs}
        dots.append((epsilons[int(np.searchsorted(steps, at))], colour))
    ax.margins(y=0.1)
    plots.lines(ax, named, x="step", y=f"epsilon, {SHORT[result['axis']]}", y_scale="log")
    for epsilon, colour in dots:
        ax.plot(at, epsilon, MARKERS[result["axis"]], color=colour, markersize=7, zorder=4)
    _plain(ax.yaxis)
    _clear(ax)
    ax.set_title(y=1.0, label=f"No scores stored: epsilon at step {at}", fontsize=11, pad=18)
    return colours


def draw_by_accounting(ax: Axes, result: Result, colours: Colours) -> None:
    """Each run's three epsilons on a line; grey is the range proven for drawn batches."""
    rows: list[ScoreRow] = result["rows"]
    for place, row in enumerate(rows):
        colour = colours.get(row.value, UNSTORED)
        if row.at_least:
            ax.barh(place, row.proven.epsilon - row.at_least, 0.5, row.at_least, color=RANGE)
        for axis, marker in MARKERS.items():
            filled = colour if axis == result["axis"] else "white"
            style: Any = {
                "color": colour,
                "markerfacecolor": filled,
                "markersize": 7,
                "zorder": 3,
            }
            ax.plot(getattr(row, axis).epsilon, place, marker, **style)
    ax.set_xscale("log")
    ax.margins(x=0.08)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_yticks(
        []
    )  # names with scores change at every move: as ticks all would be drawn again
    beside: Any = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
    for place, row in enumerate(rows):
        score = "" if row.score is None else f"\nscore {row.score:.2f}"
        ax.text(-0.02, place, f"{result['what']} {row.value:g}{score}", fontsize=9, **beside)
    ax.set_xlabel(f"epsilon at delta {short(DELTA)}")
    _plain(ax.xaxis)
    keys: list[Any] = [
        Line2D(
            [], [], marker=MARKERS[axis], color="0.3", markerfacecolor="white", linestyle=""
        )
        for axis in SHORT
    ]
    names = list(SHORT.values())
    if any(row.at_least for row in rows):
        keys, names = [*keys, Patch(color=RANGE)], [*names, "at least to proven"]
    close: Any = {"columnspacing": 1.2, "handletextpad": 0.4, "borderaxespad": 0.1}
    above: Any = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
    ax.legend(keys, names, ncols=2, fontsize=8, **above, **close)


def _epsilon(result: Result, run: Planned, step: int) -> float:
    """The picture's epsilon: the table's where it has one, else a coarser pair's upper end."""
    gap = FINE if any(row.step == step for row in result["rows"]) else COARSE
    return price(result["axis"], run.settings, step, gap=gap).epsilon


def _clear(ax: Axes) -> None:
    """Names of lines a little right of their marks, and readable where they lie on a line."""
    for text in ax.texts:
        text.set_bbox(plots.LABEL_BOX)
        text.xyann = (max(7, text.xyann[0]), text.xyann[1])  # type: ignore[attr-defined]


def _plain(axis: Axis) -> None:
    """A few plain numbers on a logarithmic axis, however short it is."""
    low, high = sorted(axis.get_view_interval())
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    even = [np.arange(10, 100, step) for step in (0.1, 0.5, 1, 2.5, 5, 10)]
    for digits in (*even, (10, 20, 30, 50, 70), (10, 20, 50), (10, 30), (10,)):
        places = [d * 10.0 ** (p - 1) for p in powers for d in digits]
        ticks = [tick for tick in places if low <= tick <= high]
        if len(ticks) <= TICKS:
            break
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())
