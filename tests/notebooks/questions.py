"""Keep the questions that a notebook shows in step with its exercises.

A cell `turn.name.check(...)` stands below a markdown cell tagged `question`, which is written from
the exercise `name` of the module that the notebook imports as `turn`.
"""

import importlib
import re
import textwrap

from dpkit.course.exercises.sheet import Exercise

WIDTH = 110
TURN = re.compile(r"^from dpkit\.course\.exercises import (\w+) as turn$", re.MULTILINE)
BELOW = re.compile(
    r'(?:^# %% \[markdown\] tags=\["question"\]\n(?:#.*\n)+\n+)?'
    r"(?P<head>^# %%[^\n]*\n(?:(?!# %%)[^\n]*\n)*?)(?P<call>turn\.(?P<name>\w+)\.check\(\.\.\.\))",
    re.MULTILINE,
)


def question(exercise: Exercise) -> str:
    """The markdown cell of an exercise, as it stands in a source."""
    text = f"**Question {exercise.place}.** {exercise.question}"
    lines = textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")
    return "\n".join(['# %% [markdown] tags=["question"]', *lines, "", ""])


def with_questions(text: str) -> str:
    """A source whose questions are those of its exercises."""
    found = TURN.search(text)
    if found is None:
        return text
    turn = importlib.import_module(f"dpkit.course.exercises.{found[1]}")
    return BELOW.sub(
        lambda cell: question(getattr(turn, cell["name"])) + cell["head"] + cell["call"], text
    )
