"""The base of all explorers: controls above, then a sentence, the picture, and the table.

An explorer is a VBox without Output widgets, for Lab, Voila and notebooks compared cell by cell.
Without a kernel, or in an untrusted clone, the same sentence, picture and table are static.
"""

import asyncio
import re
from abc import abstractmethod
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from io import BytesIO
from typing import Any

import ipywidgets as widgets
from matplotlib.ticker import ScalarFormatter, StrMethodFormatter
from PIL import Image

from dpkit.common.plots import Picture
from dpkit.common.show import Table, short
from dpkit.course.explorers.controls import Control, choice
from dpkit.course.explorers.moving_picture import Frame, follow
from dpkit.course.explorers.panels import MOST, Panels

DELAY = 0.005  # seconds after a move, in which others are waited for
REST = 0.4  # seconds without a move, after which what takes long is computed, too
DRAFT, FINE = 100, 192  # dots an inch while it moves, and when it rests
STORED, SHADES = 108, 48  # dots an inch and colours of the picture in a stored notebook
WIDTH = 960  # CSS pixels, of a picture and of all above it
OPENS = "as it opens"
ASK = "<p role='status'>Your guess? Then press <b>Show</b>.</p>"
LATER = "when nothing moves"  # in a table, in place of what `late` adds
LARGE = "font-size:1.2em;line-height:1.35;font-weight:600;margin:6px 0 2px;min-height:1.35em"
TABLE = "overflow-x:auto;line-height:1.45;font-size:clamp(11px,3vw,13px)"
POWER = re.compile(r"\d[\d.]*e-\d+")  # broken at its hyphen by browsers
UNBROKEN = r"<span style='white-space:nowrap'>\g<0></span>"
COLUMNS = "repeat(auto-fill, minmax(min(100%, 400px), 1fr))"
CELL = re.compile(r"(?<=<t[dh] style=')")  # tables of numbers need some air

Result = dict[str, Any]  # of `compute`, by name


