"""What must hold for every pair source/NN_name.py, NN_name.ipynb, checked without running any.

`python tests/notebooks/pairs.py [folder]` prints what is wrong and exits 1, or exits 0.
"""

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

import jupytext
import nbformat
import numbers_apart
from jupytext.compare import NotebookDifference, compare_notebooks
from nbformat import NotebookNode

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
SOURCES = NOTEBOOKS / "source"
MAX_LINES = 10
FORMAT = "py:percent"
# Under nbval these leak text into later cells; explorers build on VBox, HTML and Image instead.
CAPTURING = {"interact", "interact_manual", "interactive", "interactive_output", "Output"}
REMEDY = "run `make notebooks`"


class Pair(NamedTuple):
    """A notebook's source, which is edited, and its executed copy, which only the runner writes."""

    source: Path
    stored: Path


def pairs(folder: Path = NOTEBOOKS) -> list[Pair]:
    """All pairs of a folder in order; one half of a pair may be missing, which `problems` says."""
    stems = {path.stem for one in ("source/*.py", "*.ipynb") for path in folder.glob(one)}
    return [pair_of(folder / "source" / f"{stem}.py") for stem in sorted(stems)]


def pair_of(source: Path) -> Pair:
    """A source with its stored copy, in the folder above."""
    return Pair(source, source.parents[1] / f"{source.stem}.ipynb")


def read_source(path: Path) -> NotebookNode:
    """The notebook that a py:percent file describes, without outputs."""
    return jupytext.read(path, fmt=FORMAT)


def read_stored(path: Path) -> NotebookNode:
    """A stored notebook; an invalid one raises nbformat's ValidationError."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook: NotebookNode) -> list[tuple[int, NotebookNode]]:
    """(position in the notebook from 0, cell) of each code cell."""
    return [(i, cell) for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def out_of_step(pair: Pair) -> list[str]:
    """Where the source and the stored notebook differ, apart from outputs and cell ids."""
    stored = read_stored(pair.stored)
    for cell in stored.cells:  # what is folded follows from the tags
        cell.metadata.pop("jupyter", None)
    try:
        compare_notebooks(
            stored, read_source(pair.source), fmt=FORMAT, compare_outputs=False, compare_ids=False
        )
    except NotebookDifference as difference:
        return [f"differs from {pair.source.name}, {REMEDY}: {difference}"]
    return []


def unexecuted(notebook: NotebookNode) -> list[str]:
    """Code cells that were not run, were run out of order, or ended in an error."""
    found = []
    for expected, (position, cell) in enumerate(code_cells(notebook), start=1):
        if cell.execution_count != expected:
            found.append(
                f"cell {position} has execution count {cell.execution_count}, expected {expected}:"
                f" not run from top to bottom, {REMEDY}"
            )
        raised = any(output.output_type == "error" for output in cell.outputs)
        if raised and "raises-exception" not in tags(cell):
            found.append(f"cell {position} stored an error, {REMEDY}")
    return found


def widget_state(notebook: NotebookNode) -> list[str]:
    """Widget models that a reader without a kernel would meet as dead sliders."""
    found = ["stores widget state in its metadata"] if "widgets" in notebook.metadata else []
    for position, cell in code_cells(notebook):
        keys = {key for output in cell.outputs for key in output.get("data", {})}
        found += [f"cell {position} stores {key}" for key in sorted(keys) if "widget" in key]
    return found


def style(notebook: NotebookNode) -> list[str]:
    """Departures from the notebooks' style: header, length of cells, magics, capturing widgets."""
    header = next((cell.source for cell in notebook.cells if cell.cell_type == "markdown"), "")
    found = [
        f"its header (the first text cell) does not state **{word}**"
        for word in ("Time", "Memory")
        if f"**{word}**" not in header
    ]
    texts = (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    joined = re.findall(r"^(?:> ?)?[^\s>].*\n(?:> ?)?\$\$.*", "\n\n".join(texts), re.MULTILINE)
    found += [f"a formula must stand below a blank line: {formula}" for formula in joined]
    for position, cell in code_cells(notebook):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if len(lines) > MAX_LINES:
            found.append(
                f"cell {position} has {len(lines)} lines, at most {MAX_LINES} fit a reader"
            )
        found += [f"cell {position} {text}" for text in tolerance_unexplained(cell)]
        if any(re.match(r"\s*[%!]", line) for line in lines):
            found.append(f"cell {position} uses a magic or a shell line: write Python")
        elif used := CAPTURING & names_in(cell.source):
            found.append(f"cell {position} uses {', '.join(sorted(used))}: use an explorer")
    return found


def tolerance_unexplained(cell: NotebookNode) -> list[str]:
    """What is wrong with a cell's tag `tolerance=X`: X, or that no comment gives the reason."""
    try:
        numbers_apart.tolerance_of(tags(cell))
    except ValueError as error:
        return [str(error)]
    stated = [tag for tag in tags(cell) if tag.startswith("tolerance=")]
    return [
        f"is tagged {tag}; a comment `# {tag}: ...` must say why"
        for tag in stated
        if not re.search(rf"^# {re.escape(tag)}: \w", cell.source, re.MULTILINE)
    ]


def names_in(code: str) -> set[str]:
    """Every name and attribute that occurs in a piece of code (nothing where it does not parse)."""
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except SyntaxError:
        return set()
    found = {node.id for node in nodes if isinstance(node, ast.Name)}
    found |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return found | {node.name for node in nodes if isinstance(node, ast.alias)}


def problems(pair: Pair) -> list[str]:
    """Everything wrong with one pair, in words that say what to do."""
    for path in pair:
        if not path.exists():
            return [f"{path.name} is missing beside its other half, {REMEDY}"]
    if not re.fullmatch(r"\d\d_\w+", pair.source.stem):
        return [f"{pair.source.name} is not named NN_name"]
    notebook = read_stored(pair.stored)
    return out_of_step(pair) + unexecuted(notebook) + widget_state(notebook) + style(notebook)


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else NOTEBOOKS
    found = [f"{pair.stored.name}: {text}" for pair in pairs(folder) for text in problems(pair)]
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
