"""A picture that follows another: its axes stay where they serve, the lines before stay in grey."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

GHOST = "ghost"  # the mark of a line that was drawn before the move
GREY = "0.8"
LEAST = 0.5  # of the axis' length, that the new limits must fill for the axis to stay


def follow(figure: Figure, before: Figure) -> None:
    """Keep the axes of the picture before, where they fit, and draw its curves in grey.

    Axes that move hide what changes; a curve in grey shows it.
    """
    for ax, old in zip(figure.axes, before.axes, strict=False):
        if _kind(ax) == _kind(old):
            limits = ax.get_xlim(), ax.get_ylim()
            _ghosts(ax, old)
            if ax.get_aspect() == "auto":
                ax.set_xlim(_kept(limits[0], old.get_xlim(), ax.get_xscale()))
                ax.set_ylim(_kept(limits[1], old.get_ylim(), ax.get_yscale()))
            else:
                ax.set(xlim=limits[0], ylim=limits[1])


def _kind(ax: Axes) -> tuple[object, ...]:
    """What two axes must share for the lines of one to mean the same in the other."""
    return ax.get_xscale(), ax.get_yscale(), ax.get_xlabel(), ax.get_ylabel(), ax.get_visible()


def _ghosts(ax: Axes, old: Axes) -> None:
    for line in old.lines:
        xy = np.asarray(line.get_xydata())
        curve = (
            len(xy) > 2 and line.get_linestyle() == "-" and line.get_transform() == old.transData
        )
        if curve and line.get_gid() != GHOST:
            ax.add_line(Line2D(*xy.T, color=GREY, linewidth=1.5, zorder=0.5, gid=GHOST))


def _kept(new: tuple[float, float], old: tuple[float, float], scale: str) -> tuple[float, float]:
    """The old limits where the new ones lie within them and fill enough of them."""
    ends = [math.log10(one) if scale == "log" else one for one in (*new, *old)]
    low, high, least, most = ends
    fits = least <= low < high <= most and high - low >= LEAST * (most - least)
    return old if fits else new
