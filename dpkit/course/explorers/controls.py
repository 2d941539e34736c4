"""The controls of explorers, which a reader moves, types in or chooses, and their run.

A slider over round numbers has a field beside it that takes any number as it is typed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import ipywidgets as widgets
import traitlets

from dpkit.common import checks
from dpkit.privacy import Release, SampledGaussian
from dpkit.privacy.mechanisms import ADJACENCIES

# Of each power of 10. A slider that is continuous in the exponent would show 1.096 for 1.1.
ROUND = (
    *(1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2, 2.2, 2.4, 2.6, 2.8),
    *(3, 3.2, 3.4, 3.6, 3.8, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5),
)


def round_stops(low: float, high: float, value: float) -> list[float]:
    """Round numbers from 10^low to 10^high, whole if both ends and `value` are, and `value`.

    The ends themselves are among them.
    """
    powers = range(math.floor(low), math.floor(high) + 1)
    least, most = (float(f"{10**end:.6g}") for end in (low, high))
    found = {float(f"{one * 10.0**power:.6g}") for power in powers for one in ROUND}
    whole = least >= 1 and float(value).is_integer()
    inside = {
        one for one in found if least < one < most and not (whole and not one.is_integer())
    }
    return sorted(inside | {least, most, float(value)})


Make = Callable[[], Any]  # a widget, anew for each explorer


class RoundSlider(widgets.HBox):
    """A slider over given stops, and a field; `value` is the last setting of either.

    Attributes:
        value: the number, exactly as typed or as the stop has it.
        slider: over the stops' positions.
        field: the number, to type.
    """

    value = traitlets.Float()
    tooltip = traitlets.Unicode()  # of its parts; a box itself shows none

    def __init__(
        self,
        description: str,
        stops: Sequence[float],
        value: float,
        tooltip: str,
        *,
        continuous_update: bool = True,
    ) -> None:
        """Args: description, beside the slider; stops, increasing; value, at first; tooltip."""
        self.stops = list(stops)
        self.slider = widgets.IntSlider(
            value=self._nearest(value),
            min=0,
            max=len(self.stops) - 1,
            description=description,
            tooltip=tooltip,
            readout=False,
            continuous_update=continuous_update,
            style={"description_width": "initial"},
            layout=widgets.Layout(flex="1 1 auto", width="auto"),
        )
        self.field = widgets.FloatText(
            value=value, tooltip=tooltip, layout=widgets.Layout(width="96px")
        )
        layout = widgets.Layout(width="430px")
        super().__init__((self.slider, self.field), layout=layout, tooltip=tooltip)
        self.value = value
        self._moving = False
        self.slider.observe(self._moved, names="value")
        self.field.observe(self._moved, names="value")
        self.observe(self._set, names="value")

    def _nearest(self, value: float) -> int:
        """The position of the stop that is nearest, in proportion."""
        if not 0 < value < math.inf:
            return 0
        return min(range(len(self.stops)), key=lambda i: abs(math.log(self.stops[i] / value)))

    def _moved(self, change: Any) -> None:
        if not self._moving:
            self.value = self.stops[change.new] if change.owner is self.slider else change.new

    def _set(self, change: Any) -> None:
        """Bring slider and field to the value without their answering."""
        self._moving = True
        try:
            self.field.value = change.new
            self.slider.value = self._nearest(change.new)
        finally:
            self._moving = False


def control(kind: Any, width: int, description: str, tooltip: str, **traits: Any) -> Make:
    """A maker of widgets of that kind, `width` pixels wide, named at their side."""
    style = {"description_width": "initial"}
    given = {"description": description, "tooltip": tooltip, "style": style, **traits}
    return lambda: kind(layout=widgets.Layout(width=f"{width}px"), **given)


def logarithmic(
    description: str, low: float, high: float, value: float, tooltip: str, **traits: Any
) -> Make:
    """A slider over round numbers from 10^low to 10^high, with a field for any other."""
    stops = round_stops(low, high, value)
    return partial(RoundSlider, description, stops, value, tooltip, **traits)


def whole(
    description: str, low: int, high: int, value: int, tooltip: str, **traits: Any
) -> Make:
    """A slider over whole numbers."""
    kind = widgets.IntSlider
    return control(kind, 420, description, tooltip, value=value, min=low, max=high, **traits)


def number(description: str, value: float, tooltip: str) -> Make:
    """A number to type, of any size: `compute` refuses one that is out of range."""
    return control(widgets.FloatText, 240, description, tooltip, value=value)


def choice(
    description: str,
    options: Sequence[str] | Mapping[str, Any],
    tooltip: str,
    *,
    width: int = 320,
    **traits: Any,
) -> Make:
    """One of a few names, or of a few values by name."""
    pairs = list(options.items()) if isinstance(options, Mapping) else options
    return control(widgets.Dropdown, width, description, tooltip, options=pairs, **traits)


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
    """Refuse a sample rate of 0, at which nothing is released, and nothing learned."""
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
        "adjacency": ADJACENCY,
    }


def sample_rate_control(low: float) -> Make:
    """A sample rate from 10^low to 1."""
    return logarithmic("sample rate", low, 0, 0.01, "Probability that a record is in a batch")


def steps_control(high: float, steps: int) -> Make:
    """A number of steps from 1 to 10^high."""
    return logarithmic("steps", 0, high, steps, "Noisy updates")


DELTA = number("delta", 1e-5, "Of (epsilon, delta)-DP, in (0, 1)")
ADJACENCY = choice("adjacency", ADJACENCIES, "What neighbouring data sets differ by")
