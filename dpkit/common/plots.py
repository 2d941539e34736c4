"""Rows and images as figures of one style: colour-blind safe, labelled at the line."""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, NullLocator

# Okabe and Ito 2008: distinct to all common kinds of colour vision, and in grey by lightness
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MEANINGS = {  # a name that has one of these words is drawn in its colour, in every picture
    "claimed": "#56B4E9",
    "charged": "#E69F00",
    "proven": "#0072B2",
    "certified": "#0072B2",
    "PLD": "#0072B2",
    "measured": "#D55E00",
    "repaired": "#009E73",
    "RDP": "#CC79A7",
    "non-private": "#000000",
}
LINE_OF_TEXT = 15.0  # pixels
FEW = 5  # intervals between ticks, at most
MESSAGE = re.compile(
    r"(.*?[.!?](?=\s|$)|.*)\s*(.*)", re.DOTALL
)  # the first sentence, the rest
SHARP = 192  # dots an inch, where a notebook shows a picture
# behind words on lines
LABEL_BOX = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1}


def figure(
    *, width: float = 7.0, height: float = 3.2, panels: int = 1, **room: float
) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side, without the box around each.

    `room`, the arguments of `subplots_adjust`, saves the time of a layout, and few ticks that of
    drawing: explorers draw while a slider moves.
    """
    drawn = Figure(figsize=(width, height), layout=None if room else "constrained", dpi=100)
    if room:
        drawn.subplots_adjust(**room)
    axes = _panels(drawn, panels, columns=panels)
    for ax in axes if room else ():
        ax.locator_params(nbins=FEW)
    return drawn, axes


def grid(panels: int, *, columns: int, width: float, row: float) -> tuple[Figure, list[Axes]]:
    """A figure with `columns` panels a row, each row that many inches high."""
    drawn = Figure(figsize=(width, row * -(-panels // columns)), layout="constrained", dpi=100)
    return drawn, _panels(drawn, panels, columns=columns)


def _panels(drawn: Figure, panels: int, *, columns: int) -> list[Axes]:
    rows = -(-panels // columns)
    axes = [drawn.add_subplot(rows, columns, index + 1) for index in range(panels)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_title("", y=1.0)  # a fixed place, not searched for at each drawing
    return axes


def lines(
    ax: Axes,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    x: str,
    y: str,
    y_scale: str = "linear",
) -> Axes:
    """Curves with outlined names at their right ends, moved apart where they would overlap.

    Args:
        ax: drawn on.
        curves: name -> (x values, y values).
        x: what the x axis shows, with its unit.
        y: what the y axis shows, with its unit.
        y_scale: matplotlib's name of a scale, such as "log".
    """
    ax.set_yscale(y_scale)
    chosen = colours(curves)
    for name, (xs, ys) in curves.items():
        ax.plot(xs, ys, color=chosen[name], linewidth=1.8)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    drawn = ax.get_figure(root=True)
    assert drawn is not None
    _ = ax.get_xlim(), ax.get_ylim()  # takes the limits from the lines
    heights = {
        name: ax.transData.transform((xs[-1], ys[-1]))[1] for name, (xs, ys) in curves.items()
    }
    lowest = -float("inf")
    moved = {}
    for name in sorted(heights, key=heights.__getitem__):  # upwards, a line of text apart
        lowest = max(heights[name], lowest + LINE_OF_TEXT)
        moved[name] = (lowest - heights[name]) * 72 / drawn.dpi  # points
    for name, (xs, ys) in curves.items():
        ax.annotate(
            name,
            (xs[-1], ys[-1]),
            (4, moved[name]),
            textcoords="offset points",
            color=chosen[name],
            va="center",
            fontsize=9,
            annotation_clip=False,
            path_effects=[withStroke(linewidth=3, foreground="white")],  # over other curves
        )
    return ax


def colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name: its meaning's, or the next without one among the names."""
    found: dict[str, str] = {}
    for name in names:
        words = [word for word in re.findall(r"[\w-]+", name) if word in MEANINGS]
        meant = MEANINGS[words[0]] if words else ""
        found[name] = "" if meant in found.values() else meant
    rest = (one for one in COLOURS if one not in found.values())
    return {name: colour or next(rest) for name, colour in found.items()}


