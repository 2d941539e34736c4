"""The runner: the same bytes every time, all or nothing, and nothing of this machine stored."""

import json
from pathlib import Path

import execute
import pairs
import pytest
from nbformat.v4 import new_notebook

CHECKOUT = str(execute.CHECKOUT)


def source(folder: Path, code: str) -> Path:
    path = folder / "source" / "00_case.py"
    path.parent.mkdir()
    path.write_text(f"# %% [markdown]\n# # Case\n\n# %%\n{code}\n")
    return path


def test_running_again_gives_the_same_bytes(tiny: pairs.Pair):
    before = tiny.stored.read_bytes()
    tiny.stored.unlink()
    execute.execute(tiny.source)
    assert tiny.stored.read_bytes() == before
    at = tiny.stored.stat().st_mtime_ns
    assert not execute.write(pairs.read_stored(tiny.stored), tiny.stored)
    assert tiny.stored.stat().st_mtime_ns == at  # what is unchanged is left alone


def test_what_is_stored(tiny: pairs.Pair):
    stored = json.loads(tiny.stored.read_text())
    assert [cell["id"] for cell in stored["cells"]] == ["c000", "c001", "c002", "c003"]
    assert stored["metadata"]["kernelspec"] == execute.KERNELSPEC
    assert "version" not in stored["metadata"]["language_info"]
    assert stored["cells"][1]["outputs"][0]["text"] == ["half = 0.500\n"]
    assert stored["cells"][2]["metadata"] == {"tags": ["raises-exception"]}
    assert stored["cells"][2]["outputs"][0]["traceback"] == ["ZeroDivisionError: division by zero"]
    assert list(tiny.stored.parent.glob(".*")) == []


def test_the_kernel_is_this_interpreter_without_real_data(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("DPKIT_DATA", str(tmp_path))
    code = "import os, sys\nprint(hash(sys.prefix), os.environ.get('DPKIT_DATA'), end='')"
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    ran = execute.run(source(tmp_path, code + "\nprint(os.getcwd() == sys.argv[0])"))
    assert " None" in pairs.code_cells(ran.notebook)[0][1].outputs[0].text
    assert ran.peak_megabytes is None or ran.peak_megabytes > 20


def test_a_failing_cell_is_named_and_nothing_is_written(tmp_path: Path):
    path = source(tmp_path, "first = 1\n\n# %%\nfirst / 0\n\n# %%\nfirst")
    with pytest.raises(execute.Unstorable, match=r"(?s)cell 2\n.*first / 0.*ZeroDivisionError"):
        execute.execute(path)
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == [path]


OF_THIS_MACHINE = {
    f"import sys; sys.path[:0] = [{CHECKOUT!r}]; import dpkit; print(dpkit.__file__)": (
        "the checkout's path"
    ),
    "from pathlib import Path; Path.home() / 'x'": "the home folder",
    "object()": "a memory address",
    "import warnings; warnings.warn('careful')": "a process id",
    "print('10%|# | 1/10 [00:01<00:09, 1.1it/s]')": "a progress bar",
}


def test_outputs_of_this_machine_are_refused(tmp_path: Path, monkeypatch):
    path = source(tmp_path, "\n\n# %%\n".join(OF_THIS_MACHINE))
    refuse, ran = execute.refuse_volatile, []
    monkeypatch.setattr(execute, "refuse_volatile", lambda one: ran.append(one) or refuse(one))
    with pytest.raises(execute.Unstorable, match="cell 1 prints the checkout's path"):
        execute.execute(path)
    assert not pairs.pair_of(path).stored.exists()
    cells = [cell for _, cell in pairs.code_cells(ran[0])]
    for cell, complaint in zip(cells, OF_THIS_MACHINE.values(), strict=True):
        with pytest.raises(execute.Unstorable, match=f"cell 0 prints {complaint}"):
            refuse(new_notebook(cells=[cell]))
