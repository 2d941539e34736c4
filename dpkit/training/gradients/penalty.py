"""Per-example gradients of a critic with a gradient penalty: WGAN-GP (Gulrajani et al. 2017).

In a piecewise-linear critic, the tangent of the scores gives them as products, in two passes; in
any other, torch.func nests its gradients example by example, which is slower. The penalty's
gradient is that of a directional derivative: with g = grad f at a point between a real and a fake
example, norm |g| and u = g / |g| held fixed,

    grad (|g| - 1)^2 = 2 (|g| - 1) grad (u . g),

and u . g is the tangent of f along u. In a piecewise-linear critic the tangent runs through the
same weights as the point does, with the activations' slopes in place of the activations, so each
layer adds one more outer product, of the tangent of its features and its output gradient: no double
backward pass.
"""

from collections.abc import Callable
from functools import partial
from threading import Lock

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from dpkit.training.gradients import functional, independence, unsupported
from dpkit.training.gradients.functional import Functional
from dpkit.training.gradients.ghost_clipping import (
    Gradients,
    LayerPasses,
    PerExample,
    agrees,
    capture,
    hooked,
)
from dpkit.training.gradients.layers import KINDS, scaled
from dpkit.training.gradients.unsupported import MixesExamples, UnsupportedLayer, check

STRAIGHT: tuple[type[nn.Module], ...] = (
    *(nn.Linear, nn.Conv2d, nn.ConvTranspose2d, nn.Embedding),
    *(nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh, nn.PReLU, nn.Identity),
    *(nn.Flatten, nn.Unflatten, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.MaxPool2d),
    *(nn.ZeroPad2d, nn.PixelShuffle, nn.PixelUnshuffle, nn.UpsamplingNearest2d),
    nn.Sequential,
)
TANGENTS = "tangents"  # the fast way

# real, fake, between them, conditions, weight
Batch = tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...], float]


@unsupported.not_compiled
def per_example(
    critic: nn.Module,
    real: Tensor,
    fake: Tensor,
    *conditions: Tensor,
    mixing: Tensor,
    weight: float = 10.0,
) -> tuple[PerExample, Tensor]:
    """Gradients of f(fake_i) - f(real_i) + weight (|grad f(x_i)| - 1)^2 for each example i.

    x_i = mixing_i real_i + (1 - mixing_i) fake_i. The i-th term depends on the i-th real example
    alone if fake and mixing do not depend on the real ones.

    Args:
        critic: f(x, *conditions) -> (batch, 1) or (batch,). Where it is not known to be piecewise
            linear (see `STRAIGHT`), or has layers that `layers.KINDS` does not list, all of it goes
            through torch.func, which is slower; that is said once.
        real, fake: (batch, ...).
        conditions: further inputs, such as labels, the same for the three.
        mixing: (batch,), uniform on [0, 1] in the paper.
        weight: of the penalty.

    Returns:
        the gradients, and each example's loss (batch,).

    Raises:
        ValueError: real, fake and mixing are not of one batch, or scores not one an example.
        MixesExamples: examples of a batch meet, or are kept in a buffer (see `independence`).
        UnsupportedLayer: dropout that is switched on, which would differ from pass to pass;
            torch.func does not run the critic, or `refused` lists it.
    """
    if real.shape != fake.shape or mixing.shape != real.shape[:1]:
        raise ValueError(
            "real and fake must have one shape and mixing one number an example, got "
            f"{tuple(real.shape)}, {tuple(fake.shape)} and {tuple(mixing.shape)}"
        )
    unsupported.refuse(critic)
    for module in critic.modules():
        if (
            isinstance(module, nn.modules.dropout._DropoutNd)
            and module.training
            and module.p > 0
        ):
            raise UnsupportedLayer(
                f"{module} would drop other units in each pass of one loss; call eval() on it or "
                "leave it out"
            )
    between = torch.lerp(
        fake, real, mixing.to(real).view(len(real), *[1] * (real.ndim - 1))
    ).detach()
    batch = (real.detach(), fake.detach(), between, conditions, weight)
    if len(real) == 0:  # which not every layer takes
        return by_functional(critic, batch, None)
    asked = independence.asked(critic, "penalty")
    counts = True
    if asked.due():
        points = (real, fake, between, *conditions)
        counts = independence.refuse_meeting(critic, partial(_scores, critic), points)
    try:
        answer = _by_tangents(critic, batch, asked)
    except MixesExamples:
        raise
    except UnsupportedLayer as reason:
        answer = by_functional(critic, batch, str(reason))
    asked.batches += counts
    return answer


