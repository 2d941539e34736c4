"""The noise, steps or sample rate that meets a target epsilon: by PLD, and by RDP."""

import math
from collections.abc import Callable
from functools import lru_cache
from time import perf_counter
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpkit.common import checks, plots
from dpkit.common.show import Table, at_least, at_most, short
from dpkit.course.explorers.controls import (
    ADJACENCY,
    DELTA,
    RunInput,
    check_sample_rate,
    choice,
    logarithmic,
    number,
)
from dpkit.course.explorers.explorer import LATER, Explorer, Result
from dpkit.privacy import Guarantee, Release, SampledGaussian, calibrate, pld, rdp
from dpkit.privacy.mechanisms import ADJACENCIES

NOISE, STEPS, RATE = "noise multiplier", "steps", "sample rate"
FIELDS = {NOISE: "noise_multiplier", STEPS: "steps", RATE: "sample_rate"}
FIND = tuple(FIELDS)
TOLERANCE = 1e-4  # relative, of noise and rate: shown are four digits
QUICK = 0.005  # sample rates below it take PLD long: its row comes with the picture
PATIENCE = 3.0  # seconds that PLD may take for a value, then the row says so
POINTS = 11  # of the curve, from a tenth to ten times the solution
FEW = 3  # of them, while something moves
BESIDE = (-0.6, 0.6)  # log10 of how far from the solution PLD is asked too
ROOM: Any = {"left": 0.12, "right": 0.9, "bottom": 0.16, "top": 0.96}
HEADINGS = ("accountant", "epsilon, at most", "at least", "note")


class CalibrationSetting(NamedTuple):
    """A target and a run, whose value named by `find` is not read."""

    find: str
    target_epsilon: float
    delta: float
    noise_multiplier: float
    sample_rate: float
    steps: float
    adjacency: str

    def filled(self, value: float) -> "CalibrationSetting":
        """The setting with the found `value`."""
        return self._replace(**{FIELDS[self.find]: value})

    @property
    def run(self) -> RunInput:
        """The run, to be priced."""
        step = SampledGaussian(self.noise_multiplier, self.sample_rate, self.adjacency)  # type: ignore[arg-type]
        return RunInput(step, int(self.steps))


class Solution(NamedTuple):
    """A value as it is shown, and its epsilon (upper, lower)."""

    value: float
    epsilon: float
    lower: float


