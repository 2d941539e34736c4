"""Sums of gradients that are clipped in a norm with a scale for each coordinate."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dpkit.privacy.scaled_clipping import ScaledClipping
from dpkit.training.gradients.factored import Gradients, LayerPasses, PerExample


def scaled_sum(gradients: PerExample, rule: ScaledClipping) -> tuple[list[Tensor], Tensor]:
    """The sum over examples of gradients clipped by the rule, and their weights (1, batch).

    Where each layer is a linear one that ran once on one row an example, gradients stay factored.
    Others are formed in full, a few examples at a time.

    Raises:
        ValueError: the rule's scales are not of the parameters' shapes.
    """
    parameters = gradients.parameters
    rule.check_shapes([p.shape for p in parameters])
    pairs = zip(rule.scales, parameters, strict=True)
    inverses = [torch.as_tensor(d).to(p).detach().square().reciprocal() for d, p in pairs]
    if isinstance(gradients, Gradients) and all(map(_one_product, gradients.layers)):
        weights = rule.weights(_of_products(gradients.layers, inverses).sqrt())
        return gradients.weighted_sum(weights), weights
    sums, weights = [torch.zeros_like(one) for one in inverses], [inverses[0].new_zeros(1, 0)]
    for full in gradients.each():
        parts = zip(full, inverses, strict=True)
        squares = torch.stack([g.flatten(1).square() @ one.flatten() for g, one in parts])
        weights.append(rule.weights(squares.sqrt()))
        for total, gradient in zip(sums, full, strict=True):
            total += torch.tensordot(weights[-1][0], gradient, 1)
    return sums, torch.cat(weights, 1)


def _one_product(one: LayerPasses) -> bool:
    """Whether an example's weight gradient is one outer product, in which nothing cancels."""
    return type(one.layer) is nn.Linear and len(one.passes) == 1 and one.passes[0][0].ndim == 2


def _of_products(layers: Sequence[LayerPasses], inverses: Sequence[Tensor]) -> Tensor:
    """The squared norm of g / d of each tensor, (tensors, batch), from `inverses` 1 / d^2."""
    squares, left = [], iter(inverses)
    for one in layers:
        a, d = one.passes[0]
        squares.append(((d.square() @ next(left)) * a.square()).sum(1))
        if (bias := one.biases()) is not None:
            squares.append(bias.square() @ next(left))
    return torch.stack(squares)
