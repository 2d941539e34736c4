"""Per-example norms and clipped sums against torch.func, which forms every gradient."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, grad, vmap

from dpkit.privacy.clipping import FlatClipping, PerTensorClipping, Unclipped
from dpkit.training.gradients import UnsupportedLayer, capture, paired
from dpkit.training.networks import called_fake, called_real

pytestmark = pytest.mark.torch


def network(widths, *, bias, seed):
    rng = torch.Generator().manual_seed(seed)
    layers = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out, bias=bias), nn.Tanh()]
    net = nn.Sequential(*layers[:-1]).double()
    for parameter in net.parameters():
        parameter.data.normal_(generator=rng)
    return net


def reference(net, inputs, loss):
    """Each example's gradient in full: a list of (batch, *shape)."""
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def one(values, row):
        return loss(functional_call(net, values, (row[None],)))[0]

    return list(vmap(grad(one), (None, 0))(parameters, inputs).values())


def factored(net, inputs, loss):
    with capture(net) as captured:
        losses = loss(net(inputs))
    return captured.gradients(losses)


nets = st.builds(
    network,
    st.lists(st.integers(1, 9), min_size=1, max_size=3).map(lambda w: [*w, 1]),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(net=nets, batch=st.sampled_from([1, 7]), rule=st.sampled_from(["flat", "tensor", "none"]))
def test_clipped_sums_are_those_of_full_gradients(net, batch, rule):
    inputs = torch.randn(
        batch, net[0].in_features, generator=torch.Generator().manual_seed(1), dtype=torch.double
    )
    full = reference(net, inputs, called_real)
    gradients = factored(net, inputs, called_real)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in full])
    torch.testing.assert_close(gradients.norms(), norms, rtol=1e-10, atol=1e-12)

    clip = {
        "flat": FlatClipping(0.5),
        "tensor": PerTensorClipping(0.5, tensors=len(full)),
        "none": Unclipped(),
    }[rule]
    expected = []
    for row, g in enumerate(full):
        if rule == "flat":
            scale = (0.5 / norms.square().sum(0).sqrt()).clamp(max=1)
        elif rule == "tensor":
            scale = (0.5 / norms[row]).clamp(max=1)
        else:
            scale = torch.ones(batch, dtype=torch.double)
        expected.append(torch.einsum("b,b...->...", scale, g))
    for found, wanted in zip(
        gradients.weighted_sum(clip.weights(gradients.norms())), expected, strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("batch", [1, 7])
def test_paired_gradients_are_sums_of_two_passes(batch):
    net = network([5, 4, 1], bias=True, seed=0)
    rng = torch.Generator().manual_seed(2)
    real, fake = (torch.randn(batch, 5, generator=rng, dtype=torch.double) for _ in range(2))
    both = paired(factored(net, real, called_real), factored(net, fake, called_fake))
    full = [
        r + f
        for r, f in zip(
            reference(net, real, called_real), reference(net, fake, called_fake), strict=True
        )
    ]
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in full])
    torch.testing.assert_close(both.norms(), norms, rtol=1e-10, atol=1e-12)
    sums = both.weighted_sum(torch.ones(1, batch, dtype=torch.double))
    for found, wanted in zip(sums, full, strict=True):
        torch.testing.assert_close(found, wanted.sum(0), rtol=1e-10, atol=1e-12)


def test_sequences_of_positions_and_their_norms():
    """Inputs (batch, positions, features): a weight's gradient sums over positions."""
    net = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    rng = torch.Generator().manual_seed(3)
    inputs = torch.randn(4, 5, 3, generator=rng, dtype=torch.double)

    def loss(outputs):
        return outputs.sum((-2, -1))

    full = reference(net, inputs, loss)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in full])
    torch.testing.assert_close(factored(net, inputs, loss).norms(), norms, rtol=1e-9, atol=1e-12)


def test_an_empty_batch_sums_to_zero():
    net = network([3, 2, 1], bias=True, seed=0)
    gradients = factored(net, torch.empty(0, 3, dtype=torch.double), called_real)
    assert gradients.norms().shape == (4, 0)
    sums = gradients.weighted_sum(FlatClipping(1.0).weights(gradients.norms()))
    assert [tuple(s.shape) for s in sums] == [tuple(p.shape) for p in net.parameters()]
    assert all((s == 0).all() for s in sums)


@pytest.mark.parametrize(
    ("layer", "words"),
    [(nn.BatchNorm1d(3), "mixes the examples"), (nn.Bilinear(3, 3, 1), "are not known")],
)
def test_other_layers_are_refused_with_the_reason(layer, words):
    with pytest.raises(UnsupportedLayer, match=words), capture(nn.Sequential(layer)):
        pass


def test_a_layer_that_runs_twice_is_refused():
    net = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(UnsupportedLayer, match="ran twice"), capture(net):
        net(net(torch.ones(1, 2)))


def test_losses_that_are_not_one_an_example_are_refused():
    net = nn.Linear(2, 1)
    with capture(net) as captured:
        loss = net(torch.ones(3, 2)).mean()
    with pytest.raises(ValueError, match=r"losses must have shape \(batch,\)"):
        captured.gradients(loss)
