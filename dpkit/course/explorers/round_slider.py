"""A slider over round numbers, with a field beside it that takes any number as it is typed."""

import math
from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets
import traitlets

# Of each power of 10. A slider that is continuous in the exponent would show 1.096 for 1.1.
ROUND = (
    *(1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2, 2.2, 2.4, 2.6, 2.8),
    *(3, 3.2, 3.4, 3.6, 3.8, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5),
)


def round_stops(low: float, high: float, value: float) -> list[float]:
    """Round numbers from 10^low to 10^high, whole ones if both ends and `value` are, and `value`.

    The ends themselves are among them.
    """
    powers = range(math.floor(low), math.floor(high) + 1)
    least, most = (float(f"{10**end:.6g}") for end in (low, high))
    found = {float(f"{one * 10.0**power:.6g}") for power in powers for one in ROUND}
    whole = least >= 1 and float(value).is_integer()
    inside = {one for one in found if least < one < most and not (whole and not one.is_integer())}
    return sorted(inside | {least, most, float(value)})


class RoundSlider(widgets.HBox):
    """A slider over given stops and a field; `value` is what the last of them was set to.

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
        self.slider.observe(self._slid, names="value")
        self.field.observe(self._typed, names="value")
        self.observe(self._set, names="value")

    def _nearest(self, value: float) -> int:
        """The position of the stop that is nearest, in proportion."""
        if not 0 < value < math.inf:
            return 0
        return min(range(len(self.stops)), key=lambda i: abs(math.log(self.stops[i] / value)))

    def _slid(self, change: Any) -> None:
        if not self._moving:
            self.value = self.stops[change.new]

    def _typed(self, change: Any) -> None:
        if not self._moving:
            self.value = change.new

    def _set(self, change: Any) -> None:
        """Bring slider and field to the value without their answering."""
        self._moving = True
        try:
            self.field.value = change.new
            self.slider.value = self._nearest(change.new)
        finally:
            self._moving = False
