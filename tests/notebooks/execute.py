"""Run notebooks from their .py sources and write the executed .ipynb, the same bytes every time.

`python tests/notebooks/execute.py [source.py ...]` runs all of notebooks/source/ where none is
named, and brings their questions in step with the exercises first. A
notebook is written only if all of it ran and nothing in it depends on where or when it ran.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from pairs import SOURCES, code_cells, pair_of, read_source
from questions import with_questions

CHECKOUT = Path(__file__).resolve().parents[2]
CELL_TIMEOUT = 300  # seconds
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
# Without the interpreter's version, which would change the file on every other machine.
LANGUAGE = {"file_extension": ".py", "mimetype": "text/x-python"}
LANGUAGE |= {"name": "python", "pygments_lexer": "ipython3"}
# Tag of a cell -> what of it is folded until a reader opens it: what follows a guess, and plumbing.
HIDDEN = {"guessed": ("outputs",), "hide-input": ("source",)}
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
VOLATILE = {
    "a memory address": re.compile(r"\bat 0x[0-9a-f]{6,}"),
    "a process id (a warning's place?)": re.compile(r"ipykernel_\d+"),
    "a progress bar's rate (tqdm.auto shows a widget instead)": re.compile(r"\d\d:\d\d<\d\d:\d\d"),
}


class Unstorable(ValueError):
    """A notebook that did not run, or whose outputs would differ elsewhere."""


class Ran(NamedTuple):
    """One executed notebook: what to store, and what running it took."""

    notebook: NotebookNode
    seconds: float  # wall time, the kernel's start included
    peak_megabytes: float | None  # the kernel's largest resident set; None where it is not known


def run(source: Path) -> Ran:
    """Execute one source in the folder of its stored copy; the kernel is this interpreter.

    Raises:
        Unstorable: a cell failed, which the message shows, or an output is not reproducible.
    """
    notebook = read_source(source)
    for index, cell in enumerate(notebook.cells):
        cell.id = f"c{index:03d}"
    peak: list[float] = []
    began = time.monotonic()
    try:
        client = new_client(notebook, pair_of(source).stored.parent)
        client.on_cell_executed = lambda **_: peak.append(peak_memory(client))
        with tempfile.TemporaryDirectory(prefix="ipython-") as profile:
            client.execute(env=kernel_environment(profile))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        started = [i for i, cell in code_cells(notebook) if cell.execution_count is not None]
        where = f"cell {started[-1]}" if started else "before the first cell"
        raise Unstorable(f"{where}\n{type(error).__name__}: {error}") from error
    seconds = time.monotonic() - began
    notebook = cleaned(notebook)
    refuse_volatile(notebook)
    return Ran(notebook, seconds, max(peak, default=0) or None)


def new_client(notebook: NotebookNode, folder: Path) -> NotebookClient:
    """A client whose kernel is this interpreter, whatever kernels are installed on the machine."""
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,
        extra_arguments=["--IPKernelApp.log_level=40"],  # a remark on TCP at every start otherwise
        resources={"metadata": {"path": str(folder)}},
    )
    native_only = KernelSpecManager(kernel_dirs=[])
    client.km = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=native_only)
    return client


def kernel_environment(profile: str) -> dict[str, str]:
    """The caller's environment without real data and without its IPython start-up files."""
    kept = {key: value for key, value in os.environ.items() if key != "DPKIT_DATA"}
    return kept | {"IPYTHONDIR": profile}


def peak_memory(client: NotebookClient) -> float:
    """The largest resident set of the kernel so far in MB, 0 where the system does not tell."""
    pid = getattr(getattr(client.km, "provisioner", None), "pid", None)
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1000 if found else 0.0


def cleaned(notebook: NotebookNode) -> NotebookNode:
    """The notebook without what differs from run to run or needs a kernel to show (in place)."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE})
    for cell in notebook.cells:
        kept = {"tags": cell.metadata["tags"]} if "tags" in cell.metadata else {}
        if hidden := HIDDEN.keys() & set(kept.get("tags", [])):
            kept["jupyter"] = {f"{part}_hidden": True for tag in hidden for part in HIDDEN[tag]}
        cell.metadata = nbformat.from_dict(kept)
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_VIEW, None)
            if output.output_type == "error":  # expected; its traceback names files of the machine
                output.traceback = [f"{output.ename}: {output.evalue}"]
    return notebook


def refuse_volatile(notebook: NotebookNode) -> None:
    """Raise Unstorable where an output names this machine's folders or something of this run."""
    folders = {"the checkout's path": str(CHECKOUT), "the home folder": str(Path.home())}
    patterns = VOLATILE | {
        name: re.compile(re.escape(path) + r"(?![\w.-])")
        for name, path in folders.items()
        if len(path) > 1
    }
    for position, cell in code_cells(notebook):
        text = "\n".join(texts(cell))
        for name, pattern in patterns.items():
            if found := pattern.search(text):
                raise Unstorable(
                    f"cell {position} prints {name}: {found[0]!r}. It differs on other machines or"
                    " from run to run: leave it out"
                )


def texts(cell: NotebookNode) -> list[str]:
    """Every text among a cell's outputs; pictures are left out."""
    found = []
    for output in cell.outputs:
        found += [output.get("text", ""), output.get("evalue", "")]
        data = output.get("data", {})
        found += [str(data[key]) for key in data if key.startswith(("text/", "application/json"))]
    return found


def write(notebook: NotebookNode, path: Path) -> bool:
    """Write a notebook whole or not at all; False where the file held these bytes already."""
    nbformat.validate(notebook)
    content = (nbformat.writes(notebook).rstrip("\n") + "\n").encode()
    if path.exists() and path.read_bytes() == content:
        return False
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def execute(source: Path) -> Ran:
    """Run one source and store the result; raises Unstorable as `run` does."""
    text = source.read_text(encoding="utf-8")
    if (asked := with_questions(text)) != text:
        source.write_text(asked, encoding="utf-8")
    ran = run(source)
    changed = write(ran.notebook, pair_of(source).stored)
    memory = "n/a" if ran.peak_megabytes is None else f"{ran.peak_megabytes:.0f} MB"
    state = "written" if changed else "unchanged"
    print(f"{source.stem:28} {ran.seconds:6.1f} s   peak {memory:>8}   {state}", flush=True)
    return ran


def each(do: Callable[[Path], object], done: str, arguments: list[str], words: str | None) -> int:
    """Do it with each source that is named, or with all; 1 where one could not be `done`."""
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("sources", type=Path, nargs="*", help="py:percent files; default: all")
    failed = 0
    for source in parser.parse_args(arguments).sources or sorted(SOURCES.glob("*.py")):
        try:
            do(source.resolve())
        except Unstorable as error:
            print(f"{source.stem} was not {done}: {error}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(each(execute, "written", sys.argv[1:], __doc__))
