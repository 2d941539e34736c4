"""The controls that describe a run of DP-SGD, and their values as a run that can be priced."""

import math
from typing import Any, NamedTuple

from dpkit.common import checks
from dpkit.course.explorers.explorer import choice, logarithmic, number
from dpkit.privacy import Release, SampledGaussian
from dpkit.privacy.mechanisms import ADJACENCIES


class RunInput(NamedTuple):
    """A run of equal steps on Poisson batches."""

    step: SampledGaussian
    steps: int

    @property
    def ledger(self) -> list[Release]:
        """The releases of all steps."""
        return [Release(self.step, self.steps)]


def run_input(
    *, noise_multiplier: float, sample_rate: float, steps: float, adjacency: Any
) -> RunInput:
    """The run that the controls describe, its steps rounded.

    Raises:
        ValueError: a value is out of range.
    """
    check_sample_rate(sample_rate)
    checks.between(0, math.inf, steps=steps)
    if not round(steps) >= 1:
        raise ValueError(f"steps must be at least 1, got {steps:g}")
    return RunInput(SampledGaussian(noise_multiplier, sample_rate, adjacency), round(steps))


def check_sample_rate(sample_rate: float) -> None:
    """A sample rate is above 0: at 0 nothing is released, and nothing learned."""
    if not 0 < sample_rate <= 1:
        raise ValueError(f"sample_rate must lie in (0, 1], got {sample_rate:g}")


def run_controls(noise_multiplier: float, steps: int) -> dict[str, Any]:
    """Controls with the names of `run_input`'s arguments, at sample rate 0.01."""
    return {
        "noise_multiplier": logarithmic(
            "noise multiplier", -1, 2, noise_multiplier, "Noise standard deviation / clip norm"
        ),
        "sample_rate": sample_rate_control(-5),
        "steps": steps_control(6, steps),
        "adjacency": adjacency_control(),
    }


def sample_rate_control(low: float) -> Any:
    """A sample rate from 10^low to 1."""
    return logarithmic("sample rate", low, 0, 0.01, "Probability that a record is in a batch")


def steps_control(high: float, steps: int) -> Any:
    """A number of steps from 1 to 10^high."""
    return logarithmic("steps", 0, high, steps, "Noisy updates")


def delta_control() -> Any:
    """Delta, to type."""
    return number("delta", 1e-5, "Of (epsilon, delta)-DP, in (0, 1)")


def adjacency_control() -> Any:
    """Add-remove or replace-one."""
    return choice("adjacency", ADJACENCIES, "What neighbouring data sets differ by")
