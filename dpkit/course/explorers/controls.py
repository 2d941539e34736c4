"""Controls of explorers as data, the widgets that they become, and the run that some describe.

A slider over round numbers has a field at its side that takes any number as it is typed.
"""

import math
from collections.abc import Callable, Sequence
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
LABEL = {"description_width": "118px"}  # all sliders begin at the same place
WIDE = {"width": "auto", "min_width": "0", "margin": "1px 0"}


def round_stops(low: float, high: float, value: float) -> list[float]:
    """Round numbers from low to high, whole if both ends and `value` are, and `value`.

    The ends themselves are among them.
    """
    least, most = (math.floor(math.log10(end)) for end in (low, high))
    found = {
        float(f"{one * 10.0**power:.6g}") for power in range(least, most + 1) for one in ROUND
    }
    whole = low >= 1 and float(value).is_integer()
    inside = {one for one in found if low < one < high and (one.is_integer() or not whole)}
    return sorted(inside | {float(low), float(high), float(value)})


class RoundSlider(widgets.HBox):
    """A slider over round numbers, and a field; `value` is the last setting of either.

    Attributes:
        value: the number, exactly as typed or as the stop has it.
        stops: the round numbers, increasing.
        slider: over the stops' positions.
        field: the number, to type.
    """

    value = traitlets.Float()
    disabled = traitlets.Bool(False)
    tooltip = traitlets.Unicode()  # of its parts; a box itself shows none

    def __init__(
        self, value: float, span: tuple[float, float], *, tooltip: str, **named: Any
    ) -> None:
        """Args: value, at first; span, both ends; tooltip; named, traits of the slider."""
        self.stops = round_stops(*span, value)
        self.slider = widgets.IntSlider(
            value=self._nearest(value),
            min=0,
            max=len(self.stops) - 1,
            tooltip=tooltip,
            readout=False,
            **{
                **named,
                "layout": widgets.Layout(flex="1 1 auto", **WIDE | {"min_width": "230px"}),
            },
        )
        self.field = widgets.FloatText(
            value=value, tooltip=tooltip, layout=widgets.Layout(width="92px", flex="0 0 92px")
        )
        named["layout"].flex_flow = "row wrap"  # on a phone the field stands below the slider
        super().__init__((self.slider, self.field), layout=named["layout"], tooltip=tooltip)
        self.value = value
        self._moving = False
        for part in (self.slider, self.field):
            part.observe(self._moved, names="value")
            traitlets.dlink((self, "disabled"), (part, "disabled"))
        self.observe(self._set, names="value")

    def _nearest(self, value: float) -> int:
        """The position of the stop that is nearest, in proportion."""
        if not 0 < value < math.inf:
            return 0
        far = [abs(math.log(stop / value)) for stop in self.stops]
        return far.index(min(far))

    def _moved(self, change: Any) -> None:
        if not self._moving:
            moved = change.owner is self.slider
            self.value = self.stops[change.new] if moved else change.new

    def _set(self, change: Any) -> None:
        """Bring slider and field to the value without their answering."""
        self._moving = True
        try:
            self.field.value = change.new
            self.slider.value = self._nearest(change.new)
        finally:
            self._moving = False


def whole(value: int, span: tuple[int, int], **named: Any) -> Any:
    """A slider over whole numbers."""
    return widgets.IntSlider(value, min=span[0], max=span[1], **named)


def degrees(value: float, span: tuple[float, float], **named: Any) -> Any:
    """A slider over whole degrees."""
    return widgets.FloatSlider(
        value, min=span[0], max=span[1], step=1.0, readout_format=".0f", **named
    )


def number(value: float, _: None, **named: Any) -> Any:
    """A number to type, of any size: `compute` refuses one that is out of range."""
    return widgets.FloatText(value, **named)


def choice(value: Any, options: Sequence[str], **named: Any) -> Any:
    """One of a few names."""
    return widgets.Dropdown(options=options, value=value, **named)


def box(value: bool, _: None, **named: Any) -> Any:
    """A box to check, with its whole label."""
    return widgets.Checkbox(value, indent=False, **named)


def words(value: str, hint: str, **named: Any) -> Any:
    """A line of text."""
    return widgets.Text(value, placeholder=hint, **named)


class Control(NamedTuple):
    """A control: the argument of `compute` that it sets, its widget, and what it says.

    span: both ends of a slider, the options of a choice, the hint of a text.
    tooltip: what it means, with its unit.
    """

    name: str
    kind: Callable[..., Any]
    value: Any
    span: Any
    label: str
    tooltip: str

    def widget(self) -> Any:
        """The widget, anew for each explorer."""
        return self.kind(
            self.value,
            self.span,
            description=self.label,
            tooltip=self.tooltip,
            style=LABEL,
            layout=widgets.Layout(**WIDE),
        )


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
    step = SampledGaussian(noise_multiplier, sample_rate, adjacency)
    return RunInput(step, round(steps))


def check_sample_rate(sample_rate: float) -> None:
    """Refuse a sample rate of 0, at which nothing is released, and nothing learned."""
    if not 0 < sample_rate <= 1:
        raise ValueError(f"sample_rate must lie in (0, 1], got {sample_rate:g}")


def noise_control(value: float, least: float = 0.1, most: float = 100) -> Control:
    """A noise multiplier."""
    told = "Noise standard deviation / clip norm"
    span = (least, most)
    return Control("noise_multiplier", RoundSlider, value, span, "noise multiplier", told)


def rate_control(least: float = 1e-5) -> Control:
    """A sample rate of 0.01, down to the least."""
    told = "Probability that a record is in a batch"
    return Control("sample_rate", RoundSlider, 0.01, (least, 1), "sample rate", told)


def steps_control(value: float, most: float = 1e6) -> Control:
    """A number of steps, up to the most."""
    return Control("steps", RoundSlider, value, (1, most), "steps", "Noisy updates")


def run_controls(noise_multiplier: float, steps: float) -> tuple[Control, ...]:
    """Controls with the names of `run_input`'s arguments, at sample rate 0.01."""
    noise = noise_control(noise_multiplier)
    return (noise, rate_control(), steps_control(steps), ADJACENCY)


DELTA = Control("delta", number, 1e-5, None, "delta", "Of (epsilon, delta)-DP, in (0, 1)")
ADJACENCY = Control(
    "adjacency",
    choice,
    ADJACENCIES[0],
    ADJACENCIES,
    "adjacency",
    "What neighbouring data sets differ by",
)
