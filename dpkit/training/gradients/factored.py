"""Per-example gradients in factored form: norms, weighted sums, sums of several passes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from dpkit.training.gradients.layers import KINDS, Kind
from dpkit.training.gradients.layers.products import (
    Pass,
    all_count,
    clamped,
    counting,
    left_out,
    workspace,
)


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
            weights: (parameter tensors, batch), or (1, batch) for one weight an example. An example
                that has a weight of 0, or NaN, adds nothing, whatever its gradient is.
        """
        ...

    def clamped_sum(self, bounds: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        """The sum over examples of gradients within [-bound, bound] at each coordinate.

        Args:
            bounds: of each parameter's shape, type and device.

        Returns:
            a tensor for each parameter; and which examples were left whole, (batch,) bool.
        """
        ...

    def each(self) -> Iterator[list[Tensor]]:
        """Full gradients of a few examples at a time, tensors (examples, *parameter.shape)."""
        ...


class LayerPasses(NamedTuple):
    """One layer's passes over a batch: features and output gradients, (batch, ...) each.

    An example's gradient is the sum over the passes; the bias takes part in the first
    `bias_passes` of them (in all where that is None).
    """

    layer: nn.Module
    passes: tuple[Pass, ...]
    bias_passes: int | None = None

    @property
    def kind(self) -> Kind:
        return KINDS[type(self.layer)]

    def biases(self) -> Tensor | None:
        """Each example's bias gradient, None where there is no bias or no pass."""
        if getattr(self.layer, "bias", None) is None or not self.passes:
            return None
        first, *others = self.passes[: self.bias_passes]
        total = self.kind.bias(self.layer, first[1])
        for _, d in others:
            total = total + self.kind.bias(self.layer, d)
        return total

    def rows(self, part: slice) -> "LayerPasses":
        """The same of some examples."""
        return self._replace(passes=tuple((a[part], d[part]) for a, d in self.passes))


@dataclass(frozen=True, eq=False)
class Gradients:
    """Per-example gradients of a network in factored form (see `PerExample`)."""

    layers: tuple[LayerPasses, ...]

    @property
    def parameters(self) -> list[Tensor]:
        """All that the network has, in its own order."""
        return [p for one in self.layers for p in one.layer.parameters(recurse=False)]

    @property
    def batch(self) -> int:
        """Number of examples."""
        return next(len(one.passes[0][1]) for one in self.layers if one.passes)

    @cached_property
    def _biases(self) -> list[Tensor | None]:
        return [one.biases() for one in self.layers]

    def norms(self) -> Tensor:
        """L2 norm of each example's gradient by tensor, (parameter tensors, batch)."""
        norms: list[Tensor] = []
        for one, bias in zip(self.layers, self._biases, strict=True):
            if not one.passes:  # it did not run
                some = next(one.layer.parameters(recurse=False))
                norms += [some.new_zeros(self.batch).detach()] * _tensors(one)
                continue
            norms.append(one.kind.norms(one.layer, one.passes))
            if bias is not None:
                norms.append(torch.linalg.vector_norm(bias.flatten(1), dim=1))
        return torch.stack(norms)

    def weighted_sum(self, weights: Tensor) -> list[Tensor]:
        """The sum over examples of weight times gradient (see `PerExample`)."""
        sums: list[Tensor] = []
        weights = counting(weights)
        own = self._without(weights)
        rows = iter(weights.expand(len(self.parameters), -1))
        for one, bias in zip(own.layers, own._biases, strict=True):
            if not one.passes:
                sums += [torch.zeros_like(p).detach() for p in one.layer.parameters(recurse=False)]
                for _ in range(_tensors(one)):
                    next(rows)
                continue
            sums.append(one.kind.weighted_sum(one.layer, one.passes, next(rows)))
            if bias is not None:
                sums.append((next(rows) @ bias.flatten(1)).view(bias.shape[1:]))
        return sums

    def _without(self, weights: Tensor) -> "Gradients":
        """Zeros in place of the passes of examples with weight 0, whose numbers may be infinite."""
        if all_count(weights):
            return self
        return Gradients(
            tuple(
                one._replace(
                    passes=tuple(
                        (left_out(a, weights), left_out(d, weights)) for a, d in one.passes
                    )
                )
                for one in self.layers
            )
        )

    def clamped_sum(self, bounds: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        """The sum over examples of gradients within bounds (see `PerExample`)."""
        own = dict(zip(map(id, self.parameters), bounds, strict=True))
        whole = torch.ones(self.batch, dtype=torch.bool, device=bounds[0].device)
        sums: dict[int, Tensor] = {}
        for one, bias in zip(self.layers, self._biases, strict=True):  # few numbers, which tell
            if bias is not None:  # of most examples that they are cut
                key = id(one.layer.bias)
                sums[key] = clamped(bias, own[key], whole).sum(0)
        for one in self.layers:
            if one.passes:
                key = id(one.layer.weight)
                sums[key] = one.kind.clamped_sum(one.layer, one.passes, own[key], whole)
        return [sums[key] if key in sums else torch.zeros_like(own[key]) for key in own], whole

    def each(self, at_most: int | None = None) -> Iterator[list[Tensor]]:
        """Full gradients, as many examples at a time as fit in `at_most` numbers.

        None is 2**22 on a CPU, more on a GPU.
        """
        if at_most is None:
            at_most = max(2**22, workspace(self.parameters[0]))
        rows = max(at_most // max(sum(p.numel() for p in self.parameters), 1), 1)
        for start in range(0, self.batch, rows):
            gradients = []
            for one in self.layers:
                part = one.rows(slice(start, start + rows))
                if not part.passes:
                    count = min(rows, self.batch - start)
                    own = one.layer.parameters(recurse=False)
                    gradients += [p.new_zeros(count, *p.shape).detach() for p in own]
                    continue
                gradients.append(one.kind.each(one.layer, part.passes))
                if (bias := part.biases()) is not None:
                    gradients.append(bias)
            yield gradients


def _tensors(one: LayerPasses) -> int:
    return sum(1 for _ in one.layer.parameters(recurse=False))


def paired(first: Gradients, second: Gradients) -> Gradients:
    """The i-th gradient of `first` plus the i-th of `second`, for passes of one network."""
    others = {id(one.layer): one for one in second.layers}
    if len(others) != len(first.layers) or any(id(one.layer) not in others for one in first.layers):
        raise ValueError("paired gradients need two passes of one network")
    return Gradients(tuple(_joined(one, others[id(one.layer)]) for one in first.layers))


def _joined(first: LayerPasses, second: LayerPasses) -> LayerPasses:
    if not (first.passes and second.passes):
        return first if first.passes else second
    (a, _), (b, _) = first.passes[0], second.passes[0]
    if len(a) != len(b):
        raise ValueError("paired gradients need two passes of one network, equal in batch")
    passes, others = first.passes, second.passes
    i, j = (len(p) if n is None else n for _, p, n in (first, second))
    in_order = (*passes[:i], *others[:j], *passes[i:], *others[j:])
    return LayerPasses(first.layer, in_order, i + j)
