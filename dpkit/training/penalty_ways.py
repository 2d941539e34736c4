"""The ways to per-example gradients of a critic with a gradient penalty (`gradient_penalty`)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.graph import GradientEdge, get_gradient_edge

from dpkit.training import functional
from dpkit.training.functional import Functional, Term
from dpkit.training.gradients import Gradients, LayerPasses
from dpkit.training.layers import KINDS, UnsupportedLayer
from dpkit.training.per_example import capture, hooked, own


def straight(
    critic: nn.Module, real: Tensor, fake: Tensor, between: Tensor,
    conditions: tuple[Tensor, ...], weight: float,
) -> tuple[Gradients, Tensor]:  # fmt: skip
    """One pass for all three kinds of points, and one tangent pass."""
    between = between.detach().requires_grad_()
    with capture(critic) as captured:
        points = torch.cat((real, fake, between))
        scores = critic(points, *(torch.cat((c, c, c)) for c in conditions)).view(3, len(real))
    signed = torch.cat((-scores[0], scores[1], scores[2]))
    passes, (gradient,) = captured.backward(signed, between)
    norm, unit, slope = _penalty(gradient, weight)
    losses = scores[1] - scores[0] + weight * (norm - 1).square()
    with torch.no_grad():
        tangents = _tangents(critic, between.detach(), _times(slope, unit), conditions)
    layers = []
    for one in passes:
        layer = one.layer
        if not one.passes:  # it did not run
            layers.append(one)
            continue
        ((a, d),) = one.passes
        (real_a, fake_a, _), (real_d, fake_d, between_d) = a.chunk(3), d.chunk(3)
        found = ((real_a, real_d), (fake_a, fake_d))
        if (
            tangent := tangents[layer]
        ) is not None:  # else it sees conditions alone, which do not move
            found = (*found, (tangent, between_d))
        layers.append(LayerPasses(layer, found, bias_passes=2))
    return Gradients(tuple(layers)), losses.detach()


def _times(numbers: Tensor, rows: Tensor) -> Tensor:
    """A number for each example times its row (batch, ...)."""
    return numbers.view(len(rows), *[1] * (rows.ndim - 1)) * rows


def _penalty(gradient: Tensor, weight: float) -> tuple[Tensor, Tensor, Tensor]:
    """|g|, u = g / |g| (0 where g is 0), and the penalty's slope in |g|."""
    norm = gradient.flatten(1).norm(dim=1)
    tiny = torch.finfo(norm.dtype).tiny
    unit = gradient / norm.clamp(min=tiny).view(len(norm), *[1] * (gradient.ndim - 1))
    return norm, unit, 2 * weight * (norm - 1)


def _tangents(
    critic: nn.Module, points: Tensor, unit: Tensor, conditions: tuple[Tensor, ...]
) -> dict[nn.Module, Tensor | None]:
    """The tangent of each layer's features along `unit`."""
    found: dict[nn.Module, Tensor | None] = {}

    def remember(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        features = KINDS[type(layer)].features(layer, inputs[0])
        found[layer] = forward_ad.unpack_dual(features).tangent

    with forward_ad.dual_level(), hooked(critic, remember):
        critic(forward_ad.make_dual(points, unit), *conditions)
    return found


def curved(
    critic: nn.Module, real: Tensor, fake: Tensor, between: Tensor,
    conditions: tuple[Tensor, ...], weight: float,
) -> tuple[Gradients, Tensor]:  # fmt: skip
    """The tangent pass with a graph of its own, and the backward pass of its outcome."""
    with capture(critic) as captured:
        both = (torch.cat((c, c)) for c in conditions)
        scores = critic(torch.cat((real, fake)), *both).view(2, len(real))
    passes, _ = captured.backward(torch.cat((-scores[0], scores[1])))
    between = between.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(critic(between, *conditions).sum(), between)
    norm, unit, slope = _penalty(gradient, weight)

    seen: dict[nn.Module, tuple[Tensor, Tensor | None]] = {}
    ends: dict[nn.Module, tuple[GradientEdge, GradientEdge]] = {}

    def remember(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        features = KINDS[type(layer)].features(layer, inputs[0])
        seen[layer] = forward_ad.unpack_dual(features)
        output = own(output)
        tangent = forward_ad.unpack_dual(output).tangent
        moved = output if tangent is None or not tangent.requires_grad else tangent
        ends[layer] = (get_gradient_edge(output), get_gradient_edge(moved))
        return output

    with forward_ad.dual_level(), hooked(critic, remember):
        outcome = critic(forward_ad.make_dual(between.detach(), unit), *conditions)
        tangent = forward_ad.unpack_dual(outcome).tangent
    if tangent is None or not tangent.requires_grad:
        raise UnsupportedLayer("the critic's output does not move with its first input")
    outcome = (slope * tangent.view(len(real))).sum()
    order = [end for one in passes if one.passes for end in ends[one.layer]]
    found = iter(torch.autograd.grad(outcome, order, allow_unused=True))

    layers = []
    for one in passes:
        layer = one.layer
        if not one.passes:
            layers.append(one)
            continue
        ((a, d),) = one.passes
        (real_a, fake_a), (real_d, fake_d) = a.chunk(2), d.chunk(2)
        still, along = (
            torch.zeros_like(real_d) if (g := next(found)) is None else g for _ in range(2)
        )
        point, moved = seen[layer]
        both = ((real_a, real_d), (fake_a, fake_d), (point.detach(), still))
        if moved is not None:
            both = (*both, (moved.detach(), along))
        layers.append(LayerPasses(layer, both, bias_passes=3))
    losses = scores[1] - scores[0] + weight * (norm - 1).square()
    return Gradients(tuple(layers)), losses.detach()


def by_functional(
    critic: nn.Module, real: Tensor, fake: Tensor, between: Tensor,
    conditions: tuple[Tensor, ...], weight: float, reason: str | None,
) -> tuple[Functional, Tensor]:  # fmt: skip
    """Nested torch.func gradients of each example, for layers that are not known as products."""
    functional.refuse_mixing(critic)
    if reason is not None:
        functional.tell_once(reason)

    def one(call: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        real_row, fake_row, point, *others = rows
        gradient = torch.func.grad(lambda x: call(x, *others).sum())(point)
        wasserstein = call(fake_row, *others).sum() - call(real_row, *others).sum()
        return wasserstein + weight * (gradient.norm() - 1).square()

    found = Functional(critic, (Term(one, (real, fake, between, *conditions)),))
    return found, found.losses()
