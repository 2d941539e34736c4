"""Write two labs of 80 minutes from cells of notebooks tagged `lab1` and `lab2`.

`make labs` writes build/labs/lab1.ipynb and lab2.ipynb, without outputs, and build/labs/teacher.md:
the minutes of each part, and the exercises with their solutions. Minutes are those of one careful
reading: 180 words or 15 lines of code, half a minute a figure or a table, 20 seconds a formula, 1.5
minutes a guess or choice, 3 a number or an explorer, 5 a function.
"""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import nbformat
from execute import KERNELSPEC, LANGUAGE, write
from nbformat import NotebookNode
from pairs import NOTEBOOKS, Pair, pairs, read_stored, tags
from questions import exercises_of
from students import ANSWER

from dpkit.course.exercises.sheet import Choice, Exercise, Function, Guess

LABS = NOTEBOOKS.parent / "build" / "labs"
TITLES = {"lab1": "What an epsilon is", "lab2": "Does it hold?"}
LINK = re.compile(r"\]\((?=\d\d_\w+\.ipynb)")
FORMULA = re.compile(r"\$\$.+?\$\$|\$[^$\n]{12,}\$", re.DOTALL)


class Part(NamedTuple):
    """What a lab takes from one notebook: cells with stored outputs, and exercises."""

    name: str
    cells: list[NotebookNode]
    exercises: list[Exercise]

    @property
    def minutes(self) -> float:
        """To read it, and to answer its exercises."""
        return self.reading + self.answering

    @property
    def reading(self) -> float:
        """Minutes of one careful reading."""
        read = 0.0
        for cell in self.cells:
            if cell.cell_type == "markdown":
                read += len(cell.source.split()) / 180 + len(FORMULA.findall(cell.source)) / 3
                read += 0.5 * ("\n|" in cell.source)
            elif not {"hide-input", "guessed"} & set(tags(cell)):
                read += len([line for line in cell.source.splitlines() if line.strip()]) / 15
            read += 3 * ("dpkit.course.explorers import" in cell.source and "()" in cell.source)
            shown = [key for out in cell.get("outputs", ()) for key in out.get("data", ())]
            read += 0.5 * ("image/png" in shown or "text/html" in shown)
        return read

    @property
    def answering(self) -> float:
        """Minutes of its exercises; half a minute a case to judge, ten for the homework."""
        text = "\n".join(cell.source for cell in self.cells)
        more = 15 * ("Cases(turn.CASES)" in text) + 10 * ("homework.draw(" in text)
        return more + sum(
            1.5 if isinstance(one, Guess | Choice) else 5 if isinstance(one, Function) else 3
            for one in self.exercises
        )


def parts(lab: str) -> list[Part]:
    """The parts of a lab, in the notebooks' order."""
    found = []
    for pair in pairs():
        part = part_of(pair, lab)
        if part.cells:
            found.append(part)
    return found


def part_of(pair: Pair, lab: str = "") -> Part:
    """What a lab takes from a notebook; all of it where no lab is named."""
    every = read_stored(pair.stored).cells
    cells = [cell for cell in every if not lab or lab in tags(cell)]
    text, whole = ("\n".join(cell.source for cell in some) for some in (cells, every))
    return Part(pair.source.stem, cells, exercises_of(text, whole))


def lab_of(lab: str, *, outputs: bool = False) -> NotebookNode:
    """One lab as a notebook without answers, and without outputs unless they are asked for."""
    held = {"kernelspec": KERNELSPEC, "language_info": LANGUAGE}
    notebook = nbformat.v4.new_notebook(metadata=held)
    title = f"# {TITLES[lab]}\n\nA lab of 80 minutes. Run the cells in order."
    notebook.cells = [nbformat.v4.new_markdown_cell(title)]
    for part in parts(lab):
        for cell in part.cells:
            if cell.cell_type == "code" and not outputs:
                cell.outputs, cell.execution_count = [], None
            elif cell.cell_type == "markdown":
                text = ANSWER.sub("", cell.source).replace("](../", "](../../")
                cell.source = LINK.sub("](../../notebooks/", text)
        notebook.cells += part.cells
    for index, cell in enumerate(notebook.cells):
        cell.id = f"l{index:03d}"
    return notebook


def plan() -> str:
    """Both labs as tables: part, minutes, exercises."""
    lines = []
    for lab, title in TITLES.items():
        rows = parts(lab)
        lines += [f"### Lab {lab[-1]}: {title}", "", "| part | minutes | exercises |"]
        lines += ["|---|---|---|"]
        for part in rows:
            asked = ", ".join(str(one.place) for one in part.exercises) or "none"
            link = f"[{part.name}](../../notebooks/{part.name}.ipynb)"
            lines.append(f"| {link} | {part.minutes:.0f} | {asked} |")
        lines += [f"| **in all** | **{sum(part.minutes for part in rows):.0f}** | |", ""]
    return "\n".join(lines).rstrip()


def solutions() -> str:
    """Every exercise of the labs with its solution."""
    found = ["## Solutions"]
    for lab in TITLES:
        for part in parts(lab):
            for one in part.exercises:
                with redirect_stdout(io.StringIO()) as told:
                    one.solution()
                found.append(f"**{lab}, {part.name}, question {one.place}.** {one.question}")
                found.append(f"```\n{told.getvalue().strip()}\n```")
    return "\n\n".join(found)


def main(folder: Path = LABS) -> None:
    """Write both labs and the teacher's page, and say where."""
    folder.mkdir(parents=True, exist_ok=True)
    for lab in TITLES:
        write(lab_of(lab), folder / f"{lab}.ipynb")
    page = f"# The labs, for the teacher\n\n{plan()}\n\n{solutions()}\n"
    (folder / "teacher.md").write_text(page, encoding="utf-8")
    print(f"{plan()}\n\nin {folder.parent.name}/{folder.name}/, with teacher.md")


if __name__ == "__main__":
    main()
