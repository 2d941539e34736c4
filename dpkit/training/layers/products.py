"""Kinds of layers whose weight gradients are sums of outer products; the linear layer.

Tensors named `a` hold features, `d` gradients at the output, both (passes, batch, ...): one pass is
one run of the layer, and an example's gradient is the sum over passes.

Norms come from Gram matrices where positions are few and from the products themselves, some
examples at a time, where the weight is small (Goodfellow 2015; Rochette et al. 2019; Li et al.
2021, "ghost clipping"; Bu et al. 2022, "book-keeping").
"""

from math import prod

import torch
from torch import Tensor, nn

WORKSPACE = 2**19  # numbers that norms may keep at a time


class Kind:
    """How one type of layer's weight meets its input; a layer's bias adds to its output."""

    def refused(self, layer: nn.Module) -> str | None:
        """Why per-example gradients of this layer are not known or not defined, or None."""
        return None

    def features(self, layer: nn.Module, inputs: Tensor) -> Tensor:
        """What the weight multiplies: (batch, ...), differentiable in the inputs."""
        return inputs

    def squared_norms(self, layer: nn.Module, a: Tensor, d: Tensor) -> Tensor:
        """Squared L2 norm of each example's weight gradient, (batch,)."""
        raise NotImplementedError

    def weighted_sum(self, layer: nn.Module, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        """The sum over examples of weight (batch,) times weight gradient, shaped as the weight."""
        raise NotImplementedError

    def each(self, layer: nn.Module, a: Tensor, d: Tensor) -> Tensor:
        """Every example's weight gradient in full, (batch, *weight.shape)."""
        raise NotImplementedError

    def biases(self, layer: nn.Module, d: Tensor) -> Tensor:
        """Every example's bias gradient, (batch, *bias.shape)."""
        raise NotImplementedError


class Outer(Kind):
    """A weight (out, in) of `groups` blocks that is applied at several positions.

    An example's gradient is D A^T, with A (in, positions) and D (out, positions) side by side for
    all its passes.
    """

    def columns(self, layer: nn.Module, a: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        """A (batch * groups, in, positions) and D (batch * groups, out, positions) of one pass."""
        raise NotImplementedError

    def sizes(self, layer: nn.Module, a: Tensor, d: Tensor) -> tuple[int, int, int, int]:
        """groups, in, out and positions, the first three of one block."""
        raise NotImplementedError

    def squared_norms(self, layer: nn.Module, a: Tensor, d: Tensor) -> Tensor:
        groups, wide, high, positions = self.sizes(layer, a, d)
        passes, batch = d.shape[:2]
        gram = (passes + 1) / 2 * positions * (wide + high) < wide * high
        product = 2 * positions**2 if gram else wide * high
        one = groups * (passes * positions * (wide + high) + product)
        rows = max(WORKSPACE // max(one, 1), 1) if positions > 1 else max(batch, 1)
        found = []
        for start in range(0, batch, rows):
            part = slice(start, start + rows)
            pairs = [self.columns(layer, x, y) for x, y in zip(a[:, part], d[:, part], strict=True)]
            norms = _by_gram(pairs) if gram or positions == 1 else _by_product(pairs)
            found.append(norms.view(-1, groups).sum(1))
        return torch.cat(found) if found else d.new_zeros(0)

    def each(self, layer: nn.Module, a: Tensor, d: Tensor) -> Tensor:
        pairs = [self.columns(layer, x, y) for x, y in zip(a, d, strict=True)]
        return self.as_weight(layer, sum_of_products(pairs), d.shape[1])

    def as_weight(self, layer: nn.Module, products: Tensor, batch: int) -> Tensor:
        """Products (batch * groups, out, in) as (batch, *weight.shape)."""
        weight = layer.weight
        assert isinstance(weight, Tensor)
        return products.reshape(batch, *weight.shape)


def _by_gram(pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """|sum of D A^T|^2 = sum over passes p, q and positions of (A_p^T A_q) (D_p^T D_q)."""
    total = None
    for p, (a, d) in enumerate(pairs):
        for q, (b, e) in enumerate(pairs[: p + 1]):
            if a.shape[2] == 1:
                term = _dots(a[:, :, 0], b[:, :, 0]) * _dots(d[:, :, 0], e[:, :, 0])
            else:
                term = ((a.mT @ b) * (d.mT @ e)).sum((1, 2))
            term = term if p == q else 2 * term
            total = term if total is None else total + term
    assert total is not None
    return total


def _dots(x: Tensor, y: Tensor) -> Tensor:
    return (x.square() if x is y else x * y).sum(1)


def _by_product(pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    return torch.linalg.vector_norm(sum_of_products(pairs), dim=(1, 2)).square()


def sum_of_products(pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The sum over passes of D A^T, (batch * groups, out, in)."""
    a, d = pairs[0]
    total = torch.bmm(d, a.mT)
    for b, e in pairs[1:]:
        total.baddbmm_(e, b.mT)
    return total


class Linear(Outer):
    """y = W x + b at each position of (batch, ..., in)."""

    def columns(self, layer: nn.Module, a: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        if a.ndim == 2:
            return a[:, :, None], d[:, :, None]
        return a.flatten(1, -2).mT, d.flatten(1, -2).mT

    def sizes(self, layer: nn.Module, a: Tensor, d: Tensor) -> tuple[int, int, int, int]:
        return 1, a.shape[-1], d.shape[-1], prod(a.shape[2:-1])

    def weighted_sum(self, layer: nn.Module, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        return scaled(d, weights).flatten(0, -2).mT @ a.flatten(0, -2)

    def biases(self, layer: nn.Module, d: Tensor) -> Tensor:
        if d.ndim == 3 and d.shape[0] == 1:
            return d[0]
        return d.reshape(*d.shape[:2], prod(d.shape[2:-1]), d.shape[-1]).sum((0, 2))


def scaled(d: Tensor, weights: Tensor) -> Tensor:
    """d (passes, batch, ...) times a weight for each example."""
    return d * weights.view(1, -1, *[1] * (d.ndim - 2))
