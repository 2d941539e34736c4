"""Every table in one sweep: at a scale of seconds, and however often it is interrupted."""

import json
import os
import signal
import subprocess
import sys

import made_up_table
import pytest
import sixth_small

from dpkit import datasets, papers
from dpkit.common import files
from dpkit.common.progress import silent
from dpkit.metrics import judge
from dpkit.papers.experiments import run as run_module
from dpkit.papers.experiments import store
from dpkit.papers.experiments.reproduce import everything
from dpkit.papers.experiments.store import part_name

SLOW = ("dpgan", "rdp_gan", "small_images")
OWN_DATA = pytest.mark.slow("a small part of this paper that needs its data set, or minutes")
ONCE = {"seeds": 1, "device": "cpu", "progress": silent}
QUICK = {  # of each paper a table and parts of it that take a second or two
    "dp_cgan": ("table_1", ("repaired-seed0-train", "repaired-seed0-lr")),
    "dpgan": ("table_6", (part_name("all-repaired-n100", 0),)),
    "rdp_gan": ("figure_9", (part_name("time-0.01", 0),)),
    "small_images": ("figure_1", (part_name("norm-0.1", 0),)),
    "adadp": ("figure_2", (part_name("adadp-2", 0), part_name("agd-2", 0))),
}


@pytest.fixture
def apart(tmp_path, monkeypatch):
    """A cache and results of the test's own; no image set but the embedded one."""
    for module in (run_module, files, judge):
        monkeypatch.setattr(module, "cache_dir", lambda: tmp_path / "cache")
    for name in ("mnist", "adult_8"):
        monkeypatch.setattr(datasets, name, lambda **_: pytest.fail("it asks for a data set"))
    return tmp_path / "results"


@pytest.mark.slow("a part that is stored twice, or otherwise, after a SIGKILL of the whole sweep")
def test_an_interrupted_run_ends_in_the_same_report_to_the_byte(tmp_path, monkeypatch):
    """Killed at its ninth record: one run is stored, and the other is half done."""
    for module in (run_module, files):
        monkeypatch.setattr(module, "cache_dir", module.cache_dir)  # put back afterwards
    monkeypatch.setattr(papers, "__path__", list(papers.__path__))
    whole = sixth_small.run(tmp_path / "whole")
    folder = tmp_path / "killed"
    command = [sys.executable, sixth_small.__file__, str(folder), "9"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(command, check=False, env=env).returncode == -signal.SIGKILL
    assert not (folder / "report.html").exists()
    assert len(list((folder / "results").rglob("*.json"))) == 1
    assert len(list((folder / "cache").rglob("checkpoint"))) == 1
    assert sixth_small.run(folder) == whole
    for name in [name for name in sys.modules if name.startswith("dpkit.papers.sixth")]:
        del sys.modules[name]
    del papers.sixth


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=OWN_DATA if one in SLOW else ()) for one in QUICK]
)
def test_small_parts_need_no_data_set_and_seconds(name, apart):
    assert set(QUICK) == {paper.NAME for paper in papers.PAPERS}
    table, names = QUICK[name]
    small = papers.plans_of(name)[table](**ONCE, scale="small")
    assert set(names) <= {part.name for part in small}
    for part in small:
        if part.name in names:
            result = part.compute()
            assert result.values
            assert not any("mnist" in one or "adult" in one for one in result.data)


@pytest.mark.parametrize("name", ["dp_cgan", "dpgan", "adadp"])
def test_small_tables_have_the_parts_of_reduced_ones(name):
    """Whatever a table's rows ask for is there; the other papers calibrate, or vary more.

    Each has a name of its own and says in JSON what it is, the same each time.
    """
    asked = {**ONCE, "seeds": 2}
    for plan in papers.plans_of(name).values():
        small, again, reduced = (plan(**asked, scale=one) for one in ("small", "small", "reduced"))
        described = [json.loads(json.dumps(part.settings)) for part in small]
        assert described == [part.settings for part in small] == [part.settings for part in again]
        assert len({part.name for part in small}) == len(small)
        assert [part.name for part in small] == [part.name for part in reduced]
        names = {part.name for part in small}
        assert all(part.after in names - {part.name} for part in small if part.after)


def test_what_is_stored_of_all_tables_is_not_computed_again(apart, tmp_path, monkeypatch):
    monkeypatch.setenv(made_up_table.LOG, str(tmp_path / "log"))
    plans = {"one": made_up_table.PLANS, "other": {"table_2": made_up_table.plan}}
    asked = {"scale": "small", "seeds": 1, "device": "cpu", "results": apart}
    rows = everything(plans, **asked)
    assert [next(rows)["table"] for _ in range(6)] == ["one table_1"] * 6
    rows.close()
    assert len(list(everything(plans, **asked))) == 16
    assert set(made_up_table.logged(tmp_path / "log").values()) == {2}  # a run in each table
    assert len(store.load("other", "table_2", scale="small", results=apart)) == 8


def test_small_results_lie_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "cache_dir", lambda: tmp_path)
    small, reduced = (store.folder("dp_cgan", "table_1", scale=x) for x in ("small", "reduced"))
    assert small == tmp_path / "results" / "dp_cgan" / "table_1" / "small"
    assert tmp_path not in reduced.parents
