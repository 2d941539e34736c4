"""The privacy loss of one step, and the sum of many: a histogram, and the bell curve beside it."""

import math
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import fft
from scipy.optimize import brentq
from scipy.special import ndtr

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_most, counted, interval, short
from dpkit.course.explorers.controls import (
    DELTA,
    noise_control,
    rate_control,
    run_input,
    steps_control,
)
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.privacy import SampledGaussian, pld
from dpkit.privacy.mechanisms import Floats

CELLS = 2**14  # of the histogram's grid
SHOWN = 160  # bars that are drawn, at most
REACH = 9.0  # standard deviations of the sum that the grid covers, each way
FAR = 1e-13  # of a step's mass, beyond the grid's ends
FURTHEST = 60.0  # nats, of one step
TOO_LARGE = "noise_multiplier is too small for a histogram of losses: take more noise"
LEAST_DENSITY = 1e-9
REFUSED = "#B00020"  # what delta pays for
MOST_STEPS = 100_000
ROOM: Any = {"left": 0.1, "right": 0.985, "bottom": 0.17, "top": 0.91, "wspace": 0.35}
PICTURE = (
    "The histogram is a picture, on a grid; what is proven is the certified pair, by PLD. The bell "
    "curve has the sum's mean and variance: it is what the central limit theorem makes of it, and "
    "its epsilon is no bound."
)


class Sum(NamedTuple):
    """The distribution of the summed loss: middles of cells and masses, (CELLS,); its moments."""

    losses: Floats
    masses: Floats
    mean: float
    deviation: float


class LossesAddUp(Explorer):
    """Noise, rate and steps: the histogram of the privacy loss, which each step convolves.

    It opens with 100 steps at sample rate 0.01 with noise multiplier 1.
    """

    title = "How do privacy losses add up?"
    controls: ClassVar = (
        steps_control(100, MOST_STEPS),
        noise_control(1.0, 0.5),
        rate_control(1e-4),
        DELTA,
    )
    presets: ClassVar = {
        "one step": {"steps": 1.0},
        "a bell that is wrong": {
            "noise_multiplier": 0.5,
            "sample_rate": 1e-3,
            "steps": 2_000.0,
        },
        "everyone in every batch": {"noise_multiplier": 20.0, "sample_rate": 1.0},
    }

    @staticmethod
    def compute(*, delta: float, **run: Any) -> Result:
        """The summed loss of a record that is removed, its bell curve, and both epsilons.

        `pair` is certified, in both directions; `by_bell` is the normal sum's epsilon. Add-remove,
        Poisson batches. Args: delta, and the other arguments of `run_input`.

        Raises:
            ValueError: a value is out of range, or the losses are too large for a picture.
        """
        checks.between(0, 1, delta=delta)
        checks.in_range(1, MOST_STEPS, steps=run["steps"])
        described = run_input(adjacency="add-remove", **run)
        total = summed(described.step, described.steps)
        found = pld.epsilon(described.ledger, delta=delta)
        beyond = total.losses > found.epsilon
        return {
            "run": described,
            "delta": delta,
            "sum": total,
            "pair": (found.lower, found.epsilon),
            "beyond": float(total.masses[beyond].sum()),
            "by_bell": bell_epsilon(total.mean, total.deviation, delta),
        }

    def says(self, result: Result) -> str:
        """State where delta cuts the sum, and whether the bell would cut too early."""
        low, high = result["pair"]
        steps, delta = result["run"].steps, short(result["delta"])
        cost = "One loss costs" if steps == 1 else f"The sum of {steps:,} losses costs"
        bell = f"the bell curve would say {result['by_bell']:.4g}"
        verdict = f"{bell}, which is "
        verdict += "too small" if result["by_bell"] < low else "larger than needed"
        if low <= result["by_bell"] <= high:
            verdict = "the bell curve says the same"
        return f"{cost} epsilon {at_most(high)} (delta {delta}); {verdict}."

    def table(self, result: Result) -> Table:
        """A row for each moment of the sum, then the epsilons."""
        total, delta = result["sum"], result["delta"]
        rows = [
            ("mean of the sum", f"{total.mean:.4g}", "nats; grows with the steps"),
            ("its standard deviation", f"{total.deviation:.4g}", "with their square root"),
            (
                "epsilon, certified",
                interval(*result["pair"]),
                "proven from both sides, by PLD",
            ),
            ("epsilon of the bell curve", f"{result['by_bell']:.4g}", "no bound"),
            (
                "chance of a larger loss",
                f"{result['beyond']:.3g}",
                "than the certified epsilon",
            ),
        ]
        run = f"{result['run'].steps:,} steps, delta {short(delta)}, add-remove, Poisson batches."
        return Table(("what", "value", "note"), rows, (run, PICTURE))

    def draw(self, result: Result) -> plots.Picture:
        """The density of the sum on two scales: the middle, and the tail that delta cuts."""
        figure, axes = plots.figure(width=7.2, height=3.1, panels=2, **ROOM)
        total, epsilon = result["sum"], result["pair"][1]
        low, high = _window(result)
        xs, density = _bars(total, low, high)
        bell = np.exp(-(((xs - total.mean) / total.deviation) ** 2) / 2)
        bell /= total.deviation * math.sqrt(2 * math.pi)
        shown = np.where(density > LEAST_DENSITY, density, np.nan)
        sums, curve = plots.COLOURS[:2]
        tail: Any = {"where": xs >= epsilon, "alpha": 0.5, "linewidth": 0}
        for ax, title in zip(axes, ("The middle", "The tail, on a log scale"), strict=True):
            ax.fill_between(xs, LEAST_DENSITY, density, color="0.85", linewidth=0, step="mid")
            ax.plot(xs, shown, color=sums, linewidth=1.8, label="the sum")
            ax.plot(xs, bell, "--", color=curve, linewidth=1.5, label="bell curve")
            ax.fill_between(xs, LEAST_DENSITY, density, color=REFUSED, **tail)
            ax.axvline(epsilon, color=REFUSED, linewidth=1.2)
            ax.set(xlim=(low, high), xlabel="summed privacy loss (nats)")
            ax.set_title(y=1.0, label=title, fontsize=11)
        axes[0].set(ylim=(0, 1.12 * density.max()), ylabel="density (per nat)")
        axes[0].legend(loc="upper right", fontsize=9, edgecolor="white")
        axes[1].set(yscale="log", ylim=(LEAST_DENSITY, 3 * density.max()))
        plots.plain(axes[1].yaxis, subs=(1,), numticks=5)
        told: Any = {"color": REFUSED, "rotation": 90, "ha": "right", "va": "top"}
        at, told["xycoords"] = (epsilon, 1), ("data", "axes fraction")
        plots.note(axes[1], f"epsilon {at_most(epsilon)}", at, (-3, -3), **told)
        losses = counted(result["run"].steps, "loss", "losses")
        words = (
            f"The sum of {losses} has mean {total.mean:.4g} and standard deviation "
            f"{total.deviation:.4g}; epsilon {at_most(epsilon)} cuts off its tail, "
            f"and {result['by_bell']:.4g} that of the bell curve."
        )
        return plots.picture(figure, words)


