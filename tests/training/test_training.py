"""A paper's runs in the loop, and updates. Randomised tests have fixed seeds, and state odds."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch

from dpkit.papers import dp_cgan as paper
from dpkit.privacy import rdp
from dpkit.training import Data, average, generator_on, train, update

CPU = torch.device("cpu")


def test_a_gradient_that_is_not_finite_stops_training():
    parameter, bad = torch.nn.Parameter(torch.zeros(2)), torch.tensor([1.0, torch.nan])
    with pytest.raises(FloatingPointError, match=r"NaN or infinite.*take a smaller learning rate"):
        update(torch.optim.SGD([parameter], lr=1.0), [parameter], [bad])
    assert (parameter == 0).all()


def tiny(settings):
    return replace(paper.settings.small(settings, batch_size=8, steps=6), pixels=12, hidden=5)


def tiny_data():
    rng = torch.Generator().manual_seed(0)
    features = torch.rand(40, 12, generator=rng)
    return Data(features, torch.randint(10, (40,), generator=rng), public_size=40)


def run(settings, step):
    gan, rng = paper.new_gan(settings, seed=0, device=CPU), generator_on(CPU, reproducible_seed=0)
    return gan, list(train(step, gan, tiny_data(), settings=settings, rng=rng))


@pytest.mark.parametrize("name", ["SETTINGS", "BASIC", "NON_PRIVATE", "REPAIRED"])
def test_a_run_repeats_to_the_bit_and_yields_a_record_a_step(name):
    settings, step = tiny(getattr(paper, name)), getattr(paper, name.lower() + "_step", paper.step)
    first, records = run(settings, step)
    second, again = run(settings, step)
    assert [record.step for record in records] == list(range(len(records)))
    assert records == again
    nets = first.generator_net, second.generator_net
    for a, b in zip(*(net.parameters() for net in nets), strict=True):
        assert torch.equal(a, b)


def test_training_stops_before_it_would_overspend():
    settings = replace(tiny(paper.REPAIRED), target_epsilon=3.0, max_steps=10_000)
    _, records = run(settings, paper.step)
    spent, more = (
        rdp.epsilon(settings.ledger(public_size=40, steps=len(records) + i), delta=1e-5).epsilon
        for i in (0, 1)
    )
    assert 0 < len(records) < 10_000
    assert spent <= 3.0 < more


def test_each_stream_of_a_seed_is_its_own():
    """Weights, training and synthesis must not share draws: the noise is taken as independent."""
    streams = [
        generator_on(CPU, reproducible_seed=0),
        generator_on(CPU, reproducible_seed=1),
        generator_on(CPU, reproducible_seed=0, stream="synthesis"),
        torch.Generator().manual_seed(0),
    ]
    draws = torch.stack([torch.rand(1000, generator=rng) for rng in streams])
    correlation = torch.corrcoef(draws) - torch.eye(len(streams))
    assert correlation.abs().max() < 5 / 1000**0.5  # five standard errors: odds 4e-6
    assert torch.equal(draws[0], torch.rand(1000, generator=generator_on(CPU, reproducible_seed=0)))


def linear_and(other):
    network = torch.nn.Linear(3, 1)
    return network, [*network.parameters(), *other.parameters()]


def test_an_optimizer_that_holds_other_parameters_is_refused():
    """They would move along the raw private gradient that a backward pass left there."""
    other = torch.nn.Linear(3, 1)
    network, both = linear_and(other)
    other(torch.ones(2, 3)).sum().backward()
    before = other.weight.detach().clone()
    gradients = [torch.zeros_like(p) for p in network.parameters()]
    with pytest.raises(ValueError, match=r"holds 2 others, .* without noise"):
        update(torch.optim.SGD(both, lr=1.0), list(network.parameters()), gradients)
    assert torch.equal(before, other.weight)
    alone = torch.optim.SGD(other.parameters(), lr=1.0)
    with pytest.raises(ValueError, match="does not hold 2 of the 2 parameters"):
        update(alone, list(network.parameters()), gradients)


def test_frozen_parameters_in_an_optimizer_are_fine_and_one_that_asks_for_the_loss_again_is_not():
    network, both = linear_and(torch.nn.Linear(3, 1).requires_grad_(False))
    own, ones = list(network.parameters()), [torch.ones(1, 3), torch.ones(1)]
    update(torch.optim.SGD(both, lr=1.0), own, ones)
    with pytest.raises(ValueError, match="LBFGS computes the loss again"):
        update(torch.optim.LBFGS(own), own, ones)


def test_an_average_takes_the_buffers_with_it():
    """A released generator in evaluation mode is another one with the variances it began with."""
    network = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    averaged = deepcopy(network)
    network(5 * torch.rand(20, 3, generator=generator_on(CPU, reproducible_seed=0)))
    average(averaged, network, decay=0.9, updates=50)
    assert not torch.equal(dict(averaged.named_buffers())["1.running_mean"], torch.zeros(3))
    for past, present in zip(averaged.buffers(), network.buffers(), strict=True):
        assert torch.equal(past, present)


def test_training_with_a_generator_that_everybody_knows_is_refused():
    nothing: Any = None  # that rng may not be a number: test_data.py
    with pytest.raises(ValueError, match="torch's default seed"):
        next(train(nothing, nothing, nothing, settings=nothing, rng=torch.Generator()))
