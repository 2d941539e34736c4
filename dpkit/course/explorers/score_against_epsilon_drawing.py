"""The panels of `ScoreAgainstEpsilon`: scores or steps at the left, accountings at the right."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator

from dpkit.common import plots
from dpkit.course.explorers.score_against_epsilon_numbers import (
    COARSE,
    DELTA,
    FINE,
    Planned,
    Row,
    price,
)
from dpkit.papers.small_images.settings import EVERY

SHORT = {"charged": "charged", "certified": "certified, if Poisson", "proven": "proven, as drawn"}
MARKERS = {"charged": "o", "certified": "D", "proven": "s"}
UNSTORED, RANGE = "0.45", "0.87"  # greys: of a run that is not stored, and of what is open
POINTS = 12  # of a line of epsilon by step
TICKS = 6  # at most, of an axis of epsilons

Colours = dict[float, str]


def draw_scores(ax: Axes, result: dict[str, Any]) -> Colours:
    """Score against the chosen epsilon, bold up to the step that is read; colours by value."""
    runs: dict[float, Planned] = {run.value: run for run in result["runs"]}
    drawn = result["curves"]
    epsilons = {
        value: np.array([_epsilon(result, runs[value], step) for step in curve.steps])
        for value, curve in drawn.items()
    }
    colours: Colours = dict(zip(drawn, plots.COLOURS, strict=False))
    ax.set_xscale("log")
    label = f"epsilon at delta {DELTA:g}, {SHORT[result['axis']]}"
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
        xs, ys, spreads = (many[:read] for many in (epsilons[value], curve.scores, curve.spreads))
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
        y=1.0, label=f"Score by {result['what']}, up to step {result['steps']}", fontsize=11, pad=18
    )
    return colours


def draw_by_step(ax: Axes, result: dict[str, Any]) -> Colours:
    """The chosen epsilon by step, a line for each noise; a dot at the step that is read."""
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


def draw_by_accounting(ax: Axes, result: dict[str, Any], colours: Colours) -> None:
    """A line for each run with its three epsilons; grey is the range proven for drawn batches."""
    rows: list[Row] = result["rows"]
    for place, row in enumerate(rows):
        colour = colours.get(row.value, UNSTORED)
        if row.at_least:
            ax.barh(place, row.proven.epsilon - row.at_least, 0.5, row.at_least, color=RANGE)
        for axis, marker in MARKERS.items():
            filled = colour if axis == result["axis"] else "white"
            style: Any = {"color": colour, "markerfacecolor": filled, "markersize": 7, "zorder": 3}
            ax.plot(getattr(row, axis).epsilon, place, marker, **style)
    ax.set_xscale("log")
    ax.margins(x=0.08)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_yticks([])  # names with scores change at every move: as ticks all would be drawn again
    beside: Any = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
    for place, row in enumerate(rows):
        score = "" if row.score is None else f"\nscore {row.score:.2f}"
        ax.text(-0.02, place, f"{result['what']} {row.value:g}{score}", fontsize=9, **beside)
    ax.set_xlabel(f"epsilon at delta {DELTA:g}")
    _plain(ax.xaxis)
    keys: list[Any] = [
        Line2D([], [], marker=MARKERS[axis], color="0.3", markerfacecolor="white", linestyle="")
        for axis in SHORT
    ]
    names = list(SHORT.values())
    if any(row.at_least for row in rows):
        keys, names = [*keys, Patch(color=RANGE)], [*names, "at least to proven"]
    close: Any = {"columnspacing": 1.2, "handletextpad": 0.4, "borderaxespad": 0.1}
    above: Any = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
    ax.legend(keys, names, ncols=2, fontsize=8, **above, **close)


def _epsilon(result: dict[str, Any], run: Planned, step: int) -> float:
    """Of the picture: as in the table where that has it, else of a coarser pair's upper end."""
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
