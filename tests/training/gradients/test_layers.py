"""Each layer's per-example norms and clipped sums against autograd of each example alone."""

import warnings
from itertools import pairwise
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from per_example_tests import Calls, alone, filled, normal, norms_of
from torch import nn

from dpkit.privacy.clipping import FlatClipping, PerTensorClipping, Unclipped
from dpkit.training.gradients import MixesExamples, UnsupportedLayer, functional, layers
from dpkit.training.gradients.ghost_clipping import capture, paired, per_example

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def loss_of(outputs: torch.Tensor) -> torch.Tensor:
    """A loss that bends and sees each output apart."""
    flat = outputs.flatten(1)
    return (flat.tanh() * torch.linspace(0.5, 1.5, flat.shape[1]).to(flat)).sum(1)


def assert_equal(found: torch.Tensor, wanted: torch.Tensor, scale: torch.Tensor) -> None:
    """To the tolerance of the type, relative to the largest of the tensor or to `scale`."""
    size = max(float(wanted.abs().max()) if wanted.numel() else 0.0, float(scale))
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted, rtol=0, atol=TOLERANCE[found.dtype] * (size or 1.0))


def assert_as_reference(network: nn.Module, inputs: torch.Tensor) -> None:
    """Norms, clipped sums by each rule and by coordinate, and full gradients."""
    gradients, losses = per_example(network, loss_of, inputs)
    wanted = alone(network, loss_of, inputs)
    order = list(map(id, network.parameters()))
    assert list(map(id, gradients.parameters)) == order  # whatever way the batch went
    if len(inputs):
        assert_equal(losses, loss_of(network(inputs)).detach(), torch.tensor(1.0))
    norms = norms_of(wanted)
    one = norms.max() if norms.numel() else torch.tensor(0.0)
    # the square root of a Gram sum: as exact relative to the example's largest norm
    assert_equal(gradients.norms(), norms, one)
    bound = float(norms.median()) if norms.numel() else 1.0
    for rule in (FlatClipping(bound), PerTensorClipping(bound, tensors=len(wanted)), Unclipped()):
        weights = rule.weights(norms).expand(len(wanted), -1)
        sums = gradients.weighted_sum(rule.weights(gradients.norms()))
        for found, row, g in zip(sums, weights, wanted, strict=True):
            assert_equal(found, torch.tensordot(row, g, 1), one)
    bounds = [g.abs().sum(0) / max(len(inputs), 1) for g in wanted]
    sums, whole = gradients.clamped_sum(bounds)
    assert whole.shape == (len(inputs),)
    for found, g, bound in zip(sums, wanted, bounds, strict=True):
        assert_equal(found, g.clamp(-bound, bound).sum(0), one)
    with mock.patch.dict(functional.AT_ONCE, cpu=2 * sum(g[:1].numel() for g in wanted)):
        parts = list(map(list, gradients.each()))
    for index, g in enumerate(wanted if len(inputs) else []):
        assert_equal(torch.cat([part[index] for part in parts]), g, one)


