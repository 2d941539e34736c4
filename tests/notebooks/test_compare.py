"""Outputs are compared for what they say: one changed digit in a stored notebook fails."""

import re
from pathlib import Path

import compare
import pairs
import pytest


def test_a_changed_number_fails(tiny: pairs.Pair, tmp_path: Path):
    text = tiny.stored.read_text()
    (tmp_path / "00_same.ipynb").write_text(text)
    (tmp_path / "01_changed.ipynb").write_text(text.replace("half = 0.500", "half = 0.501"))
    result = compare.compare(tmp_path)
    assert result.returncode == 1, result.stdout
    assert "half = 0.501" in result.stdout
    assert re.search(r"1 failed, 5 passed", result.stdout)


def test_without_notebooks_there_is_nothing_to_compare(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["compare.py", str(tmp_path)])
    assert compare.main() == 0
    assert "nothing to compare" in capsys.readouterr().out


def sanitize(text: str) -> str:
    """The text as nbval compares it."""
    config = compare.SANITIZE.read_text()
    patterns = re.findall(r"^regex: (.*)\nreplace: (.*)$", config, re.MULTILINE)
    assert patterns
    for pattern, replacement in patterns:
        text = re.sub(pattern, replacement, text)
    return text


def test_the_size_of_a_figure_is_not_compared():
    assert sanitize("<Figure size 640x480 with 2 Axes>") == "<Figure size SIZE with 2 Axes>"


@pytest.mark.parametrize(
    "result",
    [
        "epsilon = 9.600 at delta 1e-05",
        "size 640x480",
        "| 87.57 | 88.16 |",
        "Guarantee(epsilon=5.632, lower=0.0)",
        "2 Axes with 3 figures, 00:01 to 00:02",
    ],
)
def test_no_result_hides_behind_a_pattern(result: str):
    assert sanitize(result) == result
