"""Reproduction by parts: stored when done, resumed, refused when the settings have changed."""

import json
import shutil

import numpy as np
import pytest

from dpkit.common.records import code_version, write_json
from dpkit.papers import dp_cgan
from dpkit.papers.dp_cgan import experiments
from dpkit.papers.experiments import run as run_module
from dpkit.papers.experiments import store
from dpkit.papers.experiments.reproduce import reproduce
from dpkit.papers.experiments.store import Part, Result

PARTS = ["repaired-seed0-train", "repaired-seed0-lr"]

TABLE = ("dp_cgan", "table_1")


def shortened(patch, folder):
    """Twenty steps, in a cache of their own; where results lie."""
    patch.setattr(run_module, "cache_dir", lambda: folder / "cache")
    patch.setitem(experiments.STEPS, "reduced", 20)
    return folder / "results"


@pytest.fixture
def results(tmp_path, monkeypatch):
    return shortened(monkeypatch, tmp_path)


def run(results, plans=experiments.PLANS, **more):
    asked = {"scale": "reduced", "parts": PARTS, **more}
    return list(reproduce(*TABLE, plans=plans, results=results, **asked))


@pytest.fixture(scope="module")
def stored_once(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        results = shortened(patch, tmp_path_factory.mktemp("stored"))
        run(results)
    return results


@pytest.fixture
def stored(stored_once, results):
    shutil.copytree(stored_once, results)
    return results


def test_a_part_is_stored_with_its_provenance_and_skipped_when_it_is_there(stored):
    where = {"scale": "reduced", "results": stored}
    parts = store.load(*TABLE, **where)
    assert sorted(parts) == sorted(PARTS)
    trained, fitted = parts["repaired-seed0-train"], parts["repaired-seed0-lr"]
    assert trained["values"]["epsilon_proven"] <= trained["values"]["epsilon_claimed"]
    assert trained["values"]["delta"] == 1e-5
    assert set(fitted["values"]) == {"auroc", "auroc_255", "accuracy", "accuracy_255"}
    assert all(0 < value <= 1 for value in fitted["values"].values())
    told = {"settings", "seed", "data", "code", "device", "wall_seconds", "scale"}
    assert told <= set(fitted["provenance"])
    images = store.load_images(*TABLE, "repaired-seed0-train", **where)
    assert (images.shape, images.dtype) == ((100, 28, 28), np.uint8)
    assert all("stored already" in part["summary"] for part in run(stored))


def test_a_part_of_other_settings_is_not_mixed_in_and_one_that_is_cut_off_is_named(stored):
    path = store.folder(*TABLE, scale="reduced", results=stored) / "repaired-seed0-lr.json"
    changed = json.loads(path.read_text())
    changed["provenance"]["settings"]["noise_multiplier"] = 0.1
    path.write_text(json.dumps(changed))
    with pytest.raises(ValueError, match=r"other settings \(noise_multiplier differ\)"):
        run(stored)
    assert json.loads(path.read_text()) == changed
    path.write_text('{"values": ')
    with pytest.raises(ValueError, match="is not valid JSON"):
        store.load(*TABLE, scale="reduced", results=stored)


def test_a_run_in_tf32_is_another_run_and_its_record_says_so(tmp_path, monkeypatch):
    """Its files too: neither resumes the other. A record without a word of it is not in TF32."""
    monkeypatch.setattr(run_module, "cache_dir", lambda: tmp_path)
    of, files = run_module.Run("dp_cgan", "run", dp_cgan.SMALL, 0, 1_437), []

    def compute():
        files.append((of.tf32, of.weights))
        return Result({}, {}, "cpu")

    plans = {"table_1": lambda **_: [Part("run-seed0", {}, 0, compute)]}
    path = store.folder(*TABLE, scale="reduced", results=tmp_path) / "run-seed0.json"
    for tf32 in (True, False):
        run(tmp_path, plans, parts=None, tf32=tf32)
        record = json.loads(path.read_text())
        assert record["provenance"]["tf32"] is tf32
        with pytest.raises(ValueError, match=r"other settings \(tf32 differ\)"):
            run(tmp_path, plans, parts=None, tf32=not tf32)
        path.unlink()
    del record["provenance"]["tf32"]
    write_json(path, record)
    run(tmp_path, plans, parts=None)
    with pytest.raises(ValueError, match="tf32 differ"):
        run(tmp_path, plans, parts=None, tf32=True)
    assert [tf32 for tf32, _ in files] == [True, False]
    assert files[0][1] != files[1][1] == of.weights


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"table": "table_9"}, "table must be one of table_1, pilot; got 'table_9'"),
        ({"scale": "huge"}, "scale must be one of paper, reduced, small; got 'huge'"),
        ({"seeds": 0}, "seeds must be an integer >= 1, got 0"),
        ({"parts": ["repaired-seed7"]}, "parts must begin one of"),
    ],
)
def test_what_is_not_there_is_named(results, asked, words):
    asked = {"paper": "dp_cgan", "table": "table_1", "scale": "reduced", **asked}
    with pytest.raises(ValueError, match=words):
        list(reproduce(**asked, plans=experiments.PLANS, results=results))


def test_what_is_stored_is_priced_anew_and_not_run(tmp_path):
    """Old records keep their scores and get today's epsilons and words; those without stay."""
    part = Part(
        "run-seed0",
        {"noise": 2.0, "chosen": "by hand"},
        0,
        lambda: pytest.fail("it was run"),
        lambda values: {"epsilon": 3.0 * values["steps"], "method": "new"},
    )
    other = part._replace(name="fit", prices=None)
    absent = part._replace(name="run-seed1")
    plans = {"table_1": lambda **_: [part, other, absent]}
    folder = store.folder(*TABLE, scale="reduced", results=tmp_path)
    told = {"settings": {"noise": 2.0, "chosen": "?"}, "wall_seconds": 9.0, "code": "old"}
    old = {"values": {"score": 0.5, "steps": 2, "epsilon": 1.0}, "provenance": told}
    for name in ("run-seed0", "fit"):
        write_json(folder / f"{name}.json", old)

    def again():
        return run(tmp_path, plans, parts=None, reprice=True)

    (row,) = again()
    assert row["summary"] == "run-seed0: epsilon 1.0 is now 6.0, method None is now new"
    found = store.load(*TABLE, scale="reduced", results=tmp_path)
    assert found["run-seed0"] == {
        "values": {"score": 0.5, "steps": 2, "epsilon": 6.0, "method": "new"},
        "provenance": told | {"priced_by": code_version(), "settings": part.settings},
    }
    assert found["fit"] == old
    assert [row["summary"] for row in again()] == ["run-seed0: priced as stored"]
    write_json(folder / "run-seed0.json", old | {"provenance": {"settings": {"noise": 1.0}}})
    with pytest.raises(ValueError, match="stored with other settings"):
        again()
