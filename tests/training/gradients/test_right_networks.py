"""Networks of many makes: gradients of each example are autograd's of that example alone."""

import per_example_tests
import pytest
import torch
from per_example_tests import Calls, alone, assert_gradients, frozen_norm, with_labels
from per_example_tests import normal as normal_floats
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, weight_norm
from torch.nn.utils.parametrize import register_parametrization
from torch.utils.checkpoint import checkpoint

from dpkit.training.gradients import gradient_penalty, per_example

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*goes through torch.func"),
    pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated"),
    pytest.mark.filterwarnings("ignore:.*performance drop"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor"),
]


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight + weight.mT


def low_rank() -> nn.Module:
    """A frozen layer, and a trained update of low rank (LoRA)."""
    down, up = nn.Linear(6, 2, bias=False), nn.Linear(2, 6, bias=False)
    frozen = nn.Linear(6, 6).requires_grad_(False)
    return Calls(lambda parts, x: parts[0](x) + parts[2](parts[1](x)), frozen, down, up)


def projection() -> nn.Module:
    """A critic that is conditioned by an inner product (Miyato and Koyama 2018)."""

    def score(parts, x, y):
        h = parts[0](x).relu()
        return parts[1](h) + (parts[2](y) * h).sum(1, keepdim=True)

    return declared(Calls(score, nn.Linear(6, 8), nn.Linear(8, 1), nn.Embedding(3, 8)))


def film() -> nn.Module:
    """Features that a condition scales and shifts."""

    def score(parts, x, y):
        return parts[1]((parts[2](y) * parts[0](x) + parts[3](y)).tanh())

    return Calls(score, nn.Linear(6, 8), nn.Linear(8, 1), nn.Embedding(3, 8), nn.Embedding(3, 8))


def recurrent(parts, x):
    """A cell of nn.Linear, in a loop over time."""
    h = x.new_zeros(len(x), 4)
    for step in x.unbind(1):
        h = parts[0](torch.cat((step, h), 1)).tanh()
    return h


def residual(parts, x):
    return parts[2](x + parts[1](parts[0](x).relu()))


def tied() -> nn.Module:
    network = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    network[2].weight = network[0].weight
    return network


def scaled_by_a_hook() -> nn.Module:
    network = between(nn.Linear(6, 8), nn.Linear(8, 3))
    network[0].register_forward_hook(lambda module, inputs, output: 3 * output)
    return network


def frozen_part() -> nn.Module:
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    network[0].requires_grad_(False)
    return network


def between(layer: nn.Module, *more: nn.Module) -> nn.Module:
    return nn.Sequential(layer, nn.Tanh(), *more)


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)


WORDS = torch.tensor([[0, 1, 1], [2, 3, 4], [0, 0, 0], [4, 4, 1], [1, 2, 3]])
VECTORS, SEQUENCES, IMAGES, VOLUMES = (6,), (4, 6), (4, 6, 6), (2, 3, 4, 3)

NETWORKS = {
    "one layer twice": (lambda: Calls(lambda p, x: p[0](p[0](x).tanh()), nn.Linear(6, 6)), VECTORS),
    "tied weights": (tied, VECTORS),
    "siamese": (lambda: Calls(lambda p, x: p[0](x) - p[0](x.flip(1)), nn.Linear(6, 6)), VECTORS),
    "einsum": (
        lambda: Calls(
            lambda p, x: torch.einsum("ni,io->no", x, p[0][0]),
            nn.ParameterList([torch.randn(6, 3)]),
        ),
        VECTORS,
    ),
    "a number without dimensions": (
        lambda: Calls(
            lambda p, x: p[0](x) * p[1][0], nn.Linear(6, 3), nn.ParameterList([torch.tensor(2.0)])
        ),
        VECTORS,
    ),
    "formula": (
        lambda: Calls(lambda p, x: functional.linear(p[0](x), p[0].weight), nn.Linear(6, 6)),
        VECTORS,
    ),
    "residual": (lambda: Calls(residual, *(nn.Linear(6, n) for n in (6, 6, 1))), VECTORS),
    "low rank": (low_rank, VECTORS),
    "frozen part": (frozen_part, VECTORS),
    "frozen batch norm": (lambda: frozen_norm(3), VECTORS),
    "scaled by a hook": (scaled_by_a_hook, VECTORS),
    "PReLU": (lambda: nn.Sequential(nn.Linear(6, 8), nn.PReLU(8)), VECTORS),
    "bilinear": (lambda: Calls(lambda p, x: p[0](x, x), nn.Bilinear(6, 6, 2)), VECTORS),
    "weight norm": (lambda: between(parametrizations.weight_norm(nn.Linear(6, 8))), VECTORS),
    "weight norm by hook": (lambda: between(weight_norm(nn.Linear(6, 8))), VECTORS),
    "orthogonal": (lambda: between(parametrizations.orthogonal(nn.Linear(6, 6))), VECTORS),
    "own parametrization": (
        lambda: register_parametrization(nn.Linear(6, 6), "weight", Symmetric()),
        VECTORS,
    ),
    "checkpoint": (
        lambda: Calls(
            lambda p, x: p[1](checkpoint(p[0], x, use_reentrant=False)),
            between(nn.Linear(6, 8)),
            nn.Linear(8, 2),
        ),
        VECTORS,
    ),
    "RMS norm": (lambda: between(nn.Linear(6, 8), nn.RMSNorm(8)), VECTORS),
    "attention": (
        lambda: Calls(lambda p, x: p[0](x, x, x)[0], nn.MultiheadAttention(6, 2, batch_first=True)),
        SEQUENCES,
    ),
    "transformer": (encoder, SEQUENCES),
    "transformer, eval": (lambda: encoder().eval(), SEQUENCES),
    "recurrent cell": (lambda: Calls(recurrent, nn.Linear(10, 4)), SEQUENCES),
    "1d convolution": (lambda: between(nn.Conv1d(4, 3, 2, dilation=2)), SEQUENCES),
    "3d convolution": (lambda: between(nn.Conv3d(2, 3, 2)), VOLUMES),
    "pooling": (
        lambda: nn.Sequential(nn.Conv2d(4, 3, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 1)),
        IMAGES,
    ),
}
READERS = {
    "padding": lambda: nn.Sequential(nn.Embedding(5, 3, padding_idx=0), nn.Linear(3, 2)),
    "sparse": lambda: nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Linear(3, 2)),
    "bag": lambda: nn.Sequential(nn.EmbeddingBag(5, 3, mode="sum"), nn.Linear(3, 2)),
}


