"""What would carry records past the noise, by what happens once, around a loss, or in a copy."""

import copy
import pickle

import pytest
import torch
from small_networks import FLAT, Critic, X, Y, begun, each, private_of, run
from torch import nn
from torch.nn.functional import cross_entropy

from dpkit import PrivateGan

pytestmark = pytest.mark.torch


class ActNorm(nn.Module):
    """Glow's: it takes means and deviations from the first batch that it sees."""

    def __init__(self, size, *, by_attribute):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(size))
        self.register_buffer("done", torch.tensor(0))
        self.by_attribute, self.was = by_attribute, False

    def forward(self, x):
        if not (self.was if self.by_attribute else self.done):
            with torch.no_grad():
                self.loc.copy_(-x.mean(0))
                self.done.fill_(1)
            self.was = True
        return x + self.loc


@pytest.mark.parametrize("by_attribute", [False, True])
def test_what_sets_itself_up_in_its_first_pass_does_so_on_noise(by_attribute):
    net = nn.Sequential(ActNorm(64, by_attribute=by_attribute), nn.Linear(64, 10))
    run(private_of(net, rate=0.0), steps=1)
    assert net[0].was
    assert (net[0].loc + FLAT.mean(0)).abs().max() > 0.3  # of numbers in [-1, 1]
    assert (net[0].loc + 0.5).abs().max() < 0.5  # minus the mean of uniform noise


def test_a_transform_that_sets_itself_up_does_so_on_noise():
    seen = []

    def centred(rows):
        if not seen:
            seen.append(rows.mean(0))
        return rows - seen[0]

    next(iter(private_of(transform=centred)))
    assert (seen[0] - 0.5).abs().max() < 0.5
    assert (seen[0] - FLAT.mean(0)).abs().max() > 0.3


class Counting(nn.Module):
    """A generator that counts the labels it was asked for."""

    def __init__(self, *, renormalised):
        super().__init__()
        self.label = nn.Embedding(10, 16, max_norm=1.0 if renormalised else None)
        self.body = nn.Linear(16, 64)
        self.register_buffer("uses", torch.zeros(10))

    def forward(self, z, y):
        if not self.label.max_norm:
            self.uses += torch.bincount(y, minlength=10)
        return self.body(z + self.label(y)).view(-1, 1, 8, 8)


@pytest.mark.parametrize("renormalised", [False, True])
def test_a_generator_that_keeps_what_it_was_asked_for(renormalised):
    generator = Counting(renormalised=renormalised)
    gan = PrivateGan(generator, Critic(), epsilon=8, delta=1e-5, classes=10, latent_size=16)
    with pytest.raises((TypeError, ValueError), match=r"max_norm|private examples"):
        gan.fit(X, Y, steps=3)


def contrastive(out, y):
    return cross_entropy(out @ out.T, torch.arange(len(out)), reduction="none")


def plain(out, y):
    return cross_entropy(out, y, reduction="none")


criterion = plain


def test_a_criterion_that_is_exchanged_is_looked_at_again():
    private = private_of(net := nn.Linear(64, 10))
    batches = iter(private)
    private.step(lambda x, y: criterion(net(x), y), *next(batches))
    private.step(lambda x, y: criterion(net(x), y), *next(batches))
    globals()["criterion"] = contrastive
    try:
        rows = next(batches)
        with pytest.raises(TypeError, match="other examples change"):
            private.step(lambda x, y: criterion(net(x), y), *rows)
    finally:
        globals()["criterion"] = plain


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_would_draw_the_same_noise(how):
    with pytest.raises(TypeError, match="the same noise"):
        how(private_of())


def test_a_forked_process_does_not_go_on(monkeypatch):
    net, private, x, y = begun()
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="forked"):
        private.step(each(net), x, y)


@pytest.mark.parametrize("way", ["numpy", "data"])
def test_rows_changed_where_no_version_counts(way):
    net, private, x, y = begun()
    held = x.numpy() if way == "numpy" else x.data
    held -= held.mean(0)
    with pytest.raises(ValueError, match="changed in place"):
        private.step(each(net), x, y)


def test_a_mistake_in_the_loss_or_a_look_at_the_data_set_costs_nothing():
    net, private, x, y = begun()
    for wrong in (lambda x, y: net(x), lambda x, y: cross_entropy(net(x[:, 1:]), y)):
        with pytest.raises(ValueError, match=r"one number for each|does not run on rows of"):
            private.step(wrong, x, y)
    with pytest.raises(ValueError, match="reads the data set"):
        private.step(lambda x: cross_entropy(net(x), Y[: len(x)], reduction="none"), x)
    assert private.steps_done == 0
    assert run(private).steps_done == 4
