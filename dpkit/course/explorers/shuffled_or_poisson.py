"""One pass over the data, its batches drawn twice: by chance, and by shuffling."""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy.special import ndtr

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_least, at_most, counted, interval, short
from dpkit.course.explorers.controls import DELTA, logarithmic, whole
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.privacy import Gaussian, Release, SampledGaussian, gdp, pld, shuffled
from dpkit.privacy.mechanisms import Floats

LEAST_NOISE, MOST_NOISE, MOST_BATCHES = 0.2, 10.0, 1000
KINDS = ("Poisson", "shuffled")
OTHERS, HOLDS = "0.6", plots.COLOURS[1]
ROOM: Any = {"left": 0.075, "right": 0.985, "bottom": 0.15, "top": 0.86, "wspace": 0.12}
POINTS = 4001  # of the integral over the largest of the other sums
HEADINGS = ("batches of the pass", "epsilon", "what it is")
WORST = (
    "Shuffled: all other gradients are -C, so that each sum is -C times the batch size, but one: "
    "the record's own gradient is C, and its place is left empty in the other data set. Poisson: "
    "all other gradients are 0, the worst case there. Sums are in units of C, beside what the "
    "others add."
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
    controls: ClassVar = {
        "noise_multiplier": logarithmic(
            "noise multiplier",
            math.log10(LEAST_NOISE),
            math.log10(MOST_NOISE),
            0.5,
            "Noise standard deviation / clip norm C",
        ),
        "batches": logarithmic(
            "batches", 0.301, 3, 100.0, "In one pass; the record is in one on average"
        ),
        "seed": whole("draw", 0, 999, 4, "Which batches and which noise are drawn"),
        "delta": DELTA,
    }
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
        low, high = result["shuffled"]
        return (
            f"One pass by chance costs epsilon {interval(*result['poisson'], digits=3)}, shuffled "
            f"{at_least(low, 3)} at least at delta {short(result['delta'])}: charge "
            f"{at_most(high, 3)}."
        )

    def table(self, result: Result) -> Table:
        """The bounds of each kind, and how often the largest sum gives the record away."""
        low, high = result["shuffled"]
        share = f"{100 * result['found']:.3g} %"
        rows = [
            ("Poisson", interval(*result["poisson"]), "certified by PLD, add-remove"),
            ("shuffled", f"at least {at_least(low)}", "Chua et al. 2024; left out in place"),
            (
                "shuffled",
                f"at most {at_most(high)}",
                "one Gaussian release: the batch is known",
            ),
            ("largest sum is the record's", share, "of all draws, shuffled"),
        ]
        note = f"{result['batches']:,} batches, one pass, delta {short(result['delta'])}."
        return Table(HEADINGS, rows, (note, WORST))

    def draw(self, result: Result) -> plots.Picture:
        """Both draws: a dot for each noisy sum, those with the record in colour."""
        figure, axes = plots.figure(width=9.2, height=3.5, panels=2, **ROOM)
        reach = 2 + 4.2 * result["noise"]
        for ax, kind in zip(axes, KINDS, strict=True):
            _draw(ax, result["drawn"][kind], kind)
            said = f"{kind}: {_told(result['drawn'][kind])}\n{_price(result, kind)}"
            ax.set_title(y=1.0, label=said, fontsize=9)
            ax.set(ylim=(-reach + 1, reach), xlabel="batch of the pass")
        axes[0].set_ylabel("noisy sum / C")
        words = [f"{kind}: {_told(result['drawn'][kind])}" for kind in KINDS]
        low, high = result["shuffled"]
        price = (
            f"Poisson batches cost {interval(*result['poisson'], digits=3)}, shuffled ones "
            f"{at_least(low, 3)} at least and {at_most(high, 3)} at most."
        )
        return plots.picture(figure, f"{'; '.join(words)}. {price}")


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


def _price(result: Result, kind: str) -> str:
    if kind == "Poisson":
        return f"epsilon {interval(*result['poisson'], digits=3)}; dotted: 1, or 0 without it"
    return f"epsilon at least {at_least(result['shuffled'][0], 3)}; dotted: 2, or 1 without it"


def _told(drawn: DrawnBatches) -> str:
    held, top = drawn.holding, int(np.argmax(drawn.sums))
    where = f"record in {counted(len(held), 'batch', 'batches')}"
    return f"{where}, largest sum {'is' if top in held else 'is not'} one of its"
