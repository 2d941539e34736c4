"""One run, priced by every accountant, each number proven or only estimated."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import ipywidgets as widgets

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_least, at_most, short
from dpkit.course.explorers.certified import draw_by_step, rdp_by_step
from dpkit.course.explorers.controls import DELTA, run_controls, run_input
from dpkit.course.explorers.explorer import Explorer, Result
from dpkit.privacy import Guarantee, Release, Unsupported, gdp, pld, rdp
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian

MOMENTS = tuple(range(2, 66))  # orders lambda + 1 of the moments accountant, lambda = 1 to 64
POINTS = 24  # step counts of the curve
BAND = 4  # of them, certified
REFUTED = "#B00020"  # what is below the certified lower bound
HEADINGS = ("accountant", "epsilon", "at least", "what it is")


class Accountant(Explorer):
    """Noise, rate, steps and delta of a run: all accountants, and epsilon by step."""

    title = "What does this run cost?"
    controls: ClassVar = {**run_controls(1.1, 10_000), "delta": DELTA}
    presets: ClassVar = {
        "DP-CGAN, as charged": {"noise_multiplier": 1.232, "steps": 30_303.0},
        "Small Images, as charged": {
            "noise_multiplier": 0.5,
            "sample_rate": 128 / 60_000,
            "steps": 18_760.0,
        },
        "Abadi et al. 2016, noise 4": {"noise_multiplier": 4.0},
        "where a limit theorem fails": {
            "noise_multiplier": 0.3,
            "sample_rate": 1e-4,
            "steps": 1_000.0,
        },
    }

    def __init__(self) -> None:
        """A run of 10,000 steps at sample rate 0.01 with noise multiplier 1.1."""
        keep, forget = self.buttons = [
            widgets.Button(description="Keep to compare", tooltip="Keep these numbers below"),
            widgets.Button(description="Forget", tooltip="Empty the list of kept settings"),
        ]
        self.kept: list[Result] = []
        self.comparison = widgets.HTML()
        self.call = widgets.HTML()
        keep.on_click(self._compare)
        forget.on_click(self._compare)
        super().__init__(widgets.HBox([keep, forget]))
        self.left.children = (*self.left.children, self.call, self.comparison)

    @staticmethod
    def compute(*, delta: float, **run: Any) -> Result:
        """Every accountant's epsilon of one run: the arguments of `run_input`, and delta."""
        checks.between(0, 1, delta=delta)
        described = run_input(**run)
        ledger, step = described.ledger, described.step
        classic = partial(rdp.epsilon, ledger, delta=delta, conversion="classic")
        pair = pld.epsilon(ledger, delta=delta)
        integer = "proven: integer moments to 64, as in Abadi et al. 2016"
        clt = "exact" if step.sample_rate == 1 else "an approximation (CLT): may be too small"
        rows = [
            ("PLD", pair.epsilon, pair.lower, "proven, with a proven lower bound"),
            (
                "RDP",
                rdp.epsilon(ledger, delta=delta).epsilon,
                None,
                "proven (improved conversion)",
            ),
            ("RDP, classic", classic().epsilon, None, "proven (Mironov 2017, Prop. 3)"),
            ("moments", classic(orders=MOMENTS).epsilon, None, integer),
            ("GDP", _or_inf(gdp.epsilon, ledger, delta), None, clt),
        ]
        if step.adjacency == "replace-one":
            half = WithoutReplacementGaussian(step.noise_multiplier / 2, step.sample_rate)
            fixed = [Release(half, described.steps)]
            own = pld.epsilon(fixed, delta=delta)
            note = "proven, for batches of a fixed size, with a proven lower bound"
            rows.append(("PLD, fixed size", own.epsilon, own.lower, note))
        return {"run": described, "delta": delta, "rows": rows}

    def says(self, result: Result) -> str:
        """State the certified epsilon, and the accountants it refutes."""
        _, upper, lower, _ = result["rows"][0]
        run, delta = result["run"], result["delta"]
        refuted = [name for name, value, _, _ in result["rows"] if value < lower]
        wrong = f"; {' and '.join(refuted)} is too small" if refuted else ""
        return f"{run.steps:,} steps cost epsilon {at_most(upper)} at delta {short(delta)}{wrong}."

    def table(self, result: Result) -> Table:
        """A row for each accountant."""
        rows = [
            (name, at_most(value), "" if least is None else at_least(least), note)
            for name, value, least, note in result["rows"]
        ]
        run = result["run"]
        note = f"{run.steps:,} steps, delta {short(result['delta'])}, {run.step.adjacency}"
        return Table(HEADINGS, rows, (f"{note}, Poisson batches.",))

    def _show_numbers(self) -> None:
        super()._show_numbers()
        self.call.value = "" if self.result is None else _same_in_python_and_shell(self.result)

    def late(self, result: Result) -> Result:
        """Add certified pairs along the run."""
        (one, steps), delta = result["run"], result["delta"]
        counts = sorted({max(steps * (i + 1) // BAND, 1) for i in range(BAND - 1)} - {steps})
        pairs = [pld.epsilon([Release(one, n)], delta=delta, gap=0.01) for n in counts]
        along = [(n, p.lower, p.epsilon) for n, p in zip(counts, pairs, strict=True)]
        return {**result, "along": along}

    def draw(self, result: Result) -> plots.Picture:
        """Every accountant's epsilon on one axis; RDP by step, and certified pairs."""
        room = {"left": 0.145, "right": 0.94, "bottom": 0.16, "top": 0.9, "wspace": 0.42}
        figure, (left, right) = plots.figure(width=8.8, height=3.2, panels=2, **room)
        _draw_accountants(left, result)
        (one, steps), delta = result["run"], result["delta"]
        counts = sorted({max(round(steps * (i + 1) / POINTS), 1) for i in range(POINTS)})
        curve = rdp_by_step(one, counts, delta)
        last = (steps, result["rows"][0][2], result["rows"][0][1])
        pairs = [*result.get("along", ()), last]
        draw_by_step(right, (counts, curve), pairs, delta)
        right.set_ylim(bottom=0)
        each = [f"{name} {at_most(value)}" for name, value, _, _ in result["rows"][1:]]
        words = (
            f"Left: {', '.join(each)}; less than {at_least(last[1])} is refuted. Right: epsilon "
            f"grows with the steps, by RDP to {at_most(result['rows'][1][1])} after {steps}, by "
            f"PLD to between {at_least(last[1])} and {at_most(last[2])}."
        )
        return plots.picture(figure, words)

    def _compare(self, pressed: Any) -> None:
        if pressed is self.buttons[1]:
            self.kept.clear()
        elif self.result is not None and self.result not in self.kept:
            self.kept.append(self.result)
        rows = []
        for one in self.kept:
            (step, steps), by_name = (
                one["run"],
                {row[0]: at_most(row[1]) for row in one["rows"]},
            )
            numbers = (step.noise_multiplier, step.sample_rate, steps, one["delta"])
            settings = [f"{number:.4g}" for number in numbers]
            rows.append((*settings, step.adjacency, by_name["PLD"], by_name["RDP"]))
        headings = ("noise", "rate", "steps", "delta", "adjacency", "PLD", "RDP")
        self.comparison.value = "<b>Kept</b>" + Table(headings, rows).html() if rows else ""


def _draw_accountants(ax: Any, result: Result) -> None:
    """A dot for each accountant, crossed out below the certified lower bound."""
    rows = result["rows"]
    upper, lower = rows[0][1:3]
    colours = plots.colours(name for name, *_ in rows)
    finite = [value for _, value, _, _ in rows if math.isfinite(value)]
    top = 1.15 * max(finite, default=1.0) or 1.0
    ax.axvspan(0, lower, color=REFUTED, alpha=0.07, linewidth=0)
    ax.axvspan(lower, min(upper, top), color=colours["PLD"], alpha=0.3, linewidth=0)
    ax.text(0.01 * top, len(rows) - 0.55, "refuted", fontsize=8, color=REFUTED)
    for place, (name, value, _, _) in enumerate(rows):
        colour = REFUTED if value < lower else colours[name]
        if math.isfinite(value):
            ax.plot(value, place, "x" if value < lower else "o", color=colour, markersize=8)
        word = at_most(value, 3)
        side: Any = {
            "ha": "right" if value > top / 2 else "left",
            "color": colour,
            "bbox": None,
        }
        plots.note(
            ax, word, (min(value, top), place), (-7 if value > top / 2 else 7, 5), **side
        )
    ax.set_yticks(range(len(rows)), [name for name, *_ in rows])
    ax.set(
        xlim=(0, top),
        ylim=(len(rows) - 0.4, -0.6),
        xlabel=f"epsilon at delta {short(result['delta'])}",
    )


def _or_inf(
    accountant: Callable[..., Guarantee], ledger: list[Release], delta: float
) -> float:
    try:
        return accountant(ledger, delta=delta).epsilon
    except Unsupported:
        return math.inf


def _same_in_python_and_shell(result: Result) -> str:
    (step, steps), delta = result["run"], result["delta"]
    noise, rate, adjacency = step.noise_multiplier, step.sample_rate, step.adjacency
    python = (
        f'pld.epsilon([Release(SampledGaussian({noise!r}, {rate!r}, "{adjacency}"), {steps})], '
        f"delta={delta!r})"
    )
    shell = (
        f"python -m dpkit epsilon --accountant pld --noise-multiplier {noise!r} "
        f"--sample-rate {rate!r} --steps {steps} --delta {delta!r} --adjacency {adjacency}"
    )
    return f"<p>The same: <code>{python}</code><br><code>{shell}</code></p>"
