"""The sheet of exercises of one notebook, and how far a reader has come with it.

An exercise is written as the function that answers it: its docstring is the question, its body is
the solution that a reader may ask for, and what it returns is what an answer is compared with.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpkit.common.lazy import remedied
from dpkit.course.exercises.exercise import Exercise
from dpkit.course.exercises.kinds import Choice, Function, Guess, Number


class Sheet:
    """The exercises of one notebook, in order.

    Attributes:
        notebook: its name, such as "00_start_here".
        exercises: as they were defined.
    """

    def __init__(self, notebook: str) -> None:
        """Begin an empty sheet."""
        self.notebook = notebook
        self.exercises: list[Exercise] = []

    def number(
        self,
        *hints: str,
        because: str = "",
        mistakes: Mapping[str, Callable[[], float]] | None = None,
        tolerance: float = 0.01,
    ) -> Callable[[Callable[[], float]], Number]:
        """Make an exercise of the function that computes the number asked for.

        Args:
            hints: from the first nudge to nearly the answer.
            because: what the right answer means.
            mistakes: what to say of a likely wrong answer -> that answer.
            tolerance: by which part of the right number an answer may miss it.
        """

        def of(reference: Callable[[], float]) -> Number:
            return self._add(Number(reference, hints, because, mistakes or {}, tolerance))

        return of

    def guess(
        self, because: str = "", within: float = 0.2
    ) -> Callable[[Callable[[], float]], Guess]:
        """Make a guess of the function that computes the number, shown to who has guessed.

        Args:
            because: what the number means.
            within: by which part of the number a guess may miss it and be called well guessed.
        """

        def of(reference: Callable[[], float]) -> Guess:
            return self._add(Guess(reference, (), because, tolerance=within))

        return of

    def function(
        self, *hints: str, examples: Sequence[tuple[Any, ...]], because: str = ""
    ) -> Callable[[Callable[..., Any]], Function]:
        """Make an exercise of the function that a reader should write, compared on the examples."""

        def of(reference: Callable[..., Any]) -> Function:
            return self._add(Function(reference, hints, because, examples))

        return of

    def choice(self, question: str, right: str, options: Mapping[str, str], *hints: str) -> Choice:
        """Ask for one of a few sentences.

        Args:
            question: what is asked.
            right: which sentence is right.
            options: sentence -> what to say to one who takes it.
            hints: from the first nudge to nearly the answer.
        """
        return self._add(Choice(question, right, options, hints))

    def _add(self, exercise: Any) -> Any:
        exercise.sheet = self
        self.exercises.append(exercise)
        exercise.place = len(self.exercises)
        return exercise

    @property
    def progress(self) -> str:
        """How many exercises are done, in words."""
        done = sum(exercise.done for exercise in self.exercises)
        return f"{done} of {len(self.exercises)} done"

    def quiz(self) -> Any:
        """All questions with a choice, as radio buttons with feedback.

        Raises:
            ModuleNotFoundError: ipywidgets is not installed.
        """
        with remedied():
            from dpkit.course.exercises.quiz import Quiz

        return Quiz([one for one in self.exercises if isinstance(one, Choice)])
