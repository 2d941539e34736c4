"""Outputs are compared for what they say: one changed digit in a stored notebook fails."""

import re
from collections.abc import Callable
from pathlib import Path

import compare
import compare_numbers
import nbformat
import pairs
import pytest
from nbformat import NotebookNode


def tagged(notebook: NotebookNode, tag: str) -> None:
    """The number that is printed off by 2 %, in a cell that allows for some."""
    cell = notebook.cells[1]
    cell.metadata.tags = [tag]
    cell.outputs[0].text = "half = 0.510\n"


def output(text: str) -> Callable[[NotebookNode], None]:
    """Another printed output."""
    return lambda notebook: notebook.cells[1].outputs[0].update(text=text)


MAY = {"same", "last_digits", "tolerated"}
CHANGES: dict[str, Callable[[NotebookNode], object]] = {
    **{"same": lambda notebook: None, "last_digits": output("half = 0.5000000001\n")},
    "tolerated": lambda notebook: tagged(notebook, "tolerance=0.05"),
    **{"changed": output("half = 0.501\n"), "sign": output("half = -0.500\n")},
    "word": output("third = 0.500\n"),
    "vanished": lambda notebook: notebook.cells[1].update(outputs=[]),
    "one_more": output("half = 0.500\nhalf = 0.500\n"),
    "error": lambda notebook: notebook.cells[2].outputs[0].update(evalue="division by one"),
    "result": lambda notebook: notebook.cells[3].outputs[0].data.update({"text/plain": "0.55"}),
    "not_tolerated": lambda notebook: tagged(notebook, "tolerance=0.01"),
    "no_tolerance": lambda notebook: tagged(notebook, "tolerance=wide"),
}


@pytest.mark.parametrize(
    "workers",
    [1, pytest.param(2, marks=pytest.mark.slow("a difference that is lost between processes"))],
)
def test_only_what_is_no_result_may_change(tiny: pairs.Pair, tmp_path: Path, workers: int):
    """One notebook of all changes, for a kernel takes a second to start; and one unchanged."""
    together = pairs.read_stored(tiny.stored)
    together.cells, wanted = [], []
    for name, change in CHANGES.items():
        cells = pairs.read_stored(tiny.stored).cells[1:]
        notebook = NotebookNode(cells=[None, *cells])
        change(notebook)
        stored = pairs.read_stored(tiny.stored).cells[1:]
        if name not in MAY:
            (place,) = [n for n, cell in enumerate(stored) if cell != cells[n]]
            wanted.append(f"changed {len(together.cells) + place}")
        for cell in cells:
            cell.id = f"{name}-{cell.id}"
        together.cells += cells
    nbformat.write(together, tmp_path / "changed.ipynb")
    (tmp_path / "same.ipynb").write_bytes(tiny.stored.read_bytes())
    result = compare.compare(tmp_path, workers=workers)
    failed = re.findall(r"^FAILED .*?(\w+)\.ipynb::Cell (\d+)", result.stdout, re.MULTILINE)
    assert sorted(" ".join(one) for one in failed) == sorted(wanted), result.stdout
    assert "half = 0.501" in result.stdout
    assert re.search(r"1 numbers? within 0\.05, furthest apart 0\.02  changed", result.stdout)


def sanitize(text: str) -> str:
    """The text as nbval compares it."""
    config = compare.SANITIZE.read_text()
    patterns = re.findall(r"^regex: (.*)\nreplace: (.*)$", config, re.MULTILINE)
    assert patterns
    for pattern, replacement in patterns:
        text = re.sub(pattern, replacement, text)
    return text


def test_the_size_of_a_figure_is_not_compared_and_no_result_hides_behind_a_pattern():
    assert sanitize("<Figure size 640x480 with 2 Axes>") == "<Figure size SIZE with 2 Axes>"
    results = (
        "epsilon = 9.600 at delta 1e-05, size 640x480",
        "| 87.57 | 88.16 | Guarantee(epsilon=5.632, lower=0.0)",
        "2 Axes with 3 figures, 00:01 to 00:02",
    )
    assert tuple(map(sanitize, results)) == results


@pytest.mark.parametrize(
    ("message", "fail", "calls"),
    [
        ("Kernel died before replying to kernel_info", 1, 2),
        ("Kernel died before replying to kernel_info", 9, compare_numbers.STARTS),
        ("Kernel didn't respond in 60 seconds", 9, 1),
    ],
)
def test_second_chances(message: str, fail: int, calls: int, monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []

    def start(name: str) -> str:
        seen.append(name)
        if len(seen) <= fail:
            raise RuntimeError(message)
        return "a kernel"

    monkeypatch.setattr(compare_numbers, "start_once", start)
    if fail < compare_numbers.STARTS and calls > 1:
        assert compare_numbers.start_new_kernel("python3") == "a kernel"
    else:
        with pytest.raises(RuntimeError, match="Kernel di"):
            compare_numbers.start_new_kernel("python3")
    assert len(seen) == calls