@lru_cache(maxsize=32)
def summed(step: SampledGaussian, steps: int) -> Sum:
    """The loss log(P/Q) of `steps` steps under P, a record removed, on a grid by FFT.

    Raises:
        ValueError: a grid of CELLS cells cannot hold it.
    """
    loss = step.privacy_loss()
    low, high, mean, deviation = _moments(loss, steps)
    wide = max(2 * REACH * deviation * math.sqrt(steps), 4 * max(abs(low), abs(high)))
    width, half = wide / CELLS, CELLS // 2
    edges: Floats = (np.arange(CELLS + 1.0) - half) * float(width)
    one = loss.masses(edges)[0][1:-1]  # between the edges k and k + 1, k from -half
    middle = float(one @ (edges[:-1] + width / 2))
    centre = round(steps * middle / width - steps / 2)  # of the sum of k
    coefficients: Any = fft.rfft(np.roll(one, -half))
    power: Any = fft.irfft(coefficients**steps, CELLS)
    masses = np.roll(power, half - centre % CELLS).clip(min=0)
    if not abs(masses.sum() - 1) < 1e-3:
        raise ValueError(TOO_LARGE)
    losses: Any = (np.arange(CELLS) - half + centre + steps / 2) * width
    losses += steps * (mean - middle)  # of the cells' middles, which are not their means
    return Sum(losses, masses, steps * mean, deviation * math.sqrt(steps))


def _moments(loss: Any, steps: int) -> tuple[float, float, float, float]:
    """The least and the largest loss that matter, mean and standard deviation, of one step."""
    out = np.geomspace(1e-9, FURTHEST, 6000)
    edges = np.concatenate([-out[::-1], out])
    masses = loss.masses(edges)[0][1:-1]
    middles = (edges[1:] + edges[:-1]) / 2
    if not masses.sum() > 1 - 1e-6:
        raise ValueError(TOO_LARGE)
    held = np.flatnonzero(masses > FAR / steps)
    mean = float(masses @ middles)
    deviation = math.sqrt(float(masses @ (middles - mean) ** 2))
    return float(edges[held[0]]), float(edges[held[-1] + 1]), mean, deviation


def bell_epsilon(mean: float, deviation: float, delta: float) -> float:
    """The epsilon at which a normal loss has this delta: E max(0, 1 - exp(epsilon - loss))."""

    def excess(epsilon: float) -> float:
        z = (mean - epsilon) / deviation
        log_second = epsilon - mean + deviation**2 / 2
        second = math.exp(min(log_second, 700.0)) * ndtr(z - deviation)
        return float(ndtr(z) - second) - delta

    if excess(0.0) <= 0:
        return 0.0
    top = mean + 40 * deviation + 1
    found: Any = brentq(excess, 0.0, top)
    return float(found)


def _window(result: Result) -> tuple[float, float]:
    """The range to draw: the sum's middle, and epsilon with some of the tail."""
    total, epsilon = result["sum"], result["pair"][1]
    low = max(total.mean - 5 * total.deviation, float(total.losses[0]))
    high = max(total.mean + 5 * total.deviation, 1.25 * epsilon)
    return min(low, -0.05 * high), min(high, float(total.losses[-1]))


def _bars(total: Sum, low: float, high: float) -> tuple[Floats, Floats]:
    """Middles and densities of at most SHOWN bars between two losses."""
    inside = np.flatnonzero((total.losses >= low) & (total.losses <= high))
    width = total.losses[1] - total.losses[0]
    each = max(inside.size // SHOWN, 1)
    kept = inside[: inside.size // each * each].reshape(-1, each)
    return total.losses[kept].mean(axis=1), total.masses[kept].sum(axis=1) / (each * width)
