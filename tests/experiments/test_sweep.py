"""Sweeps: every part stored once, whatever executor computes it and whichever worker is lost."""

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import made_up_table
import pytest
from made_up_table import FAILS, KILLED, LOG, logged

from dpkit.experiments import alone, store
from dpkit.experiments.executors import Here, Processes, opened
from dpkit.experiments.reproduce import reproduce
from dpkit.experiments.sweep import LOSSES, PartsFailed, sweep
from dpkit.experiments.task import Asked, computed, tasks

pytestmark = pytest.mark.torch  # brings the locks

MIDDLE = "run3-seed1"  # of 24


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Where results are stored, with a log of computations and a cache beside."""
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    monkeypatch.setattr(alone, "cache_dir", lambda: tmp_path / "cache")
    return tmp_path / "results"


def swept(results, executor=None, seeds=3, **more):
    """The rows of a run of the whole made-up table."""
    asked = {"plans": made_up_table.PLANS, "scale": "reduced", "seeds": seeds, "device": "cpu"}
    found = reproduce("made_up", "table_1", **asked, results=results, executor=executor, **more)
    return list(found)


def records(results):
    """What is stored, but for wall times."""
    found = store.load("made_up", "table_1", scale="reduced", results=results)
    for record in found.values():
        assert record["provenance"].pop("wall_seconds") >= 0
    return found


def by_default(tmp_path, monkeypatch):
    """The records of the same sweep, one part after another in this process."""
    with monkeypatch.context() as patch:
        patch.setenv(LOG, str(tmp_path / "other log"))
        patch.delenv(KILLED, raising=False)
        swept(tmp_path / "serial")
    return records(tmp_path / "serial")


def check_each_once(results, log, *, killed: str | None):
    """24 records, each computed once to its end; one that was killed began twice."""
    done = logged(log)
    names = [f"run{i}-seed{seed}" for seed in range(3) for i in range(8)]
    assert sorted(records(results)) == sorted(names)
    assert {name: done[f"ends {name}"] for name in names} == dict.fromkeys(names, 1)
    assert {name: done[f"begins {name}"] for name in names} == {
        name: 2 if name == killed else 1 for name in names
    }


def test_a_worker_killed_in_the_middle_loses_and_doubles_nothing(results, tmp_path, monkeypatch):
    monkeypatch.setenv(KILLED, MIDDLE)
    with opened("processes:2") as executor:
        rows = swept(results, executor)
    assert len(rows) == 24
    check_each_once(results, tmp_path / "log", killed=MIDDLE)
    assert records(results) == by_default(tmp_path, monkeypatch)
    assert all("stored already" in row["summary"] for row in swept(results, Here()))
    assert sum(logged(tmp_path / "log").values()) == 2 * 24 + 1


@pytest.mark.slow("a part that is lost or doubled with a Dask worker")
def test_a_dask_worker_killed_in_the_middle_loses_and_doubles_nothing(
    results, tmp_path, monkeypatch
):
    distributed = pytest.importorskip(
        "distributed", reason="Dask is not installed: pip install '.[dask]'"
    )
    monkeypatch.setenv(KILLED, MIDDLE)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        with opened(address) as executor:
            rows = swept(results, executor)
    assert len(rows) == 24
    check_each_once(results, tmp_path / "log", killed=MIDDLE)
    assert records(results) == by_default(tmp_path, monkeypatch)


def test_an_error_in_one_part_does_not_keep_the_others_from_being_computed(
    results, tmp_path, monkeypatch
):
    monkeypatch.setenv(FAILS, "run2-seed0,run5-seed0")
    words = r"^3 of 8 parts failed: made_up table_1 run2-seed0 \(FloatingPointError: a gradient"
    with pytest.raises(PartsFailed, match=words) as failed:
        swept(results, ThreadPoolExecutor(2), seeds=1)
    named = {label.split()[-1]: str(error) for label, error in failed.value.failures.items()}
    assert named["run3-seed0"] == "run2-seed0, which comes before it, failed"
    assert set(named) == {"run2-seed0", "run3-seed0", "run5-seed0"}
    assert len(records(results)) == 5
    monkeypatch.delenv(FAILS)
    swept(results, Here(), seeds=1)
    done = logged(tmp_path / "log")
    assert {done[f"ends run{i}-seed0"] for i in range(8)} == {1}


@pytest.mark.slow("a part that ends every worker and is tried for ever")
def test_a_part_that_loses_every_worker_is_given_up_and_named(results, tmp_path, monkeypatch):
    monkeypatch.setenv(KILLED, "run1-seed0")
    monkeypatch.setenv("DPKIT_TEST_KILLS", "99")
    with (
        opened("processes:1") as executor,
        pytest.raises(PartsFailed, match=r"^1 of 8 parts failed: made_up table_1 run1-seed0 \(Bro"),
    ):
        swept(results, executor, seeds=1)
    assert logged(tmp_path / "log")["begins run1-seed0"] == 1 + LOSSES
    assert len(records(results)) == 7


def test_a_part_begins_when_the_one_before_it_is_done(results, tmp_path):
    with ThreadPoolExecutor(4) as executor:
        swept(results, executor)
    lines = (tmp_path / "log").read_text().splitlines()
    for seed in range(3):
        for i in (3, 7):
            before, after = f"ends run{i - 1}-seed{seed}", f"begins run{i}-seed{seed}"
            assert lines.index(before) < lines.index(after)


def test_only_what_is_asked_for_is_waited_for(results):
    (row,) = swept(results, Here(), seeds=1, parts=["run3"])
    assert row["summary"].startswith("run3-seed0: score 3")


def test_as_many_are_handed_out_at_once_as_asked(results):
    asked = Asked("made_up", "table_1", made_up_table.plan, "reduced", 1, "cpu")
    names = []

    def call(task):
        names.append(task.name)
        return computed(task)

    rows = sweep(tasks(asked, results=results), executor=Here(), at_once=1, call=call)
    next(rows)
    assert names == ["run0-seed0"]
    next(rows)
    assert names == ["run0-seed0", "run1-seed0"]


def test_two_sweeps_at_once_share_the_parts(results, tmp_path):
    """Each of two processes is given all parts: a lock leaves each part to one of them."""
    asked = Asked("made_up", "table_1", made_up_table.plan, "reduced", 3, "cpu")
    pool = Processes(2)
    both = [task for task in tasks(asked, results=results) for _ in range(2)]
    futures = [pool.submit(computed, task) for task in both]
    said = Counter("stored already" in future.result()["summary"] for future in futures)
    pool.close()
    assert said == {True: 24, False: 24}
    assert logged(tmp_path / "log")["begins run0-seed0"] == 1


def chained(results, first):
    """Three tasks, the second after the first and the third after the second."""
    asked = Asked("made_up", "table_1", made_up_table.plan, "reduced", 1, "cpu")
    one, two, three, *_ = tasks(asked, results=results)
    return [one._replace(after=first), two._replace(after=one.name), three._replace(after=two.name)]


def test_what_comes_after_a_failed_part_is_left_out_to_the_end(results, tmp_path, monkeypatch):
    monkeypatch.setenv(FAILS, "run0-seed0")
    with pytest.raises(PartsFailed, match="3 of 3 parts failed"):
        list(sweep(chained(results, None), executor=Here(), call=computed))
    assert logged(tmp_path / "log") == {"begins run0-seed0": 1}


def test_parts_that_wait_for_each_other_are_refused(results):
    with pytest.raises(ValueError, match="after must name no part that waits for this one"):
        list(sweep(chained(results, "run2-seed0"), executor=Here(), call=computed))


def test_a_worker_that_plans_other_settings_refuses(results):
    asked = Asked("made_up", "table_1", made_up_table.plan, "reduced", 1, "cpu")
    task = tasks(asked, results=results)[0]
    with pytest.raises(ValueError, match=r"with other settings here \(i differ\).*same version"):
        computed(task._replace(settings={"i": 1}))


@pytest.mark.parametrize("name", ["threads", "processes:0", "processes:two", "dask:8786", ""])
def test_another_word_for_an_executor_is_refused(name):
    with pytest.raises(ValueError, match="executor must be serial, processes:N"), opened(name):
        raise AssertionError("it was opened")


def test_a_missing_dask_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ValueError, match=r"needs Dask, which is not installed: pip install"),
        opened("dask://127.0.0.1:8786"),
    ):
        raise AssertionError("it was opened")
