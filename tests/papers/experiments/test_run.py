"""A run's files: no two runs share them, and a finished one leaves no checkpoint behind."""

import pytest

torch = pytest.importorskip("torch")

from dpkit.papers import dp_cgan  # noqa: E402
from dpkit.papers.experiments import run as run_module  # noqa: E402
from dpkit.papers.experiments.run import Run, as_bytes  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "cache_dir", lambda: tmp_path)
    return Run("dp_cgan", "repaired", dp_cgan.SMALL, 0, 1_437, "reduced", every=10)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"key": "published"},
        {"settings": dp_cgan.SETTINGS},
        {"scale": "paper"},
        {"records": "digits"},
        {"paper": "dpgan"},
        {"also": {"images": 3}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_run_has_other_files(run, change):
    other = run._replace(**change)
    assert run.weights != other.weights
    assert run.checkpoint() != other.checkpoint()


def test_where_and_how_it_is_watched_changes_no_file(run):
    assert run._replace(device_name="cpu", progress=print, every=None).weights == run.weights


def test_only_a_run_that_says_how_often_is_stored_on_the_way(run):
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


def test_parts_and_streams_are_named_after_the_run(run):
    part = run.part(lambda: None, what="lr", classifier="lr")
    assert (part.name, part.seed) == ("repaired-seed0-lr", 0)
    assert part.settings["type"] == "Settings"
    assert part.settings["classifier"] == "lr"
    one, other, again = (torch.randn(3, generator=run.rng(name)) for name in ("a", "b", "a"))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_images_use_all_bytes_of_their_range():
    assert as_bytes(torch.tensor([-1.0, 0.0, 1.0])).tolist() == [0, 128, 255]
    assert as_bytes(torch.tensor([0.0, 0.5, 1.0]), low=0.0).tolist() == [0, 128, 255]
