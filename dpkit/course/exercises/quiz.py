"""Questions with a choice as radio buttons, each with feedback; no server is needed."""

from collections.abc import Sequence
from html import escape
from typing import Any

import ipywidgets as widgets


class Quiz(widgets.VBox):
    """Questions below each other, and a line that counts the right answers."""

    def __init__(self, questions: Sequence[Any]) -> None:
        """Show these questions, each a `Choice`, none answered."""
        self.questions = questions
        self.buttons = [
            widgets.RadioButtons(
                options=list(question.options),
                value=None,
                layout=widgets.Layout(width="auto"),
                tooltip=question.question,
            )
            for question in questions
        ]
        self.replies = [widgets.HTML() for _ in questions]
        self.progress = widgets.HTML()
        rows = zip(questions, self.buttons, self.replies, strict=True)
        parts = [
            part for row in rows for part in (widgets.HTML(row[0]._repr_html_()), *row[1:])
        ]
        super().__init__([*parts, self.progress])
        for button in self.buttons:
            button.observe(self._answered, names="value")
        self._count()

    def _answered(self, change: Any) -> None:
        index = self.buttons.index(change.owner)
        question = self.questions[index]
        found = question.judge(change.new)
        question.done |= found.right
        self.replies[index].value = f"<p role='status'>{found.html}</p>"
        self._count()

    def _count(self) -> None:
        right = sum(question.done for question in self.questions)
        self.progress.value = f"<p><b>{right} of {len(self.questions)} right</b></p>"

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.questions))

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None, **kwargs: Any
    ) -> Any:
        """The live buttons, and the questions as text for where no kernel runs."""
        bundle: Any = super()._repr_mimebundle_(include=include, exclude=exclude, **kwargs)
        data = dict(bundle[0] if isinstance(bundle, tuple) else bundle)
        data["text/plain"] = repr(self)
        data["text/html"] = self._static()
        return data

    def _static(self) -> str:
        return "".join(
            f"{question._repr_html_()}<ol type='a'>"
            f"{''.join(f'<li>{escape(option)}</li>' for option in question.options)}</ol>"
            for question in self.questions
        )
