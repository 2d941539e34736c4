"""One run, priced by every accountant, or the noise, steps or rate that a budget affords."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_least, at_most, short
from dpkit.course.explorers.by_step import draw_by_step, rdp_by_step
from dpkit.course.explorers.calibration import (
    FIELDS,
    NOISE,
    RATE,
    STEPS,
    CalibrationSetting,
    Solution,
    by_pld,
    by_rdp,
    check,
)
from dpkit.course.explorers.controls import (
    DELTA,
    Control,
    RoundSlider,
    RunInput,
    choice,
    run_controls,
    run_input,
)
from dpkit.course.explorers.explorer import LATER, Explorer, Result
from dpkit.privacy import Guarantee, Release, Unsupported, gdp, pld, rdp
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian

EPSILON = "epsilon"
FIND = (EPSILON, *FIELDS)
WHOLE = tuple(range(2, 65))  # the orders of a list that ends at 64
MOMENTS = tuple(range(2, 66))  # orders lambda + 1 of the moments accountant, lambda = 1 to 64
QUICK = 0.005  # sample rates below it take PLD's search long: it comes when nothing moves
POINTS = 24  # step counts of the curve
BAND = 4  # of them, certified
ONE_ONE = {"target_epsilon": 1.0, "noise_multiplier": 1.0}
REFUTED = "#B00020"  # what is below the certified lower bound
HEADINGS = ("accountant", "epsilon", "at least", "what it is")
ROOM: Any = {"left": 0.2, "right": 0.94, "bottom": 0.17, "top": 0.95, "wspace": 0.45}


class Accountant(Explorer):
    """A run's epsilon by all accountants, or the noise, steps or rate for an epsilon.

    It opens with 10,000 steps at sample rate 0.01 with noise multiplier 1.1.
    """

    title = "What does this run cost?"
    controls: ClassVar = (
        Control("find", choice, EPSILON, FIND, "find", "What to compute from all others"),
        *run_controls(1.1, 10_000),
        Control(
            *("target_epsilon", RoundSlider, 2.0, (0.1, 30), "target epsilon"),
            "The budget, in nats, where something else is found",
        ),
        DELTA,
    )
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
        "where orders to 64 cost": {"noise_multiplier": 50.0, "steps": 1.0},
        "find the noise for epsilon 1": {"find": NOISE, "target_epsilon": 1.0},
        "epsilon 1, noise 1: how long?": {**ONE_ONE, "find": STEPS},
        "epsilon 1, noise 1: which rate?": {**ONE_ONE, "find": RATE},
    }

    @staticmethod
    def compute(*, find: str, target_epsilon: float, delta: float, **run: Any) -> Result:
        """Every accountant's epsilon of one run, whose noise, steps or rate may be found first.

        `found` holds what PLD and RDP find; PLD's is None where it takes long and comes later.

        Args: find, one of FIND; target_epsilon, unless epsilon is found; delta; the arguments of
            `run_input`, but for what is found.

        Raises:
            ValueError: a value is out of range, or no value meets the target.
        """
        checks.one_of(FIND, find=find)
        checks.between(0, 1, delta=delta)
        if find == EPSILON:
            return _priced(run_input(**run), delta)
        setting = CalibrationSetting(find, target_epsilon, delta, **run)
        check(setting)
        try:
            loose = by_rdp(setting)
        except ValueError:
            if find != STEPS:  # without a noise or rate by RDP there is none by PLD
                raise
            return _afforded(setting, by_pld(setting), None)
        quick = setting.filled(loose.value).sample_rate >= QUICK
        return _afforded(setting, by_pld(setting) if quick else None, loose)

    def says(self, result: Result) -> str:
        """State the certified epsilon, or the value found, and a refuted estimate."""
        _, upper, lower, _ = result["rows"][0]
        delta, setting = short(result["delta"]), result["setting"]
        if setting is not None:
            value = short((result["found"]["PLD"] or result["found"]["RDP"]).value)
            aim = f"Epsilon {short(setting.target_epsilon)} (delta {delta})"
            if setting.find == NOISE:
                return f"{aim} needs noise multiplier {value} or more."
            return f"{aim} allows {setting.find} up to {value}."
        steps = result["run"].steps
        what = "One step costs" if steps == 1 else f"{steps:,} steps cost"
        cost = f"{what} epsilon {at_most(upper)} (delta {delta})."
        by_bell = next(value for name, value, _, _ in result["rows"] if name == "GDP")
        if by_bell < lower:
            cost += f" The bell-curve estimate, {at_most(by_bell)}, is refuted."
        return cost

    def table(self, result: Result) -> Table:
        """A row for what each accountant finds, and one for its price of the run."""
        rows: list[tuple[str, ...]] = []
        if (setting := result["setting"]) is not None:
            tight, loose = result["found"].values()
            aim = f"found for epsilon {short(setting.target_epsilon)}"
            later = result.get("why", LATER)
            rows += [
                (f"{setting.find}, PLD", f"{tight.value}" if tight else later, "", aim),
                (f"{setting.find}, RDP", f"{loose.value}" if loose else "none", "", ""),
            ]
            if tight and loose:
                more = f"{100 * (loose.value / tight.value - 1):+.2g} %"
                rows[-1] = (*rows[-1][:3], f"a looser proof: {more}")
        rows += [
            (name, at_most(value), "" if least is None else at_least(least), note)
            for name, value, least, note in result["rows"]
        ]
        (step, steps), delta = result["run"], result["delta"]
        cut = short(delta, 10)
        noise, rate, adjacency = step.noise_multiplier, step.sample_rate, step.adjacency
        notes = (
            f"Noise multiplier {short(noise)}, sample rate {short(rate)}, {steps:,} steps, delta "
            f"{short(delta)}, {adjacency}, Poisson batches.",
            f"In Python: pld.epsilon([Release(SampledGaussian({noise!r}, {rate!r}, "
            f'"{adjacency}"), {steps})], delta={cut})',
            f"In a terminal: python -m dpkit epsilon --accountant pld --noise-multiplier {noise!r} "
            f"--sample-rate {rate!r} --steps {steps} --delta {cut} --adjacency {adjacency}",
        )
        return Table(HEADINGS, rows, notes)

    def _calculate(self) -> None:
        find = self.values["find"].value
        for name, field in FIELDS.items():
            self.values[field].disabled = name == find
        self.values["target_epsilon"].disabled = find == EPSILON
        super()._calculate()

    def late(self, result: Result) -> Result:
        """Add what PLD finds, where it takes long, and certified pairs along the run."""
        setting = result["setting"]
        if setting is not None and result["found"]["PLD"] is None:
            loose = result["found"]["RDP"]
            try:
                result = _afforded(setting, by_pld(setting), loose)
            except (ValueError, ArithmeticError) as error:
                result = {**result, "why": f"none: {error}"}
        (one, steps), delta = result["run"], result["delta"]
        counts = sorted({max(steps * (i + 1) // BAND, 1) for i in range(BAND - 1)} - {steps})
        pairs = [pld.epsilon([Release(one, n)], delta=delta, gap=0.01) for n in counts]
        along = [(n, p.lower, p.epsilon) for n, p in zip(counts, pairs, strict=True)]
        return {**result, "along": along}

    def draw(self, result: Result) -> plots.Picture:
        """Every accountant's epsilon on one axis; RDP by step, and certified pairs."""
        figure, (left, right) = plots.figure(width=7.2, height=3.1, panels=2, **ROOM)
        _draw_accountants(left, result)
        (one, steps), delta = result["run"], result["delta"]
        counts = sorted({max(round(steps * (i + 1) / POINTS), 1) for i in range(POINTS)})
        curve = rdp_by_step(np.outer(counts, one.rdp(rdp.ORDERS)), delta)
        last = (steps, result["rows"][0][2], result["rows"][0][1])
        draw_by_step(right, (counts, curve), [*result.get("along", ()), last], delta)
        right.set_ylim(bottom=0)
        each = [f"{name} {at_most(value)}" for name, value, _, _ in result["rows"][1:]]
        words = (
            f"Left: {', '.join(each)}; less than {at_least(last[1])} is refuted. Right: epsilon "
            f"grows with the steps, by RDP to {at_most(result['rows'][1][1])} after {steps:,}, by "
            f"PLD to between {at_least(last[1])} and {at_most(last[2])}."
        )
        return plots.picture(figure, words)


