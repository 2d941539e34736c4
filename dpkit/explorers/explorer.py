"""The base of all explorers: controls and, at once, numbers at the left, the picture beside them.

An explorer is a VBox without Output widgets, so that it works in Lab, under Voila and in a notebook
that is compared cell by cell. Its numbers are HTML; before a kernel runs, and where a clone is not
trusted, the same table stands as static text.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from dpkit.explorers.round_slider import RoundSlider, round_stops
from dpkit.plots import Picture
from dpkit.show import Table

DELAY = 0.05  # seconds without a further change, after which a picture is drawn


class Explorer(widgets.VBox):
    """Controls over a pure `compute`; a subclass says what to compute, to tabulate and to draw.

    Attributes:
        values: name -> control; their names are `compute`'s arguments.
        numbers: HTML of the present numbers, or of the sentence that says why there are none.
        picture: the drawing, empty where there is nothing to draw.
        left: the column of controls and numbers.
    """

    title: str

    def __init__(self, values: dict[str, Any], *more: widgets.Widget) -> None:
        """Args: values, the controls by name; more, further widgets above the numbers."""
        self.values = values
        self.numbers = widgets.HTML()
        self.picture = widgets.Image(format="png", layout=widgets.Layout(max_width="100%"))
        self.words = widgets.HTML()  # the picture, for those who do not see it
        self._waiting: asyncio.TimerHandle | None = None
        self.result: dict[str, Any] | None = None
        heading = widgets.HTML(f"<h3>{escape(self.title)}</h3>")
        controls = (heading, *values.values(), *more)
        self.shown = (*controls, self.numbers, self.picture, self.words)
        narrow = widgets.Layout(width="450px")
        self.left = widgets.VBox((*controls[1:], self.numbers), layout=narrow)
        beside = widgets.Layout(flex="1 1 450px", max_width="760px", min_width="0")
        right = widgets.VBox((self.picture, self.words), layout=beside)
        wrapped = widgets.Layout(flex_flow="row wrap", grid_gap="0 16px")
        super().__init__((heading, widgets.HBox((self.left, right), layout=wrapped)))
        for control in values.values():
            control.observe(self._changed, names="value")
        self.update()

    @staticmethod
    @abstractmethod
    def compute(**values: Any) -> dict[str, Any]:
        """The numbers, from the controls' values alone.

        Raises:
            ValueError: a value is out of range, with a sentence for the reader.
        """

    @abstractmethod
    def table(self, result: dict[str, Any]) -> Table:
        """The result as rows."""

    @abstractmethod
    def draw(self, result: dict[str, Any]) -> Picture:
        """The result as a picture with its words."""

    def late(self, result: dict[str, Any]) -> dict[str, Any]:
        """The result with those numbers added that take long and come with the picture."""
        return result

    def update(self) -> None:
        """Compute, and show numbers and picture at once."""
        self._show_numbers()
        self._show_picture()

    def _changed(self, _: Any) -> None:
        self._show_numbers()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no kernel: nobody waits
            self._show_picture()
            return
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = loop.call_later(DELAY, self._show_picture)

    def _show_numbers(self) -> None:
        """Show the numbers, or a sentence in their place; never the numbers of other values."""
        try:
            self.result = self.compute(**{name: c.value for name, c in self.values.items()})
            self.numbers.value = self.table(self.result).html()
            self.words.value = "<p><small>Drawing ...</small></p>"
        except Exception as error:
            self.result = None
            self.numbers.value = f"<p role='alert'>{escape(_sentence(error))}</p>"
            self._set_picture(None)

    def _show_picture(self) -> None:
        self._waiting = None
        if self.result is None:
            self._set_picture(None)
            return
        try:
            later = self.late(self.result)
            if later is not self.result:
                self.result = later
                self.numbers.value = self.table(later).html()
            self._set_picture(self.draw(later))
        except Exception as error:
            self._set_picture(None)
            self.words.value = f"<p role='alert'>No picture: {escape(_sentence(error))}</p>"

    def _set_picture(self, picture: Picture | None) -> None:
        self.picture.value = b"" if picture is None else picture.png
        self.words.value = (
            "" if picture is None else f"<p><small>{escape(picture.words)}</small></p>"
        )

    def __repr__(self) -> str:
        text = self.table(self.result).text() if self.result is not None else "no numbers"
        return f"{self.title}\n{text}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **kwargs: Any) -> Any:
        """The live widget, and its present numbers as static text for where no kernel runs."""
        bundle: Any = super()._repr_mimebundle_(include=include, exclude=exclude, **kwargs)
        data = dict(bundle[0] if isinstance(bundle, tuple) else bundle)
        data["text/plain"] = repr(self)
        data["text/html"] = f"<h3>{escape(self.title)}</h3>{self.numbers.value}"
        return data


def _sentence(error: Exception) -> str:
    if isinstance(error, ValueError | ArithmeticError):
        text = str(error)
        return text + ("" if text.endswith(".") else ".")
    return f"This should not happen; please report it: {type(error).__name__}: {error}."


def control(kind: Any, width: int, description: str, tooltip: str, **traits: Any) -> Any:
    """A widget of that kind with its name beside it, `width` pixels wide."""
    layout = widgets.Layout(width=f"{width}px")
    style = {"description_width": "initial"}
    return kind(description=description, tooltip=tooltip, layout=layout, style=style, **traits)


def logarithmic(
    description: str, low: float, high: float, value: float, tooltip: str, **traits: Any
) -> RoundSlider:
    """A slider over round numbers from 10^low to 10^high, with a field for any other."""
    return RoundSlider(description, round_stops(low, high, value), value, tooltip, **traits)


def whole(description: str, low: int, high: int, value: int, tooltip: str, **traits: Any) -> Any:
    """A slider over whole numbers."""
    kind = widgets.IntSlider
    return control(kind, 420, description, tooltip, value=value, min=low, max=high, **traits)


def number(description: str, value: float, tooltip: str) -> Any:
    """A number to type, of any size: `compute` refuses one that is out of range."""
    return control(widgets.FloatText, 240, description, tooltip, value=value)


def choice(
    description: str,
    options: Sequence[str] | Mapping[str, Any],
    tooltip: str,
    *,
    width: int = 320,
    **traits: Any,
) -> Any:
    """One of a few names, or of a few values by name."""
    pairs = list(options.items()) if isinstance(options, Mapping) else options
    return control(widgets.Dropdown, width, description, tooltip, options=pairs, **traits)
