"""The loop by itself: what a step is given, when it stops, and that storing changes none of it."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pytest
import torch

from dpkit.papers import dp_cgan as paper
from dpkit.privacy.sampling import PoissonSampling, ShuffledBatches
from dpkit.privacy.schedules import Linear
from dpkit.training.checkpoint import Checkpoints, spent
from dpkit.training.device import generator_on
from dpkit.training.loop import train
from dpkit.training.types import Data, Gan, Record

pytestmark = pytest.mark.torch


CPU = torch.device("cpu")


@dataclass(frozen=True)
class Counting:
    """Settings that allow a number of steps."""

    sampling: PoissonSampling | ShuffledBatches = field(default_factory=lambda: ShuffledBatches(3))
    allowed: int = 8

    def steps_allowed(self, *, public_size: int) -> int:
        """As many as given."""
        return self.allowed


class Given(NamedTuple):
    features: torch.Tensor
    labels: torch.Tensor
    index: int


def tiny_gan():
    nets = [torch.nn.Linear(2, 2) for _ in range(3)]
    for net in nets:
        torch.nn.init.zeros_(net.weight)
        torch.nn.init.zeros_(net.bias)
    return Gan(
        nets[0],
        nets[1],
        nets[2],
        torch.optim.SGD(nets[0].parameters(), lr=0.1, momentum=0.9),
        torch.optim.Adam(nets[2].parameters(), lr=0.1),
    )


def numbered(size):
    """Record i has feature i and label i % 10: batches tell which records they hold."""
    features = torch.arange(size, dtype=torch.float32)[:, None]
    return Data(features, torch.arange(size) % 10, public_size=size)


def look(gan, features, labels, *, settings, index, rng):
    """A step that only notes what it is given."""
    gan.discriminator.given.append(Given(features[:, 0], labels, index))
    return Record(index, len(features), 0.0, None, 0.0)


def looked_at(settings, *, seed=0, size=10, **keywords):
    """What the step is given at each call, and the run's rng."""
    gan, rng = tiny_gan(), generator_on(CPU, reproducible_seed=seed)
    given = gan.discriminator.given = []
    records = train(look, gan, numbered(size), settings=settings, rng=rng, **keywords)
    return given, records


def test_each_step_is_given_its_index_and_a_batch_with_its_own_labels():
    given, records = looked_at(Counting())
    assert given == []  # nothing runs before it is asked for
    for count, record in enumerate(records):
        assert record.step == count == len(given) - 1
    assert [one.index for one in given] == list(range(8))
    for one in given:
        assert torch.equal(one.labels, one.features.long() % 10)
        assert len(one.features) == 3
    for epoch in range(2):  # three batches of three of ten records, none twice
        seen = torch.cat([one.features for one in given[3 * epoch : 3 * epoch + 3]])
        assert len(seen.unique()) == 9


def test_a_second_stop_within_an_epoch_keeps_its_place(tmp_path):
    settings = Counting(ShuffledBatches(1))  # ten batches an epoch: all stops lie in the first
    plain, records = looked_at(settings, checkpoint=Checkpoints(tmp_path / "whole"))
    list(records)
    found = []
    for _ in range(8):
        given, records = looked_at(settings, checkpoint=Checkpoints(tmp_path / "it"))
        next(records)
        records.close()
        found += given
    assert [one.features.item() for one in found] == [one.features.item() for one in plain]


@pytest.mark.parametrize("place", [False, True])
@pytest.mark.parametrize("steps", [-1, 9])
def test_steps_beyond_the_budget_are_refused_before_any(tmp_path, place, steps):
    checkpoint = Checkpoints(tmp_path / "it") if place else None
    given, records = looked_at(Counting(), steps=steps, checkpoint=checkpoint)
    with pytest.raises(ValueError, match=f"between 0 and the 8 .* got {steps}"):
        next(records)
    assert given == []
    if place:
        with pytest.raises(FileNotFoundError):
            spent(tmp_path / "it")  # nothing was begun


@pytest.mark.parametrize("place", [False, True])
def test_no_steps_at_all(tmp_path, place):
    checkpoint = Checkpoints(tmp_path / "it") if place else None
    assert list(looked_at(Counting(), steps=0, checkpoint=checkpoint)[1]) == []
    assert list(looked_at(Counting(allowed=0), checkpoint=None)[1]) == []
    if place:
        assert spent(tmp_path / "it") == 0


def test_schedules_and_critic_steps_go_on_where_they_were(tmp_path):
    """The rate follows the step's index and the generator's turn too, whatever came between."""
    honest = paper.settings.small(paper.REPAIRED, batch_size=8, steps=7)
    adam = replace(honest.discriminator_optimizer, rate=Linear(1e-2, 1e-3, over=7))
    settings = replace(
        honest,
        pixels=12,
        hidden=5,
        noise_multiplier=4.0,
        discriminator_steps=3,
        discriminator_optimizer=adam,
    )
    rng = torch.Generator().manual_seed(0)
    data = Data(torch.rand(40, 12, generator=rng), torch.arange(40) % 10, public_size=40)

    def lives(*stops):
        records, rates = [], []
        place = Checkpoints(tmp_path / str(stops))
        for stop in stops:
            gan = paper.new_gan(settings, seed=0, device=CPU)
            own = {"rng": generator_on(CPU, reproducible_seed=0), "checkpoint": place}
            for record in train(paper.step, gan, data, settings=settings, steps=stop, **own):
                records.append(record)
                rates.append(gan.discriminator_optimizer.param_groups[0]["lr"])
        return records, rates

    whole, rates = lives(7)
    assert [record.generator_loss is None for record in whole] == [True, True, False] * 2 + [True]
    assert rates == [adam.rate(index) for index in range(7)]
    assert lives(1, 2, 5, 7) == (whole, rates)
