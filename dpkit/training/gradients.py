"""Per-example gradients in factored form: norms, weighted sums, sums of several passes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from dpkit.training.layers import KINDS, Kind


class PerExample(Protocol):
    """The gradients of each example of a batch, in whatever form."""

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters, in the order of norms and sums."""
        ...

    def norms(self) -> Tensor:
        """L2 norm of each example's gradient by tensor, (parameter tensors, batch)."""
        ...

    def weighted_sum(self, weights: Tensor) -> list[Tensor]:
        """The sum over examples of weight times gradient, a tensor for each parameter.

        Args:
            weights: (parameter tensors, batch), or (1, batch) for one weight an example.
        """
        ...

    def each(self) -> Iterator[list[Tensor]]:
        """Full gradients of a few examples at a time, tensors (examples, *parameter.shape)."""
        ...


class LayerPass(NamedTuple):
    """What one layer remembers: a and d of each pass, (passes, batch, ...).

    An example's gradient is the sum over the passes; the bias takes part in the first
    `bias_passes` of them (in all where that is None).
    """

    layer: nn.Module
    features: Tensor
    output_gradients: Tensor
    bias_passes: int | None = None

    @property
    def kind(self) -> Kind:
        return KINDS[type(self.layer)]

    def biases(self) -> Tensor | None:
        """Each example's bias gradient, None where there is no bias."""
        if getattr(self.layer, "bias", None) is None:
            return None
        return self.kind.biases(self.layer, self.output_gradients[: self.bias_passes])


@dataclass(frozen=True, eq=False)
class Gradients:
    """Per-example gradients of a network in factored form (see `PerExample`)."""

    layers: tuple[LayerPass, ...]

    @property
    def parameters(self) -> list[Tensor]:
        """Weight, bias, layer by layer in the order in which they ran."""
        return [p for one in self.layers for p in one.layer.parameters(recurse=False)]

    @cached_property
    def _biases(self) -> list[Tensor | None]:
        return [one.biases() for one in self.layers]

    def norms(self) -> Tensor:
        """L2 norm of each example's gradient by tensor, (parameter tensors, batch)."""
        squares = []
        for one, bias in zip(self.layers, self._biases, strict=True):
            layer, a, d, _ = one
            squares.append(one.kind.squared_norms(layer, a, d))
            if bias is not None:
                squares.append(bias.flatten(1).square().sum(1))
        return torch.stack(squares).clamp(min=0).sqrt()

    def weighted_sum(self, weights: Tensor) -> list[Tensor]:
        """The sum over examples of weight times gradient (see `PerExample`)."""
        sums: list[Tensor] = []
        rows = iter(weights.expand(len(self.parameters), -1))
        for one, bias in zip(self.layers, self._biases, strict=True):
            layer, a, d, _ = one
            sums.append(one.kind.weighted_sum(layer, a, d, next(rows)))
            if bias is not None:
                sums.append(torch.tensordot(next(rows), bias, 1))
        return sums

    def each(self, at_most: int = 2**22) -> Iterator[list[Tensor]]:
        """Full gradients, as many examples at a time as fit in `at_most` numbers."""
        batch = self.layers[0].output_gradients.shape[1]
        rows = max(at_most // max(sum(p.numel() for p in self.parameters), 1), 1)
        for start in range(0, batch, rows):
            found = []
            for one in self.layers:
                layer, a, d, bias_passes = one
                part = LayerPass(
                    layer, a[:, start : start + rows], d[:, start : start + rows], bias_passes
                )
                found.append(one.kind.each(layer, part.features, part.output_gradients))
                if (bias := part.biases()) is not None:
                    found.append(bias)
            yield found


def paired(first: Gradients, second: Gradients) -> Gradients:
    """The i-th gradient of `first` plus the i-th of `second`, for passes of one network."""
    others = {id(one.layer): one for one in second.layers}
    if len(others) != len(first.layers) or any(id(one.layer) not in others for one in first.layers):
        raise ValueError("paired gradients need two passes of one network")
    return Gradients(tuple(_joined(one, others[id(one.layer)]) for one in first.layers))


def _joined(first: LayerPass, second: LayerPass) -> LayerPass:
    layer, a, d, biases = first
    _, b, e, others = second
    if a.shape[1:] != b.shape[1:] or d.shape[1:] != e.shape[1:]:
        raise ValueError("paired gradients need two passes of one network, equal in batch")
    if biases is None and others is None:
        return LayerPass(layer, torch.cat((a, b)), torch.cat((d, e)))
    biases = len(a) if biases is None else biases
    others = len(b) if others is None else others
    order = (slice(0, biases), slice(biases, None)), (slice(0, others), slice(others, None))
    (with_bias, without), (second_with, second_without) = order
    return LayerPass(
        layer,
        torch.cat((a[with_bias], b[second_with], a[without], b[second_without])),
        torch.cat((d[with_bias], e[second_with], d[without], e[second_without])),
        biases + others,
    )
