"""Epsilon by step, by RDP and in certified pairs, as a picture."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dpkit.common import plots
from dpkit.common.show import short
from dpkit.privacy import conversions, rdp
from dpkit.privacy.mechanisms import Floats


def rdp_by_step(costs: Floats, delta: float) -> list[float]:
    """RDP's epsilon for each row of costs at its own orders, the least over them."""
    epsilons = conversions.named("improved").epsilon(rdp.ORDERS, costs, delta)
    return np.maximum(epsilons.min(axis=1), 0).tolist()


def draw_by_step(
    ax: Axes,
    curve: tuple[Any, Sequence[float]],
    pairs: Sequence[tuple[int, float, float]],
    delta: float,
) -> None:
    """Draw RDP's epsilon by step, and PLD's (steps, lower, upper) after a few."""
    few, lower, upper = zip(*pairs, strict=True)
    lines: Any = {"RDP": curve, "PLD": (few, upper)}
    plots.lines(ax, lines, x="steps", y=f"epsilon at delta {short(delta)}")
    colour = plots.MEANINGS["PLD"]
    ax.scatter(few, upper, s=14, color=colour)
    ax.fill_between(few, lower, upper, color=colour, alpha=0.3, linewidth=0)
