"""One run, priced by every accountant: which number is proven, which one only estimated."""

import math
from typing import Any

import ipywidgets as widgets

from dpkit import checks, plots
from dpkit.explorers.explorer import Explorer, choice, logarithmic, number
from dpkit.privacy import Release, SampledGaussian, Unsupported, gdp, pld, rdp
from dpkit.privacy.mechanisms import ADJACENCIES
from dpkit.privacy.without_replacement import WithoutReplacementGaussian
from dpkit.show import Table, at_least, at_most

MOMENTS = tuple(range(2, 66))  # orders lambda + 1 of the moments accountant, lambda = 1 to 64
POINTS = 24  # step counts of the curve
BAND = 4  # of them, certified
HEADINGS = ("accountant", "epsilon", "at least", "what it is")


class Accountant(Explorer):
    """Noise, rate, steps and delta of a run: all accountants side by side, and epsilon by step."""

    title = "What does this run cost?"

    def __init__(self) -> None:
        """A run of 10,000 steps at sample rate 0.01 with noise multiplier 1.1."""
        keep = widgets.Button(description="Keep to compare", tooltip="Keep these numbers below")
        forget = widgets.Button(description="Forget", tooltip="Empty the list of kept settings")
        self.kept: list[dict[str, Any]] = []
        self.comparison = widgets.HTML()
        self.call = widgets.HTML()
        keep.on_click(self._keep)
        forget.on_click(self._forget)
        super().__init__(
            {
                "noise_multiplier": logarithmic(
                    "noise multiplier", -1, 2, 1.1, "Noise standard deviation / clip norm"
                ),
                "sample_rate": logarithmic(
                    "sample rate", -5, 0, 0.01, "Probability that a record is in a batch"
                ),
                "steps": logarithmic("steps", 0, 6, 10_000, "Noisy updates"),
                "delta": number("delta", 1e-5, "Of (epsilon, delta)-DP, in (0, 1)"),
                "adjacency": choice(
                    "adjacency", ADJACENCIES, "What neighbouring data sets differ by"
                ),
            },
            widgets.HBox([keep, forget]),
        )
        self.children = (*self.shown[:-2], self.call, self.comparison, *self.shown[-2:])

    @staticmethod
    def compute(
        *, noise_multiplier: float, sample_rate: float, steps: float, delta: float, adjacency: str
    ) -> dict[str, Any]:
        """Every accountant's epsilon of one run.

        Raises:
            ValueError: a value is out of range.
        """
        checks.between(0, 1, delta=delta)
        checks.between(0, math.inf, steps=steps)
        count = max(round(steps), 1)
        mechanism = SampledGaussian(noise_multiplier, sample_rate, adjacency)  # type: ignore[arg-type]
        if sample_rate == 0:
            raise ValueError("sample_rate 0 draws nobody: such a run costs nothing, learns nothing")
        ledger = [Release(mechanism, count)]
        pair = pld.epsilon(ledger, delta=delta)
        rows = [
            ("PLD", pair.epsilon, pair.lower, "proven, with a proven lower bound"),
            ("RDP", rdp.epsilon(ledger, delta=delta).epsilon, None, "proven (improved conversion)"),
            (
                "RDP, classic", rdp.epsilon(ledger, delta=delta, conversion="classic").epsilon,
                None, "proven (Mironov 2017, Prop. 3)",
            ),
            (
                "moments",
                rdp.epsilon(ledger, delta=delta, conversion="classic", orders=MOMENTS).epsilon,
                None, "proven: integer moments to 64, as Abadi et al. 2016",
            ),
            ("GDP", _gdp(ledger, delta), None, _gdp_note(sample_rate)),
        ]  # fmt: skip
        if adjacency == "replace-one":
            fixed = [Release(WithoutReplacementGaussian(noise_multiplier / 2, sample_rate), count)]
            rows.append(("wor", _or_inf(fixed, delta), None, "proven, for batches of a fixed size"))
        return {
            "noise_multiplier": noise_multiplier, "sample_rate": sample_rate, "steps": count,
            "delta": delta, "adjacency": adjacency, "rows": rows,
        }  # fmt: skip

    def table(self, result: dict[str, Any]) -> Table:
        """A row for each accountant."""
        rows = [
            (name, at_most(value), "" if least is None else at_least(least), note)
            for name, value, least, note in result["rows"]
        ]
        run = f"{result['steps']} steps, delta {result['delta']:g}, {result['adjacency']}"
        return Table(HEADINGS, rows, (f"{run}, Poisson batches.",))

    def _tell(self) -> None:
        super()._tell()
        self.call.value = "" if self.result is None else _same_in_python_and_shell(self.result)

    def draw(self, result: dict[str, Any]) -> plots.Picture:
        """Epsilon by step: RDP at many counts, the certified pair at a few."""
        counts = sorted({max(round(result["steps"] * (i + 1) / POINTS), 1) for i in range(POINTS)})
        one = SampledGaussian(
            result["noise_multiplier"], result["sample_rate"], result["adjacency"]
        )
        delta = result["delta"]
        curve = [rdp.epsilon([Release(one, n)], delta=delta).epsilon for n in counts]
        few = counts[:: -max(len(counts) // BAND, 1)][:BAND][::-1]
        pairs = [pld.epsilon([Release(one, n)], delta=delta, gap=0.01) for n in few]
        figure, (ax,) = plots.figure(width=6.4, height=3.2)
        plots.lines(
            ax,
            {"RDP": (counts, curve), "PLD": (few, [pair.epsilon for pair in pairs])},
            x="steps", y=f"epsilon at delta {delta:g}",
        )  # fmt: skip
        ax.fill_between(
            few, [p.lower for p in pairs], [p.epsilon for p in pairs], color=plots.COLOURS[1],
            alpha=0.3, linewidth=0,
        )  # fmt: skip
        ax.set_ylim(bottom=0)
        last = pairs[-1]
        words = (
            f"Epsilon grows with the steps: by RDP to {at_most(curve[-1])} after {counts[-1]} "
            f"steps, by PLD to between {at_least(last.lower)} and {at_most(last.epsilon)}."
        )
        return plots.picture(figure, words)

    def _keep(self, _: Any) -> None:
        if self.result is not None and self.result not in self.kept:
            self.kept.append(self.result)
        self._compare()

    def _forget(self, _: Any) -> None:
        self.kept.clear()
        self._compare()

    def _compare(self) -> None:
        if not self.kept:
            self.comparison.value = ""
            return
        names = ("noise_multiplier", "sample_rate", "steps", "delta")
        rows = []
        for one in self.kept:
            by_name = {name: at_most(value) for name, value, *_ in one["rows"]}
            settings = [f"{one[name]:.4g}" for name in names]
            rows.append((*settings, one["adjacency"], by_name["PLD"], by_name["RDP"]))
        headings = ("noise", "rate", "steps", "delta", "adjacency", "PLD", "RDP")
        self.comparison.value = "<b>Kept</b>" + Table(headings, rows).html()


def _gdp(ledger: list[Release], delta: float) -> float:
    try:
        return gdp.epsilon(ledger, delta=delta).epsilon
    except Unsupported:
        return math.inf


def _gdp_note(sample_rate: float) -> str:
    return "exact" if sample_rate == 1 else "an approximation (CLT): may be too small"


def _or_inf(ledger: list[Release], delta: float) -> float:
    try:
        return rdp.epsilon(ledger, delta=delta).epsilon
    except Unsupported:
        return math.inf


def _same_in_python_and_shell(result: dict[str, Any]) -> str:
    noise, rate, steps = (result[key] for key in ("noise_multiplier", "sample_rate", "steps"))
    delta, adjacency = result["delta"], result["adjacency"]
    python = (
        f'pld.epsilon([Release(SampledGaussian({noise!r}, {rate!r}, "{adjacency}"), {steps})], '
        f"delta={delta!r})"
    )
    shell = (
        f"python -m dpkit epsilon --accountant pld --noise-multiplier {noise!r} "
        f"--sample-rate {rate!r} --steps {steps} --delta {delta!r} --adjacency {adjacency}"
    )
    return f"<p>The same: <code>{python}</code><br><code>{shell}</code></p>"
