"""Per-example gradient norms and clipped sums, without storing per-example gradients.

One forward and one backward pass give each layer's features a and the gradients d at its output, of
every example. Norms and weighted sums follow from a and d alone (`layers`, `factored`). A network
with a layer whose products are not known goes through torch.func instead (`functional`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from dpkit.training.gradients import functional, self_check
from dpkit.training.gradients.factored import Gradients, LayerPasses, PerExample
from dpkit.training.gradients.layers import (
    KINDS,
    HalfPrecision,
    MixesExamples,
    UnsupportedLayer,
    check,
    parametrised,
)

BESIDE = (
    "the network uses parameters beside running its layers (in a formula, a hook), so that "
    "products do not give its gradients"
)


def own(output: Tensor) -> Tensor:
    """The output itself, or a copy of a view, whose place in the graph changes with its base."""
    return output.clone() if output._is_view() else output


class _Seen(NamedTuple):
    layer: nn.Module
    features: Tensor
    version: int
    output: GradientEdge
    shape: torch.Size


class Capture:
    """What a network's layers see while `capture` is open."""

    def __init__(self, network: nn.Module) -> None:
        self.layers = tuple(parametrised(network))
        self.seen: list[_Seen] = []

    def remember(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """Record a layer's features and the graph edge of its output; return the output."""
        if any(layer is seen.layer for seen in self.seen):
            raise UnsupportedLayer(
                f"layer {layer} ran twice in one capture: its gradients would be mixed up; "
                "open one capture for each pass and add the gradients with `paired`"
            )
        if len(inputs) != 1:
            raise UnsupportedLayer(f"{layer} must be called with its input as its one argument")
        if not output.requires_grad:
            raise ValueError(
                f"the output of {layer} takes no gradient: capture needs grad mode and parameters "
                "that require gradients"
            )
        with torch.no_grad():
            features = KINDS[type(layer)].features(layer, inputs[0].detach())
        if output.dtype not in (torch.float32, torch.float64):
            raise HalfPrecision(f"{layer} gave {output.dtype}; switch autocast off")
        output = own(output)
        edge = get_gradient_edge(output)  # of the output before anything changes it in place
        self.seen.append(_Seen(layer, features, features._version, edge, output.shape))
        return output

    def gradients(self, losses: Tensor) -> Gradients:
        """Factored gradients of each example's own loss.

        Args:
            losses: shape (batch,), the i-th depending on the i-th example alone.
        """
        passes, _ = self.backward(losses)
        return Gradients(passes)

    def backward(
        self, losses: Tensor, *others: Tensor
    ) -> tuple[tuple[LayerPasses, ...], list[Tensor]]:
        """One pass of each layer, and the gradients of the losses' sum at other tensors.

        Layers come in the network's own order, whatever order they ran in.

        Raises:
            ValueError: losses are not one for each example that the layers saw.
            UnsupportedLayer: a layer's input was changed in place after it was read.
        """
        if losses.ndim != 1:
            raise ValueError(f"losses must have shape (batch,), got {tuple(losses.shape)}")
        for seen in self.seen:
            if seen.shape[0] != len(losses):
                raise UnsupportedLayer(
                    f"{seen.layer} saw {seen.shape[0]} rows and there are {len(losses)} losses: "
                    "its first dimension must be the example's"
                )
            if seen.features._version != seen.version:
                raise UnsupportedLayer(
                    f"the input of {seen.layer} was changed in place after the layer had read it"
                )
        if not self.seen:
            raise UnsupportedLayer("no layer with parameters ran")
        ends = [*(seen.output for seen in self.seen), *others]
        gradients = torch.autograd.grad(losses.sum(), ends, allow_unused=True)
        passes = {layer: LayerPasses(layer, ()) for layer in self.layers}
        for seen, d in zip(self.seen, gradients, strict=False):
            d = losses.new_zeros(seen.shape) if d is None else d
            passes[seen.layer] = LayerPasses(seen.layer, ((seen.features, d),))
        rest = zip(others, gradients[len(self.seen) :], strict=True)
        return tuple(passes.values()), [torch.zeros_like(x) if g is None else g for x, g in rest]


@contextmanager
def capture(network: nn.Module) -> Iterator[Capture]:
    """Remember what the layers of `network` see, for one forward pass.

    Raises:
        UnsupportedLayer: as `check` does; `per_example` takes such networks too.
    """
    check(network)
    captured = Capture(network)
    with hooked(network, captured.remember):
        yield captured


@contextmanager
def hooked(network: nn.Module, remember: Callable[..., Tensor | None]) -> Iterator[None]:
    """Call remember(layer, inputs, output) after each layer with parameters has run.

    What it returns, if anything, takes the output's place.
    """
    handles = [module.register_forward_hook(remember) for module in parametrised(network)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def per_example(
    network: nn.Module, loss: Callable[[Tensor], Tensor], *inputs: Tensor
) -> tuple[PerExample, Tensor]:
    """Each example's gradient of loss(network(*inputs)), and the losses (batch,).

    Args:
        network: of any layers that keep examples apart. Layers that `layers.KINDS` does not list
            make all of it go through torch.func, which is slower; that is said once.
        loss: network output (batch, ...) -> (batch,), each from its own row alone.
        inputs: tensors whose first dimension is the example's.

    Raises:
        MixesExamples: a layer in which the examples of a batch meet.
    """
    try:
        check(network)
        if len(inputs[0]) == 0:  # which not every layer takes
            return functional.per_example(network, loss, *inputs, reason=None)
        return _by_products(network, loss, inputs)
    except MixesExamples:
        raise
    except UnsupportedLayer as reason:
        return functional.per_example(network, loss, *inputs, reason=str(reason))


def _by_products(
    network: nn.Module, loss: Callable[[Tensor], Tensor], inputs: tuple[Tensor, ...]
) -> tuple[PerExample, Tensor]:
    known = self_check.known(network, "loss")
    if known is False:
        raise UnsupportedLayer(BESIDE)
    with capture(network) as captured:
        losses = loss(network(*inputs))
    if known:
        return captured.gradients(losses), losses.detach()

    def alone() -> Tensor:
        with torch.no_grad():
            return loss(network(*(x[:1] for x in inputs)))

    self_check.refuse_mixing(network, "loss", losses.detach(), alone)
    parameters = list(network.parameters())
    total = losses.sum()
    wanted = torch.autograd.grad(total, parameters, retain_graph=True, allow_unused=True)
    gradients = captured.gradients(losses)
    if not self_check.agrees(network, "loss", gradients, wanted):
        raise UnsupportedLayer(BESIDE)
    return gradients, losses.detach()
