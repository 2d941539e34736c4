"""A noise that changes over the steps: its cost, and the constant noise of equal cost."""

import math
from typing import Any, ClassVar

import numpy as np

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_least, at_most, short
from dpkit.course.explorers.by_step import draw_by_step, rdp_by_step
from dpkit.course.explorers.controls import (
    DELTA,
    Control,
    RoundSlider,
    check_sample_rate,
    choice,
    rate_control,
    steps_control,
    whole,
)
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.privacy import Release, SampledGaussian, calibrate, pld, rdp, schedules
from dpkit.privacy.mechanisms.base import Floats
from dpkit.privacy.schedules import Schedule

KINDS = ("constant", "linear", "exponential", "time", "step")
DOWN, UP = 20, 12  # different noises that are priced, at most: from above, and from below
MOST_STEPS = 100_000
ROOM: Any = {"left": 0.09, "right": 0.93, "bottom": 0.17, "top": 0.95, "wspace": 0.72}
POINTS = 32  # of the RDP line
GAP = 0.01  # relative, of a certified pair
ADAPTIVE = (
    "These schedules are fixed before training. A noise that follows what training sees (adaptive "
    "decay) looks at private data: each look must be a noised release with its own price, and it "
    "is not offered here."
)


class Schedules(Explorer):
    """Decay of the noise over a run: its epsilon, and the constant noise of equal cost.

    It opens with exponential decay from 1.6 to 0.8 over 2,000 steps at sample rate 0.01.
    """

    title = "What does noise that decays cost?"
    controls: ClassVar = (
        Control(
            *("kind", choice, "exponential", KINDS, "decay"),
            "How the noise goes from its start to its end",
        ),
        Control(
            *("start", RoundSlider, 1.6, (0.3, 10), "noise at the start"),
            "Noise standard deviation / clip norm",
        ),
        Control(
            *("end", RoundSlider, 0.8, (0.3, 10), "noise at the end"),
            "Noise multiplier of the last step",
        ),
        Control(
            *("drops", whole, 4, (1, UP - 1), "drops (step)"),
            "How often the noise drops, by the same factor",
        ),
        steps_control(2_000, 30_000),
        rate_control(1e-4),
        DELTA,
    )
    presets: ClassVar = {
        "from 4 to 0.6": {"start": 4.0, "end": 0.6},
        "four drops": {"kind": "step", "drops": 4},
        "constant": {"kind": "constant", "start": 1.0},
    }

    @staticmethod
    def compute(
        *, kind: str, steps: float, sample_rate: float, delta: float, **decay: Any
    ) -> Result:
        """The noise at each step, its price by RDP and PLD, and a constant like it.

        Prices are of noise rounded to a few levels: down for upper bounds, up for lower ones, as
        less noise never costs less. Args: decay, the other arguments of `schedule`.
        """
        checks.between(0, 1, delta=delta)
        checks.in_range(1, MOST_STEPS, steps=steps)
        check_sample_rate(sample_rate)
        count = round(steps)
        noises = schedules.values(schedule(kind, steps=count, **decay), steps=count)
        down, up = rounded(noises)
        spent = rdp.epsilon(ledger(down, sample_rate), delta=delta).epsilon
        least, most = _pair(down, up, sample_rate, delta)
        alike = math.nan
        if noises.min() == noises.max():
            alike = float(noises[0])
        elif math.isfinite(spent) and spent > 0:
            alike = calibrate.noise_multiplier(
                spent, sample_rate=sample_rate, steps=count, delta=delta, tolerance=1e-4
            )
        run = {"kind": kind, "steps": count, "sample_rate": sample_rate, "delta": delta}
        levels = {"noises": noises, "down": down, "up": up, "mean": float(noises.mean())}
        return {**run, **levels, "rdp": spent, "pld": most, "lower": least, "alike": alike}

    def says(self, result: Result) -> str:
        """State the schedule's cost, and the constant noise of equal cost."""
        proven, delta = at_most(result["pld"]), short(result["delta"])
        price = f"This noise costs epsilon {proven} (delta {delta})."
        if result["kind"] == "constant" or not math.isfinite(result["alike"]):
            return price
        return (
            f"{price} So does a constant noise of {_alike(result)}; the schedule's mean is "
            f"{result['mean']:.4g}."
        )

    def table(self, result: Result) -> Table:
        """Prices, then the noise."""
        exact = np.array_equal(result["down"], result["noises"])
        rows = [
            ("epsilon by RDP", at_most(result["rdp"]), "proven"),
            ("epsilon by PLD", at_most(result["pld"]), "proven"),
            ("epsilon is at least", at_least(result["lower"]), "proven, by PLD"),
            ("constant noise of the same price", _alike(result), "as priced by RDP"),
            ("mean noise of the schedule", f"{result['mean']:.4g}", "over all steps"),
        ]
        priced = (
            "Every step is priced with its own noise."
            if exact
            else f"Noise is rounded to {len(np.unique(result['down']))} levels: down for epsilon, "
            "which can only cost more, and up for what epsilon is at least."
        )
        run = (
            f"{result['steps']:,} steps at sample rate {result['sample_rate']:.4g}, delta "
            f"{short(result['delta'])}, add-remove, Poisson batches."
        )
        return Table(("quantity", "value", "what it is"), rows, (run, priced, ADAPTIVE))

    def _calculate(self) -> None:
        self.values["drops"].disabled = self.values["kind"].value != "step"
        self.values["end"].disabled = self.values["kind"].value == "constant"
        super()._calculate()

    def late(self, result: Result) -> Result:
        """Add certified pairs along the run."""
        few = np.unique(np.linspace(0, result["steps"], 4).astype(int)[1:-1].clip(min=1))
        down, up, rate, delta = (
            result[name] for name in ("down", "up", "sample_rate", "delta")
        )
        return {**result, "along": [(n, *_pair(down[:n], up[:n], rate, delta)) for n in few]}

    def draw(self, result: Result) -> plots.Picture:
        """Draw left every step's noise, and the constant; right epsilon by step."""
        noises, steps = result["noises"], result["steps"]
        figure, (left, right) = plots.figure(width=7.2, height=3.1, panels=2, **ROOM)
        shown = np.unique(np.linspace(0, steps - 1, 400).astype(int))
        curves: dict[str, Any] = {result["kind"]: (shown + 1, noises[shown])}
        if math.isfinite(result["alike"]) and result["kind"] != "constant":
            curves["same price"] = ([1, max(steps, 2)], [result["alike"]] * 2)
        highest = max(float(np.max(ys)) for _, ys in curves.values())
        left.set_ylim(0, 1.08 * highest)
        plots.lines(left, curves, x="step", y="noise multiplier")
        counts = np.unique(np.linspace(1, steps, POINTS).astype(int))
        spent = by_step(result, counts)
        pairs = [*result.get("along", ()), (steps, result["lower"], result["pld"])]
        right.set_ylim(0, 1.08 * max(spent[-1], result["pld"]) or 1)
        draw_by_step(right, (counts, spent), pairs, result["delta"])
        words = (
            f"Left: the noise goes from {noises[0]:.3g} at the first to {noises[-1]:.3g} at the "
            f"last of {steps:,} steps; a constant noise of {_alike(result)} costs the "
            f"same by RDP. Right: epsilon after all steps is {at_most(result['rdp'])} by RDP, "
            f"between {at_least(result['lower'])} and {at_most(result['pld'])} by PLD."
        )
        return plots.picture(figure, words)


