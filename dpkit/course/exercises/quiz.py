"""Questions with a choice as radio buttons, each with feedback; no server is needed."""

from collections.abc import Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from dpkit.course.exercises.sheet import Choice


class Quiz(widgets.VBox):
    """Questions below each other; a line counts those that are right."""

    def __init__(self, questions: Sequence[Choice]) -> None:
        """Show these questions, none answered."""
        self.questions = questions
        self.buttons = [_buttons(question) for question in questions]
        self.replies = [widgets.HTML() for _ in questions]
        self.progress = widgets.HTML()
        rows = zip(questions, self.buttons, self.replies, strict=True)
        parts = [part for row in rows for part in (widgets.HTML(_asked(row[0])), *row[1:])]
        super().__init__([*parts, self.progress])
        for button in self.buttons:
            button.observe(self._answered, names="value")
        self._count()

    def _answered(self, change: Any) -> None:
        index = self.buttons.index(change.owner)
        question = self.questions[index]
        found = question.judge(change.new)
        question.done = question.done or found.right is True
        self.replies[index].value = f"<p role='status'>{escape(found.text)}</p>"
        self._count()

    def _count(self) -> None:
        right = sum(question.done for question in self.questions)
        self.progress.value = f"<p><b>{right} of {len(self.questions)} right</b></p>"

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.questions))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **kwargs: Any) -> Any:
        """The live buttons, and the questions as text for where no kernel runs."""
        bundle: Any = super()._repr_mimebundle_(include=include, exclude=exclude, **kwargs)
        data = dict(bundle[0] if isinstance(bundle, tuple) else bundle)
        data["text/plain"] = repr(self)
        data["text/html"] = "".join(map(_with_options, self.questions))
        return data


def _asked(question: Choice) -> str:
    return f"<p><b>{question.place}.</b> {escape(question.question)}</p>"


def _with_options(question: Choice) -> str:
    options = "".join(f"<li>{escape(option)}</li>" for option in question.options)
    return f"{_asked(question)}<ol type='a'>{options}</ol>"


def _buttons(question: Choice) -> widgets.RadioButtons:
    return widgets.RadioButtons(
        options=list(question.options),
        value=None,
        layout=widgets.Layout(width="auto"),
        tooltip=question.question,
    )
