"""Write slides from the cells of notebooks that are tagged for them: pages that need no network.

`make slides` writes build/slides/NN_name.html from the stored outputs of each notebook with a cell
tagged `slide`. That tag begins a slide, below the heading of its section; a cell tagged `fragment`
joins it at the next key press. Code is left out unless it is tagged `with-code`.
"""

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from nbconvert.exporters import SlidesExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from pairs import NOTEBOOKS, pairs, read_stored, tags

SLIDES = NOTEBOOKS.parent / "build" / "slides"
TEMPLATE = Path(__file__).with_name("slides.html.j2")
HEADING = re.compile(r"^#+ .+\n*", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")  # which would lead nowhere from the slides' folder
# Where a package of Python keeps it -> what of it is copied beside the slides.
NEEDED = {
    ("sphinx_revealjs", "_static/revealjs"): (
        *("LICENSE", "dist/reveal.css", "dist/reveal.js"),
        *("dist/theme/white.css", "dist/theme/fonts/source-sans-pro"),
    ),
    ("sphinx-mathjax-offline", "static/mathjax"): ("tex-svg.js",),
}


def chosen(notebook: NotebookNode) -> NotebookNode:
    """The tagged cells of a notebook, each slide below the heading of its section (in place)."""
    heading, kept = "", []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heading = [heading, *HEADING.findall(cell.source)][-1].strip()
            cell.source = LINK.sub(r"\1", HEADING.sub("", cell.source))
            notebook.metadata.setdefault("title", heading.lstrip("# "))
        named = tags(cell)
        if "slide" in named:
            kept.append(new_markdown_cell(heading, metadata={"slideshow": {"slide_type": "slide"}}))
        if {"slide", "fragment"} & set(named):
            cell.metadata["slideshow"] = {"slide_type": "-" if "slide" in named else "fragment"}
            cell.metadata["transient"] = {
                "remove_source": cell.cell_type == "code" and "with-code" not in named
            }
            cell.source = re.sub(r"\n{3,}", "\n\n", cell.source)
            kept.append(cell)
    notebook.cells = kept
    return notebook


def page(notebook: NotebookNode) -> str:
    """Chosen cells as a page of HTML."""
    exporter = SlidesExporter(
        template_file=str(TEMPLATE),
        reveal_url_prefix="reveal.js",
        reveal_theme="white",
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    return exporter.from_notebook_node(notebook)[0]


def copy_needed(folder: Path) -> None:
    """Copy reveal.js and MathJax beside the slides."""
    for (package, within), parts in NEEDED.items():
        found = find_spec(package)
        if found is None or found.origin is None:
            raise ModuleNotFoundError(f"{package} is not installed: it is among dpkit's extra book")
        source = Path(found.origin).parent / within
        for part in parts:
            target = folder / source.name.replace("revealjs", "reveal.js") / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if (source / part).is_dir():
                shutil.copytree(source / part, target, dirs_exist_ok=True)
            else:
                shutil.copy(source / part, target)


def main(folder: Path = SLIDES) -> None:
    """Write all of them, and say where."""
    copy_needed(folder)
    for pair in pairs():
        notebook = chosen(read_stored(pair.stored))
        if notebook.cells:
            path = folder / f"{pair.source.stem}.html"
            path.write_text(page(notebook), encoding="utf-8")
            slides = sum("slide" in tags(cell) for cell in notebook.cells)
            print(f"{path.relative_to(folder.parents[1])}: {slides} slides")


if __name__ == "__main__":
    main()
