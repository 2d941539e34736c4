"""Keep the questions that a notebook shows in step with its exercises.

A cell `turn.name.check(...)` stands below a markdown cell tagged `question`, which is written from
the exercise `name` of the module that the notebook imports as `turn`.
"""

import importlib
import re
import textwrap
from typing import Any

from dpkit.course.exercises.sheet import Choice, Exercise

WIDTH = 110
TURN = re.compile(r"^from dpkit\.course\.exercises import (\w+) as turn$", re.MULTILINE)
BELOW = re.compile(
    r'(?:^# %% \[markdown\] tags=\["question"(?P<tags>[^\]]*)\]\n(?:#.*\n)+\n+)?'
    r"(?P<head>^# %%[^\n]*\n(?:(?!# %%)[^\n]*\n)*?)(?P<call>turn\.(?P<name>\w+)\.check\(\.\.\.\))",
    re.MULTILINE,
)


def question(exercise: Exercise, tags: str | None) -> str:
    """The markdown cell of an exercise, as it stands in a source, with its further tags."""
    text = f"**Question {exercise.place}.** {exercise.question}"
    lines = textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")
    return "\n".join([f'# %% [markdown] tags=["question"{tags or ""}]', *lines, "", ""])


def turn_of(text: str) -> Any:
    """The module of exercises that a notebook imports as `turn`; None where there is none."""
    found = TURN.search(text)
    return found and importlib.import_module(f"dpkit.course.exercises.{found[1]}")


def with_questions(text: str) -> str:
    """A source whose questions are those of its exercises."""
    turn = turn_of(text)
    if turn is None:
        return text

    def asked(cell: re.Match[str]) -> str:
        return question(getattr(turn, cell["name"]), cell["tags"]) + cell["head"] + cell["call"]

    return BELOW.sub(asked, text)


def exercises_of(cells: str, notebook: str) -> list[Exercise]:
    """The exercises that some cells of a notebook ask, one by one or in its quiz."""
    turn = turn_of(notebook)
    found = [
        getattr(turn, name) for name in re.findall(r"^turn\.(\w+)\.check\(", cells, re.MULTILINE)
    ]
    if "turn.sheet.quiz()" in cells:
        found += [one for one in turn.sheet.exercises if isinstance(one, Choice)]
    return found
