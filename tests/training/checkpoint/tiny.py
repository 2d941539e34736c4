"""A run of eight steps on twenty records, with what a test wants to know of it."""

import os
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from torch import nn

from dpkit.privacy.sampling import PoissonSampling, ShuffledBatches
from dpkit.privacy.schedules import Constant
from dpkit.training import Data, Gan, Record, generator_on, train
from dpkit.training.checkpoint import Checkpoints, ledger, spent
from dpkit.training.checkpoint.ledger import ledger_path

CPU = torch.device("cpu")
STEPS = 8
ONE, FOUR = Constant(1.0), PoissonSampling(4)


@dataclass(frozen=True)
class Plain:
    """Settings that allow eight steps."""

    noise: Any = ONE
    bounds: Any = None
    sampling: Any = FOUR

    def steps_allowed(self, *, public_size):
        return STEPS


POISSON = Plain()
# Three batches an epoch: a crash may come in the middle of one, and between two.
SHUFFLED = Plain(sampling=ShuffledBatches(6))


def networks(activation=nn.Tanh, dropout=0.0, seed=0):
    rng = torch.Generator().manual_seed(seed)
    critic = nn.Sequential(nn.Linear(3, 4), activation(), nn.Dropout(dropout), nn.Linear(4, 1))
    generator = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    with torch.no_grad():
        for parameter in (*critic.parameters(), *generator.parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=rng))
    sgd = torch.optim.SGD(generator.parameters(), lr=0.1)
    adam = torch.optim.Adam(critic.parameters(), lr=0.1)
    return Gan(generator, deepcopy(generator), critic, sgd, adam)


def data(seed=0, size=20, public_size=20):
    features = torch.rand(size, 3, generator=torch.Generator().manual_seed(seed))
    return Data(features, torch.zeros(size, dtype=torch.int64), public_size=public_size)


def step(gan, features, labels, *, settings, index, rng, scale=1.0):
    """Not private: what counts here is which noise is drawn, and what it is added to."""
    gan.discriminator._watch(index, done=False)
    for optimizer in (gan.discriminator_optimizer, gan.generator_optimizer):
        optimizer.zero_grad()
    fakes = gan.generator_net(torch.randn(5, 2, generator=rng))
    scores = gan.discriminator(torch.cat((features, fakes)))
    (scale * scores.tanh().sum()).backward()
    noise = []
    for parameter in gan.discriminator.parameters():
        noise.append(torch.randn(parameter.shape, generator=rng))
        parameter.grad += settings.noise(index) * noise[-1]
    gan.discriminator_optimizer.step()
    gan.generator_optimizer.step()
    gan.discriminator._seen.append((index, torch.cat([one.reshape(-1) for one in noise])))
    gan.discriminator._watch(index, done=True)
    return Record(index, len(features), scores.sum().item(), None, 0.0)


class Killed(BaseException):
    """What no handler of the code is meant to catch."""


class Run:
    """A run with the records it yields, the steps and noise it drew, and all that it trained."""

    def __init__(self, place=None, *, by=step, gan=None, on=None, seed=0, watch=None, **told):
        self.gan = networks() if gan is None else gan
        self.rng = generator_on(CPU, reproducible_seed=seed)
        self.gan.discriminator._seen = self.seen = []
        self.gan.discriminator._watch = watch or (lambda index, *, done: None)
        told = {"settings": POISSON, "rng": self.rng, "checkpoint": place, **told}
        self.records = train(by, self.gan, data() if on is None else on, **told)

    def all(self):
        self.yielded = list(self.records)
        return self

    @property
    def done(self):
        """Indices of the steps that were computed."""
        return [index for index, _ in self.seen]

    @property
    def noise(self):
        return torch.cat([noise for _, noise in self.seen])

    def state(self):
        """Everything that training changes, as one flat dict of bytes and numbers."""
        flat = {"rng": self.rng.get_state().numpy().tobytes()}
        for name in self.gan._fields:
            flatten(name, getattr(self.gan, name).state_dict(), flat)
        return flat


def flatten(name, value, flat):
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            flatten(f"{name}.{key}", item, flat)
    else:
        flat[name] = value.numpy().tobytes() if torch.is_tensor(value) else value


def whole_run(**changes):
    """The run that nothing interrupts, elsewhere; every crash must end as it does."""
    with TemporaryDirectory() as folder:
        return Run(Checkpoints(Path(folder) / "whole"), **changes).all()


def killed_in(place, index, **changes):
    """A run that dies at the begin of a step, with the block of steps it reserved."""

    def watch(now, *, done):
        if now == index:
            raise Killed

    with pytest.raises(Killed):
        Run(place, watch=watch, **changes).all()


class Machine:
    """Dies at its n-th event: a call that writes to the disk, or the begin or end of a step.

    Once dead it writes no more, so that handlers on the way out change nothing, as after
    SIGKILL. Two calls with nothing between them are one place to die, not two.
    """

    def __init__(self, monkeypatch, dies_at=None):
        self.events, self.dies_at, self.computed = 0, dies_at, 0
        for name in ("open", "fsync", "replace", "pwrite"):
            monkeypatch.setattr(ledger.os, name, self.wrapped(getattr(os, name)))

    def event(self):
        self.events += 1
        if self.dies_at is not None and self.events >= self.dies_at:
            raise Killed

    def watch(self, index, *, done):
        if done:
            self.computed = max(self.computed, index + 1)
        self.event()

    def wrapped(self, call):
        def wrapper(*args, **keywords):
            self.event()
            return call(*args, **keywords)

        return wrapper


def run_until_death(place, dies_at, settings, seed=0):
    """(all that was trained, or None where it died; steps computed) of one life."""
    with pytest.MonkeyPatch.context() as patch:
        machine = Machine(patch, dies_at)
        run = Run(place, settings=settings, seed=seed, watch=machine.watch)
        try:
            return run.all().state(), machine.computed
        except Killed:
            return None, machine.computed


def charged_now(place):
    return spent(place.path) if ledger_path(place.path).exists() else 0
