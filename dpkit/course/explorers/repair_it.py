"""DP-CGAN's published epsilon, counted again: five corrections to switch on one by one."""

import math
from functools import cache
from typing import Any, ClassVar, NamedTuple

import ipywidgets as widgets

from dpkit.common import plots
from dpkit.common.show import Table, at_most, interval
from dpkit.course.explorers.certified import certified
from dpkit.course.explorers.controls import control
from dpkit.course.explorers.explorer import Explorer
from dpkit.papers.dp_cgan import claims
from dpkit.papers.dp_cgan.settings import SETTINGS

HEADINGS = ("correction", "because", "epsilon with it and those above")
CLAIMED, DELTA = SETTINGS.target_epsilon, SETTINGS.target_delta
LEAST_SHOWN = 5.0
METHOD = (
    f"Add-remove, delta {DELTA:g}, by the paper's own method: RDP of Poisson batches, the classic "
    "conversion, the orders of its code."
)


class Correction(NamedTuple):
    """What is counted, and why."""

    title: str
    why: str


CORRECTIONS = {
    "noise": Correction(
        "noise multiplier 1.12", "the accountant was given noise x clip norm, 1.232"
    ),
    "rate": Correction("sample rate 600/55,000", "5,000 of the 60,000 images were held out"),
    "tensors": Correction(
        "four tensors clipped apart", "one record moves each by C, together by 2C"
    ),
    "fakes": Correction(
        "fakes with the record's label", "their gradients depend on it, too: twice as far"
    ),
    "generator": Correction(
        "the generator's labels", "its update reads the batch's labels without any noise"
    ),
}
ALL = dict.fromkeys(CORRECTIONS, True)


class RepairIt(Explorer):
    """Five check boxes: DP-CGAN's 9.6, counted with one correction after another.

    It opens as charged: nothing is corrected.
    """

    title = "What is left of epsilon 9.6?"
    controls: ClassVar = {
        name: control(widgets.Checkbox, 430, one.title, f"Count it: {one.why}", indent=False)
        for name, one in CORRECTIONS.items()
    }
    presets: ClassVar = {
        "all five": ALL,
        "all but the generator's labels": {**ALL, "generator": False},
    }

    @staticmethod
    def compute(
        *, noise: bool, rate: bool, tensors: bool, fakes: bool, generator: bool
    ) -> dict[str, Any]:
        """Epsilon with the chosen corrections, and along them.

        `pair` is certified, of the same releases; both are inf with the generator's labels.
        """
        chosen = {"noise": noise, "rate": rate, "tensors": tensors, "fakes": fakes}
        chosen["generator"] = generator
        along, so_far = {}, dict.fromkeys(CORRECTIONS, False)
        for name, on in chosen.items():
            if on:
                so_far[name] = True
                along[name] = spent(**so_far)
        last = spent(**so_far)
        multiplier, sample_rate = setting(**so_far)
        steps = claims.charged_steps()
        pair = (0.0, math.inf) if generator else certified(multiplier, sample_rate, steps, DELTA)
        return {"along": along, "epsilon": last, "noise": multiplier, "steps": steps, "pair": pair}

    def says(self, result: dict[str, Any]) -> str:
        """What is left of the claim."""
        epsilon, count = result["epsilon"], len(result["along"])
        if math.isinf(epsilon):
            return "No finite epsilon: labels of the private batch reach the generator unnoised."
        if not count:
            return f"Claimed and charged: epsilon {at_most(epsilon)} at delta {DELTA:g}."
        counted = f"{count} correction{'s' if count > 1 else ''}"
        return f"With {counted}: epsilon {at_most(epsilon)} at delta {DELTA:g}, not {CLAIMED:g}."

    def table(self, result: dict[str, Any]) -> Table:
        """A row for each correction."""
        rows = [("as charged", "the code's own accountant", at_most(spent(**_none())))]
        for name, one in CORRECTIONS.items():
            value = result["along"].get(name)
            told = "not counted" if value is None else at_most(value)
            rows.append((one.title, one.why, told))
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

    def draw(self, result: dict[str, Any]) -> plots.Picture:
        """A bar for each correction that is counted, beside what was claimed."""
        room: Any = {"left": 0.36, "right": 0.9, "bottom": 0.17, "top": 0.97}
        figure, (ax,) = plots.figure(width=7.6, height=3.0, **room)
        rows = {"as charged": spent(**_none())}
        rows |= {CORRECTIONS[name].title: value for name, value in result["along"].items()}
        top = 20_000.0  # the same axis whatever is chosen
        for place, value in enumerate(rows.values()):
            colour = plots.MEANINGS["proven" if place else "charged"]
            finite = math.isfinite(value)
            ax.barh(place, min(value, top), 0.6, color=colour, alpha=1 if finite else 0.4)
            word = at_most(value, 4) if finite else "no finite epsilon"
            at = (value, place) if finite else (LEAST_SHOWN * 1.3, place)
            plots.note(ax, word, at, (5, 0), va="center", bbox=None)
        ax.axvline(CLAIMED, color=plots.MEANINGS["claimed"], linestyle="--", linewidth=1.5)
        ax.set_yticks(range(len(CORRECTIONS) + 1), [*rows, *[""] * (6 - len(rows))])
        ax.set(xscale="log", xlim=(LEAST_SHOWN, top), ylim=(5.6, -0.6))
        ax.set_xlabel(f"epsilon at delta {DELTA:g}; dashed: claimed, {CLAIMED:g}")
        plots.plain(ax.xaxis, subs=(1,))
        words = "; ".join(f"{name}: {at_most(value)}" for name, value in rows.items())
        return plots.picture(figure, f"Epsilon, claimed {CLAIMED:g}. {words}.")


def setting(
    *, noise: bool, rate: bool, tensors: bool, fakes: bool, generator: bool
) -> tuple[float, float]:
    """(noise multiplier, sample rate) with these corrections; the generator's has no number."""
    multiplier = claims.ONE_CLIP if noise else claims.CODE_NOISE
    further = (2 if tensors else 1) * (2 if fakes else 1)
    return multiplier / further, claims.TRUE_RATE if rate else claims.CODE_RATE


@cache
def spent(**corrections: bool) -> float:
    """Epsilon of the charged steps with these corrections, by the paper's method."""
    if corrections["generator"]:
        return claims.no_guarantee()
    return claims.spent(*setting(**corrections))


def _none() -> dict[str, bool]:
    return dict.fromkeys(CORRECTIONS, False)


def _box(one: Correction) -> Any:
    return control(widgets.Checkbox, 430, one.title, f"Count it: {one.why}", indent=False)
