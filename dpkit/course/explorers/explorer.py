"""The base of all explorers: controls and numbers at the left, the picture beside them.

An explorer is a VBox without Output widgets, for Lab, Voila and notebooks compared cell by cell.
Its numbers are HTML; without a kernel, or in an untrusted clone, the same table is static text.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from html import escape
from typing import Any

import ipywidgets as widgets

from dpkit.common.plots import Picture
from dpkit.common.show import Table
from dpkit.course.explorers.controls import Make, control
from dpkit.course.explorers.moving_picture import Frame, follow

DELAY = 0.005  # seconds after a move, in which others are waited for, until a picture is drawn
REST = 0.4  # seconds without a move, after which what takes long is computed and drawn, too
DRAFT, FINE, WIDE = (
    78,
    156,
    78,
)  # dots an inch while it moves and when it rests; CSS pixels an inch
OPENS = "as it opens"
ASK = "<p role='status'>Your guess? Then press <b>Show</b>.</p>"
LATER = "when nothing moves"  # in a table, in place of what `late` adds
LARGE = "font-size:1.25em; line-height:1.3; font-weight:600; margin:4px 0"

Result = dict[str, Any]  # of `compute`, by name


class Explorer(widgets.VBox):
    """Controls over a pure `compute`; a subclass computes, tabulates and draws.

    Attributes:
        values: name -> control; their names are `compute`'s arguments.
        sentence: HTML of the numbers' sense, in large type.
        numbers: HTML of the present numbers, or of the reason for having none.
        picture: the drawing, empty where there is nothing to draw.
        left: the column of controls and numbers.
        controls: name -> what makes the control, of a subclass whose controls are always the same.
        presets: settings worth a look, by name; each sets some values and resets the others.
        toolbar: the choice of a setting and, where it is switched on, a guess that must come first.
    """

    title: str
    controls: Mapping[str, Make] = {}
    presets: Mapping[str, Mapping[str, Any]] = {}

    def __init__(
        self, *more: widgets.Widget, controls: Mapping[str, Make] | None = None
    ) -> None:
        """Args: more, widgets above the numbers; controls, in place of the class's own."""
        made = self.controls if controls is None else controls
        self.values: dict[str, Any] = {name: make() for name, make in made.items()}
        self.sentence = widgets.HTML()
        self.numbers = widgets.HTML()
        self.picture = widgets.Image(format="png", layout=widgets.Layout(max_width="100%"))
        self.words = widgets.HTML()  # the picture, for those who do not see it
        self._waiting: asyncio.TimerHandle | None = None
        self._held = False  # while several values are set
        self._rested: Picture | None = None
        self._frame = Frame()
        self._drawn: tuple[Result, Picture] | None = None
        self.result: Result | None = None
        self._opens = {name: one.value for name, one in self.values.items()}
        told = "Set all controls at once; the first sets them back"
        names = [OPENS, *self.presets]
        self.setting = control(widgets.Dropdown, 250, "setting", told, options=names)()
        narrow = widgets.Layout(width="auto")
        self.switch = widgets.ToggleButton(
            description="Guess first",
            tooltip="Numbers and picture wait for your guess",
            layout=narrow,
        )
        self.guess = widgets.Text(
            placeholder="your guess",
            tooltip="What you expect, in your own words",
            layout=widgets.Layout(width="110px"),
        )
        self.button = widgets.Button(
            description="Show", tooltip="Show numbers and picture", layout=narrow
        )
        self.toolbar = widgets.HBox(
            (self.setting, self.switch),
            layout=widgets.Layout(flex_flow="row wrap", width="450px"),
        )
        self.setting.observe(self._set, names="value")
        self.switch.observe(self._switched, names="value")
        self.button.on_click(self._reveal)
        above = (self.toolbar,) if self.presets else ()
        heading = widgets.HTML(f"<h3>{escape(self.title)}</h3>")
        parts = (heading, *above, *self.values.values(), *more)
        self.shown = (*parts, self.sentence, self.numbers, self.picture, self.words)
        column = widgets.Layout(width="450px")
        self.left = widgets.VBox((*parts[1:], self.numbers), layout=column)
        beside = widgets.Layout(flex="1 1 450px", max_width="760px", min_width="0")
        right = widgets.VBox((self.sentence, self.picture, self.words), layout=beside)
        wrapped = widgets.Layout(flex_flow="row wrap", grid_gap="0 16px")
        super().__init__((heading, widgets.HBox((self.left, right), layout=wrapped)))
        for one in self.values.values():
            one.observe(self._changed, names="value")
        self.update()

    @staticmethod
    @abstractmethod
    def compute(**values: Any) -> Result:
        """The numbers, from the controls' values alone.

        Raises:
            ValueError: a value is out of range, with a sentence for the reader.
        """

    @abstractmethod
    def says(self, result: Result) -> str:
        """State the result in one sentence."""

    @abstractmethod
    def table(self, result: Result) -> Table:
        """The result as rows."""

    @abstractmethod
    def draw(self, result: Result) -> Picture:
        """The result as a picture with its words."""

    def late(self, result: Result) -> Result:
        """Add the slow part of the result, for the picture, once the controls rest."""
        return result

    def update(self) -> None:
        """Compute, and show numbers and picture at once."""
        self._show_numbers()
        self._show_late()

    def _set(self, change: Any) -> None:
        """Set controls together; one change is announced."""
        if change.new is None:
            return
        self._held = True
        try:
            for name, value in {**self._opens, **self.presets.get(change.new, {})}.items():
                self.values[name].value = value
        finally:
            self._held = False
        self._follow()

    def _changed(self, _: Any) -> None:
        if not self._held:
            self.setting.value = None  # it was moved away from: let it be chosen again
            self._follow()

    def _follow(self) -> None:
        """Show the numbers now, the picture soon, the rest when moves end."""
        if self.switch.value:
            self._ask()
            return
        self._show_numbers()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no kernel: nobody waits
            self._show_late()
            return
        self._wait(loop, DELAY, lambda: self._show_soon(loop))

    def _wait(self, loop: asyncio.AbstractEventLoop, seconds: float, then: Any) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = loop.call_later(seconds, then)

    def _show_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        self._waiting = None
        if self.result is None:
            return
        self._show_picture(self.result, DRAFT)
        self._wait(loop, REST, self._show_late)

    def _ask(self) -> None:
        """Wait for a guess: nothing is shown."""
        if self._waiting is not None:
            self._waiting.cancel()
        self.result, self.numbers.value = None, ASK
        self._set_picture(None)

    def _switched(self, change: Any) -> None:
        more = (self.guess, self.button) if change.new else ()
        self.toolbar.children = (self.setting, self.switch, *more)
        (self._ask if change.new else self._reveal)()

    def _reveal(self, _: Any = None) -> None:
        told, self.guess.value = self.guess.value.strip(), ""
        self.update()
        if self.result is not None:
            guessed = f"You guessed {told}. " if told else ""
            self.sentence.value = _large(guessed + self.says(self.result))

    def _show_numbers(self) -> None:
        """Show the numbers, or a sentence in their place; never those of other values."""
        try:
            self.result = self.compute(**{name: c.value for name, c in self.values.items()})
            self._tell(self.result)
        except Exception as error:
            self.result = None
            self.numbers.value = f"<p role='alert'>{escape(_sentence(error))}</p>"
            self._set_picture(None)

    def _tell(self, result: Result) -> None:
        self.numbers.value = self.table(result).html(folded=True)
        self.sentence.value = _large(self.says(result))

    def _show_late(self) -> None:
        """Add the slow part, and draw; the next moves leave this picture in grey."""
        self._waiting = None
        if self.result is None:
            return
        try:
            later = self.late(self.result)
            if later is not self.result:
                self.result = later
                self._tell(later)
        except Exception as error:
            self._no_picture(error)
            return
        self._show_picture(later, FINE)
        self._rested = self._drawn and self._drawn[1]

    def _show_picture(self, result: Result, dpi: float) -> None:
        """Draw the result, unless it was drawn last, and show it."""
        try:
            if self._drawn is None or self._drawn[0] is not result:
                self._drawn = None
                picture = self.draw(result)
                if self._rested and self._rested.figure and picture.figure:
                    follow(picture.figure, self._rested.figure)
                self._drawn = result, picture
            self._set_picture(self._drawn[1], dpi)
        except Exception as error:
            self._no_picture(error)

    def _no_picture(self, error: Exception) -> None:
        self._set_picture(None)
        self.words.value = f"<p role='alert'>No picture: {escape(_sentence(error))}</p>"
        if self.result is not None:
            self.sentence.value = _large(self.says(self.result))

    def _set_picture(self, picture: Picture | None, dpi: float = FINE) -> None:
        figure = picture and picture.figure
        if picture is None:
            self.picture.value, self.words.value, self.sentence.value = b"", "", ""
            return
        if figure is None or dpi == FINE:
            self.picture.value = picture.png(dpi)
        else:
            self.picture.value = self._frame.png(figure, dpi)
        if figure is not None:  # of one size, however fine
            self.picture.width = str(round(figure.get_figwidth() * WIDE))
        summary, told = "The picture in words", escape(picture.words)
        self.words.value = (
            f"<details><summary>{summary}</summary><small>{told}</small></details>"
        )

    def __repr__(self) -> str:
        if self.result is None:
            return f"{self.title}\nno numbers"
        return f"{self.title}\n{self.says(self.result)}\n{self.table(self.result).text()}"

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None, **kwargs: Any
    ) -> Any:
        """The live widget, and its numbers as static text for where no kernel runs."""
        bundle: Any = super()._repr_mimebundle_(include=include, exclude=exclude, **kwargs)
        data = dict(bundle[0] if isinstance(bundle, tuple) else bundle)
        data["text/plain"] = repr(self)
        said = self.sentence.value
        data["text/html"] = f"<h3>{escape(self.title)}</h3>{said}{self.numbers.value}"
        return data


def _sentence(error: Exception) -> str:
    if isinstance(error, ValueError | ArithmeticError):
        text = str(error)
        return text + ("" if text.endswith(".") else ".")
    return f"This should not happen; please report it: {type(error).__name__}: {error}."


def _large(text: str) -> str:
    return f"<p aria-live='polite' style='{LARGE}'>{escape(text)}</p>"
