"""Every stored notebook is run, tidy and in step with its source; spoilt copies are caught."""

import json

import nbformat
import pairs
import pytest

REAL = pairs.pairs()


@pytest.mark.parametrize("pair", REAL, ids=[pair.source.stem for pair in REAL])
def test_stored_pair(pair: pairs.Pair):
    assert pairs.problems(pair) == []


@pytest.mark.parametrize("pair", REAL, ids=[pair.source.stem for pair in REAL])
def test_stored_pair_prints_numbers_that_are_compared(pair: pairs.Pair):
    """A notebook whose every output is left out of the comparison would pass whatever it prints."""
    left_out = {"nbval-skip", "nbval-ignore-output"}
    compared = [
        output
        for _, cell in pairs.code_cells(pairs.read_stored(pair.stored))
        if not left_out & set(pairs.tags(cell))
        for output in cell.outputs
    ]
    assert any(character.isdigit() for character in json.dumps(compared))


def test_an_executed_pair_has_no_problem(tiny: pairs.Pair):
    assert pairs.problems(tiny) == []


def test_an_unexecuted_notebook_is_caught(copied: pairs.Pair):
    notebook = pairs.read_stored(copied.stored)
    for _, cell in pairs.code_cells(notebook):
        cell.execution_count, cell.outputs = None, []
    nbformat.write(notebook, copied.stored)
    assert any("execution count None, expected 1" in text for text in pairs.problems(copied))
    assert pairs.main([str(copied.stored.parent)]) == 1


def test_cells_run_out_of_order_are_caught(copied: pairs.Pair):
    notebook = pairs.read_stored(copied.stored)
    pairs.code_cells(notebook)[-1][1].execution_count += 1
    nbformat.write(notebook, copied.stored)
    assert any("not run from top to bottom" in text for text in pairs.problems(copied))


def test_a_stored_error_is_caught(tiny: pairs.Pair):
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


def test_half_a_pair_is_caught(copied: pairs.Pair):
    copied.stored.unlink()
    assert "missing" in pairs.problems(copied)[0]


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("%matplotlib inline", "magic"),
        ("!ls", "magic"),
        ("import ipywidgets\nipywidgets.Output()", "Output"),
        ("from ipywidgets import interact", "interact"),
        ("\n".join("x = 1" for _ in range(11)), "11 lines"),
    ],
)
def test_style(code: str, complaint: str):
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Title\n> **Time** 1 s. **Memory** 60 MB."),
            nbformat.v4.new_code_cell(code),
        ]
    )
    found = pairs.style(notebook)
    assert len(found) == 1
    assert complaint in found[0]


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


def test_a_header_without_time_and_memory_is_caught():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Title")])
    assert [text.split("**")[1] for text in pairs.style(notebook)] == ["Time", "Memory"]


def test_stored_widgets_are_caught():
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "x"}
    cell = nbformat.v4.new_code_cell("x")
    cell.outputs = [nbformat.v4.new_output("display_data", data=view)]
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {}})
    assert len(pairs.widget_state(notebook)) == 2