def loss_of(outputs: torch.Tensor) -> torch.Tensor:
    return outputs.flatten(1).sin().sum(1)


def normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return normal_floats(*shape, seed=seed).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_on_numbers(name, dtype):
    make, shape = NETWORKS[name]
    network = make().to(dtype)
    for batch in (3, 1, 5):
        inputs = normal(batch, *shape, dtype=dtype, seed=batch)
        found, _ = per_example(network, loss_of, inputs)
        assert_gradients(
            found, alone(network, loss_of, inputs), 1e-5 if dtype.itemsize == 4 else 1e-12
        )


@pytest.mark.parametrize("name", READERS)
def test_networks_on_words(name):
    network = READERS[name]().double()
    for _ in range(2):
        found, _ = per_example(network, loss_of, WORDS)
        assert_gradients(found, alone(network, loss_of, WORDS), 1e-12)


@pytest.mark.parametrize("make", [projection, film])
def test_conditioned_networks(make):
    network, labels = make().double(), torch.tensor([0, 2, 1, 1, 0])
    found, _ = per_example(network, loss_of, normal(5, 6), labels)
    assert_gradients(found, alone(network, loss_of, normal(5, 6), labels), 1e-12)


CRITICS = {
    "residual": lambda: NETWORKS["residual"][0](),
    "residual, declared": lambda: declared(NETWORKS["residual"][0]()),
    "weight norm": lambda: between(parametrizations.weight_norm(nn.Linear(6, 8)), nn.Linear(8, 1)),
    "projection": projection,
    "film": film,
    "one_hot": with_labels,
}


def declared(network: nn.Module) -> nn.Module:
    network.piecewise_linear = network.parts.piecewise_linear = True
    return network


@pytest.mark.parametrize("name", CRITICS)
def test_critics_with_a_penalty(name):
    critic = CRITICS[name]().double()
    labels = (torch.tensor([0, 2, 1, 1, 0]),) if name in ("projection", "film", "one_hot") else ()
    real, fake, mixing = normal(5, 6), normal(5, 6, seed=1), torch.linspace(0, 1, 5).double()
    found, _ = gradient_penalty.per_example(critic, real, fake, *labels, mixing=mixing)
    wanted = per_example_tests.alone_penalised(critic, real, fake, mixing, *labels)
    assert_gradients(found, wanted, 1e-10)


@pytest.mark.parametrize("activation", [nn.Identity, nn.PReLU])  # by products, and torch.func
def test_dropout_with_the_masks_that_were_drawn(activation):
    layers = nn.Linear(6, 50), nn.Dropout(0.5), activation(), nn.Linear(50, 2)
    network = nn.Sequential(*layers).double()
    inputs = normal(5, 6)
    state = torch.get_rng_state()
    found, _ = per_example(network, loss_of, inputs)
    torch.set_rng_state(state)
    losses = loss_of(network(inputs))
    parameters = list(network.parameters())
    rows = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss in losses]
    assert_gradients(found, [torch.stack(each) for each in zip(*rows, strict=True)], 1e-12)


def test_self_checks_ask_cudnn_for_sums_in_one_order_and_nothing_else_does():
    """Whose transposed convolutions add otherwise each time: a right network would be refused."""
    net, asked = nn.Sequential(nn.ConvTranspose2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 1)), []
    net.register_forward_pre_hook(lambda *_: asked.append(torch.backends.cudnn.deterministic))
    per_example(net, lambda scores: scores.squeeze(1), normal_floats(4, 1, 2, 2))
    assert set(asked) == {True, False}
    assert torch.backends.cudnn.deterministic is False