def _priced(run: RunInput, delta: float) -> Result:
    """All accountants on a run: (name, epsilon, lower bound, what it is)."""
    ledger, step = run.ledger, run.step
    by_orders = partial(rdp.epsilon, ledger, delta=delta)
    pair, best = pld.epsilon(ledger, delta=delta), by_orders()
    capped = by_orders(orders=WHOLE).epsilon
    order = short(float(best.method.rsplit(" ", 1)[1]), 4)
    clt = "exact" if step.sample_rate == 1 else "a bell-curve estimate: may be too small"
    rows = [
        ("PLD", pair.epsilon, pair.lower, "proven, with a proven lower bound"),
        ("RDP", best.epsilon, None, f"proven; order {order} decides"),
        ("RDP, orders to 64", capped, None, f"proven{_more(capped, best.epsilon)}"),
        (
            *("RDP, classic", by_orders(conversion="classic").epsilon, None),
            "proven (Mironov 2017, Prop. 3)",
        ),
        (
            *("moments", by_orders(conversion="classic", orders=MOMENTS).epsilon, None),
            "proven: integer moments to 64, as in Abadi et al. 2016",
        ),
        ("GDP", _or_inf(gdp.epsilon, ledger, delta), None, clt),
    ]
    if step.adjacency == "replace-one":
        half = WithoutReplacementGaussian(step.noise_multiplier / 2, step.sample_rate)
        own = pld.epsilon([Release(half, run.steps)], delta=delta)
        note = "proven, for batches of a fixed size, with a proven lower bound"
        rows.append(("PLD, fixed size", own.epsilon, own.lower, note))
    return {"run": run, "delta": delta, "rows": rows, "setting": None}


