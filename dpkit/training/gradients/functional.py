"""Per-example gradients of any network through torch.func, a few examples at a time.

The slow way, for layers that `layers` does not know: gradients are formed, used and dropped chunk
by chunk, once for the norms and once for the sums, so that memory stays bounded.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dpkit.training.gradients.layers import UnsupportedLayer, refuse_mixing

AT_ONCE = 2**22  # numbers in the gradients and passes of one chunk
WIDER = 64  # times as many numbers as an input has, in what a network makes of it
_warned: set[str] = set()


@dataclass(frozen=True, eq=False)
class Functional:
    """Per-example gradients of a loss, formed when they are asked for.

    loss: loss(call, *rows) -> scalar, of one example; `call` runs the network on its rows, which
        keep a batch dimension of 1.
    inputs: of the whole batch, (batch, ...) each.
    """

    network: nn.Module
    loss: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    _norms: list[Tensor] = field(default_factory=list)  # of the last `norms`, chunk by chunk

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
        batch, rows = self._batch, self._rows(at_most)
        for start in range(0, batch, rows):
            part = [x[start : start + rows] for x in self.inputs]
            with as_it_was(self.network):
                named = vmap(grad(self._one), (None, *[0] * len(part)))(values, *part)
            yield list(named.values())

    @property
    def _batch(self) -> int:
        return len(self.inputs[0])

    def _rows(self, at_most: int) -> int:
        """Examples at a time: their gradients, inputs and (about as much) outputs must fit."""
        one = sum(p.numel() for p in self.parameters)
        one += WIDER * sum(x[:1].numel() for x in self.inputs)
        return max(at_most // max(one, 1), 1)

    def _one(self, values: dict[str, Tensor], *rows: Tensor) -> Tensor:
        def call(*inputs: Tensor) -> Tensor:
            return functional_call(self.network, values, inputs)

        return self.loss(call, *(row[None] for row in rows))

    def losses(self) -> Tensor:
        """Each example's loss, (batch,)."""
        values = {name: p.detach() for name, p in self._values.items()}
        losses = [self.parameters[0].new_zeros(0).detach()]
        rows = self._rows(AT_ONCE)
        with torch.no_grad():
            for start in range(0, self._batch, rows):
                part = [x[start : start + rows] for x in self.inputs]
                with as_it_was(self.network):
                    losses.append(vmap(self._one, (None, *[0] * len(part)))(values, *part))
        return torch.cat(losses)

    def norms(self) -> Tensor:
        """L2 norm of each example's gradient by tensor, (parameter tensors, batch)."""
        self._norms.clear()
        for gradients in self.each():
            self._norms.append(torch.stack([_norm(g) for g in gradients]))
        parameters = self.parameters
        nothing = parameters[0].new_zeros(len(parameters), 0).detach()
        return torch.cat([nothing, *self._norms], 1)

    def weighted_sum(self, weights: Tensor) -> list[Tensor]:
        """The sum over examples of weight times gradient (see `PerExample`).

        Raises:
            UnsupportedLayer: the network gives other gradients than when the norms were taken (it
                draws random numbers, or keeps a state), so that weights do not bound them.
        """
        parameters = self.parameters
        sums = [torch.zeros_like(p).detach() for p in parameters]
        rows = weights.expand(len(parameters), -1)
        start = 0
        for index, gradients in enumerate(self.each()):
            if self._norms and not torch.allclose(
                torch.stack([_norm(g) for g in gradients]), self._norms[index], rtol=1e-4, atol=0
            ):
                raise UnsupportedLayer(
                    "the network gives other gradients each time it runs, so that they cannot be "
                    "clipped: call eval() on what draws random numbers or keeps a state"
                )
            stop = start + len(gradients[0])
            for total, row, gradient in zip(sums, rows, gradients, strict=True):
                total += torch.tensordot(row[start:stop], gradient, 1)
            start = stop
        return sums


@contextmanager
def as_it_was(network: nn.Module) -> Iterator[None]:
    """Put the parameters back: functional_call loses those of a module that has two names."""
    own = [(m, name, p) for m in network.modules() for name, p in m._parameters.items()]
    try:
        yield
    finally:
        for module, name, parameter in own:
            module.__dict__.pop(name, None)
            module._parameters[name] = parameter


def _norm(gradient: Tensor) -> Tensor:
    return gradient.flatten(1).norm(dim=1)


def per_example(
    network: nn.Module, loss: Callable[[Tensor], Tensor], *inputs: Tensor, reason: str | None
) -> tuple[Functional, Tensor]:
    """As `by_products.per_example`, for any network; `reason` is warned about once.

    Raises:
        MixesExamples: a layer in which the examples of a batch meet.
    """
    refuse_mixing(network)
    if reason is not None:
        warn_once(reason)

    def one(call: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        return loss(call(*rows)).sum()

    gradients = Functional(network, one, inputs)
    return gradients, gradients.losses()


def warn_once(reason: str) -> None:
    """Warn that the slow way is taken, once for each reason."""
    if reason not in _warned:
        _warned.add(reason)
        warnings.warn(
            f"{reason}; all of the network goes through torch.func, which is slower", stacklevel=4
        )
