"""results add: whole records with today's settings come in, others are refused by name."""

import shutil

import numpy as np
import pytest
from made_up_table import LOG, PLANS

from dpkit import papers
from dpkit.common.records import read_json, write_json
from dpkit.papers.experiments import store
from dpkit.papers.experiments.reproduce import reproduce

TABLE = ("dp_cgan", "table_1")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A folder with three parts of a made-up table, and the kit's own, which is empty."""
    new, kept = tmp_path / "new", tmp_path / "kept"
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    monkeypatch.setattr(papers, "plans_of", lambda *given: PLANS)
    parts = ["run0-", "run1-", "run2-"]
    list(reproduce(*TABLE, plans=PLANS, scale="paper", seeds=1, parts=parts, results=new))
    monkeypatch.setattr(store, "results_dir", lambda: kept)
    store.save_images(new / "dp_cgan/table_1/paper/run1-seed0.npz", np.zeros((2, 3, 3), "uint8"))
    return tuple(folder / "dp_cgan" / "table_1" / "paper" for folder in (new, kept))


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_parts_come_in_with_their_images_and_once(folders, dpkit):
    new, kept = folders
    code, out, _ = dpkit("results", "add", str(new.parents[2]))
    assert (code, out.count(": added")) == (0, 3)
    assert "make readme" in out
    assert names(kept) == names(new)
    assert all((new / name).read_bytes() == (kept / name).read_bytes() for name in names(new))
    mine = read_json(kept / "run0-seed0.json")
    write_json(kept / "run0-seed0.json", mine | {"values": {"score": 7.0}})
    assert dpkit("results", "add", str(new.parents[2]))[1].count(": stored already") == 3
    assert read_json(kept / "run0-seed0.json")["values"] == {"score": 7.0}
    assert dpkit("results", "add", str(new.parents[2]), "--replace")[1].count(": replaced") == 3
    assert read_json(kept / "run0-seed0.json") == mine


def test_a_cut_record_other_settings_and_a_cut_archive_are_refused_by_name(folders, dpkit):
    new, kept = folders
    other = read_json(new / "run0-seed0.json")
    other["provenance"]["settings"]["i"] = 5
    write_json(new / "run0-seed0.json", other)
    (new / "run1-seed0.npz").write_bytes((new / "run1-seed0.npz").read_bytes()[:50])
    shutil.copy(new / "run2-seed0.json", new / "run9-seed0.json")
    whole = (new / "run2-seed0.json").read_text()
    (new / "run3-seed0.json").write_text(whole[: len(whole) // 2])
    code, out, error = dpkit("results", "add", str(new.parents[2]))
    assert code != 0
    assert names(kept) == ["run2-seed0.json"]
    for name in ("run0", "run1", "run3", "run9"):
        assert f"dp_cgan table_1 paper {name}-seed0: refused" in out
        assert f"{name}-seed0" in error
    assert "(i differ)" in out


def test_a_folder_without_records_is_an_error(tmp_path, dpkit):
    code, _, error = dpkit("results", "add", str(tmp_path))
    assert code != 0
    assert f"must hold PAPER/TABLE/SCALE/PART.json, got {tmp_path}, without any" in error
    assert "which is no folder" in dpkit("results", "add", str(tmp_path / "no"))[2]
