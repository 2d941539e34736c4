"""The ledger beside a checkpoint says what its charged steps release, and the kit prices it."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from tiny import Plain, Run, killed_in

from dpkit.commands.ledger_file import read
from dpkit.privacy import Laplace, Release, SampledGaussian
from dpkit.training.checkpoint import Checkpoints
from dpkit.training.checkpoint.ledger import ledger_path

pytestmark = pytest.mark.torch


@dataclass(frozen=True)
class Priced(Plain):
    """Two releases a step."""

    def ledger(self, *, public_size, steps):
        return [Release(SampledGaussian(1.5, 4 / public_size), 2 * steps)]


@dataclass(frozen=True)
class OfOtherReleases(Plain):
    def ledger(self, *, public_size, steps):
        return [Release(Laplace(1.5), steps)]


@dataclass(frozen=True)
class OfOtherArguments(Plain):
    def ledger(self):
        return []


@pytest.fixture
def place(tmp_path: Path):
    return Checkpoints(tmp_path / "gan.checkpoint", every=3, reserve=3)


def test_reserved_steps_are_priced_and_unused_ones_given_back(place):
    killed_in(place, 4, settings=Priced())
    assert read(ledger_path(place.path)) == [Release(SampledGaussian(1.5, 0.2), 12)]
    Run(place, settings=Priced(), steps=7).all()
    assert read(ledger_path(place.path)) == [Release(SampledGaussian(1.5, 0.2), 14)]


@pytest.mark.parametrize("settings", [Plain(), OfOtherReleases(), OfOtherArguments()])
def test_where_no_row_describes_a_step_only_its_number_is_stored(place, settings):
    Run(place, settings=settings, steps=2).all()
    assert "rows" not in json.loads(ledger_path(place.path).read_text())
    with pytest.raises(ValueError, match=r"counts 2 charged steps and does not say"):
        read(ledger_path(place.path))
