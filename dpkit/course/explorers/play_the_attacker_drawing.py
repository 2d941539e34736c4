"""The panels of `PlayTheAttacker`: the numbers seen at the left, what they prove at the right."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dpkit.common import plots
from dpkit.common.show import at_least
from dpkit.privacy.mechanisms import Floats

OUT, IN = plots.COLOURS[:2]  # colours of the two worlds
WIDE = 3.2  # standard deviations that are drawn beyond either count
BELOW, STEP = -0.1, 0.028  # of the tallest curve: where the rounds played begin, and go on
ROOM = 1.2  # of the release's epsilon, or of what twenty rounds can show


def draw_rounds(ax: Axes, result: dict[str, Any], without: int) -> None:
    """Both curves, where they help, the number of the present round, and the rounds played."""
    noise, seen, played = result["noise"], result["seen"], len(result["guesses"])
    ends = without - WIDE * noise, without + 1 + WIDE * noise
    if result["help"]:
        at: Floats = np.linspace(*ends, 201)
        for count, colour, name in ((without, OUT, "out"), (without + 1, IN, "in")):
            _bell(ax, at, count, noise, colour, name)
    for index in range(played):
        _dot(ax, result, index)
    if len(seen) > played:
        ax.plot([seen[-1]] * 2, [0, 1], color="black", linewidth=2)
        style: Any = {"ha": "center", "va": "bottom", "bbox": None}
        plots.note(ax, f"{seen[-1]:.2f}: in or out?", (seen[-1], 1), (0, 3), **style)
    ax.axhline(0, color="0.3", linewidth=1)
    low, high = min(*ends, *seen), max(*ends, *seen)
    ax.set(xlim=(low, high), ylim=(BELOW - 20 * STEP - 0.03, 1.2), yticks=[])
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("noisy count; below, the rounds played: o right, x wrong", fontsize=9)
    ax.set_title(y=1.0, label="What you see", fontsize=11)


def _bell(ax: Axes, at: Floats, count: int, noise: float, colour: str, name: str) -> None:
    height = np.exp(-(((at - count) / noise) ** 2) / 2)
    ax.plot(at, height, color=colour, linewidth=1.8)
    ax.fill_between(at, 0, height, color=colour, alpha=0.08, linewidth=0)
    side = -1 if name == "out" else 1
    place = count + side * 1.2 * noise, float(np.exp(-0.72))
    align: Any = {"ha": "right" if side < 0 else "left", "color": colour, "bbox": None}
    plots.note(ax, f"{name}: {count}", place, (5 * side, 3), **align)


def _dot(ax: Axes, result: dict[str, Any], index: int) -> None:
    """One round played, in the colour of its truth."""
    there, guess = bool(result["present"][index]), result["guesses"][index]
    marker = "_" if guess == "P" else "o" if (guess == "I") == there else "x"
    at = result["seen"][index], BELOW - STEP * index
    ax.plot(*at, marker, color=IN if there else OUT, markersize=6, clip_on=False)


def draw_evidence(ax: Axes, result: dict[str, Any]) -> None:
    """The interval of your epsilon by rounds played, the most there is, and the release's."""
    ceiling, true, played = result["ceiling"], result["true"].epsilon, len(result["intervals"])
    rounds = np.arange(1, len(ceiling) + 1)
    top = ROOM * max(true, ceiling[-1])
    ax.plot(rounds, ceiling, ":", color="0.35", linewidth=1.5)
    last = (rounds[-1], ceiling[-1])
    plots.note(ax, "all guesses right", last, (-2, 5), ha="right", bbox=None, color="0.35")
    ax.axhline(true, color="black", linestyle="--", linewidth=1.2)
    over = true < ceiling[-1]
    style: Any = {"ha": "left", "va": "bottom" if over else "top"}
    plots.note(ax, f"the release: {true:.3g}", (1, true), (0, 3 if over else -3), **style)
    if played:
        low, high = np.array(result["intervals"]).T
        steps, high = rounds[:played], np.minimum(high, top)
        ax.fill_between(steps, low, high, step="mid", color=IN, alpha=0.15, linewidth=0)
        ax.step(steps, low, where="mid", color=IN, linewidth=1.8)
        side: Any = {"ha": "left" if played < 12 else "right", "color": IN, "bbox": None}
        told = f"you: at least {at_least(low[-1], 3)}"
        plots.note(ax, told, (played, low[-1]), (5 if played < 12 else -14, 4), **side)
    ax.set(xlim=(0.5, len(ceiling) + 0.5), ylim=(0, top), xlabel="rounds", ylabel="epsilon (nats)")
    ax.set_xticks(range(0, len(ceiling) + 1, 5))
    ax.set_title(y=1.0, label="What your guesses prove", fontsize=11)
