"""Convolutions and transposed convolutions in two dimensions."""

from math import ceil, gcd, prod, sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_weight

from dpkit.training.gradients.layers.products import Outer, Pass, scaled


class Conv2d(Outer):
    """A convolution: each output position sees one column of the unfolded input."""

    def features(self, layer: nn.Module, inputs: Tensor) -> Tensor:
        """The input, padded where the layer does not pad with the same zeros on both sides."""
        assert isinstance(layer, nn.Conv2d)
        if _plain_padding(layer):
            return inputs
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        return functional.pad(inputs, layer._reversed_padding_repeated_twice, mode=mode)

    def columns(self, layer: nn.Module, a: Tensor, d: Tensor) -> Pass:
        assert isinstance(layer, nn.Conv2d)
        return self._unfolded(layer, a, d, _padding(layer))

    @staticmethod
    def _unfolded(
        layer: nn.Conv2d | nn.ConvTranspose2d, a: Tensor, d: Tensor, padding: tuple[int, ...]
    ) -> Pass:
        size, dilation, stride = layer.kernel_size, layer.dilation, layer.stride
        columns = functional.unfold(a, size, dilation, padding, stride)
        groups = layer.groups
        return (
            columns.reshape(-1, columns.shape[1] // groups, columns.shape[2]),
            d.reshape(-1, d.shape[1] // groups, d.shape[2] * d.shape[3]),
        )

    def spread(self, layer: nn.Module) -> float:
        """The square root of the number of positions that see one number of the input, at most."""
        assert isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)
        sides = zip(layer.kernel_size, layer.stride, layer.dilation, strict=True)
        return sqrt(prod(ceil(k * gcd(stride, apart) / stride) for k, stride, apart in sides))

    def sizes(self, layer: nn.Module, a: Tensor, d: Tensor) -> tuple[int, int, int, int]:
        assert isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)
        wide = a.shape[1] // layer.groups * prod(layer.kernel_size)
        return layer.groups, wide, d.shape[1] // layer.groups, prod(d.shape[2:])

    def weighted(self, layer: nn.Module, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        assert isinstance(layer, nn.Conv2d)
        return self._gradient(layer, a, scaled(d, weights), _padding(layer))

    @staticmethod
    def _gradient(
        layer: nn.Conv2d | nn.ConvTranspose2d, a: Tensor, d: Tensor, padding: tuple[int, ...]
    ) -> Tensor:
        if len(d) == 0:
            return torch.zeros_like(layer.weight)
        settings: Any = (layer.stride, padding, layer.dilation, layer.groups)
        return conv2d_weight(a, layer.weight.shape, d, *settings)

    def bias(self, layer: nn.Module, d: Tensor) -> Tensor:
        return d.sum((2, 3))


def _plain_padding(layer: nn.Conv2d) -> bool:
    return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


def _padding(layer: nn.Conv2d) -> tuple[int, ...]:
    """The padding that is left to do after `features`."""
    return tuple(layer.padding) if _plain_padding(layer) else (0, 0)  # type: ignore[arg-type]


class ConvTranspose2d(Conv2d):
    """A transposed convolution: the convolution that takes its output back to its input.

    So features and output gradients change places: the weight is (in, out / groups, ...).
    """

    def refused(self, layer: nn.Module) -> str | None:
        assert isinstance(layer, nn.ConvTranspose2d)
        more = any(p >= s for p, s in zip(layer.output_padding, layer.stride, strict=True))
        return "its output_padding is not below its stride" if more else None

    def features(self, layer: nn.Module, inputs: Tensor) -> Tensor:
        return inputs

    def columns(self, layer: nn.Module, a: Tensor, d: Tensor) -> Pass:
        assert isinstance(layer, nn.ConvTranspose2d)
        return self._unfolded(layer, d, a, tuple(layer.padding))  # type: ignore[arg-type]

    def sizes(self, layer: nn.Module, a: Tensor, d: Tensor) -> tuple[int, int, int, int]:
        return super().sizes(layer, d, a)

    def weighted(self, layer: nn.Module, a: Tensor, d: Tensor, weights: Tensor) -> Tensor:
        assert isinstance(layer, nn.ConvTranspose2d)
        return self._gradient(layer, d, scaled(a, weights), tuple(layer.padding))  # type: ignore[arg-type]
