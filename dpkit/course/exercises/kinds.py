"""The kinds of exercises: a number, a guess, a function to write, a choice."""

import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from dpkit.course.exercises.answers import readings
from dpkit.course.exercises.exercise import Exercise, Judgement, asked, source

LETTERS = "abcdefgh"


class Number(Exercise):
    """A number to compute."""

    def __init__(
        self,
        reference: Callable[[], float],
        hints: Sequence[str],
        because: str = "",
        mistakes: Mapping[str, Callable[[], float]] | None = None,
        tolerance: float = 0.01,
    ) -> None:
        """Ask what `reference` computes; see `Sheet.number`."""
        super().__init__(asked(reference), hints, because)
        self.reference = reference
        self.mistakes = mistakes or {}
        self.tolerance = tolerance

    @cached_property
    def right(self) -> float:
        """The number asked for."""
        return float(self.reference())

    def near(self, number: float, right: float) -> bool:
        """Whether a number is as good as the right one."""
        return math.isclose(number, right, rel_tol=self.tolerance, abs_tol=1e-12)

    def judge(self, answer: Any) -> Judgement:
        """Right within the tolerance; a likely mistake is named."""
        try:
            number, *others = readings(answer)
        except ValueError as error:
            return Judgement(False, f"{error}")
        if any(self.near(one, self.right) for one in (number, *others)):
            return Judgement(True, f"Right: {self.right:.4g}. {self.because}".strip())
        for said, mistaken in self.mistakes.items():
            for one in (number, *others):
                if self.near(one, mistaken()):
                    return Judgement(False, f"Not {one:.4g}: {said}")
        return Judgement(False, f"Not {number:.4g}: too {_side(number, self.right)}.")

    def solved(self) -> str:
        """The reference's code, its number and what it means."""
        code = source(self.reference, header=False)
        return f"{code}\nThis is {self.right:.4g}. {self.because}".strip()


class Guess(Number):
    """A number to guess before it is shown; every number counts, and a near one is praised."""

    def judge(self, answer: Any) -> Judgement:
        """The true number beside the guess."""
        try:
            number = min(readings(answer), key=lambda one: abs(one - self.right))
        except ValueError as error:
            return Judgement(False, f"{error}")
        near = "Well guessed" if self.near(number, self.right) else "You guessed"
        text = f"{near}: {number:.4g}. It is {self.right:.4g}. {self.because}"
        return Judgement(True, text.strip())


class Function(Exercise):
    """A function to write, compared with the reference on examples."""

    def __init__(
        self,
        reference: Callable[..., Any],
        hints: Sequence[str],
        because: str,
        examples: Sequence[tuple[Any, ...]],
    ) -> None:
        """Ask for what `reference` does; see `Sheet.function`."""
        super().__init__(asked(reference), hints, because)
        self.reference = reference
        self.examples = examples

    def judge(self, answer: Any) -> Judgement:
        """Right if it agrees on all examples; else the first that it misses."""
        if not callable(answer):
            return Judgement(False, f"A function is asked for, without brackets; got {answer!r}.")
        for example in self.examples:
            shown = ", ".join(map(_short, example))
            try:
                got = np.asarray(answer(*copy.deepcopy(example)), dtype=float)
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                return Judgement(False, f"Your function raised {what}, for {shown}.")
            wanted = np.asarray(self.reference(*copy.deepcopy(example)), dtype=float)
            if got.shape != wanted.shape:
                what = f"has the shape {got.shape}, not {wanted.shape}"
                return Judgement(False, f"Not yet: for {shown} the result {what}.")
            if not np.allclose(got, wanted, rtol=1e-6, atol=1e-9):
                what = f"{_short(got)}, not {_short(wanted)}"
                return Judgement(False, f"Not yet: for {shown} the result is {what}.")
        return Judgement(True, f"Right, on {len(self.examples)} examples. {self.because}".strip())

    def solved(self) -> str:
        """The reference's code and what it means."""
        return f"{source(self.reference, header=True)}\n{self.because}".strip()


class Choice(Exercise):
    """One of a few sentences; each has its own reply."""

    def __init__(
        self, question: str, right: str, options: Mapping[str, str], hints: Sequence[str]
    ) -> None:
        """Ask which of the options is right; see `Sheet.choice`.

        Raises:
            ValueError: the right sentence is none of the options.
        """
        if right not in options:
            raise ValueError(f"right must be one of the options, got {right!r}")
        super().__init__(question, hints, options[right])
        self.right = right
        self.options = {option: options[option] for option in sorted(options, key=_mixed)}

    @property
    def letters(self) -> dict[str, str]:
        """Letter -> option."""
        return dict(zip(LETTERS, self.options, strict=False))

    def judge(self, answer: Any) -> Judgement:
        """By its letter or its words."""
        said = str(answer).strip().strip("().").casefold()
        if lettered := re.match(rf"([{LETTERS}])\)\s", said):  # a line that was copied
            said = lettered[1]
        known = {**self.letters, **{one.rstrip(".").casefold(): one for one in self.options}}
        if said not in known:
            return Judgement(False, f"Answer with a letter, one of {', '.join(self.letters)}.")
        taken = known[said]
        right = taken == self.right
        return Judgement(right, f"{'Right' if right else 'No'}. {self.options[taken]}")

    def solved(self) -> str:
        """The right letter, the sentence and why."""
        (letter,) = (letter for letter, option in self.letters.items() if option == self.right)
        return f"({letter}) {self.right} {self.because}"

    def __repr__(self) -> str:
        options = (f"   ({letter}) {option}" for letter, option in self.letters.items())
        return "\n".join([super().__repr__(), *options])


def _mixed(option: str) -> str:
    """A key that puts options into an order that says nothing, and is always the same."""
    return sha256(option.encode()).hexdigest()


def _side(number: float, right: float) -> str:
    return "large" if number > right else "small"


def _short(value: Any) -> str:
    if callable(value):
        return getattr(value, "__name__", "a function")
    return np.array2string(np.asarray(value), precision=4, separator=", ", threshold=20)
