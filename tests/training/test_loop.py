"""The loop by itself: what a step is given, when it stops, and that storing changes none of it."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest
import torch
from tiny import networks

from dpkit.papers import dp_cgan as paper
from dpkit.privacy.sampling import ShuffledBatches
from dpkit.privacy.schedules import Linear
from dpkit.training import Checkpoints, Data, Record, generator_on, spent, train

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Counting:
    """Settings that allow a number of steps."""

    sampling: ShuffledBatches = ShuffledBatches(3)  # noqa: RUF009
    allowed: int = 8

    def steps_allowed(self, *, public_size: int) -> int:
        return self.allowed


class Given(NamedTuple):
    features: torch.Tensor
    labels: torch.Tensor
    index: int


def look(gan, features, labels, *, settings, index, rng):
    """A step that only notes what it is given."""
    gan.discriminator.given.append(Given(features[:, 0], labels, index))
    return Record(index, len(features), 0.0, None, 0.0)


def looked_at(settings, **keywords):
    """What the step is given at each call of ten records with feature and label i, and records."""
    gan, rng = networks(), generator_on(CPU, reproducible_seed=0)
    given = gan.discriminator.given = []
    data = Data(torch.arange(10.0)[:, None], torch.arange(10), public_size=10)
    return given, train(look, gan, data, settings=settings, rng=rng, **keywords)


def test_each_step_is_given_its_index_and_a_batch_with_its_own_labels():
    given, records = looked_at(Counting())
    assert given == []  # nothing runs before it is asked for
    for count, record in enumerate(records):
        assert record.step == count == len(given) - 1
    assert [one.index for one in given] == list(range(8))
    for one in given:
        assert torch.equal(one.labels, one.features.long())
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


def test_steps_beyond_the_budget_are_refused_before_any_and_no_steps_at_all_are_none(tmp_path):
    for place in (None, Checkpoints(tmp_path / "it")):
        for steps in (-1, 9):
            given, records = looked_at(Counting(), steps=steps, checkpoint=place)
            with pytest.raises(ValueError, match=f"between 0 and the 8 .* got {steps}"):
                next(records)
            assert given == []
    with pytest.raises(FileNotFoundError):
        spent(tmp_path / "it")  # nothing was begun
    for place in (None, Checkpoints(tmp_path / "it")):
        assert list(looked_at(Counting(), steps=0, checkpoint=place)[1]) == []
    assert list(looked_at(Counting(allowed=0))[1]) == []
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