@st.composite
def convolutions(draw):
    """A network around one convolution, transposed or not, and the size of its input."""
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    channels, out = (groups * draw(st.integers(1, 3)) for _ in range(2))
    kernel = tuple(draw(st.integers(1, 4)) for _ in range(2))
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    padding = draw(st.integers(0, 2))
    common = {"stride": stride, "dilation": dilation, "groups": groups, "bias": draw(st.booleans())}
    size = tuple(dilation * (k - 1) + 1 + draw(st.integers(0, 4)) for k in kernel)
    if draw(st.booleans()):
        mode = draw(st.sampled_from(["zeros", "zeros", "reflect", "circular", "same"]))
        padding = min(padding, *(s - 1 for s in size))
        if mode == "same":
            common |= {"stride": 1, "padding": "same"}
        else:
            common |= {"padding": padding, "padding_mode": mode}
        layer = nn.Conv2d(channels, out, kernel, **common)
    else:
        padding = min(padding, *(dilation * (k - 1) // 2 for k in kernel))
        more = draw(st.integers(0, stride - 1))
        layer = nn.ConvTranspose2d(
            channels, out, kernel, padding=padding, output_padding=more, **common
        )
    return nn.Sequential(layer, nn.Softplus(), nn.Conv2d(out, 2, 1)), (channels, *size)


NORMALISED = (
    (lambda: nn.LayerNorm(5), (3, 5)),
    (lambda: nn.LayerNorm((2, 5), bias=False), (2, 5)),
    (lambda: nn.LayerNorm(4), (4,)),
    (lambda: nn.GroupNorm(2, 4), (4, 3, 2)),
    (lambda: nn.GroupNorm(2, 6), (6,)),
    (lambda: nn.InstanceNorm1d(3, affine=True), (3, 5)),
    (lambda: nn.InstanceNorm2d(3, affine=True), (3, 4, 2)),
    (lambda: nn.InstanceNorm3d(2, affine=True), (2, 2, 2, 3)),
)
batches = st.sampled_from([0, 1, 7])
dtypes = st.sampled_from([torch.float64, torch.float32])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(case=convolutions(), batch=batches, dtype=dtypes, small=st.booleans())
def test_convolutions(case, batch, dtype, small):
    network, shape = case
    workspace = layers.WORKSPACE
    layers.WORKSPACE = 50 if small else workspace  # one example at a time, or all at once
    try:
        assert_as_reference(filled(network, dtype), normal(batch, *shape, dtype=dtype))
    finally:
        layers.WORKSPACE = workspace


@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=st.sampled_from(NORMALISED), batch=batches, dtype=dtypes)
def test_normalisations_of_one_example(case, batch, dtype):
    make, shape = case
    network = nn.Sequential(make(), nn.Tanh(), nn.Flatten())
    assert_as_reference(filled(network, dtype), normal(batch, *shape, dtype=dtype))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    widths=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    positions=st.sampled_from([(), (1,), (5,), (2, 3)]),
    bias=st.booleans(),
    batch=batches,
    dtype=dtypes,
)
def test_linear_layers_at_any_positions(widths, positions, bias, batch, dtype):
    parts = [nn.Linear(a, b, bias=bias) for a, b in pairwise(widths)]
    network = nn.Sequential(*(layer for part in parts for layer in (part, nn.Softplus())))
    inputs = normal(batch, *positions, widths[0], dtype=dtype)
    assert_as_reference(filled(network, dtype), inputs)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(batch=batches, padding=st.sampled_from([None, 2]), positions=st.sampled_from([(), (4,)]))
def test_embeddings_count_a_row_read_twice(batch, padding, positions):
    network = nn.Sequential(nn.Embedding(5, 3, padding_idx=padding), nn.Tanh(), nn.Flatten())
    filled(network, torch.float64)
    rng = torch.Generator().manual_seed(3)
    indices = torch.randint(5, (batch, *positions), generator=rng)
    assert_as_reference(network, indices)


def residual() -> nn.Module:
    """One tensor that two layers read, and one gradient that two outputs share."""
    return Calls(lambda p, x: p[0](x) + p[1](x) + x, nn.Linear(4, 4), nn.Linear(4, 4))


class Backwards(nn.Sequential):
    """Layers that run in another order than the network lists them."""

    def forward(self, x):
        for layer in reversed(self):
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (nn.Sequential(nn.Conv2d(40, 30, 2)), (40, 2, 3)),  # wide, at few positions: Gram matrices
        (nn.Sequential(nn.Conv2d(1, 2, 2)), (1, 9, 9)),  # small, at many: products
        (nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ELU()), (4,)),
        (nn.Sequential(nn.Linear(4, 6), nn.ReLU(True), nn.Linear(6, 5), nn.ELU(1, True)), (4,)),
        (Backwards(residual(), nn.Tanh(), residual(), nn.Linear(4, 4)), (4,)),
    ],
    ids=["by Gram matrices", "by products", "plain", "in place", "branches in another order"],
)
def test_other_ways_through_a_network(network, shape):
    assert_as_reference(filled(network), normal(5, *shape, dtype=torch.float64))


