"""Digits that stored private generators drew of MNIST, by method and epsilon."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import ipywidgets as widgets
import numpy as np

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_most, short
from dpkit.course.explorers.controls import choice, control
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.papers.comparison.tables import EPSILONS, TITLES, run_name
from dpkit.papers.experiments import store
from dpkit.papers.experiments.store import values

ROWS, COLUMNS = 4, 10  # of digits that are shown
HEADINGS = ("epsilon proven, at most", "accuracy (%)", "seeds", "lowest to highest (%)")
ACCURACY = (
    "Accuracy: a convolutional network learns from the generated digits alone and is tested on "
    "MNIST's 10,000 test digits; means over seeds. The digits shown are those of seed 0."
)


class SamplesByEpsilon(Explorer):
    """A method and an epsilon: its generator's digits, and the accuracy learned from them."""

    title = "What does epsilon buy?"
    presets: Mapping[str, Mapping[str, Any]] = {
        "no GAN: class moments, epsilon 1": {"method": "moments_jittered", "epsilon": 1.0},
        "DP-CGAN, repaired, epsilon 1": {"method": "dp_cgan", "epsilon": 1.0},
        "DP-WGAN-GP, epsilon 10": {"method": "wgan_gp", "epsilon": 10.0},
    }

    def __init__(self) -> None:
        """The repaired DP-CGAN at epsilon 10."""
        titles = {
            title: method for method, title in TITLES.items() if _stored_epsilons(method)
        }
        super().__init__(
            controls={
                "method": choice("method", titles, "Who draws", value="dp_cgan", width=430),
                "epsilon": control(
                    widgets.SelectionSlider,
                    430,
                    "epsilon",
                    "Of the whole training, at delta 1e-5, add-remove",
                    options=[(f"{one:g}", one) for one in EPSILONS],
                    value=10.0,
                ),
            }
        )

    @staticmethod
    def compute(*, method: str, epsilon: float) -> Result:
        """The method's stored runs at each epsilon, and the images of the one chosen.

        Raises:
            ValueError: method is not one of those compared, or no run at epsilon is stored.
        """
        checks.one_of(tuple(TITLES), method=method)
        there = _stored_epsilons(method)
        if epsilon not in there:
            known = ", ".join(f"{one:g}" for one in there) or "none"
            raise ValueError(f"epsilon {epsilon:g} of {TITLES[method]} is not stored; {known}")
        return {
            "method": method,
            "epsilon": epsilon,
            "runs": {one: values(_stored(), run_name(method, one)) for one in there},
            "images": _images(method, epsilon),
        }

    def says(self, result: Result) -> str:
        """State the accuracy at this epsilon."""
        runs = result["runs"][result["epsilon"]]
        proven = at_most(max(one["epsilon_proven"] for one in runs), 3)
        right = f"a classifier trained on it is right {_accuracy(runs)[0]:.1f} % of the time"
        delta = runs[0]["delta"]
        return f"{TITLES[result['method']]}: {right}, for epsilon {proven} at delta {short(delta)}."

    def table(self, result: Result) -> Table:
        """A row for each epsilon that is stored."""
        rows = []
        for runs in result["runs"].values():
            middle, low, high = _accuracy(runs)
            proven = at_most(max(one["epsilon_proven"] for one in runs))
            rows.append((proven, f"{middle:.1f}", str(len(runs)), f"{low:.1f} to {high:.1f}"))
        runs = result["runs"][result["epsilon"]]
        title = TITLES[result["method"]]
        note = f"{title}; delta {short(runs[0]['delta'])}, {runs[0]['adjacency']}, by PLD."
        return Table(HEADINGS, rows, (note, ACCURACY))

    def draw(self, result: Result) -> plots.Picture:
        """Forty digits, and accuracy by epsilon."""
        room: Any = {"left": 0.02, "right": 0.96, "bottom": 0.17, "top": 0.97, "wspace": 0.3}
        figure, (left, right) = plots.figure(width=9.0, height=2.9, panels=2, **room)
        images = result["images"][: ROWS * COLUMNS]
        side = images.shape[1]
        sheet = images.reshape(ROWS, COLUMNS, side, side).swapaxes(1, 2)
        left.imshow(
            sheet.reshape(ROWS * side, COLUMNS * side), cmap="gray_r", vmin=0, vmax=255
        )
        left.set_axis_off()
        epsilons = list(result["runs"])
        accuracies = [_accuracy(runs)[0] for runs in result["runs"].values()]
        right.set_xscale("log")
        plots.lines(right, {"": (epsilons, accuracies)}, x="epsilon", y="accuracy (%)")
        right.plot(epsilons, accuracies, "o", color=plots.COLOURS[0], markersize=4)
        now = epsilons.index(result["epsilon"])
        right.plot(epsilons[now], accuracies[now], "o", color=plots.COLOURS[1], markersize=10)
        right.set(xlim=(0.4, 13), ylim=(0, 100))
        plots.plain(right.xaxis, subs=(1, 3, 5))
        each = ", ".join(
            f"{a:.1f} % at {e:g}" for e, a in zip(epsilons, accuracies, strict=True)
        )
        left_shows = f"digits by {TITLES[result['method']]} at epsilon {result['epsilon']:g}"
        return plots.picture(figure, f"Left: {left_shows}. Right: {each}.")


def _accuracy(runs: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Mean, lowest and highest over seeds, in per cent."""
    found = [100 * one["cnn_accuracy"] for one in runs]
    return sum(found) / len(found), min(found), max(found)


@lru_cache(maxsize=1)
def _stored() -> dict[str, Any]:
    return store.load("comparison", "mnist")


def _stored_epsilons(method: str) -> list[float]:
    """The epsilons of a method's stored runs and images."""
    return [
        one
        for one in EPSILONS
        if values(_stored(), run_name(method, one)) and _images(method, one).size
    ]


@lru_cache(maxsize=64)
def _images(method: str, epsilon: float) -> np.ndarray:
    """Digits of seed 0, uint8 (n, 28, 28); none where none are stored."""
    try:
        return store.load_images("comparison", "mnist", f"{run_name(method, epsilon)}-seed0")
    except FileNotFoundError:
        return np.empty((0, 28, 28), np.uint8)