def schedule(kind: str, start: float, end: float, drops: int, steps: int) -> Schedule:
    """The decay of that kind from `start` at the first to `end` at the last step.

    Raises:
        ValueError: the kind is unknown, a noise is not > 0, or a decay would rise.
    """
    checks.one_of(KINDS, kind=kind)
    checks.positive(start=start, end=end)
    checks.whole(1, drops=drops)
    if kind not in ("constant", "linear") and not end <= start:
        raise ValueError(
            f"end must be at most start, {start:g}, for {kind} decay, got {end:g}; only "
            "linear may rise"
        )
    last = max(steps - 1, 1)
    match kind:
        case "constant":
            return schedules.Constant(start)
        case "linear":
            return schedules.Linear(start, end, last)
        case "exponential":
            return schedules.ExponentialDecay(start, math.log(start / end) / last)
        case "time":
            return schedules.TimeDecay(start, (start / end - 1) / last)
        case _:
            every = max(math.ceil(steps / (drops + 1)), 1)
            return schedules.StepDecay(start, (end / start) ** (1 / drops), every)


def rounded(noises: Floats) -> tuple[Floats, Floats]:
    """The noises rounded down, to at most DOWN different ones, and up, to at most UP.

    Levels are equally far apart in 1 / noise^2, which is about what a step costs.
    """
    down, up = _levels(noises, DOWN), _levels(noises, UP)
    below = np.searchsorted(down, noises, side="right") - 1
    above = np.searchsorted(up, noises, side="left")
    return down[below], up[above]


def _levels(noises: Floats, most: int) -> Floats:
    """At most `most` rising levels from the least to the largest noise."""
    different = np.unique(noises)
    if len(different) <= most:
        return different
    low, high = different[[0, -1]]
    inner = np.linspace(low**-2.0, high**-2.0, most) ** -0.5
    inner[0], inner[-1] = low, high
    return np.sort(inner.clip(low, high))


def ledger(noises: Floats, sample_rate: float) -> list[Release]:
    """A release for each different noise, with its number of steps."""
    different, counts = np.unique(noises, return_counts=True)
    return [
        Release(SampledGaussian(float(noise), sample_rate), int(count))
        for noise, count in zip(different, counts, strict=True)
    ]


def by_step(result: Result, counts: Floats) -> list[float]:
    """Epsilon by RDP after each of `counts` steps, at the accountant's own orders."""
    different, level = np.unique(result["down"], return_inverse=True)
    rate, size = result["sample_rate"], len(different)
    costs = np.stack([SampledGaussian(float(z), rate).rdp(rdp.ORDERS) for z in different])
    so_far = np.stack([np.bincount(level[: int(n)], minlength=size) for n in counts])
    return rdp_by_step(so_far @ costs, result["delta"])


def _pair(down: Floats, up: Floats, sample_rate: float, delta: float) -> tuple[float, float]:
    """(lower, upper) of epsilon by PLD: from the noise rounded up, and rounded down."""
    most = pld.epsilon(ledger(down, sample_rate), delta=delta, gap=GAP)
    if np.array_equal(down, up):
        return most.lower, most.epsilon
    least = pld.epsilon(ledger(up, sample_rate), delta=delta, gap=GAP)
    return least.lower, most.epsilon


def _alike(result: Result) -> str:
    """The constant noise of the same price, or the reason for none."""
    if math.isfinite(result["alike"]):
        return at_most(result["alike"])
    return "any size" if result["rdp"] == 0 else "no size"