class Calibration(Explorer):
    """Target epsilon and two of noise, steps and rate: the third, always on the private side.

    It opens with the noise for epsilon 2 at delta 1e-5: 10,000 steps at sample rate 0.01.
    """

    title = "How much noise, how many steps, how large a batch?"
    controls: ClassVar = {
        "find": choice("find", FIND, "Which of the three to compute from the others"),
        "target_epsilon": logarithmic("target epsilon", -1, 1.5, 2.0, "Nats, > 0"),
        "delta": DELTA,
        "noise_multiplier": number(NOISE, 1.1, "Standard deviation / clip norm, > 0"),
        "sample_rate": number(RATE, 0.01, "Chance to be in a batch, in (0, 1]"),
        "steps": number(STEPS, 10_000, "Noisy updates, a whole number"),
        "adjacency": ADJACENCY,
    }
    presets: ClassVar = {
        "epsilon 9.6, DP-CGAN's steps": {"target_epsilon": 9.6, "steps": 30_303},
        "epsilon 1, noise 1: how long?": {
            "find": STEPS,
            "target_epsilon": 1.0,
            "noise_multiplier": 1.0,
        },
        "epsilon 1, noise 1: which rate?": {
            "find": RATE,
            "target_epsilon": 1.0,
            "noise_multiplier": 1.0,
        },
    }

    @staticmethod
    def compute(**values: Any) -> Result:
        """{"setting", "RDP", "PLD", "why"}: the value that each accountant finds, or None.

        PLD is None without a `why` where it takes long and comes with the picture.
        Args: the fields of `CalibrationSetting`, each by name.

        Raises:
            ValueError: a value is out of range, or no value meets the target.
        """
        setting = CalibrationSetting(**values)
        _check(setting)
        try:
            by_rdp = _by_rdp(setting)
        except ValueError:
            if setting.find != STEPS:  # without a noise or rate by RDP there is none by PLD
                raise
            return {"setting": setting, "RDP": None, "PLD": by_pld(setting), "why": ""}
        rate = setting.filled(by_rdp.value).sample_rate
        quick = by_pld(setting) if rate >= QUICK else None
        return {"setting": setting, "RDP": by_rdp, "PLD": quick, "why": ""}

    def says(self, result: Result) -> str:
        """State the value that is found."""
        setting, best = result["setting"], result["PLD"] or result["RDP"]
        aim = f"epsilon {short(setting.target_epsilon)} at delta {short(setting.delta)}"
        if best is None:
            return f"No {setting.find} is found for {aim}."
        most = "at least" if setting.find == NOISE else "at most"
        return f"For {aim}: {most} {setting.find} {short(best.value)}."

    def table(self, result: Result) -> Table:
        """A row for each accountant: the value and its price."""
        setting, proven, by_rdp = result["setting"], result["PLD"], result["RDP"]
        rows: list[tuple[str, ...]] = [
            _row("PLD", proven, "proven, with a proven lower bound")
            if proven
            else ("PLD", result["why"] or LATER, "", "", ""),
            _row("RDP", by_rdp, _beside(setting.find, by_rdp, proven))
            if by_rdp
            else ("RDP", "none", "", "", "RDP does not prove the target"),
        ]
        given = [
            f"{name} {short(getattr(setting, FIELDS[name]))}"
            for name in (NOISE, RATE, STEPS)
            if name != setting.find
        ]
        aim = (
            f"epsilon {short(setting.target_epsilon)}, delta {short(setting.delta)}, "
            f"{setting.adjacency}"
        )
        note = f"Target {aim}; {', '.join(given)}; Poisson batches."
        return Table((HEADINGS[0], setting.find, *HEADINGS[1:]), rows, (note,))

    def _show_numbers(self) -> None:
        for name, field in FIELDS.items():
            self.values[field].disabled = self.values["find"].value == name
        super()._show_numbers()

    def late(self, result: Result) -> Result:
        """Add PLD's answer, where it takes long, and more points of the picture."""
        result = {**result, "points": POINTS}
        if result["PLD"] is not None:
            return result
        try:
            return {**result, "PLD": by_pld(result["setting"])}
        except (ValueError, ArithmeticError) as error:
            return {**result, "why": f"none: {error}"}

    def draw(self, result: Result) -> plots.Picture:
        """The least noise by steps or by rate: RDP's curve, and PLD at a few points."""
        setting = result["setting"]
        found = result["PLD"] or result["RDP"]
        if found is None:
            raise ValueError("RDP does not prove the target, and PLD takes a little longer")
        solved = setting.filled(found.value)
        name = RATE if setting.find == RATE else STEPS
        centre = float(getattr(solved, FIELDS[name]))
        along = centre * np.geomspace(0.1, 10, result.get("points", FEW))
        curve = _noises(setting, name, along, _by_rdp)
        if len(curve) < 2:
            raise ValueError("RDP proves the target at fewer than two of the places looked at")
        points = []
        if result["PLD"] is not None:
            points.append((centre, solved.noise_multiplier))
            if solved.sample_rate >= QUICK and "points" in result:
                places = centre * 10 ** np.array(BESIDE)
                price = _patient(pld.epsilon, gap=0.01)
                points += _noises(setting, name, places, lambda one: _solved(one, price))
        figure = _drawn(setting, name, curve, sorted(points))
        rate, steps = (
            f"sample rate {short(setting.sample_rate)}",
            f"{short(setting.steps)} steps",
        )
        (first, low), (last, high) = curve[0], curve[-1]
        words = (
            f"To stay at epsilon {short(setting.target_epsilon)} at "
            f"{rate if name == STEPS else steps}, RDP asks for noise multipliers from "
            f"{at_most(low, 3)} at {name} {short(first)} to {at_most(high, 3)} at {name} "
            f"{short(last)}."
        )
        if points:
            by_pld = [f"{at_most(y, 3)} at {short(x)}" for x, y in sorted(points)]
            words += f" By PLD: {', '.join(by_pld)}."
        return plots.picture(figure, words)


def by_pld(setting: CalibrationSetting) -> Solution:
    """Return the value that PLD finds, priced as it is shown.

    Raises:
        ValueError: no value meets the target, or the search takes more than `PATIENCE` seconds.
    """
    price = _patient(pld.epsilon)
    if setting.find != STEPS:
        return _solved(setting, price)

    def either(
        ledger: list[Release], *, delta: float
    ) -> Guarantee:  # RDP proves the first half
        spent = rdp.epsilon(ledger, delta=delta)
        return spent if spent.epsilon <= setting.target_epsilon else price(ledger, delta=delta)

    solved = _solved(setting, either)
    spent = price(setting.filled(solved.value).run.ledger, delta=setting.delta)
    if not spent.epsilon <= solved.epsilon:
        return solved
    return Solution(solved.value, spent.epsilon, spent.lower)


def _check(setting: CalibrationSetting) -> None:
    checks.one_of(FIND, find=setting.find)
    checks.one_of(ADJACENCIES, adjacency=setting.adjacency)
    checks.positive(target_epsilon=setting.target_epsilon)
    checks.between(0, 1, delta=setting.delta)
    if setting.find != NOISE:
        checks.positive(noise_multiplier=setting.noise_multiplier)
    if setting.find != RATE:
        check_sample_rate(setting.sample_rate)
    steps = setting.steps
    if setting.find != STEPS and not (1 <= steps < math.inf and steps == round(steps)):
        raise ValueError(f"steps must be a whole number >= 1, got {short(steps)}")
    if (
        setting.find == NOISE
    ):  # refused at once, where the search would double the noise 40 times
        least = rdp.epsilon(setting.filled(2.0**40).run.ledger, delta=setting.delta).epsilon
        if not least <= setting.target_epsilon:
            raise ValueError(
                f"no noise below 2^40 proves epsilon {short(setting.target_epsilon)}"
            )


