"""What stands above an explorer's controls: settings by name, and a guess before numbers show."""

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets

OPENS = "as it opens"
ASK = "<p role='status'>Your guess? Then press <b>Show</b>.</p>"


class Toolbar(widgets.HBox):
    """A choice of settings and, where it is switched on, a guess that must come first."""

    def __init__(
        self,
        presets: Mapping[str, Mapping[str, Any]],
        choose: Callable[[Mapping[str, Any]], None],
        show: Callable[[], None],
        hide: Callable[[], None],
    ) -> None:
        """Args: presets, values by control, by name; what to do when one is chosen, when numbers
        are to be shown, and when they are to wait.
        """
        self._presets = presets
        narrow = widgets.Layout(width="auto")
        self.preset = widgets.Dropdown(
            options=list(presets),
            description="setting",
            tooltip="Set all controls at once; the first sets them back",
            layout=widgets.Layout(width="250px"),
            style={"description_width": "initial"},
        )
        self.switch = widgets.ToggleButton(
            value=False,
            description="Guess first",
            tooltip="Numbers and picture wait for your guess",
            layout=narrow,
        )
        self.field = widgets.Text(
            placeholder="your guess",
            tooltip="What you expect, in your own words",
            layout=widgets.Layout(width="110px"),
        )
        self.button = widgets.Button(
            description="Show", tooltip="Show numbers and picture", layout=narrow
        )
        layout = widgets.Layout(flex_flow="row wrap", width="450px")
        super().__init__((self.preset, self.switch), layout=layout)
        self._choose, self._show, self._hide = choose, show, hide
        self.preset.observe(self._chosen, names="value")
        self.switch.observe(self._switched, names="value")
        self.button.on_click(lambda _: show())

    @property
    def guessing(self) -> bool:
        """Whether numbers wait for the button."""
        return self.switch.value

    def guessed(self) -> str:
        """The guess in a sentence, empty without one; the field is then empty for the next."""
        told, self.field.value = self.field.value.strip(), ""
        return f"You guessed {told}. " if told else ""

    def again(self) -> None:
        """Let the same setting be chosen again: it was moved away from."""
        if self.preset.value is not None:
            self.preset.unobserve(self._chosen, names="value")
            self.preset.value = None
            self.preset.observe(self._chosen, names="value")

    def _chosen(self, change: Any) -> None:
        if change.new is not None:
            self._choose(self._presets[change.new])

    def _switched(self, change: Any) -> None:
        more = (self.field, self.button) if change.new else ()
        self.children = (self.preset, self.switch, *more)
        (self._hide if change.new else self._show)()
