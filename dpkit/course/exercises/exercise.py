"""An exercise: a question that checks an answer, gives hints one by one, and shows its solution."""

import ast
import inspect
import textwrap
from abc import abstractmethod
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

EMPTY = (None, ..., "", "...")


class Judgement(NamedTuple):
    """What is said of an answer; `right` is None where there was none."""

    right: bool | None
    text: str


class Exercise:
    """A question of a notebook.

    Attributes:
        question: in words.
        hints: from the first nudge to nearly the answer.
        because: what the right answer means.
        done: whether it was answered.
    """

    sheet: Any
    place: int

    def __init__(self, question: str, hints: Sequence[str], because: str) -> None:
        """Ask a question."""
        self.question = question
        self.hints = hints
        self.because = because
        self.done = False

    @abstractmethod
    def judge(self, answer: Any) -> Judgement:
        """Compare an answer that is not empty with the right one."""

    @abstractmethod
    def solved(self) -> str:
        """The solution, as lines to print."""

    def check(self, answer: Any = ...) -> None:
        """Print whether the answer is right, and how far the sheet is done."""
        if is_empty(answer):
            what = "Not answered yet: put your answer in place of the dots."
            helps = " hint() helps." if self.hints else ""
            print(f"{self}\n{what}{helps} ({self.sheet.progress})")
            return
        found = self.judge(answer)
        self.done = self.done or found.right is True
        print(f"{found.text} ({self.sheet.progress})")

    def hint(self, number: int = 1) -> None:
        """Print a hint.

        Raises:
            ValueError: there is no hint of that number.
        """
        if number not in range(1, len(self.hints) + 1):
            raise ValueError(f"number must lie in 1..{len(self.hints)}, got {number}")
        print(f"Hint {number} of {len(self.hints)}: {self.hints[number - 1]}")

    def solution(self) -> None:
        """Print the solution."""
        print(self.solved())

    def __repr__(self) -> str:
        return textwrap.fill(f"{self.place}. {self.question}", 100)

    def _repr_html_(self) -> str:
        return f"<p><b>{self.place}.</b> {escape(self.question)}</p>"


def is_empty(answer: Any) -> bool:
    """Whether nothing was answered: nothing, dots, blanks, an empty list."""
    if isinstance(answer, str):
        return answer.strip() in EMPTY
    if isinstance(answer, list | tuple | dict | set):
        return len(answer) == 0
    return answer is None or answer is ...


def asked(reference: Callable[..., Any]) -> str:
    """The docstring of a reference answer, on one line: its question."""
    return " ".join(inspect.getdoc(reference).split())  # type: ignore[union-attr]


def source(reference: Callable[..., Any], *, header: bool) -> str:
    """The code of a reference answer without decorator and question, with or without its `def`."""
    text = textwrap.dedent(inspect.getsource(reference))
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    lines = text.splitlines()
    body = lines[node.body[1].lineno - 1 :]
    if not header:
        return textwrap.dedent("\n".join(body))
    return "\n".join([*lines[node.lineno - 1 : node.body[0].lineno - 1], *body])
