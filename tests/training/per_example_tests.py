"""What tests of per-example gradients share: draws, losses, networks, and an example by itself."""

import torch
from torch import nn
from torch.nn.functional import one_hot

from dpkit.privacy.clipping import FlatClipping
from dpkit.training import gradient_penalty, seeded


def normal(
    *shape: int, seed: int = 0, dtype: torch.dtype | None = None, std: float = 1.0
) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return std * torch.randn(shape, generator=rng, dtype=dtype)


def filled(network: nn.Module, dtype: torch.dtype = torch.float64, std: float = 0.5) -> nn.Module:
    """Weights N(0, std^2), so that norms and biases are of one size."""
    rng = torch.Generator().manual_seed(7)
    for parameter in network.to(dtype).parameters():
        parameter.data.normal_(std=std, generator=rng)
    return network


def squares(outputs: torch.Tensor) -> torch.Tensor:
    return outputs.flatten(1).square().sum(1)


class Calls(nn.Module):
    """A function of modules and inputs."""

    def __init__(self, function, *parts: nn.Module, piecewise_linear: bool = False) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)
        self.piecewise_linear = piecewise_linear

    def forward(self, *inputs):
        return self.function(self.parts, *inputs)


def frozen_norm(out: int) -> nn.Module:
    """A backbone with batch normalisation, frozen and in eval(), below a trained layer."""
    with seeded(0):
        backbone = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh())
        backbone(normal(50, 6))
        return nn.Sequential(backbone.eval().requires_grad_(False), nn.Linear(8, out))


def with_labels() -> nn.Module:
    """A critic that sees one of three labels as more features."""
    with seeded(0):
        body = nn.Sequential(nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 1))
    return Calls(lambda p, x, y: p[0](torch.cat([x, one_hot(y, num_classes=3)], 1)), body)


def with_penalty(critic: nn.Module, real, fake, mixing):
    """Gradients of the critic's loss with a penalty, and the losses."""
    return gradient_penalty.per_example(critic, real, fake, mixing=mixing)


def penalty(critic: nn.Module, real: torch.Tensor):
    """The same, with fakes and mixing that follow from the real examples."""
    return with_penalty(critic, real, real.flip(0) + 1, torch.linspace(0, 1, len(real)).to(real))


def alone(network: nn.Module, loss, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """Each example's gradient by autograd of that example alone: (batch, *shape), by parameter."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    if not len(inputs[0]):
        return [p.new_zeros(0, *p.shape) for p in parameters]
    rows = []
    for row in zip(*(x.split(1) for x in inputs), strict=True):
        each = torch.autograd.grad(loss(network(*row)).sum(), parameters, allow_unused=True)
        pairs = zip(parameters, each, strict=True)
        rows.append([torch.zeros_like(p) if g is None else g.to_dense() for p, g in pairs])
    return [torch.stack(each).detach() for each in zip(*rows, strict=True)]


def penalised(critic: nn.Module, real, fake, point, *conditions, weight: float = 10.0):
    """One example's loss with a penalty at a point, to be differentiated twice by autograd."""
    point = point.detach().requires_grad_()
    (slope,) = torch.autograd.grad(critic(point, *conditions).sum(), point, create_graph=True)
    wasserstein = critic(fake, *conditions).sum() - critic(real, *conditions).sum()
    return wasserstein + weight * (slope.norm() - 1).square()


def alone_penalised(critic: nn.Module, real, fake, mixing, *conditions, **weight):
    """As `alone`, of a critic's loss with a penalty."""
    point = torch.lerp(fake, real, mixing.view(-1, *[1] * (real.ndim - 1)))
    loss = Calls(lambda parts, *rows: penalised(parts[0], *rows, **weight), critic)
    return alone(loss, torch.sum, real, fake, point, *conditions)


def norms_of(full: list[torch.Tensor]) -> torch.Tensor:
    """(parameters, batch), of gradients in full."""
    return torch.stack([g.view(*g.shape, 1).flatten(1).norm(dim=1) for g in full])


def assert_gradients(found, full: list[torch.Tensor], rough: float) -> None:
    """Norms, clipped and clamped sums, and each gradient against those of each example alone."""
    norms = norms_of(full)
    size = float(norms.max())
    weights, bounds = FlatClipping(size / 2).weights(norms), [g.abs().mean(0) for g in full]
    sums = [torch.tensordot(weights[0], g, 1) for g in full]
    clamped = [g.clamp(-bound, bound).sum(0) for g, bound in zip(full, bounds, strict=True)]
    each = [torch.cat(parts) for parts in zip(*found.each(), strict=True)]
    for got, wanted, terms in (
        (found.norms(), norms, 1),
        (found.weighted_sum(weights), sums, len(full[0])),
        (found.clamped_sum(bounds)[0], clamped, len(full[0])),
        (each, full, 1),
    ):
        torch.testing.assert_close(got, wanted, rtol=0, atol=rough * size * terms**0.5)
