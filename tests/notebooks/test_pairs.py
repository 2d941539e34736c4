"""Every stored notebook is run, tidy and in step with its source; spoilt copies are caught.

JupyterLab opens a pair whichever file is newer: the .py's text with the stored outputs.
"""

import json
import math
import os
import re
import shutil
from pathlib import Path

import jupytext
import labs
import nbformat
import pairs
import pytest

REAL = pairs.pairs()
EVERY = pytest.mark.parametrize("pair", REAL, ids=[pair.source.stem for pair in REAL])
CHECKOUT = Path(__file__).resolve().parents[2]
READ = re.compile(r"(\d+) minutes to read, (\d+) for its exercises")


@EVERY
def test_stored_pair(pair: pairs.Pair):
    """A notebook whose every output is left out of the comparison would pass whatever it prints."""
    assert pairs.problems(pair) == []
    left_out = {"nbval-skip", "nbval-ignore-output"}
    compared = [
        output
        for _, cell in pairs.code_cells(pairs.read_stored(pair.stored))
        if not left_out & set(pairs.tags(cell))
        for output in cell.outputs
    ]
    assert any(character.isdigit() for character in json.dumps(compared))


@EVERY
def test_a_notebook_says_what_one_learns_and_what_comes_next(pair: pairs.Pair):
    first, *_, last = cells = pairs.read_source(pair.source).cells
    goals = first.source.partition("**You will be able to**")[2].partition("- **Time**")[0]
    assert len(re.findall(r"^\d\. \w", goals, re.MULTILINE)) == 3
    assert "- **Needs** " in first.source
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    kept = text.partition("## What to take away")[2].partition("**Next:**")[0]
    assert 1 <= len(re.findall(r"^[-*] ", kept, re.MULTILINE)) <= 5
    after = REAL[(REAL.index(pair) + 1) % len(REAL)].stored.name
    assert last.source.startswith("**Next:** ")
    assert f"]({after})" in last.source or pair == REAL[-1]


def test_the_course_takes_four_hours():
    course = [pairs.read_source(pair.source).cells for pair in REAL if pair.source.name[0] == "0"]
    words = [len(c.source.split()) for cells in course for c in cells if c.cell_type == "markdown"]
    minutes = [int(READ.findall(cells[0].source)[0][0]) for cells in course]
    print(sum(words), sum(minutes))
    assert sum(words) <= 15_000
    assert sum(minutes) <= 240


@EVERY
def test_the_minutes_of_a_header_are_counted(pair: pairs.Pair):
    part = labs.part_of(pair)
    wanted = [str(5 * math.ceil(minutes / 5)) for minutes in (part.reading, part.answering)]
    assert READ.findall(part.cells[0].source) == [tuple(wanted)]


def test_cells_out_of_order_or_not_run_are_caught(copied: pairs.Pair):
    notebook = pairs.read_stored(copied.stored)
    pairs.code_cells(notebook)[-1][1].execution_count += 1
    nbformat.write(notebook, copied.stored)
    assert any("not run from top to bottom" in text for text in pairs.problems(copied))
    for _, cell in pairs.code_cells(notebook):
        cell.execution_count, cell.outputs = None, []
    nbformat.write(notebook, copied.stored)
    assert any("execution count None, expected 1" in text for text in pairs.problems(copied))
    assert pairs.main([str(copied.stored.parent)]) == 1


def test_a_stored_error_is_caught(tiny: pairs.Pair):
    assert pairs.problems(tiny) == []
    notebook = pairs.read_stored(tiny.stored)
    raising = pairs.code_cells(notebook)[1][1]
    assert pairs.unexecuted(notebook) == []  # tagged raises-exception
    raising.metadata.tags.clear()
    assert "stored an error" in pairs.unexecuted(notebook)[0]


