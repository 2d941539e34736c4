"""Layers whose weight gradients are small or sparse: normalisations of one example, embeddings."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpkit.training.gradients.layers.products import (
    DIGITS,
    Kind,
    Pass,
    lengths,
    rounded_up,
    unseen,
    waits_for,
)


class Affine(Kind):
    """Scale and shift after each example is normalised apart: y = weight * normalised + bias."""

    def features(self, layer: nn.Module, inputs: Tensor) -> Tensor:
        if isinstance(layer, nn.LayerNorm):
            shape = list(layer.normalized_shape)
            return functional.layer_norm(inputs, shape, eps=layer.eps)
        if isinstance(layer, nn.GroupNorm):
            return functional.group_norm(inputs, layer.num_groups, eps=layer.eps)
        assert isinstance(layer, nn.modules.instancenorm._InstanceNorm)
        return functional.instance_norm(inputs, eps=layer.eps)

    def _over(self, layer: nn.Module, products: Tensor) -> Tensor:
        """Products (batch, ...) summed to (batch, *weight.shape)."""
        batch, *shape = products.shape
        if isinstance(layer, nn.LayerNorm):
            weight = layer.normalized_shape
            return products.reshape(batch, prod(shape[: -len(weight)]), *weight).sum(1)
        return products.reshape(batch, shape[0], prod(shape[1:])).sum(2)

    def norms(self, layer: nn.Module, passes: Sequence[Pass]) -> Tensor:
        return lengths(self.each(layer, passes))

    def weighted(self, layer: nn.Module, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        return self.weighted_sum(layer, [(a, d)], weights)

    def weighted_sum(self, layer: nn.Module, passes: Sequence[Pass], weights: Tensor) -> Tensor:
        return torch.tensordot(weights, self.each(layer, passes), 1)  # of what norms are taken of

    def each(self, layer: nn.Module, passes: Sequence[Pass]) -> Tensor:
        return torch.stack([self._over(layer, a * d) for a, d in passes]).sum(0)

    def bias(self, layer: nn.Module, d: Tensor) -> Tensor:
        return self._over(layer, d)


class Embedding(Kind):
    """Rows of a table (entries, features) chosen by indices: no bias, no gradient at the input."""

    def refused(self, layer: nn.Module) -> str | None:
        assert isinstance(layer, nn.Embedding)
        if layer.scale_grad_by_freq:
            return "scale_grad_by_freq makes a gradient depend on the other examples of the batch"
        if layer.max_norm is not None:
            return "max_norm changes the table by which rows a batch reads, without noise"
        return None

    def _rows(self, layer: nn.Module, passes: Sequence[Pass]) -> tuple[Tensor, Tensor]:
        """Indices (batch, positions) and gradients (batch, positions, features) of all passes."""
        assert isinstance(layer, nn.Embedding)
        indices = torch.cat([a.reshape(len(a), prod(a.shape[1:])) for a, _ in passes], 1)
        parts = [d.reshape(len(d), prod(d.shape[1:-1]), d.shape[-1]) for _, d in passes]
        rows = torch.cat(parts, 1)
        if layer.padding_idx is not None:
            rows = rows * (indices != layer.padding_idx).unsqueeze(2)
        return indices, rows

    def norms(self, layer: nn.Module, passes: Sequence[Pass]) -> Tensor:
        indices, rows = self._rows(layer, passes)
        same = indices.unsqueeze(1) == indices.unsqueeze(2)
        if waits_for(rows):
            wide = rows.double()
            return rounded_up(*unseen(*_by_gram(wide, same), rows.dtype))
        squares, reach = _by_gram(rows, same)
        if (poor := ~(squares >= DIGITS * reach)).any():
            for few in poor.nonzero()[:, 0].split(1):
                full = self.each(layer, [(a[few], d[few]) for a, d in passes])
                squares[few] = torch.linalg.vector_norm(full).square()
        return rounded_up(squares, reach)

    def weighted(self, layer: nn.Module, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        assert isinstance(layer, nn.Embedding)
        indices, rows = self._rows(layer, [(a, d)])
        total = torch.zeros_like(layer.weight)
        return total.index_add_(0, indices.flatten(), (rows * weights[:, None, None]).flatten(0, 1))

    def each(self, layer: nn.Module, passes: Sequence[Pass]) -> Tensor:
        assert isinstance(layer, nn.Embedding)
        indices, rows = self._rows(layer, passes)
        full = rows.new_zeros(len(rows), *layer.weight.shape)
        return full.scatter_add_(1, indices.unsqueeze(2).expand_as(rows), rows)


def _by_gram(rows: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
    """Squared norms of the sums of rows (batch, positions, features) of the same entry; reach."""
    squares = ((rows @ rows.mT) * same).sum((1, 2))
    return squares, torch.linalg.vector_norm(rows, dim=2).sum(1).square()
