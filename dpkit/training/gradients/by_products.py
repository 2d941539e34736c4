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

from dpkit.training.gradients import functional, refused, self_check
from dpkit.training.gradients.factored import Gradients, LayerPasses, PerExample
from dpkit.training.gradients.layers import (
    KINDS,
    HalfPrecision,
    MixesExamples,
    UnsupportedLayer,
    check,
    refuse_mixing,
)

BESIDE = (
    "the network uses parameters beside running its layers (in a formula, a hook), so that "
    "products do not give its gradients"
)
PRODUCTS = "by products"
MEET = (
    "what {layer} gives for one example moves the loss of another: examples meet in network or "
    "loss, or the layer's first dimension is not the example's"
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
        self.network = network
        self.layers = _parametrised(network)
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
                f"the output of {layer} takes no gradient: capture needs grad mode, parameters "
                "that require gradients, and checkpoints with use_reentrant=False"
            )
        with torch.no_grad():
            features = KINDS[type(layer)].features(layer, inputs[0].detach())
        if output.dtype not in (torch.float32, torch.float64):
            raise HalfPrecision(f"{layer} gave {output.dtype}; switch autocast off inside it")
        output = own(output)
        edge = get_gradient_edge(output)  # of the output before anything changes it in place
        self.seen.append(_Seen(layer, features, features._version, edge, output.shape))
        return output

    def gradients(self, losses: Tensor) -> Gradients:
        """Factored gradients of each example's own loss.

        From time to time (see `self_check`) two examples' gradients are computed a second way.
        The network is not run again, so examples that meet in a comparison, by detach() or over
        several batches are seen by `per_example` alone.

        Args:
            losses: shape (batch,), the i-th depending on the i-th example alone.

        Raises:
            UnsupportedLayer: they depend on others, or products do not give the gradients.
        """
        asked = self_check.asked(self.network, "capture", type(losses.grad_fn).__name__)
        if not asked.due() or losses.shape == (0,):
            asked.batches += losses.shape != (0,)
            return Gradients(self.backward(losses)[0])
        gradients, certain = self.checked(losses, asked)
        asked.batches += certain and len(losses) > 1
        return gradients

    def checked(self, losses: Tensor, asked: self_check.Asked) -> tuple[Gradients, bool]:
        """The gradients, and whether two examples' are autograd's (not so if they are infinite).

        Raises:
            UnsupportedLayer: one is another than autograd's, or moves with another example.
        """
        self._refuse_other_rows(losses)
        parameters = [p for layer in self.layers for p in layer.parameters(recurse=False)]
        ends = [*parameters, *(seen.output for seen in self.seen)]
        wanted = {}
        for row in asked.rows(len(losses)):
            found = torch.autograd.grad(losses[row], ends, retain_graph=True, allow_unused=True)
            wanted[row] = found[: len(parameters)]
            for seen, d in zip(self.seen, found[len(parameters) :], strict=True):
                if d is not None and self_check.reaches_others(d, row):
                    raise UnsupportedLayer(MEET.format(layer=seen.layer))
        gradients = Gradients(self.backward(losses)[0])
        verdicts = [self_check.agrees(gradients, row, w) for row, w in wanted.items()]
        if False in verdicts:
            raise UnsupportedLayer(BESIDE)
        return gradients, None not in verdicts

    def backward(
        self, losses: Tensor, *others: Tensor
    ) -> tuple[tuple[LayerPasses, ...], list[Tensor]]:
        """One pass of each layer, and the gradients of the losses' sum at other tensors.

        Layers come in the network's own order, whatever order they ran in.

        Raises:
            ValueError: losses are not one for each example that the layers saw.
            UnsupportedLayer: a layer's input was changed in place after it was read.
        """
        self._refuse_other_rows(losses)
        ends = [*(seen.output for seen in self.seen), *others]
        gradients = torch.autograd.grad(losses.sum(), ends, allow_unused=True)
        passes = {layer: LayerPasses(layer, ()) for layer in self.layers}
        for seen, d in zip(self.seen, gradients, strict=False):
            d = losses.new_zeros(seen.shape) if d is None else d
            passes[seen.layer] = LayerPasses(seen.layer, ((seen.features, d),))
        rest = zip(others, gradients[len(self.seen) :], strict=True)
        return tuple(passes.values()), [torch.zeros_like(x) if g is None else g for x, g in rest]

    def _refuse_other_rows(self, losses: Tensor) -> None:
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


@contextmanager
def capture(network: nn.Module) -> Iterator[Capture]:
    """Remember what the layers of `network` see, for one forward pass.

    Raises:
        UnsupportedLayer: as `check` does; `per_example` takes such networks too.
        HalfPrecision: autocast is on.
    """
    check(network)
    refused.refuse(network)
    captured = Capture(network)
    with hooked(network, captured.remember):
        yield captured


def _parametrised(network: nn.Module) -> tuple[nn.Module, ...]:
    """The modules of a network that hold parameters of their own."""
    return tuple(m for m in network.modules() if [*m.parameters(recurse=False)])


@contextmanager
def hooked(network: nn.Module, remember: Callable[..., Tensor | None]) -> Iterator[None]:
    """Call remember(layer, inputs, output) after each layer with parameters has run.

    What it returns, if anything, takes the output's place.
    """
    handles = [module.register_forward_hook(remember) for module in _parametrised(network)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@refused.not_compiled
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
        MixesExamples: examples of a batch meet in a layer or in the loss, or are kept in a buffer
            (looked at from time to time: see `self_check`).
        UnsupportedLayer: torch.func does not run the network, or `refused` lists it.
        ValueError: the losses are not one for each example.
        TypeError: network or loss take another number of arguments.
    """
    refuse_mixing(network)
    refused.refuse(network)
    batch = len(inputs[0])
    if batch == 0:  # which not every layer takes
        return functional.per_example(network, loss, *inputs, reason=None)
    asked = self_check.asked(network, "loss", loss)
    counts = True
    if asked.due():
        refused.refuse_arguments(network, loss, len(inputs))

        def losses_of(*rows: Tensor) -> Tensor:
            return refused.one_each(loss(network(*rows)), len(rows[0]))

        counts = self_check.refuse_meeting(network, losses_of, inputs)
    try:
        answer = _by_products(network, loss, inputs, asked)
    except MixesExamples:
        raise
    except UnsupportedLayer as reason:
        answer = functional.per_example(network, loss, *inputs, reason=str(reason))
    asked.batches += counts
    return answer


def _by_products(
    network: nn.Module,
    loss: Callable[[Tensor], Tensor],
    inputs: tuple[Tensor, ...],
    asked: self_check.Asked,
) -> tuple[PerExample, Tensor]:
    check(network)
    if PRODUCTS in asked.wrong:
        raise UnsupportedLayer(asked.wrong[PRODUCTS])
    try:
        captured = Capture(network)
        with hooked(network, captured.remember):
            losses = refused.one_each(loss(network(*inputs)), len(inputs[0]))
        if PRODUCTS in asked.right and not asked.due():
            return Gradients(captured.backward(losses)[0]), losses.detach()
        gradients, certain = captured.checked(losses, asked)
    except UnsupportedLayer as reason:
        asked.wrong[PRODUCTS] = str(reason)
        raise
    if certain:
        asked.right.add(PRODUCTS)
    elif PRODUCTS not in asked.right:  # infinite or not a number: nothing to compare
        return functional.per_example(network, loss, *inputs, reason=None)
    return gradients, losses.detach()
