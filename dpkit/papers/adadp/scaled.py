"""Sums of gradients that are clipped in a norm with a scale for each coordinate."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dpkit.papers.adadp.scaled_clipping import ScaledClipping
from dpkit.training.gradients.factored import Gradients, LayerPasses, PerExample
from dpkit.training.gradients.layers.products import counting, left_out, lengths, widened


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
    scales = [widened(torch.as_tensor(d, device=p.device).detach()) for d, p in pairs]
    if isinstance(gradients, Gradients) and all(map(_one_product, gradients.layers)):
        weights = rule.weights(_of_products(gradients.layers, scales).sqrt())
        weights = counting(weights.to(parameters[0].dtype))
        return gradients.weighted_sum(weights), weights
    sums = [widened(torch.zeros_like(p).detach()) for p in parameters]
    weights = [parameters[0].new_zeros(1, 0).detach()]
    for full in gradients.each():
        norms = torch.stack([lengths(widened(g) / d) for g, d in zip(full, scales, strict=True)])
        weights.append(counting(rule.weights(norms).to(full[0].dtype)))
        for total, gradient in zip(sums, full, strict=True):
            total += torch.tensordot(weights[-1][0], left_out(gradient, weights[-1]), 1)
    sums = [total.to(p.dtype) for total, p in zip(sums, parameters, strict=True)]
    return sums, torch.cat(weights, 1)


def _one_product(one: LayerPasses) -> bool:
    """Whether an example's weight gradient is one outer product, in which nothing cancels."""
    return type(one.layer) is nn.Linear and len(one.passes) == 1 and one.passes[0][0].ndim == 2


def _of_products(layers: Sequence[LayerPasses], scales: Sequence[Tensor]) -> Tensor:
    """The squared norm of g / d of each tensor, (tensors, batch), in double precision.

    In single, squares of numbers below 1e-23 are 0.
    """
    squares, left = [], iter(scales)
    for one in layers:
        a, d = map(widened, one.passes[0])
        squares.append(((d.square() @ next(left).square().reciprocal()) * a.square()).sum(1))
        if (bias := one.biases()) is not None:
            squares.append((widened(bias) / next(left)).square().sum(1))
    return torch.stack(squares)
