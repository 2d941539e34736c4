"""Students' notebooks hold no solution, and run without one; teachers' answer every exercise."""

import ast
import builtins
import importlib
import re
from pathlib import Path

import pairs
import pytest
import students

from dpkit.course import exercises
from dpkit.course.exercises.sheet import Sheet

PAIRS = pairs.pairs()
SHEETS: dict[str, Sheet] = {}
for file in Path(exercises.__file__).parent.glob("*.py"):
    if "sheet = Sheet(" in file.read_text():
        found = importlib.import_module(f"dpkit.course.exercises.{file.stem}").sheet
        SHEETS[found.notebook] = found
EVERY = pytest.mark.parametrize("pair", PAIRS, ids=[pair.source.stem for pair in PAIRS])
RIGHT = re.compile(r"^(Right|Well guessed|You guessed)\b", re.MULTILINE)


def solutions(pair: pairs.Pair):
    return [cell for cell in pairs.read_source(pair.source).cells if "solution" in pairs.tags(cell)]


@EVERY
def test_no_solution_is_left(pair: pairs.Pair):
    notebook = students.student(pair.source)
    text = "\n".join(cell.source for cell in notebook.cells)
    for cell in solutions(pair):
        answers = [line for line in cell.source.splitlines() if ".check(" in line]
        assert cell.source not in text
        assert all(line not in text for line in answers)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    assert "Answer</summary>" not in text
    asked = re.findall(r"turn\.\w+\.check\((.*)\)", text)
    assert asked
    assert set(asked) == {"..."}


@EVERY
def test_every_exercise_is_asked_and_has_a_solution_that_is_right(pair: pairs.Pair):
    sheet = SHEETS[pair.source.stem]
    notebook = pairs.read_stored(pair.stored)
    told = "\n".join(
        output.get("text", "")
        for _, cell in pairs.code_cells(notebook)
        for output in cell.outputs
        if "solution" in pairs.tags(cell)
    )
    assert len(RIGHT.findall(told)) == len(sheet.exercises)
    count = len(sheet.exercises)
    assert f"({count} of {count} done)" in told
    shown = "\n".join(cell.source for cell in students.student(pair.source).cells)
    (module,) = (m for m in vars(exercises).values() if getattr(m, "sheet", None) is sheet)
    names = [name for name, one in vars(module).items() if one in sheet.exercises]
    quiz = "turn.sheet.quiz()" in shown
    for name in names:
        choice = type(getattr(module, name)).__name__ == "Choice"
        assert f"turn.{name}.check(...)" in shown or (choice and quiz), name


@EVERY
def test_nothing_in_a_students_notebook_needs_a_solution(pair: pairs.Pair):
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
    assert f"{len(PAIRS)} notebooks without solutions" in capsys.readouterr().out
