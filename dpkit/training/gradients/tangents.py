"""A penalised critic's per-example gradients as products, by the tangent of its scores.

The penalty's gradient is that of a directional derivative: with g = grad f at a point between a
real and a fake example, norm |g| and u = g / |g| held fixed,

    grad (|g| - 1)^2 = 2 (|g| - 1) grad (u . g),

and u . g is the tangent of f along u. In a piecewise-linear critic the tangent runs through the
same weights as the point does, with the activations' slopes in place of the activations, so each
layer adds one more outer product, of the tangent of its features and its output gradient: no
double backward pass. Where activations bend, the backward pass of the tangent gives the rest.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.graph import GradientEdge, get_gradient_edge

from dpkit.training.gradients.by_products import capture, hooked, own
from dpkit.training.gradients.factored import Gradients, LayerPasses
from dpkit.training.gradients.layers import KINDS, UnsupportedLayer

_one_at_a_time = Lock()


def straight(
    critic: nn.Module,
    real: Tensor,
    fake: Tensor,
    between: Tensor,
    conditions: tuple[Tensor, ...],
    weight: float,
) -> tuple[Gradients, Tensor]:
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
        pairs = ((real_a, real_d), (fake_a, fake_d))
        tangent = tangents[layer]
        if tangent is not None:  # else it sees conditions alone, which do not move
            pairs = (*pairs, (tangent, between_d))
        layers.append(LayerPasses(layer, pairs, bias_passes=2))
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
    tangents: dict[nn.Module, Tensor | None] = {}

    def remember(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        features = KINDS[type(layer)].features(layer, inputs[0])
        tangents[layer] = forward_ad.unpack_dual(features).tangent

    with _dual_level(), hooked(critic, remember):
        critic(forward_ad.make_dual(points, unit), *conditions)
    if all(tangent is None for tangent in tangents.values()):
        raise UnsupportedLayer("no layer's input moves with the critic's first input")
    return tangents


@contextmanager
def _dual_level() -> Iterator[None]:
    """A level of forward-mode differentiation: a process has only one, so threads take turns."""
    with _one_at_a_time, forward_ad.dual_level():
        yield


def curved(
    critic: nn.Module,
    real: Tensor,
    fake: Tensor,
    between: Tensor,
    conditions: tuple[Tensor, ...],
    weight: float,
) -> tuple[Gradients, Tensor]:
    """A tangent pass with its own graph, and the backward pass of its outcome."""
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

    with _dual_level(), hooked(critic, remember):
        outcome = critic(forward_ad.make_dual(between.detach(), unit), *conditions)
        tangent = forward_ad.unpack_dual(outcome).tangent
    if tangent is None or not tangent.requires_grad:
        raise UnsupportedLayer("the critic's output does not move with its first input")
    outcome = (slope * tangent.view(len(real))).sum()
    order = [end for one in passes if one.passes for end in ends[one.layer]]
    ends_gradients = iter(torch.autograd.grad(outcome, order, allow_unused=True))

    layers = []
    for one in passes:
        layer = one.layer
        if not one.passes:
            layers.append(one)
            continue
        ((a, d),) = one.passes
        (real_a, fake_a), (real_d, fake_d) = a.chunk(2), d.chunk(2)
        still, along = (
            torch.zeros_like(real_d) if (g := next(ends_gradients)) is None else g for _ in range(2)
        )
        point, moved = seen[layer]
        both = ((real_a, real_d), (fake_a, fake_d), (point.detach(), still))
        if moved is not None:
            both = (*both, (moved.detach(), along))
        layers.append(LayerPasses(layer, both, bias_passes=3))
    losses = scores[1] - scores[0] + weight * (norm - 1).square()
    return Gradients(tuple(layers)), losses.detach()
