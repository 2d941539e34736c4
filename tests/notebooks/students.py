"""Write the students' notebooks: those of notebooks/ without answers and outputs.

`make students` writes them to students/, which is not committed. An answer is a fold of that name
in a text. The exercises stay, and check themselves.
"""

import re
from pathlib import Path

import nbformat
from execute import KERNELSPEC, LANGUAGE, write
from nbformat import NotebookNode
from pairs import NOTEBOOKS, SOURCES, read_source

STUDENTS = NOTEBOOKS.parent / "students"
ANSWER = re.compile(r"[>\s]*<details><summary>Answers?</summary>.*?</details>", re.DOTALL)


def student(source: Path) -> NotebookNode:
    """What a student gets of a notebook's source."""
    notebook = read_source(source)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE})
    for index, cell in enumerate(notebook.cells):
        cell.id = f"s{index:03d}"
        if cell.cell_type == "markdown":
            cell.source = ANSWER.sub("", cell.source)
    return notebook


def main(folder: Path = STUDENTS) -> None:
    """Write all of them, and say where."""
    folder.mkdir(exist_ok=True)
    sources = sorted(SOURCES.glob("*.py"))
    for source in sources:
        write(student(source), folder / f"{source.stem}.ipynb")
    print(f"{len(sources)} notebooks without outputs in {folder.name}/")


if __name__ == "__main__":
    main()