@pytest.mark.parametrize("batch", [0, 1, 4])
def test_two_passes_that_were_captured_add_up(batch):
    layers = nn.Conv2d(2, 3, 2), nn.GELU(), nn.Conv2d(3, 2, 2)
    network, passes, full = filled(nn.Sequential(*layers)), [], []
    for seed in (1, 2):
        rows = normal(batch, 2, 5, 4, dtype=torch.float64, seed=seed)
        with capture(network) as captured:
            losses = loss_of(network(rows))
        passes.append(captured.gradients(losses))
        full.append(alone(network, loss_of, rows))
    both = paired(*passes)
    wanted = [one + other for one, other in zip(*full, strict=True)]
    assert list(map(id, both.parameters)) == list(map(id, network.parameters()))
    torch.testing.assert_close(both.norms(), norms_of(wanted), rtol=1e-10, atol=1e-12)
    found = both.weighted_sum(torch.ones(1, batch).double())
    torch.testing.assert_close(found, [g.sum(0) for g in wanted], rtol=1e-10, atol=1e-12)


class Gated(nn.Module):
    """A layer with parameters of a kind of its own."""

    def __init__(self, width: int, name: str = "") -> None:
        super().__init__()
        self.name = name
        self.gate = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.gate.sigmoid()

    def extra_repr(self) -> str:
        return self.name


def test_the_slow_way_is_told_once():
    network = nn.Sequential(nn.Linear(3, 2), Gated(2, name="once"))
    with pytest.warns(UserWarning, match=r"Gated\(once\).* goes through torch.func"):
        per_example(network, loss_of, torch.ones(2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        per_example(network, loss_of, torch.ones(2, 3))


def test_layers_where_examples_meet_are_refused_with_the_reason():
    for layer, words in (
        (nn.BatchNorm1d(3), "mixes the examples"),
        (nn.BatchNorm1d(3, affine=False), "mixes the examples"),
        (nn.SyncBatchNorm(3), "mixes the examples"),
        (nn.InstanceNorm1d(3, affine=True, track_running_stats=True), "running statistics"),
        (nn.Embedding(9, 3, max_norm=1.0), "max_norm.*leave it out"),
        (nn.EmbeddingBag(9, 3, max_norm=1.0), "max_norm.*leave it out"),
    ):
        network = nn.Sequential(nn.Linear(3, 3), layer)
        with pytest.raises(MixesExamples, match=words):
            per_example(network, loss_of, torch.ones(2, 3))
        with pytest.raises(MixesExamples, match=words), capture(network):
            pass


def shared() -> nn.Module:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    return nn.Sequential(first, second)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (shared(), "shares a parameter"),
        (nn.ConvTranspose2d(1, 1, 3, stride=2, dilation=3, output_padding=2), "output_padding"),
        (nn.Embedding(3, 2, scale_grad_by_freq=True), "other examples"),
        (nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2)), "are not known"),
        (nn.Bilinear(3, 3, 1), "are not known"),
    ],
)
def test_what_products_do_not_cover_is_refused_by_capture(network, words):
    with pytest.raises(UnsupportedLayer, match=words), capture(network):
        pass


def test_a_first_dimension_that_is_not_the_examples_is_refused():
    network = nn.Sequential(nn.Flatten(0, 1), nn.Linear(3, 1), nn.Unflatten(0, (2, 4)))
    with pytest.raises(UnsupportedLayer, match="one example alone"):
        per_example(network, loss_of, torch.ones(2, 4, 3))
    with pytest.raises(UnsupportedLayer, match="first dimension"), capture(network) as captured:
        captured.gradients(loss_of(network(torch.ones(2, 4, 3))))


def test_passes_that_capture_does_not_read_are_refused():
    """An input changed afterwards, a layer that runs twice, losses not one each, no graph."""
    network, inputs = nn.Linear(2, 2), torch.ones(3, 2)
    with capture(network) as captured:
        losses = loss_of(network(inputs))
    inputs += 1
    with pytest.raises(UnsupportedLayer, match="changed in place"):
        captured.gradients(losses)
    with pytest.raises(UnsupportedLayer, match="ran twice"), capture(network):
        network(network(inputs))
    with capture(network) as captured:
        loss = network(inputs).mean()
    with pytest.raises(ValueError, match=r"losses must have shape \(batch,\)"):
        captured.gradients(loss)
    with pytest.raises(ValueError, match="grad mode"), torch.no_grad(), capture(network):
        network(inputs)


def test_every_kind_is_tested():
    names = {kind.__name__ for kind in layers.KINDS}
    assert names == {
        *("Linear", "Conv2d", "ConvTranspose2d", "Embedding", "LayerNorm", "GroupNorm"),
        *("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
    }
