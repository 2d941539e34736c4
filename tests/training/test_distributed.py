"""Two processes that train together give one release of one batch, as one process does."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from on_ranks import STEPS, WAYS, trained

from dpkit.commands.ledger_file import read
from dpkit.privacy import Release, SampledGaussian
from dpkit.training import Checkpoints, distributed, spent

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent


def processes(what: str, folder: Path) -> list[tuple[int, str]]:
    """(exit code, standard error) of each of two ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    shared |= {"WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    shared["PYTHONPATH"] = str(HERE.parents[1])
    started = [
        subprocess.Popen(
            [sys.executable, str(HERE / "on_ranks.py"), what, str(folder)],
            env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        errors = [process.communicate(timeout=120)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    return [(p.returncode, error) for p, error in zip(started, errors, strict=True)]


@pytest.fixture
def double() -> Iterator[None]:
    """As the ranks: noised sums are rounded, so that in float32 a last digit may become a step."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, str]]]:
    """Where two ranks left what they trained before one was killed in a run, and how they ended."""
    folder = tmp_path_factory.mktemp("ranks")
    return folder, processes("all", folder)


@pytest.fixture
def folder(killed: tuple[Path, list[tuple[int, str]]]) -> Path:
    """Where two ranks left what they trained."""
    return killed[0]


def assert_went_on(folder: Path, name: str):
    """To the weights of a run in one piece, by as many releases."""
    ledger = read(folder / f"{name}.pt.ledger.json")
    assert ledger == [Release(SampledGaussian(1.0, 0.05), STEPS)]
    whole = torch.load(folder / "uninterrupted-0")[0]
    assert all(torch.equal(torch.load(folder / f"{name}-{rank}")[0], whole) for rank in (0, 1))


@pytest.mark.parametrize("way", ["plain", "penalty", "torch.func", "coordinates"])
def test_two_ranks_train_as_one_process_does(folder: Path, double, way: str):
    """Also where a batch, or one's share of it, is empty."""
    weights, records = trained(way)
    both, of_both = torch.load(folder / f"{way}-0")
    assert len(records) == STEPS
    assert {0, 1} <= set(records[:, 0].tolist())
    assert (both - weights).abs().max() <= 1e-6
    torch.testing.assert_close(of_both, records, rtol=1e-5, atol=1e-6)


def test_ranks_keep_the_same_weights_and_a_loop_of_ones_own_is_charged_once(folder: Path):
    """Whatever their seeds, also with dropout, whose masks each rank draws for its own rows."""
    for way in WAYS:
        (one, records), (other, same) = (torch.load(folder / f"{way}-{rank}") for rank in (0, 1))
        assert torch.equal(one, other), way
        assert torch.equal(records, same), way
    one, other = (torch.load(folder / f"own-loop-{rank}") for rank in (0, 1))
    assert torch.equal(one, other)
    assert len(json.loads((folder / "budget.json").read_text())["runs"]) == 1


def test_other_data_devices_weights_or_bounds_on_a_rank_are_refused(folder: Path):
    for rank in (0, 1):
        models, data, *drifts = torch.load(folder / f"refused-{rank}")
        assert models.startswith("devices differ between the ranks, on model 0 and model 1: ")
        assert data.startswith("data differ between the ranks")
        for drift in drifts:
            assert drift.startswith("weights, bounds or batches differ between the ranks")


def test_a_killed_rank_ends_the_run_and_its_steps_stay_charged(killed, double):
    """Another number of ranks does not go on: its sums are rounded otherwise."""
    folder, ((code, error), (code_of_killed, _)) = killed
    assert (code, code_of_killed) == (1, -9)
    assert "RuntimeError: a rank has ended or does not answer" in error
    assert 13 <= spent(folder / "run.pt") <= 16
    with pytest.raises(ValueError, match=r"these differ: ranks \(stored 2, now None\)"):
        trained("plain", place=Checkpoints(folder / "run.pt", every=5, reserve=8))


def test_both_ranks_go_on_after_a_stop_with_each_step_charged_once(folder: Path):
    assert_went_on(folder, "stopped")


@pytest.mark.slow("what a killed rank leaves behind that two new processes cannot go on from")
def test_both_ranks_go_on_after_a_crash_with_each_step_charged_once(killed):
    folder, _ = killed
    assert [code for code, _ in processes("resumed", folder)] == [0, 0]
    assert_went_on(folder, "run")


def test_alone_there_is_nobody_to_join_and_processes_of_torchrun_must(monkeypatch):
    with distributed.joined("cpu") as device:
        assert (device, distributed.here()) == (torch.device("cpu"), (0, 1))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match=r"each would spend the budget by itself.*joined"):
        trained("plain")