def _more(value: float, least: float) -> str:
    """A value's excess over the least one, in words."""
    if not (math.isfinite(value) and least > 0):
        return ""
    if value > 2 * least:
        return f"; {short(value / least, 3)} times as much"
    return f"; {100 * max(value / least - 1, 0):.2g} % more"


def _afforded(
    setting: CalibrationSetting, tight: Solution | None, loose: Solution | None
) -> Result:
    """What is found, and the run with it, priced; one of the two must be there."""
    found = tight or loose
    assert found is not None
    priced = _priced(setting.filled(found.value).run, setting.delta)
    return {**priced, "setting": setting, "found": {"PLD": tight, "RDP": loose}}


def _draw_accountants(ax: Any, result: Result) -> None:
    """A dot for each accountant, crossed out below the certified lower bound."""
    rows = result["rows"]
    upper, lower = rows[0][1:3]
    colours = {name: plots.MEANINGS["RDP"] for name, *_ in rows} | {"GDP": "0.35"}
    colours |= dict.fromkeys(("PLD", "PLD, fixed size"), plots.MEANINGS["PLD"])
    finite = [value for _, value, _, _ in rows if math.isfinite(value)]
    top = 1.15 * max(finite, default=1.0) or 1.0
    ax.axvspan(0, lower, color=REFUTED, alpha=0.07, linewidth=0)
    ax.axvspan(lower, min(upper, top), color=colours["PLD"], alpha=0.3, linewidth=0)
    ax.text(0.01 * top, len(rows) - 0.55, "refuted", color=REFUTED)
    for place, (name, value, _, _) in enumerate(rows):
        colour, sign = colours[name], "o"
        if name == "GDP" and value < lower:
            colour, sign = REFUTED, "x"
        if math.isfinite(value):
            ax.plot(value, place, sign, color=colour, markersize=8)
        right = value > top / 2
        style: Any = {"ha": "right" if right else "left", "color": colour, "fontsize": 10}
        at, off = (min(value, top), place), (-7 if right else 7, 5)
        plots.note(ax, at_most(value), at, off, **style)
    ax.set_yticks(range(len(rows)), [name for name, *_ in rows])
    ax.set(xlim=(0, top), ylim=(len(rows) - 0.4, -0.6))
    ax.set_xlabel(f"epsilon at delta {short(result['delta'])}")


def _or_inf(
    accountant: Callable[..., Guarantee], ledger: list[Release], delta: float
) -> float:
    try:
        return accountant(ledger, delta=delta).epsilon
    except Unsupported:
        return math.inf