@pytest.mark.parametrize("text", ["x = 1\n", "# %% [markdown]\n# One more paragraph.\n"])
def test_a_pair_out_of_step_is_caught(copied: pairs.Pair, text: str, capsys):
    with copied.source.open("a") as source:
        source.write(f"\n{text}")
    assert "differs from" in pairs.problems(copied)[0]
    assert pairs.main([str(copied.stored.parent)]) == 1
    assert "make notebooks" in capsys.readouterr().err
    copied.stored.unlink()  # half a pair
    assert "missing" in pairs.problems(copied)[0]


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        *(("%matplotlib inline", "magic"), ("!ls", "magic")),
        ("import ipywidgets\nipywidgets.Output()", "Output"),
        ("from ipywidgets import interact", "interact"),
        ("\n".join("x = 1" for _ in range(11)), "11 lines"),
    ],
)
def test_style(code: str, complaint: str):
    header = nbformat.v4.new_markdown_cell("# Title\n> **Time** 1 s. **Memory** 60 MB.")
    notebook = nbformat.v4.new_notebook(cells=[header, nbformat.v4.new_code_cell(code)])
    (found,) = pairs.style(notebook)
    assert complaint in found
    header.source = "# Title"
    assert [text.split("**")[1] for text in pairs.style(notebook)[:2]] == ["Time", "Memory"]


@pytest.mark.parametrize(
    ("tag", "comment", "complaint"),
    [
        ("tolerance=0.05", "# tolerance=0.05: chaotic", None),
        ("tolerance=0.05", "", "a comment `# tolerance=0.05: ...` must say why"),
        ("tolerance=0.05", "# tolerance=0.01: chaotic", "must say why"),
        ("tolerance=5", "# tolerance=5: chaotic", "at most 0.5, got 5"),
    ],
)
def test_a_wider_tolerance_gives_its_reason(tag: str, comment: str, complaint: str | None):
    cell = nbformat.v4.new_code_cell(f"x = 1\n{comment}", metadata={"tags": [tag]})
    found = pairs.tolerance_unexplained(cell)
    assert len(found) == (complaint is not None)
    assert complaint is None or complaint in found[0]


def test_stored_widgets_are_caught():
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "x"}
    cell = nbformat.v4.new_code_cell("x")
    cell.outputs = [nbformat.v4.new_output("display_data", data=view)]
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {}})
    assert len(pairs.widget_state(notebook)) == 2


def copies(pair: pairs.Pair, folder: Path) -> pairs.Pair:
    """The pair in a checkout of its own, with this one's settings."""
    shutil.copy(CHECKOUT / "pyproject.toml", folder)
    copied = pairs.pair_of(folder / "notebooks" / "source" / pair.source.name)
    copied.source.parent.mkdir(parents=True)
    for one, other in zip(pair, copied, strict=True):
        shutil.copy(one, other)
    return copied


def opened(folder: Path, pair: pairs.Pair) -> dict:
    """What JupyterLab's server reads for a notebook of a checkout."""
    manager = jupytext.TextFileContentsManager()
    manager.root_dir = str(folder)
    return manager.get(f"notebooks/{pair.stored.name}")["content"]


@pytest.mark.parametrize("newer", ["source", "stored"])
def test_a_pair_opens_whichever_file_is_newer(tiny: pairs.Pair, tmp_path: Path, newer: str):
    source, stored = copied = copies(tiny, tmp_path)
    text = source.read_text()
    source.write_text(text.replace("half = 1 / 2", "half = 1 / 2\n\n\n").replace("Halves", "Half"))
    for path, age in ((source, newer == "stored"), (stored, newer == "source")):
        os.utime(path, (1e9, 1e9 - 3600 * age))
    cells = opened(tmp_path, copied)["cells"]
    assert cells[0]["source"].startswith("# Half\n")
    assert any("ZeroDivisionError" in str(cell.get("outputs")) for cell in cells)


@pytest.mark.parametrize("newer", [0, 1])
@EVERY
def test_every_notebook_opens(pair: pairs.Pair, tmp_path: Path, newer: int):
    copied = copies(pair, tmp_path)
    os.utime(copied[newer], (2e9, 2e9))
    assert opened(tmp_path, copied)["cells"]
