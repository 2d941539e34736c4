"""Steps on made-up records: like the run's own, and without a trace."""

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import torch

from dpkit.experiments import trial
from dpkit.experiments.run import Run
from dpkit.papers import dp_cgan
from dpkit.papers.dp_cgan.settings import SMALL
from dpkit.privacy.sampling import PoissonSampling, ShuffledBatches
from dpkit.training.checkpoint import Checkpoints, spent
from dpkit.training.device import generator_on
from dpkit.training.loop import train
from dpkit.training.types import Data

pytestmark = pytest.mark.torch


CPU = torch.device("cpu")
SETTINGS = replace(SMALL, hidden=4, sampling=ShuffledBatches(16))


def work(settings=SETTINGS, *, size=100, shape=(784,), steps=7):
    run = Run("dp_cgan", "trial", settings, 0, size, device_name="cpu")
    return run.left(dp_cgan.step, dp_cgan.new_gan, shape=shape, every=1, steps=steps)


def test_a_trial_makes_the_runs_own_steps():
    made = list(islice(work().trial(), 8))  # more than are left, and than an epoch has
    assert [record.step for record in made] == list(range(8))
    assert {record.batch_size for record in made} == {16}
    assert made[0].generator_loss is not None


def test_equal_settings_records_and_device_are_tried_once():
    assert work().what == work(steps=3).what
    assert hash(work().what) == hash(work(steps=3).what)
    others = [work(replace(SETTINGS, hidden=5)), work(size=99), work(shape=(783,))]
    assert len({work().what, *(one.what for one in others)}) == 4


def test_a_trial_draws_from_nobodys_generator_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = torch.get_rng_state()
    list(islice(work().trial(), 2))
    assert torch.equal(before, torch.get_rng_state())
    assert not list(tmp_path.iterdir())


def test_made_up_records_take_the_room_of_one():
    found = trial.made_up(60_000, (1, 28, 28), device=CPU)
    assert found.shape == (60_000, 1, 28, 28)
    assert found.untyped_storage().nbytes() == 4 * 28 * 28
    assert found[torch.tensor([3, 59_999])].std() > 0.1


def test_steps_that_are_stored_are_those_that_training_goes_on_after(tmp_path):
    place = tmp_path / "run"
    assert trial.steps_done(place) == 0
    rng = generator_on(CPU, reproducible_seed=0)
    data = Data(torch.rand(100, 784), torch.zeros(100, dtype=torch.int64), 100)
    settings = replace(SETTINGS, sampling=PoissonSampling(16), max_steps=5)
    run: Any = train(
        dp_cgan.step,
        dp_cgan.new_gan(settings, seed=0, device=CPU),
        data,
        settings=settings,
        rng=rng,
        checkpoint=Checkpoints(place, every=2),
    )
    for _ in range(3):
        next(run)
    assert trial.steps_done(place) == 2  # of three, the last is not stored
    assert spent(place) == 5  # reserved beforehand
    run.close()
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert trial.steps_done(place) == 3
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    place.write_bytes(b"damaged")
    assert trial.steps_done(place) == 0


def test_steps_that_a_budget_allows_are_computed_once():
    calls = []

    class Counted:
        def steps_allowed(self, *, public_size):
            calls.append(public_size)
            return 2 * public_size

    settings = Counted()
    found = [trial.steps_allowed(settings, public_size=size) for size in (3, 3, 4)]  # type: ignore[arg-type]
    assert found == [6, 6, 8]
    assert calls == [3, 4]
