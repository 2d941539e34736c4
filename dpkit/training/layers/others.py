"""Layers whose weight gradients are small or sparse: normalisations of one example, embeddings."""

from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpkit.training.layers.products import Kind


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
        """Products (passes, batch, ...) summed to (batch, *weight.shape)."""
        passes, batch, *shape = products.shape
        if isinstance(layer, nn.LayerNorm):
            weight = layer.normalized_shape
            positions = prod(shape[: -len(weight)])
            return products.reshape(passes, batch, positions, *weight).sum((0, 2))
        return products.reshape(passes, batch, shape[0], prod(shape[1:])).sum((0, 3))

    def squared_norms(self, layer: nn.Module, a: Tensor, d: Tensor) -> Tensor:
        return self.each(layer, a, d).flatten(1).square().sum(1)

    def weighted_sum(self, layer: nn.Module, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        return torch.tensordot(weights, self.each(layer, a, d), 1)

    def each(self, layer: nn.Module, a: Tensor, d: Tensor) -> Tensor:
        return self._over(layer, a * d)

    def biases(self, layer: nn.Module, d: Tensor) -> Tensor:
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

    def _rows(self, layer: nn.Module, a: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        """Indices (batch, positions) and gradients (batch, positions, features) of all passes."""
        assert isinstance(layer, nn.Embedding)
        positions = prod(a.shape[2:])
        indices = a.reshape(*a.shape[:2], positions)
        rows = d.reshape(*d.shape[:2], positions, d.shape[-1])
        if layer.padding_idx is not None:
            rows = rows * (indices != layer.padding_idx).unsqueeze(3)
        return indices.movedim(0, 1).flatten(1), rows.movedim(0, 1).flatten(1, 2)

    def squared_norms(self, layer: nn.Module, a: Tensor, d: Tensor) -> Tensor:
        indices, rows = self._rows(layer, a, d)
        same = indices.unsqueeze(1) == indices.unsqueeze(2)
        return ((rows @ rows.mT) * same).sum((1, 2))

    def weighted_sum(self, layer: nn.Module, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        assert isinstance(layer, nn.Embedding)
        indices, rows = self._rows(layer, a, d)
        total = torch.zeros_like(layer.weight)
        return total.index_add_(0, indices.flatten(), (rows * weights[:, None, None]).flatten(0, 1))

    def each(self, layer: nn.Module, a: Tensor, d: Tensor) -> Tensor:
        assert isinstance(layer, nn.Embedding)
        indices, rows = self._rows(layer, a, d)
        found = rows.new_zeros(len(rows), *layer.weight.shape)
        return found.scatter_add_(1, indices.unsqueeze(2).expand_as(rows), rows)
