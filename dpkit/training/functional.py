"""Per-example gradients of any network through torch.func, a few examples at a time.

The slow way, for layers that `layers` does not know: gradients are formed, used and dropped chunk
by chunk, once for the norms and once for the sums, so that memory stays bounded.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dpkit.training.layers import refuse_mixing

AT_ONCE = 2**22  # numbers in the gradients of one chunk
_told: set[str] = set()

# (call, rows): `call` runs the network on inputs of one example with their batch dimension of 1
OneLoss = Callable[..., Tensor]


class Term(NamedTuple):
    """A loss of one example: loss(call, *rows) -> scalar, and the inputs of the whole batch."""

    loss: OneLoss
    inputs: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Functional:
    """Per-example gradients of a sum of terms, formed when they are asked for."""

    network: nn.Module
    terms: tuple[Term, ...]

    @property
    def parameters(self) -> list[Tensor]:
        """All that the network has and that requires gradients."""
        return list(self._values.values())

    @property
    def _values(self) -> dict[str, Tensor]:
        return {name: p for name, p in self.network.named_parameters() if p.requires_grad}

    def each(self, at_most: int = AT_ONCE) -> Iterator[list[Tensor]]:
        """Full gradients, as many examples at a time as fit in `at_most` numbers."""
        values = {name: p.detach() for name, p in self._values.items()}
        batch = len(self.terms[0].inputs[0])
        rows = max(at_most // max(sum(p.numel() for p in values.values()), 1), 1)
        for start in range(0, batch, rows):
            total: list[Tensor] = []
            for loss, inputs in self.terms:
                part = [x[start : start + rows] for x in inputs]
                found = vmap(grad(self._one(loss)), (None, *[0] * len(part)))(values, *part)
                found = list(found.values())
                total = [t + g for t, g in zip(total, found, strict=True)] if total else found
            yield total

    def _one(self, loss: OneLoss) -> Callable[..., Tensor]:
        def one(values: dict[str, Tensor], *rows: Tensor) -> Tensor:
            def call(*inputs: Tensor) -> Tensor:
                return functional_call(self.network, values, inputs)

            return loss(call, *(row[None] for row in rows))

        return one

    def losses(self) -> Tensor:
        """Each example's loss, the sum of the terms, (batch,)."""
        values = {name: p.detach() for name, p in self._values.items()}
        if len(self.terms[0].inputs[0]) == 0:
            return self.parameters[0].new_zeros(0).detach()
        with torch.no_grad():
            terms = [
                vmap(self._one(loss), (None, *[0] * len(inputs)))(values, *inputs)
                for loss, inputs in self.terms
            ]
        return torch.stack(terms).sum(0)

    def norms(self) -> Tensor:
        """L2 norm of each example's gradient by tensor, (parameter tensors, batch)."""
        chunks = [
            torch.stack([g.flatten(1).norm(dim=1) for g in gradients]) for gradients in self.each()
        ]
        if not chunks:
            parameters = self.parameters
            return parameters[0].new_zeros(len(parameters), 0).detach()
        return torch.cat(chunks, 1)

    def weighted_sum(self, weights: Tensor) -> list[Tensor]:
        """The sum over examples of weight times gradient (see `PerExample`)."""
        parameters = self.parameters
        sums = [torch.zeros_like(p).detach() for p in parameters]
        rows = weights.expand(len(parameters), -1)
        start = 0
        for gradients in self.each():
            stop = start + len(gradients[0])
            for total, row, gradient in zip(sums, rows, gradients, strict=True):
                total += torch.tensordot(row[start:stop], gradient, 1)
            start = stop
        return sums


def per_example(
    network: nn.Module, loss: Callable[[Tensor], Tensor], *inputs: Tensor, reason: str | None
) -> tuple[Functional, Tensor]:
    """As `dpkit.training.per_example.per_example`, for any network; `reason` is told once.

    Raises:
        MixesExamples: a layer in which the examples of a batch meet.
    """
    refuse_mixing(network)
    if reason is not None:
        tell_once(reason)

    def one(call: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        return loss(call(*rows)).sum()

    found = Functional(network, (Term(one, inputs),))
    return found, found.losses()


def tell_once(reason: str) -> None:
    """Warn that the slow way is taken, once for each reason."""
    if reason not in _told:
        _told.add(reason)
        warnings.warn(
            f"{reason}; all of the network goes through torch.func, which is slower", stacklevel=4
        )


def paired(first: Functional, second: Functional) -> Functional:
    """The i-th gradient of `first` plus the i-th of `second`."""
    if first.network is not second.network:
        raise ValueError("paired gradients need two passes of one network")
    if len({len(term.inputs[0]) for term in first.terms + second.terms}) > 1:
        raise ValueError("paired gradients need two passes of one network, equal in batch")
    return Functional(first.network, first.terms + second.terms)
