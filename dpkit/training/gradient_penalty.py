"""Per-example gradients of a critic with a gradient penalty: WGAN-GP (Gulrajani et al. 2017).

The penalty's gradient is that of a directional derivative: with g = grad f at a point between a
real and a fake example, norm |g| and u = g / |g| held fixed,

    grad (|g| - 1)^2 = 2 (|g| - 1) grad (u . g),

and u . g is the tangent of f along u. In a piecewise-linear critic the tangent runs through the
same weights as the point does, with the activations' slopes in place of the activations, so each
layer adds one more outer product, of the tangent of its features and its output gradient: no
double backward pass. Where activations bend, the backward pass of the tangent gives the rest.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from dpkit.training import proof
from dpkit.training.gradients import Gradients, PerExample
from dpkit.training.layers import MixesExamples, UnsupportedLayer, check
from dpkit.training.penalty_ways import by_functional, curved, straight

STRAIGHT: tuple[type[nn.Module], ...] = (
    *(nn.Linear, nn.Conv2d, nn.ConvTranspose2d, nn.Embedding),
    *(nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh, nn.PReLU, nn.Identity),
    *(nn.Flatten, nn.Unflatten, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.MaxPool2d),
    *(nn.ZeroPad2d, nn.PixelShuffle, nn.PixelUnshuffle, nn.UpsamplingNearest2d),
    nn.Sequential,
)
CURVED: tuple[type[nn.Module], ...] = (
    *STRAIGHT,
    *(nn.Tanh, nn.Sigmoid, nn.Softplus, nn.ELU, nn.GELU, nn.SiLU, nn.Softsign, nn.LogSigmoid),
    nn.GroupNorm,
)


def per_example(
    critic: nn.Module,
    real: Tensor,
    fake: Tensor,
    *conditions: Tensor,
    mixing: Tensor,
    weight: float = 10.0,
    piecewise_linear: bool | None = None,
) -> tuple[PerExample, Tensor]:
    """Gradients of f(fake_i) - f(real_i) + weight (|grad f(x_i)| - 1)^2 for each example i.

    x_i = mixing_i real_i + (1 - mixing_i) fake_i. The i-th term depends on the i-th real example
    alone if fake and mixing do not depend on the real ones.

    Args:
        critic: f(x, *conditions) -> (batch, 1) or (batch,); its layers as for
            `dpkit.training.per_example.per_example`.
        real, fake: (batch, ...).
        conditions: further inputs, such as labels, the same for the three.
        mixing: (batch,), uniform on [0, 1] in the paper.
        weight: of the penalty.
        piecewise_linear: whether the critic is; None looks at its modules (`is_made_of`).

    Returns:
        the gradients, and each example's loss (batch,).

    Raises:
        ValueError: real, fake and mixing are not of one batch.
        MixesExamples: a layer in which the examples of a batch meet.
        UnsupportedLayer: dropout that is switched on, which would differ from pass to pass.
    """
    if real.shape != fake.shape or mixing.shape != real.shape[:1]:
        raise ValueError(
            "real and fake must have one shape and mixing one number an example, got "
            f"{tuple(real.shape)}, {tuple(fake.shape)} and {tuple(mixing.shape)}"
        )
    _refuse_dropout(critic)
    between = torch.lerp(
        fake, real, mixing.to(real).view(len(real), *[1] * (real.ndim - 1))
    ).detach()
    try:
        check(critic)
    except MixesExamples:
        raise
    except UnsupportedLayer as reason:
        return by_functional(critic, real, fake, between, conditions, weight, str(reason))
    if len(real) == 0:  # which not every layer takes
        return by_functional(critic, real, fake, between, conditions, weight, None)
    if piecewise_linear is None:
        piecewise_linear = is_made_of(STRAIGHT, critic)
    ways = [straight] if piecewise_linear else []
    if is_made_of(CURVED, critic):
        ways.append(curved)
    batch = (real.detach(), fake.detach(), between, conditions, weight)
    for way in ways:
        if proof.known(critic, way.__name__) is not False and (
            found := _proven(way, critic, batch)
        ):
            return found
    reason = "the critic's tangents are not known to have right gradients"
    return by_functional(critic, *batch, reason)


Batch = tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...], float]


def _proven(
    way: Callable[..., tuple[Gradients, Tensor]], critic: nn.Module, batch: Batch
) -> tuple[Gradients, Tensor] | None:
    """What a way finds; None where it cannot, or where autograd finds another sum (asked once)."""
    try:
        found, losses = way(critic, *batch)
        if proof.known(critic, way.__name__):
            return found, losses

        def alone() -> Tensor:
            *points, conditions, weight = batch
            return way(critic, *(x[:1] for x in points), tuple(c[:1] for c in conditions), weight)[
                1
            ]

        proof.refuse_mixing(critic, way.__name__, losses, alone)
    except MixesExamples:
        raise
    except (UnsupportedLayer, RuntimeError):
        return None
    return (
        (found, losses)
        if proof.judged(critic, way.__name__, found, _wanted(critic, batch))
        else None
    )


def _wanted(critic: nn.Module, batch: Batch) -> tuple[Tensor | None, ...]:
    """The gradient of the batch's summed loss, by autograd's double backward."""
    real, fake, between, conditions, weight = batch
    points = between.detach().requires_grad_()
    (slope,) = torch.autograd.grad(critic(points, *conditions).sum(), points, create_graph=True)
    penalty = (slope.flatten(1).norm(dim=1) - 1).square().sum()
    loss = critic(fake, *conditions).sum() - critic(real, *conditions).sum() + weight * penalty
    return torch.autograd.grad(loss, list(critic.parameters()), allow_unused=True)


def is_made_of(types: tuple[type[nn.Module], ...], critic: nn.Module) -> bool:
    """Whether all modules of a critic are of these types.

    Activations of `STRAIGHT` are piecewise linear; for those of `CURVED` torch differentiates the
    tangent rightly, which for layer and instance normalisation it does not (a test shows it;
    GroupNorm with one group, or one for each channel, computes the same). A module of a type of
    one's own says by an attribute `piecewise_linear` that it is so beside its parts.
    """
    return all(
        type(module) in types or getattr(module, "piecewise_linear", False) is True
        for module in critic.modules()
    )


def _refuse_dropout(critic: nn.Module) -> None:
    for module in critic.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.training and module.p > 0:
            raise UnsupportedLayer(
                f"{module} would drop other units in each pass of one loss; call eval() on it or "
                "leave it out"
            )
