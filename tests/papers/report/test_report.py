"""The report: cells, and one page that needs no other file and says no time."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from dpkit import papers
from dpkit.common.records import write_json
from dpkit.papers.claims import Claim
from dpkit.papers.experiments import store
from dpkit.papers.experiments.store import Part, Result, Shown, joined, spread, values
from dpkit.papers.report import page, write

pytestmark = pytest.mark.torch

ROWS = [
    {"run": "a", "score": 0.5, "lowest": 0.25, "highest": 0.75, "seeds": 3, "epsilon": "inf"},
    {"run": "b", "score": 0.123456, "lowest": 0.1, "highest": 0.1, "seeds": 1, "epsilon": 12_000},
]
WORDS = ("Made &lt;up&gt; &amp; small", "Of two paragraphs.", "mean (per cent)", "numpy 2.0")
WORDS += ("&lt;run&gt; 1.5 (1 to 2)", "holds 1 + 1 is &lt;3 (abstract)", "digits train 12ab")
WORDS += ("1 claim (1 holds)", "Stated: 2; computed: 2. made_up/two It is 2.", "claim of 1 paper,")
WORDS += ("2 of 2 runs stored", "run-seed1 1 4 none cpu abc")


def grid(rows, **units):
    return page.grid(Shown("Table", ("table_1",), lambda stored: rows, units), {})


def test_ranges_stand_beside_their_numbers():
    found = grid(ROWS, score="accuracy")
    assert found.headings == ["run", "score (accuracy)", "seeds", "epsilon"]
    assert found.rows == [["a", "0.5 (0.25 to 0.75)", "3", "none"], ["b", "0.1235", "1", "12,000"]]


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({"none": 0.5, "none_range": (0.25, 1.0)}, ["0.5 (0.25 to 1)"]),
        ({"none": None, "none_range": None}, ["–"]),
        ({"mnist": spread([1.0, 2.0])}, ["1.5 (1 to 2)"]),
        ({"mnist": spread([2.0])}, ["2"]),
        ({"mnist": spread([])}, ["–"]),
        *(({"adaptive": True}, ["yes"]), ({"steps": float("inf")}, ["none"])),
        # epsilons are rounded upwards, and other numbers to the nearest
        ({"epsilon_proven": 3.30840001, "score": 3.30840001}, ["3.309", "3.308"]),
        ({"charged": 1.00001, "epsilon": "inf"}, ["1.001", "none"]),
    ],
)
def test_values_in_words(row, shown):
    assert grid([row], charged="epsilon").rows == [shown]


def test_rows_without_a_column_have_a_dash_there():
    assert grid([{"a": 1}, {"b": 2}]).rows == [["1", "–"], ["–", "2"]]


def test_several_tables_as_one():
    rows = joined(lambda stored: [{"names": " ".join(sorted(stored))}])
    shown = Shown("Both", ("one", "other"), rows)
    assert page.grid(shown, {"one": {"b": {}}, "other": {"a": {}}}).rows == [["a b"]]


def plan(*, scale, seeds, device, progress):
    """Table 1: made up & complete."""
    return [Part(f"run-seed{seed}", {}, seed, lambda: Result({}, {}, "cpu")) for seed in range(2)]


def rows_of(stored):
    return [{"run": "<run>", **spread([one["score"] for one in values(stored, "run")])}]


CLAIM = {"id": "made_up/two", "where": "abstract", "says": "`1 + 1` is <3", "kind": "equals"}
CLAIM |= {"stated": 2.0, "compute": lambda: 2.0, "explanation": "It is 2."}
PAPER = SimpleNamespace(
    NAME="made_up",
    TITLE="Made <up> & small",
    __doc__="A paper.\n\nOf two paragraphs.",
    tables=SimpleNamespace(SHOWN=(Shown("Table 1", ("table_1",), rows_of, {"mean": "per cent"}),)),
    CLAIMS=(Claim(**CLAIM),),
)


def stored(folder, *, seconds):
    """Two parts and the report of them."""
    told = {"settings": {}, "data": {"digits train": "12ab"}, "code": "abc", "device": "cpu"}
    told |= {"scale": "small", "python": "3.11.2", "packages": {"numpy": "2.0"}}
    where = store.folder("made_up", "table_1", scale="small", results=folder)
    for seed in range(2):
        found = {"score": 1.0 + seed, "epsilon_claimed": 4.0, "epsilon_proven": "inf"}
        own = told | {"seed": seed, "wall_seconds": seconds}
        write_json(where / f"run-seed{seed}.json", {"values": found, "provenance": own})
    asked = {"scale": "small", "seeds": 2, "device": "cpu", "results": folder}
    path = write(folder / "report.html", [PAPER], {"made_up": {"table_1": plan}}, **asked)
    return path.read_text(encoding="utf-8")


class Links(HTMLParser):
    """Where a page's elements point."""

    def __init__(self) -> None:
        super().__init__()
        self.found, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_shows_everything_needs_no_other_file_and_says_no_time(tmp_path):
    """Neither how long runs took nor when it was written."""
    written = stored(tmp_path / "a", seconds=1.0)
    words = " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", written, flags=re.DOTALL).split())
    assert [one for one in WORDS if one not in words] == []
    assert "<code>1 + 1</code> is &lt;3" in written
    links = Links()
    links.feed(written)
    assert links.open == []
    assert links.found
    ids = set(re.findall(r'id="([^"]+)"', written))
    for link in links.found:
        assert link.removeprefix("#") in ids
    assert "url(" not in written
    assert "<script" not in written
    assert written == stored(tmp_path / "b", seconds=987654.0)


@pytest.mark.parametrize("paper", papers.PAPERS, ids=lambda paper: paper.NAME)
def test_papers_show_tables_of_their_own_plans_and_bear_nothing_stored(paper):
    plans = papers.plans_of(paper.NAME)
    for shown in paper.tables.SHOWN:
        assert set(shown.of) <= set(plans), shown.title
        found = page.grid(shown, {})
        assert all(len(row) == len(found.headings) for row in found.rows)
