"""Noise that a thread draws ahead is the noise that would be drawn, and serves one release."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf, isfinite

import numpy as np
import pytest
import torch
from torch import nn

from dpkit.privacy import normals
from dpkit.privacy.clipping import FlatClipping
from dpkit.training import clipped_sum, generator_on, noise_ahead, noised, per_example
from dpkit.training.networks import called_real

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")
ROWS = torch.rand(4, 9, generator=torch.Generator().manual_seed(1))


def network(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(9, width), nn.Tanh(), nn.Linear(width, 1))


def sums_of(net: nn.Module) -> list[torch.Tensor]:
    of = partial(per_example, net, called_real)
    return clipped_sum(of, ROWS, rule=FlatClipping(1.0)).sums


def released(rng: torch.Generator, *nets: nn.Module, steps: int, draws: int = 0):
    """The releases of `steps` steps, all numbers of each; `draws` of the step's own come before."""
    found = []
    for _ in range(steps):
        for net in nets:
            sums = sums_of(net)
            torch.rand(draws, generator=rng)
            noisy = noised(sums, noise_std=1.0, rng=rng)
            found.append(torch.cat([x.flatten() for x in noisy]))
    return found


@pytest.fixture
def blocks(monkeypatch):
    """What is drawn, by a thread or at once, and what enters releases, as bytes."""
    drawn, used = [], []
    normal, own = normals.standard_normals, noise_ahead.drawn

    def standard_normals(count, *, rng):
        block = normal(count, rng=rng)
        drawn.append(block.tobytes())
        return block

    def given(rng, sizes):
        for block in own(rng, sizes):
            used.append(block.tobytes())
            yield block

    monkeypatch.setattr(normals, "standard_normals", standard_normals)
    monkeypatch.setattr(noise_ahead, "drawn", given)
    monkeypatch.setattr(noise_ahead, "LEAST", 1)
    return drawn, used


@pytest.mark.parametrize("draws", [0, 3], ids=["the key is foreseen", "other draws come before"])
@pytest.mark.parametrize("widths", [(5,), (5, 7)], ids=["one network", "two in turn"])
def test_the_noise_is_the_same_and_each_block_enters_one_release(
    widths, draws, blocks, monkeypatch
):
    nets, (drawn, used) = list(map(network, widths)), blocks
    ahead = released(generator_on(CPU, reproducible_seed=3), *nets, steps=6, draws=draws)
    seen = list(used)
    assert bool({*drawn} - {*seen}) == (draws > 0 or len(widths) > 1)  # two sizes: one is foreseen
    monkeypatch.setattr(noise_ahead, "LEAST", inf)
    used.clear()
    again = released(generator_on(CPU, reproducible_seed=3), *nets, steps=6, draws=draws)
    assert all(torch.equal(a, b) for a, b in zip(ahead, again, strict=True))
    assert seen == used
    assert len({*used}) == len(used) == 4 * 6 * len(widths)  # a block a tensor, none twice


def test_what_is_never_foreseen_is_no_longer_drawn_ahead(blocks):
    drawn, used = blocks
    released(generator_on(CPU), network(5), steps=9, draws=1)
    assert len(drawn) == len(used) + 4 * noise_ahead.MISSES


def test_sums_that_are_taken_twice_before_the_noise_draw_it_ahead_once(blocks):
    drawn, _ = blocks
    rng, net = generator_on(CPU), network(5)
    released(rng, net, steps=1)
    for _ in range(3):
        sums_of(net)
    noised(sums_of(net), noise_std=1.0, rng=rng)
    assert len(drawn) == 8


def test_threads_that_share_a_generator_get_whole_noise_of_their_own(blocks):
    """Networks of two sizes meet at one generator, in whatever order: no sum is left bare."""
    rng, nets = generator_on(CPU, reproducible_seed=1), [network(5), network(7)]
    with ThreadPoolExecutor(2) as threads:
        found = [*threads.map(lambda net: released(rng, net, steps=40), nets)]
    numbers = torch.cat([torch.cat(releases) for releases in found])
    assert numbers.abs().max() < 20  # sums of 4 clipped gradients; beyond by chance below 1e-50
    _, used = blocks
    assert len({*used}) == len(used) == 2 * 40 * 4


@pytest.mark.usefixtures("blocks")
def test_at_the_interpreters_end_where_no_thread_starts_noise_is_drawn_at_once():
    rng, net = generator_on(CPU), network(5)
    released(rng, net, steps=1)
    rng.ahead.thread.shutdown()
    assert all(x.isfinite().all() for x in released(rng, net, steps=2))


def test_an_error_of_the_thread_is_raised_where_the_noise_is_added(blocks, monkeypatch):
    rng, net = generator_on(CPU), network(5)
    released(rng, net, steps=1)

    def full(count, *, rng):
        raise MemoryError(count)

    monkeypatch.setattr(normals, "standard_normals", full)
    sums = sums_of(net)
    with pytest.raises(MemoryError, match="45"):
        noised(sums, noise_std=1.0, rng=rng)


def drawn_in_a_fork(steps: int) -> list[float]:
    return torch.cat(released(generator_on(CPU), network(5), steps=steps)).tolist()


@pytest.mark.usefixtures("blocks")
def test_a_forked_process_draws_its_own_without_waiting_for_its_parents_thread():
    net = network(5)
    released(generator_on(CPU, reproducible_seed=1), net, steps=2)
    with multiprocessing.get_context("fork").Pool(1) as processes:
        assert all(map(isfinite, processes.apply_async(drawn_in_a_fork, (9,)).get(timeout=30)))


def test_few_and_very_many_coordinates_are_drawn_at_once(monkeypatch):
    """A thread costs more than it saves, or holds too much memory."""
    asked = []
    monkeypatch.setattr(noise_ahead, "_normals", lambda key: asked.append(key) or np.zeros)
    monkeypatch.setattr(noise_ahead, "MOST", 700)
    monkeypatch.setattr(noise_ahead, "LEAST", 300)
    for width, ahead in ((5, 0), (40, 1), (90, 0)):  # of 11 coordinates each, and one
        rng, net = generator_on(CPU), network(width)
        asked.clear()
        released(rng, net, steps=1)
        sums_of(net)
        assert len(asked) == 1 + ahead
