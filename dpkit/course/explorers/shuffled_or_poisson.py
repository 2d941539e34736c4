"""One pass over the data, its batches drawn twice: by chance, and by shuffling."""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy.special import ndtr
from scipy.stats import binom

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_least, at_most, counted, interval, short
from dpkit.course.explorers.controls import DELTA, Control, RoundSlider, noise_control, whole
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.privacy import Gaussian, Release, SampledGaussian, gdp, pld, shuffled
from dpkit.privacy.mechanisms import Floats

LEAST_NOISE, MOST_NOISE, MOST_BATCHES = 0.2, 10.0, 1000
KINDS = ("Poisson", "shuffled")
OTHERS, HOLDS = "0.6", plots.COLOURS[1]
ROOM: Any = {"left": 0.065, "right": 0.985, "bottom": 0.15, "top": 0.8, "wspace": 0.24}
POINTS = 4001  # of the integral over the largest of the other sums
TIMES = np.arange(5)  # that a record is drawn in a pass, and more is rare
HEADINGS = ("batches of the pass", "epsilon", "what it is")
WORST = (
    "Shuffled: all other gradients are -C, so that each sum is -C times the batch size, but one: "
    "the record's own gradient is C, and its place is left empty in the other data set. Poisson: "
    "all other gradients are 0, the worst case there. Sums are in units of C, compared with what "
    "the others add."
)
OTHERS_TOO = (
    "For five ways to draw the batches of any run: python -m dpkit epsilon --sampling."
)


class DrawnBatches(NamedTuple):
    """Noisy sums of a pass in units of C, (batches,), and the indices of the record's batches."""

    sums: Floats
    holding: np.ndarray


class ShuffledOrPoisson(Explorer):
    """Noise and batches: the record's place, the largest sum, and proven epsilons.

    It opens with 100 batches at noise multiplier 0.5: one pass.
    """

    title = "Shuffled, or by chance?"
    controls: ClassVar = (
        noise_control(0.5, LEAST_NOISE, MOST_NOISE),
        Control(
            *("batches", RoundSlider, 100.0, (2, MOST_BATCHES), "batches"),
            "In one pass; the record is in one on average",
        ),
        Control(
            *("seed", whole, 4, (0, 999), "draw"), "Which batches and which noise are drawn"
        ),
        DELTA,
    )
    presets: ClassVar = {
        "Small Images: noise 0.5": {"noise_multiplier": 0.5, "batches": 469.0},
        "ten batches": {"batches": 10.0},
        "more noise": {"noise_multiplier": 2.0},
    }

    @staticmethod
    def compute(*, noise_multiplier: float, batches: float, seed: int, delta: float) -> Result:
        """One draw of each kind, and the cost of a pass of each kind.

        `poisson` is a certified pair, add-remove. `shuffled` has a lower bound for shuffled
        batches and an upper one, that of a known batch; a record is left out in place. `found` is
        the chance that the largest of the shuffled sums is the record's.

        Raises:
            ValueError: a value is out of range.
        """
        checks.between(0, 1, delta=delta)
        checks.in_range(LEAST_NOISE, MOST_NOISE, noise_multiplier=noise_multiplier)
        checks.in_range(2, MOST_BATCHES, batches=batches)
        checks.whole(seed=seed)
        count = round(batches)
        poisson = pld.epsilon(
            [Release(SampledGaussian(noise_multiplier, 1 / count), count)], delta=delta
        )
        told = gdp.epsilon([Release(Gaussian(noise_multiplier))], delta=delta)
        least = shuffled.at_least(noise_multiplier, batches=count, delta=delta)
        return {
            "noise": noise_multiplier,
            "batches": count,
            "delta": delta,
            "drawn": {kind: draw(kind, noise_multiplier, count, seed) for kind in KINDS},
            "poisson": (poisson.lower, poisson.epsilon),
            "shuffled": (least, told.epsilon),
            "found": largest_is_the_records(noise_multiplier, count),
        }

    def says(self, result: Result) -> str:
        """State a pass's cost, drawn either way."""
        return (
            f"One Poisson pass costs epsilon {at_most(result['poisson'][1])}; one shuffled pass "
            f"at least {at_least(result['shuffled'][0])} (delta {short(result['delta'])})."
        )

    def table(self, result: Result) -> Table:
        """The bounds of each way, and how often the largest sum gives the record away."""
        low, high = result["shuffled"]
        share, empty = f"{100 * result['found']:.3g} %", "left out in place; "
        known = f"{empty}one Gaussian release: the batch is known"
        rows = [
            ("Poisson", interval(*result["poisson"]), "add-remove; certified by PLD"),
            ("shuffled", f"at least {at_least(low)}", f"{empty}Chua et al. 2024"),
            ("shuffled", f"at most {at_most(high)}", known),
            ("largest sum is the record's", share, "of all draws, shuffled"),
        ]
        note = f"{result['batches']:,} batches, one pass, delta {short(result['delta'])}."
        return Table(HEADINGS, rows, (note, WORST, OTHERS_TOO))

    def draw(self, result: Result) -> plots.Picture:
        """Both draws, a dot for each noisy sum; and how often a record is drawn."""
        figure, axes = plots.figure(width=9.2, height=3.8, panels=3, **ROOM)
        reach = 2 + 4.2 * result["noise"]
        low, high = result["shuffled"]
        prices = at_most(result["poisson"][1]), f"at least {at_least(low)}"
        for ax, kind, price in zip(axes, KINDS, prices, strict=False):
            drawn = result["drawn"][kind]
            _draw(ax, drawn, kind)
            lines = f"{kind}: epsilon {price}", *_told(drawn)
            ax.set_title(y=1.0, label="{}\n{}\nring: largest sum, {}".format(*lines), size=10)
            ax.set(ylim=(-reach + 1, reach), xlabel="batch of the pass")
        axes[0].set_ylabel("noisy sum / C")
        _draw_times(axes[2], result["batches"])
        words = "; ".join(
            f"{kind}: {', the largest sum is '.join(_told(result['drawn'][kind]))}"
            for kind in KINDS
        )
        return plots.picture(
            figure,
            f"{words}. Dotted: the mean of a batch with the record. Poisson batches cost "
            f"{interval(*result['poisson'])}, shuffled ones {at_least(low)} at least and "
            f"{at_most(high)} at most. A record is in no Poisson batch of a pass with chance "
            f"{binom.pmf(0, result['batches'], 1 / result['batches']):.3g}.",
        )