class Explorer(widgets.VBox):
    """Controls over a pure `compute`; a subclass computes, tabulates and draws.

    Attributes:
        values: name -> control; their names are `compute`'s arguments.
        sentence: HTML of the numbers' sense, in large type.
        picture: the drawing, an image for each panel, hidden where there is nothing to draw.
        numbers: HTML of the present numbers, or of the reason for having none.
        controls: what can be set.
        presets: settings worth a look, by name; each sets some values and resets the others.
        toolbar: the choice of a setting and, where it is switched on, a guess that must come first.
    """

    title: str
    controls: Sequence[Control] = ()
    presets: Mapping[str, Mapping[str, Any]] = {}

    def __init__(
        self, *more: widgets.Widget, controls: Sequence[Control] | None = None
    ) -> None:
        """Args: more, below the controls; controls, if not the class's own."""
        made = self.controls if controls is None else controls
        self.values: dict[str, Any] = {one.name: one.widget() for one in made}
        self.sentence, self.numbers, self.words = (widgets.HTML() for _ in range(3))
        self.picture = Panels()
        self._waiting: asyncio.TimerHandle | None = None
        self._held = False  # while several values are set
        self._rested: Picture | None = None
        self._frame = Frame()
        self._drawn: tuple[Result, Picture] | None = None
        self.result: Result | None = None
        self._opens = {name: one.value for name, one in self.values.items()}
        self._make_toolbar()
        block = widgets.Layout(
            grid_template_columns=COLUMNS, grid_gap="0 28px", padding="0 6px 0 0"
        )
        whole = widgets.Layout(width="100%", max_width=f"{WIDTH}px", overflow="visible")
        super().__init__(
            (
                widgets.HTML(f"<h3 style='margin:4px 0'>{escape(self.title)}</h3>"),
                *((self.toolbar,) if self.presets else ()),
                widgets.GridBox(tuple(self.values.values()), layout=block),
                *more,
                *(self.sentence, self.picture, self.words, self.numbers),
            ),
            layout=whole,
        )
        for one in self.values.values():
            one.observe(self._changed, names="value")
        self.update()

    def _make_toolbar(self) -> None:
        told = "Set all controls at once; the first sets them back"
        names = (OPENS, *self.presets)
        self.setting = Control("", choice, OPENS, names, "setting", told).widget()
        self.setting.layout.width = "300px"
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
        wrapped = widgets.Layout(flex_flow="row wrap", overflow="visible")
        self.toolbar = widgets.HBox((self.setting, self.switch), layout=wrapped)
        self.setting.observe(self._set, names="value")
        self.switch.observe(self._switched, names="value")
        self.button.on_click(self._reveal)

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
        """Add the slow part of the result, once the controls rest."""
        return result

    def update(self) -> None:
        """Compute, and show everything at once."""
        self._calculate()
        self._show_late()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Set values within it without an answer to each."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def _set(self, change: Any) -> None:
        """Set controls together; one change is announced."""
        if change.new is None:
            return
        with self.held():
            for name, value in {**self._opens, **self.presets.get(change.new, {})}.items():
                self.values[name].value = value
        self._follow()

    def _changed(self, _: Any) -> None:
        if not self._held:
            self.setting.value = None  # it was moved away from: let it be chosen again
            self._follow()

    def _follow(self) -> None:
        """Show sentence, picture and numbers together, soon; the rest when moves end."""
        if self.switch.value:
            self._ask()
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no kernel: nobody waits
            self.update()
            return
        self._wait(loop, DELAY, lambda: self._show_soon(loop))

    def _wait(self, loop: asyncio.AbstractEventLoop, seconds: float, then: Any) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = loop.call_later(seconds, then)

    def _show_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        self._waiting = None
        self._calculate()
        if self.result is not None:
            self._show(self.result, DRAFT)
            self._wait(loop, REST, self._show_late)

    def _ask(self) -> None:
        """Wait for a guess: nothing is shown."""
        if self._waiting is not None:
            self._waiting.cancel()
        self.result, self.numbers.value = None, ASK
        self._set_picture(None)
        self.sentence.value = ""

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

    def _calculate(self) -> None:
        """Compute; a reason for having no numbers is shown at once in their place."""
        try:
            self.result = self.compute(**{name: c.value for name, c in self.values.items()})
        except Exception as error:
            self.result = None
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        self.numbers.value = f"<p role='alert'>{escape(_sentence(error))}</p>"
        self._set_picture(None)
        self.sentence.value = ""

    def _show_late(self) -> None:
        """Add the slow part, and draw; the next moves leave this picture in grey."""
        self._waiting = None
        if self.result is None:
            return
        try:
            self.result = self.late(self.result)
        except Exception as error:
            self._no_picture(error)
            return
        self._show(self.result, FINE)
        self._rested = self._drawn and self._drawn[1]

    def _show(self, result: Result, dpi: float) -> None:
        """Draw the result, unless it was drawn last, and show all of it."""
        try:
            if self._drawn is None or self._drawn[0] is not result:
                self._drawn = None
                picture = self.draw(result)
                _plain_ticks(picture)
                if self._rested and self._rested.figure and picture.figure:
                    follow(picture.figure, self._rested.figure)
                self._drawn = result, picture
            self._set_picture(self._drawn[1], dpi)
        except Exception as error:
            self._no_picture(error)
        self._tell(result)

    def _tell(self, result: Result) -> None:
        try:
            told, said = self.table(result).html(folded=True), self.says(result)
            told = CELL.sub("padding:1px clamp(4px,1.5vw,18px) 1px 0;", told)
        except Exception as error:
            self._refuse(error)
            return
        self.sentence.value = _large(said)
        self.numbers.value = f"<div style='{TABLE}'>{_unbroken(told)}</div>"

    def _no_picture(self, error: Exception) -> None:
        self._set_picture(None)
        self.words.value = f"<p role='alert'>No picture: {escape(_sentence(error))}</p>"

    def _set_picture(self, picture: Picture | None, dpi: float = FINE) -> None:
        if picture is None or (picture.figure is None and not picture.png()):
            self.picture.show(b"")
            told = "" if picture is None else f"<small>{escape(picture.words)}</small>"
            self.words.value = told
            return
        figure = picture.figure
        moves = figure if dpi != FINE else None
        png = self._frame.png(moves, dpi) if moves else picture.png(dpi)
        self.picture.show(png, figure)
        summary, told = "The picture in words", _unbroken(escape(picture.words))
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
        """The live widget; for where no kernel runs, its sentence, picture and numbers."""
        bundle: Any = super()._repr_mimebundle_(include=include, exclude=exclude, **kwargs)
        data = dict(bundle[0] if isinstance(bundle, tuple) else bundle)
        data["text/plain"] = repr(self)
        shown = self._drawn if self.picture.value else None
        image = _stored(shown[1]) if shown else ""
        said = f"{self.sentence.value}{image}{self.numbers.value}"
        data["text/html"] = f"<h3>{escape(self.title)}</h3>{said}"
        return data


def _stored(picture: Picture) -> str:
    """A picture in few bytes, as HTML."""
    buffer = BytesIO()
    with Image.open(BytesIO(picture.png(STORED))) as drawn:
        drawn.convert("RGB").quantize(SHADES).save(buffer, "png", optimize=True)
    source = f"data:image/png;base64,{b64encode(buffer.getvalue()).decode()}"
    told = escape(picture.words, quote=True)
    wide = picture.figure.get_figwidth() * MOST if picture.figure else WIDTH
    return f"<img src='{source}' alt='{told}' style='width:100%;max-width:{wide:.0f}px'>"


def _plain_ticks(picture: Picture) -> None:
    """Write 10,000 and 1e-5 at the ticks, as the sentence and the table do."""
    for ax in picture.figure.axes if picture.figure else ():
        for axis in (ax.xaxis, ax.yaxis):
            if isinstance(axis.get_major_formatter(), ScalarFormatter | StrMethodFormatter):
                axis.set_major_formatter(lambda x, _: short(x, 4).replace("-", "\u2212"))


def _sentence(error: Exception) -> str:
    if isinstance(error, ValueError | ArithmeticError):
        text = str(error)
        return text + ("" if text.endswith(".") else ".")
    return f"This should not happen; please report it: {type(error).__name__}: {error}."


def _unbroken(html: str) -> str:
    """HTML whose powers of ten stay in one line."""
    return POWER.sub(UNBROKEN, html)


def _large(text: str) -> str:
    return f"<p aria-live='polite' style='{LARGE}'>{_unbroken(escape(text))}</p>"
