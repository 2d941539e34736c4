"""No result is empty: stored tables have scores and values, and figures have marks."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pairs
import pytest

from dpkit.common import plots
from dpkit.common.show import tabled
from dpkit.papers.commands import audit
from dpkit.papers.rdp_gan import tables

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), ROOT / "notebooks" / "README.md"]
PAGES += [pair.stored for pair in pairs.pairs()]
BLANK = {"", "-", "–", "—", "?", "nan", "NaN", "None", "missing", "not yet", "not run", "n/a"}
BLANK |= {"not stated"}  # "none" is no finite epsilon
SET = {"", "row", "run", "records", "method", "setting", "configuration", "target", "data", "k"}
SET |= {
    *("epsilon", "seed", "seeds", "steps", "batch", "schedule", "noise", "scale", "paper")
}  # names and settings


def tables_of(text: str) -> Iterator[list[list[str]]]:
    """The tables of HTML and of Markdown as lines of cells, the headings first."""
    for table in (one for one in re.findall(r"<table.*?</table>", text, re.DOTALL) if "<th" in one):
        lines = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        cells = (re.findall(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", line, re.DOTALL) for line in lines)
        yield [[re.sub("<.*?>|&nbsp;", "", cell).strip() for cell in line] for line in cells]
    for table in re.findall(r"(?:^\|.*\n)+", f"{text}\n", re.MULTILINE):
        heads, _, *lines = (re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines())
        yield [[cell.strip() for cell in line] for line in (heads, *lines)]


def faults(text: str) -> list[str]:
    """What is wrong with the tables of a text."""
    found = []
    for heads, *rows in tables_of(text):
        columns = zip_longest(heads, *rows, fillvalue="")
        found += [f"{name!r} has no value" for name, *column in columns if {*column} <= BLANK]
        found += [f"no score, only {', '.join(heads)}"] * ({one.lower() for one in heads} <= SET)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_stored_result_is_empty(page: Path):
    cells = nbformat.read(page, as_version=4).cells if page.suffix == ".ipynb" else []
    texts = [one.source * (one.cell_type == "markdown") for one in cells]
    texts = texts or [page.read_text(encoding="utf-8")]
    for at, cell in enumerate(cells):
        for output in (one for one in cell.get("outputs", []) if "data" in one):
            texts[at] += output.data.get("text/html", "") + "\n"
            if "image/png" in output.data:  # only what passed `plots.picture` has words
                assert output.metadata["image/png"]["alt"]
    assert [(at, fault) for at, text in enumerate(texts) for fault in faults(text)] == []


GOOD = [{"run": "a", "epsilon": 1.0, "score": 0.5}, {"run": "b", "epsilon": 2.0}]
TABLE = tabled(GOOD).html()
MARKDOWN = "| run | score |\n|---|---|\n| a \\| b | 1 |\n"
PLANTED = {
    tabled(GOOD, ["run", "epsilon"]).html(): "no score",
    **{TABLE.replace("0.500", one): "'score'" for one in ("", "<b>&nbsp;</b>", "-", "not run")},
    "<table><tr><th>run</th><th>score</th></tr></table>": "'score'",
    "<table><tr><th></th><th>x</th></tr>\n<tr><th>0</th><td>NaN</td></tr></table>": "'x'",
    "<table><tr><th>run</th><th>x</th></tr><tr><td>a</td></tr></table>": "'x'",
    **{MARKDOWN.replace("1", ""): "'score'", MARKDOWN.replace("a \\| b", ""): "'run'"},
    MARKDOWN.replace("score", "seeds"): "no score",
}


@pytest.mark.parametrize("text", PLANTED)
def test_an_empty_table_is_seen(text: str):
    assert faults(f"{TABLE}\n{MARKDOWN}") == []
    assert PLANTED[text] in "".join(faults(text))


BARE: list[Any] = [lambda _: None, lambda ax: ax.set_title("a name"), lambda ax: ax.plot([], [])]
BARE += [lambda ax: ax.scatter([], []), lambda ax: ax.bar([1], [np.nan])]
BARE += [lambda ax: ax.axhline(4), lambda ax: ax.text(0.5, 0.5, "")]
BARE += [lambda ax: plots.lines(ax, {"a name": ([1], [np.nan])}, x="x", y="y")]


@pytest.mark.parametrize("draw", BARE)
def test_axes_without_a_mark_are_refused(draw: Any):
    figure, (left, right) = plots.figure(panels=2)
    left.imshow(np.eye(2))
    draw(right)
    with pytest.raises(ValueError, match=r"\[2\] are empty: words"):
        plots.picture(figure, "words")
    right.text(0.5, 0.5, "no run is stored")
    plots.picture(figure, "words")


def test_a_table_shows_what_it_is_asked_for_or_raises():
    assert tabled([{"run": "a"}, {"run": "b", "score": 1}]).headings == ["run", "score"]
    for rows in ([{"run": "a"}], [("a", None)], [("a", np.nan)]):
        with pytest.raises(ValueError, match=r"value in some row, \['score'\] have none"):
            tabled(rows, ["run", "score"])
    with pytest.raises(ValueError, match="'constant', 'time', 'step', 'exp', 'ant'"):
        tabled(tables.table_4({}, "digits", score="sprad"), ["row", *tables.COLUMNS])
    assert audit.table("training").headings == ("target", "proven", "measured", "trials")
    assert audit.table("small_images").headings == audit.HEADINGS[:-1]
