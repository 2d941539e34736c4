"""Defects: a model that was built for other settings is trained, and priced by the wrong ones."""

from dataclasses import dataclass, replace

import pytest
import torch

from dpkit.papers.adadp import agd, algorithm
from dpkit.papers.adadp.levels import LEVELS, at_level, small
from dpkit.papers.adadp.noise_shapes import RawHistory
from dpkit.papers.adadp.settings import AGD, proven
from dpkit.training.device import generator_on
from dpkit.training.loop import train
from dpkit.training.types import Data

pytestmark = pytest.mark.torch
SIZE, CPU = 1437, torch.device("cpu")
QUIET = {"noise_multiplier": 1e-3}


def data():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(SIZE, 20, generator=rng)
    return Data(x, torch.randint(10, (SIZE,), generator=rng), SIZE)


def run(step, model, settings):
    return list(train(step, model, data(), settings=settings, rng=generator_on(CPU), steps=2))


REPAIRED = replace(small(at_level("repaired", LEVELS[0]), public_size=SIZE), noise_multiplier=20.0)


@pytest.mark.parametrize(
    "other", [replace(REPAIRED, **QUIET), small(at_level("adadp", LEVELS[0]), public_size=SIZE)]
)
def test_a_shape_of_other_settings_is_refused(other):
    model = algorithm.new_classifier(other, seed=0, device=CPU)
    with pytest.raises((TypeError, ValueError)):
        run(algorithm.step, model, REPAIRED)


def test_agd_with_a_memory_of_other_settings_is_refused():
    settings = replace(
        small(AGD, public_size=SIZE),
        noise_multiplier=30.0,
        least_noise_multiplier=10.0,
        choice_noise=100.0,
        target_epsilon=2.0,
    )
    other = replace(
        settings, noise_multiplier=0.01, least_noise_multiplier=0.01, target_epsilon=1e9
    )
    with pytest.raises(ValueError, match="settings"):
        run(agd.step, agd.new_descent(other, seed=0, device=CPU), settings)


@dataclass(frozen=True)
class OwnNoise:
    """A user's own noise, whose shape reads raw gradients."""

    max_grad_norm: float = 1.0

    def build(self, parameters, settings):
        return RawHistory(
            parameters, noise_multiplier=settings.noise_multiplier, max_grad_norm=self.max_grad_norm
        )


def test_a_raw_history_of_an_own_class_has_no_price():
    ledger = replace(REPAIRED, noise=OwnNoise()).ledger(public_size=SIZE, steps=2)
    assert proven(ledger, delta=1e-5).epsilon == float("inf")