def _solved(setting: CalibrationSetting, accountant: Callable[..., Guarantee]) -> Solution:
    """The value in few digits, rounded to the private side and priced as rounded."""
    target, delta = setting.target_epsilon, setting.delta
    shared: Any = {"delta": delta, "accountant": accountant}
    of_run = {
        "steps": int(setting.steps),
        "adjacency": setting.adjacency,
        "tolerance": TOLERANCE,
    }
    if setting.find == STEPS:
        count = calibrate.steps(target, mechanism=setting.run.step, **shared)
        if count == 0:
            raise ValueError(
                f"one step costs more than epsilon {short(target)}; take more noise, a lower "
                "sample rate or a larger target"
            )
        shown = [count]
    elif setting.find == NOISE:
        rate = setting.sample_rate
        exact = calibrate.noise_multiplier(target, sample_rate=rate, **of_run, **shared)
        shown = [*(float(at_most(exact, n).replace(",", "")) for n in (4, 6)), exact]
    else:
        noise = setting.noise_multiplier
        exact = calibrate.sample_rate(target, noise_multiplier=noise, **of_run, **shared)
        shown = [*(float(at_least(exact, n).replace(",", "")) for n in (4, 6)), exact]
    for value in shown:
        spent = accountant(setting.filled(value).run.ledger, delta=delta)
        if spent.epsilon <= target:
            return Solution(value, spent.epsilon, spent.lower)
    raise ArithmeticError(
        f"no value near {shown[-1]:g} was priced at or under epsilon {short(target)}"
    )


@lru_cache(maxsize=64)
def _by_rdp(setting: CalibrationSetting) -> Solution:
    """The value that RDP finds: numbers and curve ask for some alike."""
    return _solved(setting, rdp.epsilon)


def _patient(accountant: Callable[..., Guarantee], **options: Any) -> Callable[..., Guarantee]:
    """The accountant, until the time is up."""
    end = perf_counter() + PATIENCE

    def price(ledger: list[Release], *, delta: float) -> Guarantee:
        if perf_counter() > end:
            raise ValueError(f"the search takes PLD more than {PATIENCE:g} seconds here")
        return accountant(ledger, delta=delta, **options)

    return price


def _noises(
    setting: CalibrationSetting,
    name: str,
    places: Any,
    solve: Callable[[CalibrationSetting], Solution],
) -> list[tuple[float, float]]:
    """(place, least noise multiplier) where there is one, by steps or by sample rate."""
    points = []
    for place in places:
        at = max(round(place), 1) if name == STEPS else min(float(place), 1.0)
        one = setting._replace(find=NOISE, **{FIELDS[name]: at})
        try:
            noise = solve(one).value
        except (ValueError, ArithmeticError):
            continue  # no noise that can be named: the curve has no point here
        if (at, noise) not in points:
            points.append((float(at), noise))
    return points


def _row(name: str, solution: Solution, note: str) -> tuple[str, ...]:
    lower = at_least(solution.lower) if solution.lower > 0 else ""
    return name, f"{solution.value}", at_most(solution.epsilon), lower, note


def _beside(find: str, by_rdp: Solution, proven: Solution | None) -> str:
    """RDP's demand over PLD's, in words."""
    if proven is None:
        return "proven (improved conversion)"
    share = 100 * (by_rdp.value / proven.value - 1)
    return f"proven (improved conversion): {share:+.2g} % {find}"


def _drawn(setting: CalibrationSetting, name: str, curve: list, points: list) -> Any:
    """The picture's figure."""
    figure, (ax,) = plots.figure(width=6.4, height=3.4, **ROOM)
    ax.set_xscale("log")
    xs, ys = ([pair[i] for pair in curve] for i in (0, 1))
    unit = "steps (noisy updates)" if name == STEPS else "sample rate (chance per batch)"
    colours = plots.MEANINGS["RDP"], plots.MEANINGS["PLD"]
    plots.lines(
        ax, {"RDP": (xs, ys)}, x=unit, y="noise multiplier (sd / clip norm)", y_scale="log"
    )
    for axis in (ax.xaxis, ax.yaxis):
        plots.plain(axis)
    ax.fill_between(xs, ys, ax.get_ylim()[1], color=colours[0], alpha=0.1, linewidth=0)
    enough = f"epsilon <= {short(setting.target_epsilon)}: enough noise"
    ax.text(0.02, 0.97, enough, va="top", fontsize=9, transform=ax.transAxes)
    if points:
        px, py = ([pair[i] for pair in points] for i in (0, 1))
        ax.plot(px, py, "o", color=colours[1])
        plots.note(ax, "PLD", (px[-1], py[-1]), (6, -6), va="top", color=colours[1])
    return figure