def _scores(critic: nn.Module, *points_and_conditions: Tensor) -> Tensor:
    """Scores of real, fake and mixed examples, (batch, 3)."""
    (*points,) = points_and_conditions[:3]
    scores = critic(
        torch.cat(points), *(torch.cat((c, c, c)) for c in points_and_conditions[3:])
    )
    if scores.numel() != 3 * len(points[0]):
        raise ValueError(
            "the critic must give one number for each example, (batch, 1) or (batch,), no packs of "
            f"several; got {tuple(scores.shape)} of {3 * len(points[0])} examples"
        )
    return scores.reshape(3, len(points[0])).mT


def _by_tangents(
    critic: nn.Module, batch: Batch, asked: independence.Asked
) -> tuple[PerExample, Tensor]:
    check(critic)
    bent = next((module for module in critic.modules() if not is_straight(module)), None)
    if bent is not None:
        raise UnsupportedLayer(
            f"{unsupported.named(bent)} is not known to be piecewise linear, as tangents need it "
            "(if it is, beside its parts, give it piecewise_linear = True)"
        )
    if TANGENTS in asked.wrong:
        raise UnsupportedLayer(asked.wrong[TANGENTS])
    try:
        gradients, losses = straight(critic, batch)
        if TANGENTS in asked.right and not asked.due():
            return gradients, losses
        wanted = _wanted(critic, batch, asked.rows(len(losses)))
        verdicts = [agrees(gradients, row, w) for row, w in wanted.items()]
        if False in verdicts:
            raise UnsupportedLayer("they do not give its gradients")
    except torch.OutOfMemoryError:
        raise
    except (UnsupportedLayer, RuntimeError) as error:
        reason = f"the critic's tangents fail ({str(error).strip().splitlines()[0]})"
        asked.wrong[TANGENTS] = reason
        raise UnsupportedLayer(reason) from error
    if None not in verdicts:
        asked.right.add(TANGENTS)
    elif TANGENTS not in asked.right:  # infinite or not a number: nothing to compare
        return by_functional(critic, batch, None)
    return gradients, losses


def _wanted(
    critic: nn.Module, batch: Batch, rows: set[int]
) -> dict[int, tuple[Tensor | None, ...]]:
    """The gradients of single examples' losses, by autograd's double backward."""
    real, fake, between, conditions, weight = batch
    points = between.detach().requires_grad_()
    (slope,) = torch.autograd.grad(
        critic(points, *conditions).sum(), points, create_graph=True
    )
    penalty = (slope.flatten(1).norm(dim=1) - 1).square()
    scores = [critic(x, *conditions).view(len(real)) for x in (fake, real)]
    losses, parameters = scores[0] - scores[1] + weight * penalty, list(critic.parameters())
    return {
        row: torch.autograd.grad(losses[row], parameters, retain_graph=True, allow_unused=True)
        for row in rows
    }


def is_straight(module: nn.Module) -> bool:
    """Return whether a module is piecewise linear beside its parts.

    A module of your own type says so by its attribute `piecewise_linear`.
    """
    return type(module) in STRAIGHT or getattr(module, "piecewise_linear", False) is True


def by_functional(
    critic: nn.Module, batch: Batch, reason: str | None
) -> tuple[Functional, Tensor]:
    """Nested torch.func gradients of each example, for any critic."""
    real, fake, between, conditions, weight = batch

    def one(call: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        def score(x: Tensor) -> Tensor:
            return functional.one_number(call(x, *others), reason)

        real_row, fake_row, point, *others = rows
        gradient = torch.func.grad(score)(point)
        return score(fake_row) - score(real_row) + weight * (gradient.norm() - 1).square()

    inputs = (real, fake, between, *conditions)
    return functional.computed(Functional(critic, one, inputs, reason, randomness="error"))


_one_at_a_time = Lock()  # a process has one level of forward-mode differentiation


def straight(critic: nn.Module, batch: Batch) -> tuple[Gradients, Tensor]:
    """One pass for all three kinds of points, and one tangent pass."""
    real, fake, between, conditions, weight = batch
    between = between.detach().requires_grad_()
    with capture(critic) as captured:
        points = torch.cat((real, fake, between))
        scores = critic(points, *(torch.cat((c, c, c)) for c in conditions)).view(3, len(real))
    signed = torch.cat((-scores[0], scores[1], scores[2]))
    passes, (gradient,) = captured.backward(signed, between)
    norm, unit, slope = _penalty(gradient, weight)
    losses = scores[1] - scores[0] + weight * (norm - 1).square()
    with torch.no_grad():
        tangents = _tangents(critic, between.detach(), scaled(unit, slope), conditions)
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

    with _one_at_a_time, forward_ad.dual_level(), hooked(critic, remember):
        critic(forward_ad.make_dual(points, unit), *conditions)
    if all(tangent is None for tangent in tangents.values()):
        raise UnsupportedLayer("no layer's input moves with the critic's first input")
    return tangents
