"""Clipping in the norm of the noise: more room along coordinates that get more noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dpkit.common import checks
from dpkit.privacy.clipping import moves
from dpkit.privacy.mechanisms import Adjacency
from dpkit.training.gradients.by_products import Gradients, LayerPasses, PerExample
from dpkit.training.gradients.layers import counting, left_out, lengths, widened

ROUNDED_UP = 1 + 2.0**-14  # norms that were added up in float32, and weights from them


@dataclass(frozen=True, eq=False)
class ScaledClipping:
    """Each example's gradient g scaled so that sum (g_i / d_i)^2 <= 1: clipped to an ellipsoid.

    With noise of deviation z d_i the release protects as one Gaussian of multiplier z does: by a
    change of units it is `FlatClipping(1.0)` with equal noise. Equal d_i are `FlatClipping(d)`.
    It is a `ClippingRule`, of the norms of g / d, which take per-example gradients in full. The
    scales must not be computed from un-noised private gradients.

    Args:
        scales: d, one array for each parameter tensor, of the tensor's shape, numpy or torch.

    Raises:
        ValueError: a scale is not a finite number > 0.
    """

    scales: tuple[Any, ...]

    def __post_init__(self) -> None:
        for tensor, scale in enumerate(self.scales):
            if not bool(((scale > 0) & (scale < float("inf"))).all()):  # NaN fails
                raise ValueError(f"scales[{tensor}] must hold finite numbers > 0; look for NaN")

    def check_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        """The rule was made for parameter tensors of these shapes.

        Raises:
            ValueError: it was not.
        """
        own, given = ([tuple(one) for one in of] for of in ((s.shape for s in self.scales), shapes))
        if own != given:
            raise ValueError(f"scales must have the parameters' shapes {given}, got {own}")

    def weights(self, norms: Any) -> Any:
        """min(1, 1 / norm of g / d), shape (1, batch), from its `norms` (tensors, batch)."""
        joint = (norms**2).sum(0, keepdims=True) ** 0.5
        return 1 / (joint * ROUNDED_UP).clip(min=1.0)

    def clipped_sum(self, gradients: PerExample) -> tuple[list[Tensor], Tensor]:
        """The sum over examples of gradients clipped so, and their weights (1, batch).

        Where each layer is a linear one that ran once on one row an example, gradients stay
        factored.
        Others are formed in full, a few examples at a time.

        Raises:
            ValueError: the rule's scales are not of the parameters' shapes.
        """
        parameters = gradients.parameters
        self.check_shapes([p.shape for p in parameters])
        pairs = zip(self.scales, parameters, strict=True)
        scales = [widened(torch.as_tensor(d, device=p.device).detach()) for d, p in pairs]
        if isinstance(gradients, Gradients) and all(map(_one_product, gradients.layers)):
            weights = self.weights(_of_products(gradients.layers, scales).sqrt())
            weights = counting(weights.to(parameters[0].dtype))
            return gradients.weighted_sum(weights), weights
        sums = [widened(torch.zeros_like(p).detach()) for p in parameters]
        weights = [parameters[0].new_zeros(1, 0).detach()]
        for full in gradients.each():
            norms = torch.stack(
                [lengths(widened(g) / d) for g, d in zip(full, scales, strict=True)]
            )
            weights.append(counting(self.weights(norms).to(full[0].dtype)))
            for total, gradient in zip(sums, full, strict=True):
                total += torch.tensordot(weights[-1][0], left_out(gradient, weights[-1]), 1)
        sums = [total.to(p.dtype) for total, p in zip(sums, parameters, strict=True)]
        return sums, torch.cat(weights, 1)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The largest d_i under add-remove, along whose axis a gradient may lie; or twice that."""
        return moves(max(float(scale.max()) for scale in self.scales), adjacency)

    def noise_stds(self, noise_multiplier: float) -> list[Any]:
        """Noise of deviation z d_i, which protects as one Gaussian of multiplier z does."""
        checks.positive(noise_multiplier=noise_multiplier)
        return [noise_multiplier * scale for scale in self.scales]


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
