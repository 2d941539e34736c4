"""JupyterLab opens a pair whichever file is newer: the .py's text with the stored outputs."""

import os
import shutil
from pathlib import Path

import jupytext
import pairs
import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def opened(folder: Path, name: str) -> dict:
    """What JupyterLab's server reads for a notebook under the checkout's settings."""
    shutil.copy(CHECKOUT / "pyproject.toml", folder)
    manager = jupytext.TextFileContentsManager()
    manager.root_dir = str(folder)
    return manager.get(name)["content"]


@pytest.mark.parametrize("newer", ["source", "stored"])
def test_a_pair_opens_whichever_file_is_newer(tiny: pairs.Pair, tmp_path: Path, newer: str):
    source, stored = (Path(shutil.copy(path, tmp_path)) for path in tiny)
    text = source.read_text()
    source.write_text(text.replace("half = 1 / 2", "half = 1 / 2\n\n\n").replace("Halves", "Half"))
    for path, age in ((source, newer == "stored"), (stored, newer == "source")):
        os.utime(path, (1e9, 1e9 - 3600 * age))
    cells = opened(tmp_path, stored.name)["cells"]
    assert cells[0]["source"].startswith("# Half\n")
    assert any("ZeroDivisionError" in str(cell.get("outputs")) for cell in cells)


@pytest.mark.parametrize("newer", [0, 1])
@pytest.mark.parametrize("pair", pairs.pairs(), ids=[pair.source.stem for pair in pairs.pairs()])
def test_every_notebook_opens(pair: pairs.Pair, tmp_path: Path, newer: int):
    copies = [Path(shutil.copy(path, tmp_path)) for path in pair if path.exists()]
    os.utime(copies[newer % len(copies)], (2e9, 2e9))
    assert opened(tmp_path, copies[-1].name)["cells"]
