"""Schedules of a number over training steps: noise, clip or learning rate."""

from dataclasses import dataclass
from typing import Protocol


class Schedule(Protocol):
    """A value for each step, counted from 0."""

    def __call__(self, step: int) -> float: ...


@dataclass(frozen=True)
class Constant:
    """The same value at every step."""

    value: float

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
        if not self.over >= 1:
            raise ValueError(f"over must be >= 1 step, got {self.over}; Constant has no change")

    def __call__(self, step: int) -> float:
        """The value at `step`."""
        return self.start + (self.end - self.start) * min(step / self.over, 1.0)
