"""A run's files, which no two runs share; names of its parts, and what is said of its seeds."""

import os
from statistics import fmean

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpkit.papers import dp_cgan
from dpkit.papers.experiments import run as run_module
from dpkit.papers.experiments.run import Run, as_bytes
from dpkit.papers.experiments.store import lead, mean, part_name, seeds, spread, values

KEYS = st.text("abc-0.5", min_size=1)
NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1)
CHANGES = {"seed": 1, "key": "published", "settings": dp_cgan.SETTINGS, "scale": "paper"}
CHANGES |= {"records": "digits", "paper": "dpgan", "also": {"images": 3}}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "cache_dir", lambda: tmp_path)
    return Run("dp_cgan", "repaired", dp_cgan.SMALL, 0, 1_437, "reduced", every=10)


@pytest.mark.parametrize("name", CHANGES)
def test_another_run_has_other_files(run, name):
    other = run._replace(**{name: CHANGES[name]})
    assert run.weights != other.weights
    assert run.checkpoint() != other.checkpoint()


def test_how_it_is_watched_changes_no_file_and_one_that_says_how_often_is_stored_on_the_way(run):
    assert run._replace(device_name="cpu", progress=print, every=None).weights == run.weights
    assert run.place("warm").path == run.checkpoint("warm")
    assert run._replace(every=None).place() is None


def test_what_is_kept_stays_and_checkpoints_go(run, tmp_path):
    net = torch.nn.Linear(2, 3)
    run.keep(net)
    run.checkpoint().parent.mkdir()
    run.checkpoint().write_text("the state of the noise")
    run.forget()
    run.forget()  # nothing is left to remove
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [run.weights]
    again = run.load(torch.nn.Linear(2, 3))
    assert torch.equal(net.weight, again.weight)
    assert not again.training


def test_the_wall_time_counts_what_a_killed_process_stored(run, monkeypatch):
    assert run.result({}, {}).earlier == 0
    for go, begun in (("first", 1_000.0), ("second", 5_000.0), ("third", 9_000.0)):
        monkeypatch.setattr(run_module, "GO", go)
        monkeypatch.setattr(run_module, "time", lambda begun=begun: begun)
        run.place("warm"), run.place()
        run.checkpoint().parent.mkdir(exist_ok=True)
        run.checkpoint().touch()
        os.utime(run.checkpoint(), (0, begun + 100))
    assert run.result({}, {}).earlier == 200  # its own time is not among them
    assert run.result({}, {}).earlier == 0  # of a run that begins anew


def test_parts_and_streams_are_named_after_the_run(run):
    part = run.part(lambda: None, what="lr", classifier="lr")
    assert (part.name, part.seed) == ("repaired-seed0-lr", 0)
    assert (part.settings["type"], part.settings["classifier"]) == ("DpCganSettings", "lr")
    one, other, again = (torch.randn(3, generator=run.rng(name)) for name in ("a", "b", "a"))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_images_use_all_bytes_of_their_range():
    assert as_bytes(torch.tensor([-1.0, 0.0, 1.0])).tolist() == [0, 128, 255]
    assert as_bytes(torch.tensor([0.0, 0.5, 1.0]), low=0.0).tolist() == [0, 128, 255]


@given(st.sets(st.tuples(KEYS, st.integers(0, 30), st.sampled_from(["", "train", "lr"]))))
def test_each_stored_part_is_a_seed_of_its_own_run_alone(parts):
    stored = {part_name(*part): {"values": part} for part in parts}
    for key, _, what in parts:
        wanted = {part for part in parts if (part[0], part[2]) == (key, what)}
        assert set(values(stored, key, what)) == wanted
        assert list(seeds(stored, key, what)) == sorted(part_name(*part) for part in wanted)


@given(NUMBERS)
def test_the_spread_is_mean_lowest_highest_and_their_number(numbers):
    found = spread(numbers)
    assert found["mean"] == mean(numbers) == pytest.approx(fmean(numbers), rel=1e-9, abs=1e-9)
    assert (found["lowest"], found["highest"]) == (min(numbers), max(numbers))
    assert found["seeds"] == len(numbers)
    assert spread([]) == {"mean": None, "lowest": None, "highest": None, "seeds": 0}


def test_a_lead_is_decided_by_welchs_interval_alone():
    one, other = [3.0, 4.0, 5.0], [1.0, 2.0, 0.0]
    found, mirrored = lead(one, other), lead(other, one)
    half = 2.7764451 * (1 / 3 + 1 / 3) ** 0.5  # Student's t, 4 degrees; both variances are 1
    assert (found["low"], found["high"]) == pytest.approx((3 - half, 3 + half))
    assert (found["verdict"], mirrored["verdict"]) == ("ahead", "behind")
    half = 4.3026527  # Student's t, 2 degrees; the differences are 2, 2, 5: their error is 1
    assert (found["paired_low"], found["paired_high"]) == pytest.approx((3 - half, 3 + half))
    assert lead(one, other[:2])["paired_low"] is None
    assert lead(one, [2.0, 3.0, 5.0])["verdict"] == "open"
    for some in ([4.0], [1.0, 1.0]):  # no spread is known: no interval, and nothing decided
        undecided = lead(some, [1.0, 1.0])
        assert (undecided["low"], undecided["verdict"]) == (None, "open")
    assert lead([], one)["verdict"] == lead(one, [])["verdict"] == "not run"
