"""Every exercise: nothing, right, right in other words, wrong; hints, solution and progress."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

from dpkit.course import exercises
from dpkit.course.exercises.sheet import Choice, Function, Guess, Sheet, as_number, readings
from dpkit.privacy import Gaussian, Release, pld

MODULES = sorted(
    path.stem
    for path in Path(exercises.__file__).parent.glob("*.py")
    if "sheet = Sheet(" in path.read_text()
)
SHEETS: list[Sheet] = [
    importlib.import_module(f"dpkit.course.exercises.{name}").sheet for name in MODULES
]
ALL = [(sheet, one) for sheet in SHEETS for one in sheet.exercises]
IDS = [f"{sheet.notebook}-{one.place}" for sheet, one in ALL]
EVERY = pytest.mark.parametrize(("sheet", "one"), ALL, ids=IDS)


@pytest.fixture(autouse=True)
def nothing_done():
    for _, one in ALL:
        one.done = False


def test_every_notebook_has_three_to_six_exercises():
    notebooks = {p.stem for p in (Path(__file__).parents[3] / "notebooks/source").glob("*.py")}
    assert {sheet.notebook for sheet in SHEETS} == notebooks
    assert all(3 <= len(sheet.exercises) <= 6 for sheet in SHEETS)


@EVERY
def test_an_empty_answer_is_not_wrong_but_asked_for(sheet, one, capsys):
    for empty in (..., None, "", "  ", "...", [], ()):
        one.check(empty)
        said = capsys.readouterr().out
        assert "Not answered yet" in said, empty
        assert f"(0 of {len(sheet.exercises)} done)" in said
    assert all(len(line) <= 110 for line in repr(one).splitlines())  # it fits on a screen
    assert one.question[0].isupper() or one.question[0] in "'`6"


def right_answers(one):
    """The right answer, written in several ways."""
    if isinstance(one, Choice):
        (letter,) = (letter for letter, option in one.letters.items() if option == one.right)
        written = [letter, letter.upper(), f" ({letter}) ", f"({letter}) {one.right}"]
        return [*written, one.right, one.right.rstrip(".").upper()]
    if isinstance(one, Function):
        return [one.reference, lambda *given: np.asarray(one.reference(*given)).tolist()]
    if math.isinf(one.right):
        return [math.inf, "inf", "none", np.inf, "No finite epsilon"]
    ways = [one.right, str(one.right), np.float64(one.right), np.array(one.right)]
    return [*ways, f"{100 * one.right!r} %", f" {one.right!r} ".replace(".", ",")]


@EVERY
def test_the_right_answer_is_right_however_it_is_written(sheet, one, capsys):
    for answer in right_answers(one):
        one.check(answer)
        assert capsys.readouterr().out.startswith(("Right", "Well guessed")), answer
    one.check("no such answer")
    assert one.done  # it stays
    assert sheet.progress == f"1 of {len(sheet.exercises)} done"


def wrong_answers(one):
    words = ["I do not know", True, math.nan, "nan", {"a": 1}, [1.0, 2.0], 10**400, 1j, object()]
    if isinstance(one, Choice):
        return ["z", 7, *(option for option in one.options if option != one.right)]
    if isinstance(one, Function):
        constant = float(np.sum(one.reference(*one.examples[0])))
        return [7, "f", lambda *_: constant, lambda *_: None, lambda: 0, lambda *_: 1 / 0]
    if isinstance(one, Guess):
        return words
    return [*words, 1.1 * one.right + 0.1 if math.isfinite(one.right) else 9.6, -3]


@EVERY
def test_a_wrong_answer_is_refused_with_a_sentence(sheet, one, capsys):
    for answer in wrong_answers(one):
        one.check(answer)
        said = capsys.readouterr().out
        assert not said.startswith(("Right", "Well guessed", "You guessed")), answer
        assert len(said.split()) >= 4
    for said, mistaken in getattr(one, "mistakes", {}).items():  # a likely one is named
        assert not one.near(mistaken(), one.right)
        one.check(mistaken())
        assert said in " ".join(capsys.readouterr().out.split())
    assert not one.done


@EVERY
def test_hints_and_solution_are_shown_when_asked_for(sheet, one, capsys):
    for number in range(1, len(one.hints) + 1):
        one.hint(number)
        assert capsys.readouterr().out.startswith(f"Hint {number} of {len(one.hints)}: ")
    for odd in (len(one.hints) + 1, 0, "first", None, 1.5, [1]):
        one.hint(odd)
        assert "There is no hint" in capsys.readouterr().out
    assert one.hints or isinstance(one, Guess)
    one.solution()
    said = capsys.readouterr().out
    assert (one.because if one.because else "This is") in said
    assert '"""' not in said  # the question is not repeated


