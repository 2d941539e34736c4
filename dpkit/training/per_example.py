"""Per-example gradient norms and clipped sums, without ever storing a per-example gradient.

A linear layer's gradient for one example is the outer product of the gradient at its output, d, and
its input, a. So one forward and one backward pass, which keep a and d of each layer, give every
example's norm from a few dot products, and the clipped sum as one weighted matrix product
(Goodfellow 2015, "Efficient per-example gradient computations"; Bu et al. 2022, "book-keeping").
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn


class UnsupportedLayer(TypeError):
    """A layer whose per-example gradients are unknown here, or do not exist."""


class LayerPass(NamedTuple):
    """What one linear layer remembers of a pass."""

    layer: nn.Linear
    inputs: Tensor  # (batch, positions, in_features)
    output_gradients: Tensor  # (batch, positions, out_features), of each example's own loss


class Gradients(NamedTuple):
    """Per-example gradients of a network in factored form."""

    layers: tuple[LayerPass, ...]

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters, in the order of `norms` and `weighted_sum`: weight, bias, by layer."""
        found: list[Tensor] = []
        for layer, _, _ in self.layers:
            found.append(layer.weight)
            if layer.bias is not None:
                found.append(layer.bias)
        return found

    def norms(self) -> Tensor:
        """L2 norm of each example's gradient by tensor, shape (parameter tensors, batch)."""
        rows = []
        for layer, a, d in self.layers:
            d_gram, a_gram = _gram(d), _gram(a)  # (batch, positions, positions)
            rows.append((d_gram * a_gram).sum((1, 2)))
            if layer.bias is not None:
                rows.append(d_gram.sum((1, 2)))
        return torch.stack(rows).clamp(min=0).sqrt()

    def weighted_sum(self, weights: Tensor) -> list[Tensor]:
        """The sum over examples of weight times gradient, a tensor for each parameter.

        Args:
            weights: shape (parameter tensors, batch), or (1, batch) for one weight an example.
        """
        sums: list[Tensor] = []
        rows = iter(weights.expand(len(self.parameters), -1))
        for layer, a, d in self.layers:
            sums.append((next(rows)[:, None, None] * d).flatten(0, 1).mT @ a.flatten(0, 1))
            if layer.bias is not None:
                sums.append(next(rows) @ d.sum(1))
        return sums


class Capture:
    """The inputs and outputs of a network's linear layers while `capture` is open."""

    def __init__(self) -> None:
        self._passes: list[tuple[nn.Linear, Tensor, Tensor]] = []

    def _remember(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        assert isinstance(layer, nn.Linear)
        if any(layer is seen for seen, _, _ in self._passes):
            raise UnsupportedLayer(
                f"layer {layer} ran twice in one capture: its gradients would be mixed up; "
                "open one capture for each pass and add the gradients with `paired`"
            )
        self._passes.append((layer, inputs[0].detach(), output))

    def gradients(self, losses: Tensor) -> Gradients:
        """Factored gradients of each example's own loss.

        Args:
            losses: shape (batch,), the i-th depending on the i-th example alone.
        """
        if losses.ndim != 1:
            raise ValueError(f"losses must have shape (batch,), got {tuple(losses.shape)}")
        outputs = [output for _, _, output in self._passes]
        gradients = torch.autograd.grad(losses.sum(), outputs)
        return Gradients(
            tuple(
                LayerPass(layer, _with_positions(a), _with_positions(d))
                for (layer, a, _), d in zip(self._passes, gradients, strict=True)
            )
        )


def _gram(rows: Tensor) -> Tensor:
    """Dot products of each example's positions with each other."""
    if rows.shape[1] == 1:
        return rows.square().sum(2, keepdim=True)
    return rows @ rows.mT


def _with_positions(rows: Tensor) -> Tensor:
    return rows.unsqueeze(1) if rows.ndim == 2 else rows.flatten(1, -2)


@contextmanager
def capture(network: nn.Module) -> Iterator[Capture]:
    """Remember what the linear layers of `network` see, for one forward pass.

    Raises:
        UnsupportedLayer: a layer with parameters that is not linear, or one that mixes the examples
            of a batch (batch normalisation), where one record's gradient is not defined.
    """
    captured = Capture()
    handles = []
    try:
        for module in network.modules():
            if isinstance(module, nn.Linear):
                handles.append(module.register_forward_hook(captured._remember))
            elif isinstance(module, nn.modules.batchnorm._BatchNorm):
                raise UnsupportedLayer(
                    f"{module} mixes the examples of a batch, so that one record's gradient is not "
                    "defined; use layer or group normalisation, or none"
                )
            elif next(module.parameters(recurse=False), None) is not None:
                raise UnsupportedLayer(
                    f"per-example gradients of {module} are not known; use linear layers and "
                    "activations"
                )
        yield captured
    finally:
        for handle in handles:
            handle.remove()


def paired(first: Gradients, second: Gradients) -> Gradients:
    """The i-th gradient of `first` plus the i-th of `second`, for passes of one network."""
    pairs = []
    for (layer, a, d), (other, b, e) in zip(first.layers, second.layers, strict=True):
        if layer is not other or a.shape[0] != b.shape[0]:
            raise ValueError("paired gradients need two passes of one network, equal in batch")
        pairs.append(LayerPass(layer, torch.cat((a, b), 1), torch.cat((d, e), 1)))
    return Gradients(tuple(pairs))