def draw(kind: str, noise_multiplier: float, batches: int, seed: int) -> DrawnBatches:
    """One pass with the record in it, by one of KINDS; the noise is the same for both."""
    rng = np.random.default_rng(seed)
    noise = noise_multiplier * rng.standard_normal(batches)
    place = int(rng.integers(batches))
    by_chance = rng.random(batches) < 1 / batches
    if kind == "Poisson":
        return DrawnBatches(noise + by_chance, np.flatnonzero(by_chance))
    holds = np.arange(batches) == place
    return DrawnBatches(noise + 2 * holds, np.flatnonzero(holds))


def largest_is_the_records(noise_multiplier: float, batches: int) -> float:
    """Chance that 2 + noise is the largest of `batches` sums, the others noise alone."""
    z = np.linspace(-8, 8, POINTS)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    below = ndtr(z + 2 / noise_multiplier) ** (batches - 1)
    return float(min((density * below).sum() * (z[1] - z[0]), 1.0))


def _draw(ax: Axes, drawn: DrawnBatches, kind: str) -> None:
    batches = np.arange(1, drawn.sums.size + 1)
    size = 14 if batches.size <= 200 else 6
    ax.scatter(batches, drawn.sums, s=size, color=OTHERS, linewidths=0)
    held = drawn.holding
    ax.scatter(held + 1, drawn.sums[held], s=34, color=HOLDS, zorder=3)
    top = int(np.argmax(drawn.sums))
    ring: Any = {"facecolors": "none", "edgecolors": "black", "linewidths": 1.4, "zorder": 4}
    ax.scatter(top + 1, drawn.sums[top], s=110, **ring)
    ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    high = 2 if kind == "shuffled" else 1
    ax.axhline(high, color=HOLDS, linewidth=0.8, linestyle=":", zorder=0)


def _draw_times(ax: Axes, batches: int) -> None:
    """How often a record is drawn in a pass, by chance and shuffled."""
    chances = binom.pmf(TIMES, batches, 1 / batches)
    ax.bar(TIMES - 0.2, chances, 0.38, color=plots.COLOURS[0], label="Poisson")
    ax.bar(TIMES + 0.2, TIMES == 1, 0.38, color=plots.COLOURS[4], label="shuffled")
    ax.legend(loc="upper right", fontsize=9, frameon=False)
    ax.set(xlabel="times in a pass", ylim=(0, 1.08), xticks=TIMES)
    ax.set_title(y=1.0, label="How often a record is drawn\n(chance)", size=10)


def _told(drawn: DrawnBatches) -> tuple[str, str]:
    held, top = drawn.holding, int(np.argmax(drawn.sums))
    where = f"record in {counted(len(held), 'batch', 'batches')}"
    return where, "the record's" if top in held else "not the record's"
