"""Claims to judge as radio buttons, each once, with a score by kind of slip."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import ipywidgets as widgets

from dpkit.common.show import tabled
from dpkit.course.exercises.quiz import Quiz
from dpkit.course.exercises.sheet import Sheet
from dpkit.course.explorers.claims_wall import computed, stated
from dpkit.papers import literature, with_claims
from dpkit.papers.claims import check

PRIVATE: str = "private as charged"
NOT_PRIVATE: str = "not private as charged"
TAUGHT = 15  # cases, before those under REST
REST = "<p><b>The rest need a computation, or a term that you look up.</b></p>"


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
            value = computed(claim, found.computed).replace("none", "no finite epsilon")
            numbers = f"Stated: {stated(claim)}; computed: {value}."
            reply = f"{verdict}. {numbers} {found.explanation}\n{name}, {claim.where}"
            options = dict.fromkeys((PRIVATE, NOT_PRIVATE), reply)
            asked = f"{told}\nClaimed, {whose}: {claim.says}"
            sheet.choice(asked, PRIVATE if holds else NOT_PRIVATE, options)
        super().__init__(sheet.exercises)
        at = 3 * TAUGHT  # question, buttons and reply of each
        parts = list(self.children)
        self.children = [*parts[:at], widgets.HTML(REST), *parts[at:]]

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
        shown = [question._repr_html_() for question in self.questions]
        return "".join((*shown[:TAUGHT], REST, *shown[TAUGHT:]))
