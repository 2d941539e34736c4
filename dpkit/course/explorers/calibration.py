"""The noise, steps or sample rate that meets a target epsilon: by PLD, and by RDP."""

import math
from collections.abc import Callable
from functools import lru_cache
from time import perf_counter
from typing import Any, NamedTuple

from dpkit.common import checks
from dpkit.common.show import at_least, at_most, short
from dpkit.course.explorers.controls import RunInput, check_sample_rate, run_input
from dpkit.privacy import Guarantee, Release, calibrate, pld, rdp
from dpkit.privacy.mechanisms import ADJACENCIES

NOISE, STEPS, RATE = "noise multiplier", "steps", "sample rate"
FIELDS = {NOISE: "noise_multiplier", STEPS: "steps", RATE: "sample_rate"}
TOLERANCE = 1e-4  # relative, of noise and rate: shown are four digits
PATIENCE = 3.0  # seconds that PLD may take for a value, then it is told so


class CalibrationSetting(NamedTuple):
    """A target and a run, whose value named by `find` is not read."""

    find: str
    target_epsilon: float
    delta: float
    noise_multiplier: float
    sample_rate: float
    steps: float
    adjacency: Any

    def filled(self, value: float) -> "CalibrationSetting":
        """The setting with the found `value`."""
        return self._replace(**{FIELDS[self.find]: value})

    @property
    def run(self) -> RunInput:
        """The run, to be priced."""
        names = ("noise_multiplier", "sample_rate", "steps", "adjacency")
        return run_input(**{name: getattr(self, name) for name in names})


class Solution(NamedTuple):
    """A value as it is shown, and its epsilon (upper, lower)."""

    value: float
    epsilon: float
    lower: float


def by_pld(setting: CalibrationSetting) -> Solution:
    """Return the value that PLD finds, priced as it is shown.

    Raises:
        ValueError: no value meets the target, or the search takes more than `PATIENCE` seconds.
    """
    price = _patient(pld.epsilon)
    if setting.find != STEPS:
        return _solved(setting, price)

    def either(ledger: list[Release], *, delta: float) -> Guarantee:
        spent = rdp.epsilon(ledger, delta=delta)  # proves the first half
        enough = spent.epsilon <= setting.target_epsilon
        return spent if enough else price(ledger, delta=delta)

    solved = _solved(setting, either)
    spent = price(setting.filled(solved.value).run.ledger, delta=setting.delta)
    if not spent.epsilon <= solved.epsilon:
        return solved
    return Solution(solved.value, spent.epsilon, spent.lower)


@lru_cache(maxsize=64)
def by_rdp(setting: CalibrationSetting) -> Solution:
    """Return the value that RDP finds.

    Raises:
        ValueError: no value meets the target.
    """
    return _solved(setting, rdp.epsilon)


def check(setting: CalibrationSetting) -> None:
    """Refuse values out of range, and what would double the noise 40 times.

    Raises:
        ValueError: a value is out of range, or no noise meets the target.
    """
    checks.one_of(ADJACENCIES, adjacency=setting.adjacency)
    checks.positive(target_epsilon=setting.target_epsilon)
    checks.between(0, 1, delta=setting.delta)
    if setting.find != NOISE:
        checks.positive(noise_multiplier=setting.noise_multiplier)
    if setting.find != RATE:
        check_sample_rate(setting.sample_rate)
    if setting.find != STEPS:
        checks.between(0, math.inf, steps=setting.steps)
    if setting.find == NOISE:
        most = setting.filled(2.0**40).run.ledger
        if not rdp.epsilon(most, delta=setting.delta).epsilon <= setting.target_epsilon:
            target = short(setting.target_epsilon)
            raise ValueError(f"no noise below 2^40 proves epsilon {target}")


def _solved(setting: CalibrationSetting, accountant: Callable[..., Guarantee]) -> Solution:
    """The value in few digits, rounded to the private side and priced as rounded."""
    target, delta = setting.target_epsilon, setting.delta
    shared: Any = {"delta": delta, "accountant": accountant}
    if setting.find == STEPS:
        count = calibrate.steps(target, mechanism=setting.filled(1).run.step, **shared)
        if count == 0:
            raise ValueError(
                f"one step costs more than epsilon {short(target)}; take more noise, a lower "
                "sample rate or a larger target"
            )
        shown = [count]
    else:
        shared |= {"steps": round(setting.steps), "adjacency": setting.adjacency}
        shared["tolerance"] = TOLERANCE
        if setting.find == NOISE:
            rate = setting.sample_rate
            exact = calibrate.noise_multiplier(target, sample_rate=rate, **shared)
            rounded = at_most
        else:
            noise = setting.noise_multiplier
            exact = calibrate.sample_rate(target, noise_multiplier=noise, **shared)
            rounded = at_least
        shown = [*(float(rounded(exact, n).replace(",", "")) for n in (4, 6)), exact]
    for value in shown:
        spent = accountant(setting.filled(value).run.ledger, delta=delta)
        if spent.epsilon <= target:
            return Solution(value, spent.epsilon, spent.lower)
    raise ArithmeticError(
        f"no value near {shown[-1]:g} was priced at or under epsilon {short(target)}"
    )


def _patient(accountant: Callable[..., Guarantee]) -> Callable[..., Guarantee]:
    """The accountant, until the time is up."""
    end = perf_counter() + PATIENCE

    def price(ledger: list[Release], *, delta: float) -> Guarantee:
        if perf_counter() > end:
            raise ValueError(f"the search takes PLD more than {PATIENCE:g} seconds here")
        return accountant(ledger, delta=delta)

    return price
