"""A picture that moves: its axes stay where they serve, its last curves turn grey."""

import math
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

GHOST = "ghost"  # the mark of a line that was drawn before the move
GREY = "0.8"
LEAST = 0.5  # of the axis' length, that the new limits must fill for the axis to stay
MOVES = 4  # such as the last one that an end has room for, once a move outgrew it
ROOM = 0.3  # of the new length, at most

Limits = tuple[float, float]
Look = tuple[object, ...]  # all that decides how a part of a frame looks, as explorers draw


class Frame:
    """The frames of a picture's axes, with ticks and names: drawn again only on a change.

    They take most of a drawing's time. Areas at the ticks and lines along an axis, which a frame
    should cover, cover the frame here: a draft.
    """

    def __init__(self) -> None:
        """Begin without a picture."""
        self._layers: dict[Look, Image.Image] = {}
        self._below = Image.new("RGBA", (0, 0))

    def png(self, figure: Figure, dpi: float) -> bytes:
        """The figure as a PNG, at that many dots an inch."""
        own, figure.dpi = figure.dpi, dpi
        try:
            canvas = FigureCanvasAgg(figure)
            for ax in figure.axes:
                ax.apply_aspect()
            parts = chain(figure.get_children(), *(ax.get_children() for ax in figure.axes))
            everything = {*parts} - {*figure.axes}
            frame = dict(_frame(figure))
            layers = {
                look: self._layers.get(look) or _drawn(canvas, everything - {*parts})
                for look, parts in frame.items()
            }
            if layers.keys() != self._layers.keys():
                self._layers, (lowest, *others) = layers, layers.values()
                self._below = lowest.copy()
                for layer in others:
                    self._below.alpha_composite(layer)
            content = _drawn(canvas, {*chain(*frame.values())})
            buffer = BytesIO()
            whole = Image.alpha_composite(self._below, content).convert("RGB")
            whole.save(buffer, "png", compress_level=1)
            return buffer.getvalue()
        finally:
            figure.dpi = own


def _frame(figure: Figure) -> Iterator[tuple[Look, tuple[Artist, ...]]]:
    """The parts of a figure's frame, from below, by their look."""
    size = figure.dpi, *figure.get_size_inches()
    yield size, (figure.patch,)
    for place, ax in enumerate(figure.axes):
        box = *size, place, *_rounded(ax.get_position().bounds), ax.get_visible(), ax.axison
        yield box, (ax.patch, *ax.spines.values())
        for axis in (ax.xaxis, ax.yaxis):
            yield (*box, axis.axis_name, *_look(axis)), (axis,)


def _look(axis: Axis) -> Iterator[object]:
    yield from (axis.get_scale(), axis.get_label_text(), *_rounded(axis.get_view_interval()))
    for places, words in (
        (axis.get_majorticklocs(), axis.get_major_formatter()),
        (axis.get_minorticklocs(), axis.get_minor_formatter()),
    ):
        yield from (*_rounded(places), *words.format_ticks(list(places)), words.get_offset())


def _rounded(numbers: Iterable[float]) -> list[str]:
    return [f"{number:.6g}" for number in numbers]


def _drawn(canvas: FigureCanvasAgg, hidden: Iterable[Artist]) -> Image.Image:
    """The figure without some of its parts, on nothing."""
    seen = [artist for artist in hidden if artist.get_visible()]
    renderer = canvas.get_renderer()
    renderer.clear()
    for artist in seen:
        artist.set_visible(False)
    try:
        canvas.figure.draw(renderer)
    finally:
        for artist in seen:
            artist.set_visible(True)
    return Image.fromarray(np.array(canvas.buffer_rgba()))


def follow(figure: Figure, before: Figure) -> None:
    """Keep the last picture's axes, where they fit, and draw its curves in grey.

    Axes that move hide what changes; a curve in grey shows it.
    """
    for ax, old in zip(figure.axes, before.axes, strict=False):
        if _kind(ax) == _kind(old):
            new, last = ((one.get_xlim(), one.get_ylim()) for one in (ax, old))
            _ghosts(ax, old)
            kept = tuple(map(_kept, new, last, (ax.get_xscale(), ax.get_yscale())))
            if ax.get_aspect() != "auto" and kept != last:  # alike, for a circle to stay one
                room = [ROOM * (high - low) for low, high in new]
                kept = [(low - r, high + r) for (low, high), r in zip(new, room, strict=True)]
            ax.set(xlim=kept[0], ylim=kept[1])


def _kind(ax: Axes) -> tuple[object, ...]:
    """The traits that two axes share if a line means the same in both."""
    return ax.get_xscale(), ax.get_yscale(), ax.get_xlabel(), ax.get_ylabel(), ax.get_visible()


def _ghosts(ax: Axes, old: Axes) -> None:
    for line in old.lines:
        xy = np.asarray(line.get_xydata())
        curve = (
            len(xy) > 2
            and line.get_linestyle() == "-"
            and line.get_transform() == old.transData
        )
        if curve and line.get_gid() != GHOST:
            ax.add_line(Line2D(*xy.T, color=GREY, linewidth=1.5, zorder=0.5, gid=GHOST))


def _kept(new: Limits, old: Limits, scale: str) -> Limits:
    """The old limits, an outgrown end moved on; the new ones where these would be small."""
    log = scale == "log"
    low, high, least, most = (math.log10(one) if log else one for one in (*new, *old))
    room = ROOM * (high - low)
    first = least if least <= low else low - min(room, MOVES * (least - low))
    last = most if high <= most else high + min(room, MOVES * (high - most))
    if not high - low >= LEAST * (last - first) > 0:
        return new
    if (first, last) == (least, most):
        return old
    return (10**first, 10**last) if log else (first, last)
