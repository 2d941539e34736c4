"""No notebook holds an answer to its exercises, and each asks them in their own words."""

import ast
import builtins
import importlib
import math
import re
from pathlib import Path

import compare
import labs
import nbformat
import pairs
import pytest
import questions
import students
from execute import texts
from nbformat import NotebookNode

from dpkit.course import exercises
from dpkit.course.exercises.sheet import Choice, Guess, Number, Sheet

PAIRS = pairs.pairs()
SHEETS: dict[str, Sheet] = {}
for file in Path(exercises.__file__).parent.glob("*.py"):
    if "sheet = Sheet(" in file.read_text():
        found = importlib.import_module(f"dpkit.course.exercises.{file.stem}").sheet
        SHEETS[found.notebook] = found
EVERY = pytest.mark.parametrize("pair", PAIRS, ids=[pair.source.stem for pair in PAIRS])
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


@EVERY
def test_no_answer_is_shown(pair: pairs.Pair):
    notebook = students.student(pair.source)
    text = "\n".join(cell.source for cell in notebook.cells)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    assert "Answer</summary>" not in text
    for code in (
        text,
        *(cell.source for _, cell in pairs.code_cells(pairs.read_stored(pair.stored))),
    ):
        assert set(re.findall(r"turn\.\w+\.check\((.*)\)", code)) <= {"..."}
        assert "solution()" not in re.sub(r"`[^`]*`", "", code)


def test_running_the_start_reveals_no_answer():
    """Neither its outputs nor its text hold the right number of any exercise."""
    cells = pairs.read_stored(PAIRS[0].stored).cells
    shown = {
        text
        for c in cells
        for part in (c.source, *(texts(c) if "outputs" in c else ()))
        for text in NUMBER.findall(part)
    }
    numbers = [one for one in SHEETS[PAIRS[0].source.stem].exercises if isinstance(one, Number)]
    assert len(numbers) >= 3
    for one in numbers:
        assert not {f"{one.right:.{digits}g}" for digits in (3, 4, 5)} & shown, one


@EVERY
def test_every_exercise_is_asked_below_its_question(pair: pairs.Pair):
    text = pair.source.read_text(encoding="utf-8")
    assert questions.with_questions(text) == text, "run `make notebooks`"
    sheet = SHEETS[pair.source.stem]
    (module,) = (m for m in vars(exercises).values() if getattr(m, "sheet", None) is sheet)
    for name, one in vars(module).items():
        if one in sheet.exercises and not (isinstance(one, Choice) and "turn.sheet.quiz()" in text):
            assert f"turn.{name}.check(...)" in text, name


@EVERY
def test_a_guess_is_the_number_that_the_notebook_then_computes(pair: pairs.Pair):
    """Some number that is printed agrees with it, as far as it is printed."""
    cells = pairs.read_stored(pair.stored).cells
    for one in SHEETS[pair.source.stem].exercises:
        if isinstance(one, Guess):
            (asked,) = (i for i, cell in enumerate(cells) if one.question in _flat(cell.source))
            told = "\n".join(text for c in cells[asked:] if "outputs" in c for text in texts(c))
            shown = [float(number.replace(",", "")) for number in NUMBER.findall(told)]
            assert any(math.isclose(number, one.right, rel_tol=0.01) for number in shown), one


def _flat(text: str) -> str:
    return " ".join(text.split())


@EVERY
def test_nothing_in_a_notebook_needs_an_answer(pair: pairs.Pair):
    assert undefined(students.student(pair.source)) == set()


def undefined(notebook: NotebookNode) -> set[str]:
    """Names that a cell uses and no cell before it defines."""
    known, missing = set(dir(builtins)) | {"__name__"}, set()
    for _, cell in pairs.code_cells(notebook):
        tree = ast.parse(cell.source)
        known |= defined(tree)
        missing |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - known
    return missing


def defined(tree: ast.Module) -> set[str]:
    """Every name that is bound anywhere in a cell."""
    found = {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    found |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    found |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    found |= {n.name for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler) and n.name}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(one.asname or one.name).split(".")[0] for one in node.names}
    return found


def test_students_notebooks_are_written_without_folds_that_answer(tmp_path, capsys):
    fold = "> <details><summary>{}</summary>{}</details>"
    text = "\n".join(["Why?", fold.format("Hint", "a"), fold.format("Answer", "b\n> c"), "End"])
    left = students.ANSWER.sub("", text)
    assert "Hint" in left
    assert "c</details>" not in left
    assert left.endswith("\nEnd")
    students.main(tmp_path / "students")
    written = sorted((tmp_path / "students").glob("*.ipynb"))
    assert [path.stem for path in written] == [pair.source.stem for pair in PAIRS]
    assert pairs.read_stored(written[0]).cells
    assert f"{len(PAIRS)} notebooks without outputs" in capsys.readouterr().out


LAB = pytest.mark.parametrize("lab", labs.TITLES)


@LAB
def test_a_lab_lasts_80_minutes_and_needs_nothing_else(lab: str):
    parts = labs.parts(lab)
    assert 70 <= sum(part.minutes for part in parts) <= 85
    assert sum(len(part.exercises) for part in parts) >= 4
    assert undefined(labs.lab_of(lab)) == set()


def test_solutions_are_on_the_teachers_page_alone(tmp_path: Path):
    labs.main(tmp_path / "build" / "labs")
    page = (tmp_path / "build" / "labs" / "teacher.md").read_text(encoding="utf-8")
    for lab in labs.TITLES:
        written = pairs.read_stored(tmp_path / "build" / "labs" / f"{lab}.ipynb")
        assert not any(cell.get("outputs") for cell in written.cells)
        assert not any("Answer</summary>" in cell.source for cell in written.cells)
        assert all(one.question in page for part in labs.parts(lab) for one in part.exercises)


@pytest.mark.slow("a lab that fails, or prints other numbers than the notebooks it is taken from")
@LAB
def test_a_lab_prints_what_its_notebooks_print(lab: str, tmp_path: Path):
    nbformat.write(labs.lab_of(lab, outputs=True), tmp_path / f"{lab}.ipynb")
    compared = compare.compare(tmp_path)
    assert compared.returncode == 0, compared.stdout
