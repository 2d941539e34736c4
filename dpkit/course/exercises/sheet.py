"""The exercises of one notebook, and a reader's progress through them.

An exercise checks an answer, gives hints one by one, and shows its solution. It is written as a
function: the docstring is the question, the body the solution, the returned value the answer.
"""

import ast
import copy
import inspect
import math
import re
import reprlib
import textwrap
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from html import escape
from typing import Any, NamedTuple

import numpy as np

from dpkit.common.lazy import remedied
from dpkit.common.show import short

LETTERS = "abcdefgh"
WIDTH = 100  # characters of a reply's line
THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
EITHER = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")  # thousands, or three decimals
WITHOUT_END = {"none", "infinity", "infinite", "no finite epsilon", "\N{INFINITY}"}


class Judgement(NamedTuple):
    """The reply to an answer, and its correctness."""

    right: bool
    text: str

    @property
    def html(self) -> str:
        """The reply as HTML."""
        return in_html(self.text)


class Exercise:
    """A question of a notebook.

    Attributes:
        question: in words.
        hints: from the first nudge to nearly the answer.
        because: the meaning of the right answer.
        done: whether it was answered.
    """

    sheet: "Sheet"
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
    def solution(self) -> None:
        """Print the solution."""

    def check(self, answer: Any = ...) -> None:
        """Print the verdict on the answer, and the sheet's progress."""
        told = answer.strip().strip(".") if isinstance(answer, str) else answer
        empty = isinstance(told, str | list | tuple | dict | set) and not told
        if empty or told is None or told is ...:
            ways = "hint(1) gives a hint, " if self.hints else ""
            what = f"Not answered yet: replace the dots; {ways}solution() gives the answer."
            print(f"{what} ({self.sheet.progress})")
            return
        found = self.judge(answer)
        self.done |= found.right
        print(textwrap.fill(f"{found.text} ({self.sheet.progress})", WIDTH))

    def hint(self, number: Any = 1) -> None:
        """Print a hint, or which there are."""
        count = len(self.hints)
        if not count:
            print("There is no hint here: any guess will do.")
        elif number not in range(1, count + 1):
            there = "hint(1)" if count == 1 else f"hint(1) to hint({count})"
            print(f"There is no hint {number!r}: ask for {there}.")
        else:
            print(f"Hint {number} of {count}: {self.hints[int(number) - 1]}")

    def __repr__(self) -> str:
        return textwrap.fill(f"{self.place}. {self.question}", WIDTH)

    def _repr_html_(self) -> str:
        return f"<p><b>{self.place}.</b> {in_html(self.question)}</p>"


class Number(Exercise):
    """A number to compute."""

    def __init__(
        self,
        reference: Callable[[], float],
        hints: Sequence[str],
        because: str,
        mistakes: Mapping[str, Callable[[], float]],
        tolerance: float,
    ) -> None:
        """Ask for the value of `reference`; see `Sheet.number`."""
        super().__init__(asked(reference), hints, because)
        self.reference = reference
        self.mistakes = mistakes
        self.tolerance = tolerance

    @cached_property
    def right(self) -> float:
        """The number asked for."""
        return float(self.reference())

    def near(self, number: float, right: float) -> bool:
        """Return True for a number as good as the right one."""
        return math.isclose(number, right, rel_tol=self.tolerance, abs_tol=1e-12)

    def judge(self, answer: Any) -> Judgement:
        """Accept within the tolerance; name a likely mistake."""
        try:
            numbers = readings(answer)
        except ValueError as error:
            return Judgement(False, f"{error}")
        if any(self.near(one, self.right) for one in numbers):
            return Judgement(True, f"Right: {short(self.right, 4)}. {self.because}".strip())
        for said, mistaken in self.mistakes.items():
            for one in numbers:
                if self.near(one, mistaken()):
                    return Judgement(False, f"Not {short(one, 4)}: {said}")
        if math.isinf(numbers[0]):
            return Judgement(False, "Not none: the right number is finite.")
        side = "large" if numbers[0] > self.right else "small"
        return Judgement(False, f"Not {short(numbers[0], 4)}: too {side}.")

    def solution(self) -> None:
        """Print the reference's code, its number and its meaning."""
        code = source(self.reference, header=False)
        print(f"{code}\nThis is {short(self.right, 4)}. {self.because}".strip())