def test_a_guess_is_well_guessed_within_what_its_author_allows():
    def ten() -> float:
        """Which number?"""
        return 10.0

    for within, well, far in (
        *(({}, (8.1, 11.9), (7.9, 12.6)), ({"within": 0.05}, (9.6, 10.4), (8.1, 11.9))),
    ):
        one = Sheet("99").guess("Ten.", **within)(ten)
        assert all(one.judge(near).text.startswith("Well guessed: ") for near in well)
        assert all(one.judge(other).text.startswith("You guessed: ") for other in far)


def test_exercises_are_in_the_order_in_which_their_notebook_asks_them():
    notebooks = Path(__file__).parents[3] / "notebooks/source"
    for name, sheet in zip(MODULES, SHEETS, strict=True):
        module = importlib.import_module(f"dpkit.course.exercises.{name}")
        held, kind = vars(module), exercises.sheet.Exercise
        names = {one: called for called, one in held.items() if isinstance(one, kind)}
        asked = [names[one] for one in sheet.exercises if not isinstance(one, Choice)]
        text = (notebooks / f"{sheet.notebook}.py").read_text()
        places = [text.index(f"turn.{one}.check(...)") for one in asked]
        assert places == sorted(places), sheet.notebook


def test_a_function_may_not_pass_by_changing_its_input():
    one = next(o for s, o in ALL if s.notebook == "03_dp_cgan" and isinstance(o, Function))

    def careless(gradients, bound):
        gradients *= 0
        return gradients.sum(0)

    assert one.judge(careless).right is False
    assert one.judge(one.reference).right is True


@pytest.mark.parametrize(
    ("written", "number"),
    [
        *(("1,108", 1108.0), ("0,87", 0.87), ("0,027", 0.027), ("-0,250", -0.25)),
        *(("-1,234,567.5", -1234567.5), ("12.5 %", 0.125), ("\N{MINUS SIGN}3", -3.0)),
        *(("1e-5", 1e-5), ("10_000", 10000.0), ("None", math.inf), (np.int64(7), 7.0)),
    ],
)
def test_numbers_as_people_write_them(written, number):
    assert as_number(written) == pytest.approx(number, rel=1e-15)


def test_three_decimals_after_a_comma_are_no_thousands_where_that_is_right():
    assert readings("8,789") == (8789.0, 8.789)
    assert readings("1,234,567") == (1234567.0,)

    @Sheet("made up").number()
    def exercise():
        """Which number?"""
        return 8.789

    judged = [exercise.judge(answer).right for answer in ("8,789", "8.789", "87,890")]
    assert judged == [True, True, False]


def test_a_guarantee_is_a_number_and_a_tensor_is():
    spent = pld.epsilon([Release(Gaussian(2.0))], delta=1e-5)
    assert as_number(spent) == spent.epsilon
    assert as_number(pytest.importorskip("torch").tensor(2.5)) == 2.5


def test_a_choice_needs_its_answer_among_the_options():
    with pytest.raises(ValueError, match="right must be one of the options"):
        Sheet("99").choice("?", "c", {"a": "", "b": ""})


def test_the_quiz_replies_to_each_button_and_counts():
    pytest.importorskip("ipywidgets")
    sheet = next(sheet for sheet in SHEETS if sheet.notebook == "22_theorems_that_mislead")
    quiz = sheet.quiz()
    assert quiz.progress.value == "<p><b>0 of 1 right</b></p>"
    question, buttons, reply = quiz.questions[0], quiz.buttons[0], quiz.replies[0]
    wrong = next(option for option in question.options if option != question.right)
    buttons.value = wrong
    assert "No. " in reply.value
    assert not question.done
    buttons.value = question.right
    assert "Right. " in reply.value
    assert quiz.progress.value == "<p><b>1 of 1 right</b></p>"
    static = quiz._repr_mimebundle_()
    assert all(option in static["text/plain"] for option in question.options)
    assert question.because not in static["text/html"]