def plain(axis: Axis, subs: Sequence[float] = (1, 2, 5), numticks: int | None = None) -> None:
    """Plain numbers, such as 1, 2, 5 and 10, on a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=subs, numticks=numticks))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def note(
    ax: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **style: Any
) -> None:
    """Words beside a point, `offset` points from it, readable over lines."""
    ax.annotate(
        text,
        at,
        offset,
        textcoords="offset points",
        **{"fontsize": 9, "bbox": LABEL_BOX, **style},
    )


def mark(ax: Axes, x: float, text: str, *, colour: str = "0.4", top: bool = True) -> None:
    """A dotted vertical line, named at its left at the top or its right at the bottom."""
    ax.axvline(x, color=colour, linestyle=":", linewidth=1)
    align: Any = {"ha": "right", "va": "top"} if top else {"ha": "left", "va": "bottom"}
    at, offset = ((x, 1), (-3, -3)) if top else ((x, 0), (4, 4))
    across = ("data", "axes fraction")
    note(ax, text, at, offset, xycoords=across, color=colour, fontsize=8, rotation=90, **align)


def bars(
    ax: Axes, groups: Mapping[str, Sequence[float]], *, labels: Sequence[str], y: str
) -> Axes:
    """A bar of each group at every label, side by side.

    Args:
        ax: drawn on.
        groups: name -> heights, one for each label.
        labels: what the bars stand for, along the x axis.
        y: what the heights are, with their unit.
    """
    width = 0.8 / max(len(groups), 1)
    for index, (name, heights) in enumerate(groups.items()):
        left = [place - 0.4 + width * index for place in range(len(labels))]
        ax.bar(left, heights, width, align="edge", label=name, color=COLOURS[index])
    ax.set_xticks(range(len(labels)), labels, fontsize=8)
    ax.set_ylabel(y)
    ax.legend(fontsize=8, frameon=False)
    return ax


def image_rows(rows: Mapping[str, np.ndarray], *, columns: int = 10) -> Figure:
    """Rows of images with a name beside each.

    Args:
        rows: name -> images in 0..255 or [0, 1], shape (columns or more, height, width).
        columns: images a row.
    """
    width = max(7.0, 5.5 + 0.065 * max(map(len, rows)))  # inches: a long name needs its place
    drawn = Figure(figsize=(width, 0.62 * len(rows)), layout="constrained", dpi=110)
    for index, (name, images) in enumerate(rows.items()):
        ax = drawn.add_subplot(len(rows), 1, index + 1)
        ax.set_anchor("E")
        _strip(ax, images[:columns])
        ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    return drawn


def _strip(ax: Axes, images: np.ndarray) -> None:
    ax.imshow(np.concatenate(list(images), axis=1), cmap="gray_r", aspect="equal")
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ax.spines.values():
        side.set_visible(False)


@dataclass(frozen=True)
class Picture:
    """A figure, and what it shows in words for those who do not see it; None draws nothing."""

    figure: Figure | None
    words: str

    def __repr__(self) -> str:
        return self.words

    def png(self, dpi: float | None = None) -> bytes:
        """As a PNG, at the figure's own resolution by default; empty where nothing is drawn."""
        return b"" if self.figure is None else _png(self.figure, dpi=dpi or "figure")

    def _ipython_display_(self) -> None:
        """Show it in a notebook, sharp on a projector, its words below, the first sentence bold.

        The caption is an output of its own, as pages that show a notebook drop a picture's
        alternative text.
        """
        from IPython.display import display

        assert self.figure is not None
        width = round(self.figure.get_figwidth() * self.figure.dpi)  # pixels
        display(
            {"image/png": b64encode(_png(self.figure, dpi=SHARP)).decode()},
            raw=True,
            metadata={"image/png": {"alt": self.words, "width": width}},
        )
        message, rest = MESSAGE.fullmatch(self.words).groups()  # type: ignore[union-attr]
        told = f"<p><b>{escape(message)}</b> <small>{escape(rest)}</small></p>"
        display({"text/html": told}, raw=True)


def picture(figure: Figure, words: str) -> Picture:
    """The figure, with what it shows in words.

    Raises:
        ValueError: axes hold no finite line, bar, image or collection, and no text but labels.
    """
    if empty := [
        number
        for number, ax in enumerate(figure.axes, 1)
        if not np.isfinite(ax.dataLim.get_points()).all()  # a level line alone has no x
        and not any(type(one) is Text and one.get_text() for one in ax.texts)  # no Annotation
    ]:
        raise ValueError(f"axes must show something, {empty} are empty: {words}")
    return Picture(figure, words)


def _png(figure: Figure, *, dpi: Any) -> bytes:
    buffer = BytesIO()
    figure.savefig(
        buffer,
        format="png",
        dpi=dpi,
        metadata={"Software": None},
        pil_kwargs={"compress_level": 1},  # half the time, a third more bytes
    )
    return buffer.getvalue()
