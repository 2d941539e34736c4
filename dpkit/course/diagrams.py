"""Diagrams of the notebooks, drawn by matplotlib."""

from typing import Any

from matplotlib.axes import Axes

from dpkit.common import plots

BLUE, ORANGE, GREEN = plots.COLOURS[:3]


def gan() -> plots.Picture:
    """A GAN's two networks, what flows between them, and where privacy enters."""
    drawn, (ax,) = plots.figure(width=7.2, height=2.5)
    ax.set(xlim=(0, 10), ylim=(-0.5, 4))
    ax.axis("off")
    _box(ax, (1.0, 1.0), "noise z,\nlabel y", "0.5")
    _box(ax, (3.4, 1.0), "generator G", GREEN)
    _box(ax, (3.4, 3.0), "private images", ORANGE)
    _box(ax, (6.4, 2.0), "discriminator D", BLUE)
    _box(ax, (9.2, 2.0), "real or\nmade?", "0.5")
    _arrow(ax, (1.6, 1.0), (2.6, 1.0))
    _arrow(ax, (4.2, 1.0), (5.6, 1.8), "made images", (5.65, 1.15))
    _arrow(ax, (4.35, 3.0), (5.6, 2.2), "real images", (5.65, 2.85))
    _arrow(ax, (7.35, 2.0), (8.5, 2.0))
    back = {"linestyle": "--", "connectionstyle": "arc3,rad=0.35"}
    _arrow(ax, (9.2, 2.6), (6.6, 2.45), "D learns: clip, add up, noise", (7.9, 3.35), **back)
    back["connectionstyle"] = "arc3,rad=-0.25"
    _arrow(
        ax,
        (9.2, 1.4),
        (3.6, 0.55),
        "G learns from D alone: nothing more to protect",
        (6.3, -0.25),
        **back,
    )
    return plots.picture(
        drawn,
        "The generator turns noise and a label into an image; the discriminator sees made and real "
        "images and says which is which. Its own update is clipped and noised; the generator "
        "learns only from the discriminator.",
    )


def _box(ax: Axes, at: tuple[float, float], text: str, colour: str) -> None:
    style = {
        "boxstyle": "round,pad=0.5",
        "facecolor": "white",
        "edgecolor": colour,
        "linewidth": 2,
    }
    ax.text(*at, text, ha="center", va="center", fontsize=10, bbox=style)


def _arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    text: str = "",
    at: tuple[float, float] = (0, 0),
    **style: Any,
) -> None:
    ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "0.3", **style})
    ax.text(*at, text, ha="center", va="center", fontsize=9, color="0.25")
