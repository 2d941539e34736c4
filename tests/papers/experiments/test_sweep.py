"""Sweeps: every part stored once, whatever computes it and whichever worker is lost."""

import os
import signal
import subprocess
import sys
from collections import Counter

import made_up_table
import pytest
from joblib import Parallel, delayed
from made_up_table import FAILS, KILLED, LOG, logged

from dpkit.common import files
from dpkit.papers.experiments import reproduce as reproduce_module
from dpkit.papers.experiments import store
from dpkit.papers.experiments.reproduce import LOSSES, PartsFailed, Sweep, computed, sweep, tasks

MIDDLE = "run3-seed1"  # of 24


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Where results are stored, with a log of computations and a cache beside."""
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    monkeypatch.setattr(files, "cache_dir", lambda: tmp_path / "cache")
    return tmp_path / "results"


def swept(results, executor="serial", seeds=3, **more):
    """The rows of a run of the whole made-up table."""
    asked = {"plans": made_up_table.PLANS, "scale": "reduced", "seeds": seeds, "device": "cpu"}
    found = reproduce_module.reproduce(
        "made_up", "table_1", **asked, results=results, executor=executor, **more
    )
    return list(found)


def records(results):
    """What is stored, but for wall times."""
    found = store.load("made_up", "table_1", scale="reduced", results=results)
    for record in found.values():
        assert record["provenance"].pop("wall_seconds") >= 0
    return found


@pytest.fixture
def by_default(tmp_path, monkeypatch):
    """The records of the same sweep, one part after another in this process."""
    with monkeypatch.context() as patch:
        patch.setenv(LOG, str(tmp_path / "other log"))
        patch.setattr(files, "cache_dir", lambda: tmp_path / "cache")
        swept(tmp_path / "serial")
    return records(tmp_path / "serial")


@pytest.fixture(
    params=[
        "processes:2",
        pytest.param("dask", marks=pytest.mark.slow("a part lost or doubled with a Dask worker")),
    ]
)
def two_workers(request):
    if request.param != "dask":
        yield request.param
        return
    remedy = "Dask is not installed: pip install '.[dask]'"
    distributed = pytest.importorskip("distributed", reason=remedy)
    own = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None}
    with distributed.LocalCluster(**own) as cluster:
        yield cluster.scheduler_address.replace("tcp://", "dask://")


def test_a_worker_killed_in_the_middle_loses_and_doubles_nothing(
    by_default, results, two_workers, tmp_path, monkeypatch
):
    """It takes what another one computes with it, and no more."""
    monkeypatch.setenv(KILLED, MIDDLE)
    assert len(swept(results, two_workers)) == 24
    before = logged(tmp_path / "log")
    found = records(results)
    assert found == by_default
    assert all(1 <= before[f"ends {one}"] <= before[f"begins {one}"] <= 2 for one in found)
    assert sum(before[f"begins {name}"] for name in found) <= 24 + 2
    assert all("stored already" in row["summary"] for row in swept(results))
    assert logged(tmp_path / "log") == before


@pytest.mark.slow("a record that is lost, doubled or cut off where its process is killed")
def test_a_sweep_killed_at_twenty_moments_ends_in_the_same_records(by_default, results, tmp_path):
    code = (
        "import sys; from pathlib import Path; import test_sweep as t; "
        "t.files.cache_dir = lambda: Path(sys.argv[2]); t.swept(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, str(results), str(tmp_path / "cache")]
    order = ((i, seed) for some in ((0, 1, 2, 4, 5, 6), (3, 7)) for seed in range(3) for i in some)
    names = [f"run{i}-seed{seed}" for i, seed in order][2:22]  # those after others come last
    ended = []
    for name in [*names, ""]:
        env = {**os.environ, KILLED: name, "PYTHONPATH": os.pathsep.join(sys.path)}
        ended.append(subprocess.run(command, check=False, env=env, capture_output=True).returncode)
    assert ended == [-signal.SIGKILL] * 20 + [0]
    assert records(results) == by_default


def test_an_error_in_one_part_keeps_no_other_from_being_computed(results, tmp_path, monkeypatch):
    monkeypatch.setenv(FAILS, "run2-seed0,run5-seed0")
    words = r"^3 of 8 parts failed: made_up table_1 run2-seed0 \(FloatingPointError: a gradient"
    with pytest.raises(PartsFailed, match=words) as failed:
        swept(results, seeds=1)
    named = {label.split()[-1]: str(error) for label, error in failed.value.failures.items()}
    assert named["run3-seed0"] == "run2-seed0, which comes before it, failed"
    assert set(named) == {"run2-seed0", "run3-seed0", "run5-seed0"}
    assert len(records(results)) == 5
    monkeypatch.delenv(FAILS)
    swept(results, seeds=1)
    done = logged(tmp_path / "log")
    assert {done[f"ends run{i}-seed0"] for i in range(8)} == {1}


@pytest.mark.slow("a part that ends every worker and is tried for ever")
def test_a_part_that_loses_every_worker_is_given_up_and_named(results, tmp_path, monkeypatch):
    monkeypatch.setenv(KILLED, "run1-seed0")
    monkeypatch.setenv("DPKIT_TEST_KILLS", "99")
    words = r"^1 of 8 parts failed: made_up table_1 run1-seed0 \(Terminated"
    with pytest.raises(PartsFailed, match=words):
        swept(results, "processes:2", seeds=1)
    assert logged(tmp_path / "log")["begins run1-seed0"] > LOSSES
    assert len(records(results)) == 7


@pytest.mark.parametrize("executor", ["serial", "processes:3"])
def test_a_part_begins_when_the_one_before_it_is_done(results, tmp_path, executor):
    swept(results, executor)
    lines = (tmp_path / "log").read_text().splitlines()
    for seed in range(3):
        for i in (3, 7):
            before, after = f"ends run{i - 1}-seed{seed}", f"begins run{i}-seed{seed}"
            assert lines.index(before) < lines.index(after)


def test_only_what_is_asked_for_is_waited_for(results):
    (row,) = swept(results, seeds=1, parts=["run3"])
    assert row["summary"].startswith("run3-seed0: score 3")


def test_two_sweeps_at_once_share_the_parts(results, tmp_path):
    """Each of two processes is given all parts: a lock leaves each part to one of them."""
    asked = Sweep("made_up", "table_1", made_up_table.plan, "reduced", 3, "cpu")
    both = [task for task in tasks(asked, results=results) for _ in range(2)]
    rows = Parallel(n_jobs=2)(delayed(computed)(task) for task in both)
    said = Counter("stored already" in row["summary"] for row in rows)
    assert said == {True: 24, False: 24}
    assert logged(tmp_path / "log")["begins run0-seed0"] == 1


def some_tasks(results):
    sweep = Sweep("made_up", "table_1", made_up_table.plan, "reduced", 1, "cpu")
    return tasks(sweep, results=results)


def chained(results, first):
    """Three tasks, the second after the first and the third after the second."""
    one, two, three, *_ = some_tasks(results)
    return [one._replace(after=first), two._replace(after=one.name), three._replace(after=two.name)]


def test_what_comes_after_a_failed_part_is_left_out_to_the_end(results, tmp_path, monkeypatch):
    monkeypatch.setenv(FAILS, "run0-seed0")
    with pytest.raises(PartsFailed, match=r"^3 of 3 parts failed: (?!.*stored).*The same command"):
        list(sweep(chained(results, None)))
    assert logged(tmp_path / "log") == {"begins run0-seed0": 1}


def test_parts_that_wait_for_each_other_and_workers_that_plan_other_settings_are_refused(results):
    with pytest.raises(ValueError, match="after must name no part that waits for this one"):
        list(sweep(chained(results, "run2-seed0")))
    with pytest.raises(ValueError, match=r"with other settings here \(i differ\).*same version"):
        computed(some_tasks(results)[0]._replace(settings={"i": 1}))


@pytest.mark.parametrize(
    "name", ["threads", "processes:0", "processes:two", "dask:8786", "", "dask://127.0.0.1:8786"]
)
def test_another_word_for_an_executor_and_a_missing_dask_are_refused(results, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "distributed", None)
    missing = "needs Dask, which is not installed: pip install"
    words = missing if "//" in name else "executor must be serial, processes:N"
    with pytest.raises(ValueError, match=words):
        swept(results, name)