class Guess(Number):
    """A number to guess before it is shown; every number counts, and a near one is praised."""

    def judge(self, answer: Any) -> Judgement:
        """The true number beside the guess."""
        try:
            number = min(readings(answer), key=lambda one: abs(one - self.right))
        except ValueError as error:
            return Judgement(False, f"{error}")
        near = "Well guessed" if self.near(number, self.right) else "You guessed"
        text = f"{near}: {short(number, 4)}. It is {short(self.right, 4)}. {self.because}"
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
        """Ask for a function like `reference`; see `Sheet.function`."""
        super().__init__(asked(reference), hints, because)
        self.reference = reference
        self.examples = examples

    def judge(self, answer: Any) -> Judgement:
        """Compare on all examples; name the first that it misses."""
        if not callable(answer):
            return Judgement(
                False,
                f"A function is asked for, without brackets; got {reprlib.repr(answer)}.",
            )
        for example in self.examples:
            shown = ", ".join(map(_short, example))
            try:
                got = np.asarray(answer(*copy.deepcopy(example)), dtype=float)
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                return Judgement(False, f"Your function raised {what}, for {shown}.")
            wanted = np.asarray(self.reference(*copy.deepcopy(example)), dtype=float)
            if got.shape != wanted.shape:
                what = f"yours gives the shape {got.shape}, right is {wanted.shape}"
                return Judgement(False, f"Not yet: for {shown} {what}.")
            if not np.allclose(got, wanted, rtol=1e-6, atol=1e-9):
                digits = 4 if _short(got) != _short(wanted) else 12
                mine, ours = _short(got, digits), _short(wanted, digits)
                what = f"yours gives {mine}, right is {ours}"
                return Judgement(False, f"Not yet: for {shown} {what}.")
        return Judgement(
            True, f"Right, on {len(self.examples)} examples. {self.because}".strip()
        )

    def solution(self) -> None:
        """Print the reference's code and its meaning."""
        print(f"{source(self.reference, header=True)}\n{self.because}".strip())


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
        # in an order that says nothing, and is always the same
        mixed = sorted(options, key=lambda option: sha256(option.encode()).hexdigest())
        self.options = {option: options[option] for option in mixed}
        self.letters = dict(zip(LETTERS, mixed, strict=False))  # letter -> option

    def judge(self, answer: Any) -> Judgement:
        """Judge by its letter or its words."""
        said = str(answer).strip().strip("().").casefold()
        if lettered := re.match(rf"([{LETTERS}])\)\s", said):  # a line that was copied
            said = lettered[1]
        known = {**self.letters, **{one.rstrip(".").casefold(): one for one in self.options}}
        if said not in known:
            return Judgement(False, f"Answer with a letter, one of {', '.join(self.letters)}.")
        taken = known[said]
        right = taken == self.right
        return Judgement(right, f"{'Right' if right else 'No'}. {self.options[taken]}")

    def solution(self) -> None:
        """Print the right letter, the sentence and the reason."""
        (letter,) = (letter for letter, option in self.letters.items() if option == self.right)
        print(f"({letter}) {self.right} {self.because}")

    def __repr__(self) -> str:
        options = (f"   ({letter}) {option}" for letter, option in self.letters.items())
        return "\n".join([super().__repr__(), *options])


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
            because: the meaning of the right answer.
            mistakes: reply -> the likely wrong answer that gets it.
            tolerance: relative, of an answer.
        """
        given = hints, because, mistakes or {}, tolerance
        return lambda reference: self._add(Number(reference, *given))

    def guess(
        self, because: str = "", within: float = 0.2
    ) -> Callable[[Callable[[], float]], Guess]:
        """Make a guess of the function that computes the number, shown once a reader has guessed.

        Args:
            because: the number's meaning.
            within: relative error up to which a guess is called well guessed.
        """
        return lambda reference: self._add(Guess(reference, (), because, {}, within))

    def function(
        self, *hints: str, examples: Sequence[tuple[Any, ...]], because: str = ""
    ) -> Callable[[Callable[..., Any]], Function]:
        """Make an exercise of the function that a reader should write, compared on the examples."""
        return lambda reference: self._add(Function(reference, hints, because, examples))

    def choice(
        self, question: str, right: str, options: Mapping[str, str], *hints: str
    ) -> Choice:
        """Ask for one of a few sentences.

        Args:
            question: in words.
            right: the right sentence.
            options: sentence -> the reply to a reader who takes it.
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
        """The number of exercises done, in words."""
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


def in_html(text: str) -> str:
    """Return the text as HTML: lines are kept, and words in backticks are code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text)).replace("\n", "<br>")


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


def as_number(answer: Any) -> float:
    """Read a number: of Python, NumPy or torch, of a Guarantee, or of text.

    Text may have thousands separators ("1,108"), a decimal comma ("0,87") or a per cent sign
    ("10.5 %" is 0.105); "none" is an infinite epsilon.

    Raises:
        ValueError: not a number, or NaN.
    """
    value = getattr(answer, "epsilon", answer)
    if isinstance(value, str):
        value = _read(value)
    try:
        number = float(value.item() if hasattr(value, "item") else value)
    except OverflowError:
        raise ValueError("That number is too large: the largest is about 1.8e308.") from None
    except (TypeError, ValueError, RuntimeError):
        number = None
    if number is None or isinstance(value, bool):
        raise ValueError(f"A number is asked for, got {reprlib.repr(answer)}.")
    if math.isnan(number):
        raise ValueError("A number is asked for, got nan.")
    return number


def readings(answer: Any) -> tuple[float, ...]:
    """The readings of an answer: "1,108" is 1108 or, with a decimal comma, 1.108.

    Raises:
        ValueError: as `as_number`.
    """
    number = as_number(answer)
    if isinstance(answer, str) and EITHER.fullmatch(answer.strip()):
        return number, as_number(answer.replace(",", "."))
    return (number,)


def _read(text: str) -> Any:
    text = text.strip().casefold().replace("_", "").replace("\N{MINUS SIGN}", "-")
    if text in WITHOUT_END:
        return math.inf
    if text.endswith("%"):
        return float(_read(text.removesuffix("%"))) / 100
    return text.replace(",", "" if THOUSANDS.fullmatch(text) else ".")


def _short(value: Any, digits: int = 4) -> str:
    if callable(value):
        return getattr(value, "__name__", "a function")
    return np.array2string(np.asarray(value), precision=digits, separator=", ", threshold=20)
