"""No notebook holds an answer to its exercises, and each asks them in their own words."""

import ast
import builtins
import importlib
import math
import re
from pathlib import Path

import pairs
import pytest
import questions
import students
from execute import texts

from dpkit.course import exercises
from dpkit.course.exercises.sheet import Choice, Guess, Sheet

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
    """Every name that a cell uses is defined in a cell before it."""
    known = set(dir(builtins)) | {"__name__"}
    for _, cell in pairs.code_cells(students.student(pair.source)):
        tree = ast.parse(cell.source)
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        known |= defined(tree)
        assert used <= known, f"{used - known} in:\n{cell.source}"


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
    assert students.main(tmp_path / "students") == 0
    written = sorted((tmp_path / "students").glob("*.ipynb"))
    assert [path.stem for path in written] == [pair.source.stem for pair in PAIRS]
    assert pairs.read_stored(written[0]).cells
    assert f"{len(PAIRS)} notebooks without outputs" in capsys.readouterr().out
