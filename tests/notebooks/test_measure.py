"""Stated times and memory: rounded upwards, left alone while they fit, the same in README."""

import shutil
from pathlib import Path

import execute
import measure
import pairs
import pytest
from measure import Figures

REAL = pairs.pairs()
README = """| notebook | what | time to run | memory |
|---|---|---|---|
| [00_tiny](notebooks/00_tiny.ipynb) | One half, | or two? | 1 s | 60 MB |
| [01_other](notebooks/01_other.ipynb) | Another | 1 s | 60 MB |
"""


@pytest.mark.parametrize("pair", REAL, ids=[pair.source.stem for pair in REAL])
def test_header_and_table_state_the_same(pair: pairs.Pair):
    table = measure.README.read_text(encoding="utf-8")
    header = measure.stated(pair.source.read_text(encoding="utf-8"))
    assert measure.in_table(table, pair.source.stem) == header, "run `make measure`"


def test_figures_are_rounded_up():
    """Stated are figures that no measurement fits."""
    seconds = {0.1: 5, 3.3: 5, 3.4: 10, 40: 60, 41: 70, 79.9: 120, 80.1: 180, 200.1: 360}
    megabytes = {50: 60, 145: 160, 952: 1000, 953: 1050, 1100: 1200}
    found = {one: measure.figures(Figures(0, 0), one, None).seconds for one in seconds}
    assert found == seconds
    found = {one: measure.figures(Figures(0, 0), 1.0, one).megabytes for one in megabytes}
    assert found == megabytes


@pytest.mark.parametrize(
    ("seconds", "megabytes", "expected"),
    [
        (10.0, 160.0, (20, 200)),  # fits, by half
        (20.0, 200.0, (20, 200)),  # fits, just
        (3.9, 200.0, (10, 200)),  # less than a fifth
        *((20.1, 200.0, (35, 200)), (20.0, 200.1, (20, 220))),
        *((20.0, 159.0, (20, 170)), (20.0, None, (20, 200))),
    ],
)
def test_a_figure_stays_while_it_fits(seconds, megabytes, expected):
    assert measure.figures(Figures(20, 200), seconds, megabytes) == expected


def test_only_the_figures_of_a_header_change():
    text = "> **Time** a second to run, 20 minutes to read. **Memory** 60 MB. **Needs** 1 MB"
    assert measure.stated(text) == (1, 60)
    assert measure.with_figures(text, Figures(1, 60)) == text
    assert measure.with_figures(text, Figures(15, 530)) == (
        "> **Time** 15 seconds to run, 20 minutes to read. **Memory** 530 MB. **Needs** 1 MB"
    )
    longer = measure.with_figures(text, Figures(180, 1050))
    assert longer.startswith("> **Time** 3 minutes to run, 20")
    assert measure.stated(longer) == (180, 1050)


def test_a_header_or_row_that_is_missing_is_named():
    with pytest.raises(measure.Unstated, match=r"\*\*Time\*\* N seconds"):
        measure.stated("> **Time** some. **Memory** 60 MB.")
    with pytest.raises(measure.Unstated, match=r"\[02_none\].*has 0"):
        measure.in_table(README, "02_none")


@pytest.fixture
def checkout(tiny: pairs.Pair, tmp_path: Path) -> tuple[pairs.Pair, Path]:
    """A copy of the small pair with a README."""
    (tmp_path / "source").mkdir()
    pair = pairs.pair_of(Path(shutil.copy(tiny.source, tmp_path / "source")))
    shutil.copy(tiny.stored, pair.stored)
    readme = tmp_path / "README.md"
    readme.write_text(README)
    return pair, readme


def took(monkeypatch: pytest.MonkeyPatch, seconds: float, megabytes: float) -> list[Path]:
    """Let every run claim to have taken so much; returns the list of sources that were run."""
    run, seen = execute.run, []

    def claimed(source: Path) -> execute.Ran:
        seen.append(source)
        return execute.Ran(run(source).notebook, seconds, megabytes)

    monkeypatch.setattr(execute, "run", claimed)
    return seen


def test_a_figure_that_is_off_is_written_everywhere(checkout, monkeypatch: pytest.MonkeyPatch):
    pair, readme = checkout
    before = pair.source.read_text()
    seen = took(monkeypatch, 100.0, 100.0)
    assert measure.measure(pair.source, readme) == (180, 110)
    assert seen == [pair.source, pair.source]
    assert pair.source.read_text() == before.replace(
        "**Time** a second. **Memory** 60 MB.", "**Time** 3 minutes. **Memory** 110 MB."
    )
    assert pairs.problems(pair) == []
    written = README.replace("or two? | 1 s | 60 MB", "or two? | 3 min | 110 MB")
    assert readme.read_text() == written
    assert measure.measure(pair.source, readme) == measure.in_table(written, "00_tiny")
    assert readme.read_text() == written
    assert len(seen) == 3  # nothing to rewrite, so no second run


def test_a_real_run_is_measured(checkout):
    pair, readme = checkout
    pair.source.write_text(pair.source.read_text().replace("60 MB", "9000 MB"))
    measured = measure.measure(pair.source, readme)
    assert measured.seconds >= 1
    assert 40 < measured.megabytes <= 9000
    assert measure.in_table(readme.read_text(), "00_tiny") == measured


def test_a_failing_notebook_changes_nothing(checkout, monkeypatch: pytest.MonkeyPatch, capsys):
    pair, readme = checkout
    pair.source.write_text(pair.source.read_text().replace("half = 1 / 2", "half = 1 / 0"))
    before = [path.read_bytes() for path in (*pair, readme)]
    monkeypatch.setattr(measure.measure, "__defaults__", (readme,))
    assert measure.main([str(pair.source)]) == 1
    assert "00_tiny was not measured: cell 1" in capsys.readouterr().err
    assert [path.read_bytes() for path in (*pair, readme)] == before
