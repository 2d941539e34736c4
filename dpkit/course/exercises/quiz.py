"""Questions with a choice as radio buttons, each with feedback; no server is needed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from dpkit.common.show import tabled
from dpkit.course.exercises.sheet import Sheet, in_html
from dpkit.papers import literature, with_claims
from dpkit.papers.claims import check

PRIVATE, NOT_PRIVATE = "private as charged", "not private as charged"


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
        self.replies[index].value = f"<p role='status'>{in_html(found.text)}</p>"
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
            f"{''.join(f'<li>{in_html(option)}</li>' for option in question.options)}</ol>"
            for question in self.questions
        )


class Cases(Quiz):
    """Claims to judge, each once, and how many were judged right by kind of slip."""

    def __init__(self, cases: Mapping[str, str]) -> None:
        """Args: cases, id of a claim -> what is run."""
        claims = {one.id: (paper, one) for paper in with_claims() for one in paper.CLAIMS}
        sheet, self.kinds = Sheet("cases"), []
        for name, told in cases.items():
            paper, claim = claims[name]
            found = check(claim)
            holds = found.verdict == "holds"
            self.kinds.append("none, it holds" if holds else claim.code.cause)
            whose = claim.where.partition(":")[0] if paper is literature else paper.TITLE
            verdict = "The claim holds" if holds else f"The claim fails: {claim.code.cause}"
            reply = f"{verdict}. {found.explanation}\n{name}, {claim.where}"
            options = dict.fromkeys((PRIVATE, NOT_PRIVATE), reply)
            asked = f"{told}\nClaimed, {whose}: {claim.says}"
            sheet.choice(asked, PRIVATE if holds else NOT_PRIVATE, options)
        super().__init__(sheet.exercises)

    def _answered(self, change: Any) -> None:
        change.owner.disabled = True  # the first answer counts
        super()._answered(change)

    def _count(self) -> None:
        every = list(zip(self.kinds, self.buttons, self.questions, strict=True))
        judged = Counter(kind for kind, button, _ in every if button.value)
        right = Counter(kind for kind, _, question in every if question.done)
        rows = [(k, right[k], judged[k], of) for k, of in sorted(Counter(self.kinds).items())]
        table = tabled(rows, ("kind of slip", "right", "judged", "cases")).html()
        opened = " open" if judged.total() == len(every) else ""
        self.progress.value = (
            f"<p><b>{right.total()} right of {judged.total()} judged; {len(every)} cases</b></p>"
            f"<details{opened}><summary>By kind of slip</summary>{table}</details>"
        )

    def _static(self) -> str:
        return "".join(question._repr_html_() for question in self.questions)
