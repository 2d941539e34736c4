"""DP-CGAN's published epsilon, counted again: five corrections to switch on one by one."""

import math
from functools import cache
from typing import Any, ClassVar

from dpkit.common import plots
from dpkit.common.show import Table, at_most, interval, short
from dpkit.course.explorers.controls import Control, box
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.papers.dp_cgan import claims
from dpkit.papers.dp_cgan.settings import SETTINGS
from dpkit.privacy import Release, SampledGaussian, pld

HEADINGS = ("correction", "because", "epsilon")
CLAIMED, DELTA = SETTINGS.target_epsilon, SETTINGS.target_delta
LEAST_SHOWN = 5.0
METHOD = (
    f"Add-remove, delta {short(DELTA)}, by the paper's own method: RDP of Poisson batches, the "
    "classic conversion, the orders of its code."
)
CORRECTIONS = {  # what is counted, and why
    "noise": (
        "the noise that the code adds",
        "noise 1.12, where the accountant was given noise x clip norm, 1.232",
    ),
    "rate": (
        "the images that it trains on",
        "55,000: 5,000 of the 60,000 images were held out, so a batch is a larger share",
    ),
    "tensors": (
        "all that one record moves",
        "four tensors are clipped apart: one record moves each by C, together by 2C",
    ),
    "fakes": (
        "fakes with the record's label",
        "their gradients depend on the record, too: it moves the sum twice as far",
    ),
    "generator": (
        "labels that reach the generator",
        "its update reads the private batch's labels without any noise",
    ),
}
ALL, NONE = dict.fromkeys(CORRECTIONS, True), dict.fromkeys(CORRECTIONS, False)


class RepairIt(Explorer):
    """Five check boxes: DP-CGAN's 9.6, counted with one correction after another.

    It opens as charged: nothing is corrected.
    """

    title = "What is left of epsilon 9.6?"
    controls: ClassVar = tuple(
        Control(name, box, False, None, f"count {title}", f"Count it: {why}")
        for name, (title, why) in CORRECTIONS.items()
    )
    presets: ClassVar = {
        "all five": ALL,
        "all but the generator's labels": {**ALL, "generator": False},
    }

    @staticmethod
    def compute(**chosen: bool) -> Result:
        """Epsilon with the chosen corrections, and along them; Args: CORRECTIONS, each by name.

        `pair` is certified, of the same releases; both are inf with the generator's labels.
        """
        along, so_far = {}, NONE
        for name, on in chosen.items():
            if on:
                so_far = {**so_far, name: True}
                along[name] = spent(**so_far)
        multiplier, sample_rate = setting(**so_far)
        run = {"noise": multiplier, "steps": claims.charged_steps(), "pair": (0.0, math.inf)}
        if not so_far["generator"]:
            run["pair"] = certified(SampledGaussian(multiplier, sample_rate))
        return {"along": along, "epsilon": spent(**so_far), **run}

    def says(self, result: Result) -> str:
        """State the claim's remainder."""
        epsilon, count = result["epsilon"], len(result["along"])
        if math.isinf(epsilon):
            return (
                "No finite epsilon: labels of the private batch reach the generator unnoised."
            )
        if not count:
            return f"Claimed and charged: epsilon {at_most(epsilon)} (delta {short(DELTA)})."
        how = "one correction" if count == 1 else f"{count} corrections"
        return (
            f"With {how}: epsilon {at_most(epsilon)} (delta {short(DELTA)}), not {CLAIMED:g}."
        )

    def table(self, result: Result) -> Table:
        """A row for each correction."""
        rows = [("as charged", "the code's own accountant", at_most(spent(**NONE)))]
        for name, (title, why) in CORRECTIONS.items():
            value = result["along"].get(name)
            rows.append((title, why, "not counted" if value is None else at_most(value)))
        price = "none" if math.isinf(result["pair"][1]) else interval(*result["pair"])
        return Table(
            HEADINGS,
            rows,
            (
                METHOD,
                f"Certified by PLD, of the same {result['steps']:,} steps at noise multiplier "
                f"{result['noise']:.4g}: {price}.",
                "Shuffled batches, which the code draws, are not among the five: Poisson batches "
                "are assumed throughout.",
            ),
        )

    def draw(self, result: Result) -> plots.Picture:
        """Draw a bar for each correction that is counted, with those above it, and the claim."""
        room: Any = {"left": 0.02, "right": 0.97, "bottom": 0.16, "top": 0.99}
        figure, (ax,) = plots.figure(width=4, height=3.8, **room)
        top = 20_000.0  # the same axis whatever is chosen
        rows = {"as charged": spent(**NONE), **result["along"]}
        for place, name in enumerate(["as charged", *CORRECTIONS]):
            title = f"+ {CORRECTIONS[name][0]}" if place else name
            plots.note(ax, title, (LEAST_SHOWN, place - 0.22), (2, 2), fontsize=10)
            value, word, at = rows.get(name), "?", LEAST_SHOWN
            if value is not None:
                colour = plots.MEANINGS["proven" if place else "charged"]
                ax.barh(place, min(value, top), 0.36, color=colour)
                finite = math.isfinite(value)
                word, at = (at_most(value), value) if finite else ("no finite epsilon", at)
            style: Any = {"color": "white" if value == math.inf else "black", "fontsize": 10}
            plots.note(ax, word, (at, place), (5, 0), va="center", bbox=None, **style)
        ax.axvline(CLAIMED, color=plots.MEANINGS["claimed"], linestyle="--", linewidth=1.8)
        ax.set(xscale="log", xlim=(LEAST_SHOWN, top), ylim=(5.3, -0.85), yticks=[])
        marks = f"dashed: claimed, {CLAIMED:g}; ?: not yet counted"
        ax.set_xlabel(f"epsilon at delta {short(DELTA)}\n{marks}")
        plots.plain(ax.xaxis, subs=(1,))
        told = {
            CORRECTIONS[name][0] if name in CORRECTIONS else name: rows[name] for name in rows
        }
        words = "; ".join(f"{name}: {at_most(value)}" for name, value in told.items())
        return plots.picture(figure, f"Epsilon, claimed {CLAIMED:g}. {words}.")


def setting(
    *, noise: bool, rate: bool, tensors: bool, fakes: bool, generator: bool
) -> tuple[float, float]:
    """(noise multiplier, sample rate) so corrected; the generator's has no number."""
    multiplier = claims.ONE_CLIP if noise else claims.CODE_NOISE
    further = (2 if tensors else 1) * (2 if fakes else 1)
    return multiplier / further, claims.TRUE_RATE if rate else claims.CODE_RATE


@cache
def certified(step: SampledGaussian) -> tuple[float, float]:
    """(lower, upper) of epsilon of the charged steps by PLD, add-remove."""
    pair = pld.epsilon([Release(step, claims.charged_steps())], delta=DELTA, gap=0.01)
    return pair.lower, pair.epsilon


@cache
def spent(**corrections: bool) -> float:
    """Epsilon of the charged steps with these corrections, by the paper's method."""
    if corrections["generator"]:
        return claims.no_guarantee()
    return claims.spent(*setting(**corrections))
