"""Schedules of a number over training steps: noise, clip or learning rate.

A schedule is fixed before training: a noise or a clip norm that follows what training sees is
itself a release. `values` lists a schedule's numbers, `noise_ledger` what its noise costs.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, isfinite
from typing import Protocol

import numpy as np

from dpkit.common import checks
from dpkit.privacy.ledger import Release
from dpkit.privacy.mechanisms import Floats, Mechanism


class Schedule(Protocol):
    """A value for each step, counted from 0."""

    def __call__(self, step: int) -> float: ...


def _check_finite(**values: float) -> None:
    for name, value in values.items():
        if not isfinite(value):
            raise ValueError(f"{name} must be a finite number, got {value}")


@dataclass(frozen=True)
class Constant:
    """The same value at every step."""

    value: float

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        _check_finite(value=self.value)

    def __call__(self, step: int) -> float:
        """The value."""
        return self.value


@dataclass(frozen=True)
class Linear:
    """From `start` at step 0 to `end` at step `over` along a line; `end` from there on."""

    start: float
    end: float
    over: int

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        _check_finite(start=self.start, end=self.end)
        if not self.over >= 1:
            raise ValueError(
                f"over must be >= 1 step, got {self.over}; for no change use Constant"
            )

    def __call__(self, step: int) -> float:
        """The value at `step`."""
        return self.start + (self.end - self.start) * min(step / self.over, 1.0)


@dataclass(frozen=True)
class _Decay:
    start: float
    rate: float

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        checks.positive(start=self.start)
        checks.non_negative(rate=self.rate)


class ExponentialDecay(_Decay):
    """start * exp(-rate * step) (Yu et al. 2019, "Differentially private model publishing")."""

    def __call__(self, step: int) -> float:
        """The value at `step`."""
        return self.start * exp(-self.rate * step)


class TimeDecay(_Decay):
    """start / (1 + rate * step) (Yu et al. 2019)."""

    def __call__(self, step: int) -> float:
        """The value at `step`."""
        return self.start / (1 + self.rate * step)


@dataclass(frozen=True)
class StepDecay:
    """start, multiplied by `factor` in (0, 1] after every `every` steps (Yu et al. 2019)."""

    start: float
    factor: float
    every: int

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        checks.positive(start=self.start, factor=self.factor)
        checks.in_range(0, 1, factor=self.factor)
        checks.whole(1, every=self.every)

    def __call__(self, step: int) -> float:
        """The value at `step`."""
        return self.start * self.factor ** (step // self.every)


def values(schedule: Schedule, *, steps: int) -> Floats:
    """The value at each of `steps` steps, shape (steps,).

    Raises:
        ValueError: steps is not an integer >= 0.
    """
    checks.whole(steps=steps)
    return np.fromiter((schedule(step) for step in range(steps)), np.float64, count=steps)


def noise_ledger(
    schedule: Schedule, *, steps: int, release: Callable[[float], Mechanism]
) -> list[Release]:
    """The ledger of `steps` steps whose noise multiplier follows `schedule`.

    Steps of equal noise become one entry, in the order of their first step. A schedule that changes
    at every step has an entry a step; StepDecay has few, and is priced sooner.

    Args:
        schedule: noise multiplier (noise standard deviation / clip norm) of each step, fixed in
            advance.
        steps: number of steps >= 0.
        release: what one step with that noise multiplier releases, such as
            `lambda noise: SampledGaussian(noise, sample_rate)`.

    Raises:
        ValueError: a step's noise multiplier is none; the error names the step.
    """
    noises = values(schedule, steps=steps).tolist()
    first = {noise: step for step, noise in reversed(list(enumerate(noises)))}
    ledger = []
    for noise, count in Counter(noises).items():
        try:
            checks.positive(noise_multiplier=noise)
            ledger.append(Release(release(noise), count))
        except ValueError as error:
            raise type(error)(f"step {first[noise]} of the schedule: {error}") from error
    return ledger
