"""Per-example gradients of any network through torch.func, a few examples at a time.

The slow way, for layers that `layers` does not know: gradients are formed, used and dropped chunk
by chunk, once for the norms and once for the sums: memory stays bounded.

Spectral normalisation (Miyato et al. 2018) takes one power iteration a step, which reads weights
alone. In training mode torch iterates in each pass: norms and sums would be of different weights.
So the iteration is done before the pass, once for each value of the weight: neither parts of a
batch nor several losses iterate further.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import one_hot
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.overrides import TorchFunctionMode

from dpkit.training.gradients.layers import (
    KINDS,
    clamped,
    counting,
    left_out,
    lengths,
    widened,
)
from dpkit.training.gradients.unsupported import (
    MixesExamples,
    UnsupportedLayer,
    explained,
    one_each,
)

AT_ONCE = {"cpu": 2**22, "cuda": 2**26}  # numbers in the gradients and passes of one chunk
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
    reason: str | None = None  # why the fast way was not taken
    randomness: str = "different"  # of each example's draws, such as dropout's; or "error"
    _norms: list[Tensor] = field(default_factory=list)  # of the last `norms`, chunk by chunk
    # random states before and after a pass
    _drawn: list[Tensor] = field(default_factory=list)

    @property
    def parameters(self) -> list[Tensor]:
        """All that the network has and that requires gradients."""
        return [p for p in self.network.parameters() if p.requires_grad]

    def each(self) -> Iterator[list[Tensor]]:
        """Full gradients, as many examples at a time as fit in `AT_ONCE` numbers."""
        for named in self._chunks(grad(self._one)):
            yield list(named.values())

    def _chunks(self, function: Callable[..., Any]) -> Iterator[Any]:
        """function(values, *rows) of each example, a few examples at a time."""
        named = self.network.named_parameters()
        values = {name: p.detach() for name, p in named if p.requires_grad}
        device = self.parameters[0].device
        # beside gradients, inputs and outputs (about as much) must fit
        one = sum(p.numel() for p in values.values())
        one += WIDER * sum(x[:1].numel() for x in self.inputs)
        rows = max(AT_ONCE.get(device.type, AT_ONCE["cpu"]) // max(one, 1), 1)
        draws: Any = torch if device.type == "cpu" else torch.get_device_module(device)
        one_of = (device,) if device.type in ("cuda", "xpu") else ()
        if self._drawn and not torch.equal(*self._drawn):
            draws.set_rng_state(self._drawn[0], *one_of)  # the same draws in each pass
        before = draws.get_rng_state(*one_of)
        for start in range(0, len(self.inputs[0]), rows):
            part = [x[start : start + rows] for x in self.inputs]
            each = vmap(function, (None, *[0] * len(part)), randomness=self.randomness)
            with as_it_was(self.network), explained(self.network, self.reason), OneHot():
                chunk = each(values, *part)
            yield chunk
        self._drawn[:] = before, draws.get_rng_state(*one_of)

    def _one(self, values: dict[str, Tensor], *rows: Tensor) -> Tensor:
        def call(*inputs: Tensor) -> Tensor:
            return functional_call(self.network, values, inputs)

        return self.loss(call, *(row[None] for row in rows))

    def losses(self) -> Tensor:
        """Each example's loss, (batch,)."""
        with torch.no_grad():
            nothing = self.parameters[0].new_zeros(0)
            return one_each(
                torch.cat([nothing, *self._chunks(self._one)]), len(self.inputs[0])
            )

    def norms(self) -> Tensor:
        """As `PerExample.norms`."""
        self._norms.clear()
        for gradients in self.each():
            self._norms.append(torch.stack([lengths(g) for g in gradients]))
        parameters = self.parameters
        nothing = parameters[0].new_zeros(len(parameters), 0).detach()
        return torch.cat([nothing, *self._norms], 1)

    def weighted_sum(self, weights: Tensor) -> list[Tensor]:
        """As `PerExample.weighted_sum`.

        Raises:
            UnsupportedLayer: gradients differ from those of the norms, as the network draws random
                numbers or keeps a state: weights do not bound them.
        """
        parameters = self.parameters
        sums = [widened(torch.zeros_like(p).detach()) for p in parameters]
        weights = counting(weights)
        rows = weights.expand(len(parameters), -1)
        start = 0
        same = []  # is read once, at the end: each look waits for the device
        for index, gradients in enumerate(self.each()):
            if self._norms:
                norms = torch.stack([lengths(g) for g in gradients])
                close = torch.isclose(
                    norms, self._norms[index], rtol=1e-4, atol=0, equal_nan=True
                )
                same.append(close.all())
            stop = start + len(gradients[0])
            for total, row, gradient in zip(sums, rows, gradients, strict=True):
                kept = left_out(gradient, weights[:, start:stop])
                total += torch.tensordot(row[start:stop], kept, 1)
            start = stop
        if same and not torch.stack(same).all():
            raise UnsupportedLayer(
                "the network gives other gradients each time it runs, so that they cannot be "
                "clipped: call eval() on what draws random numbers or keeps a state"
            )
        return [total.to(p.dtype) for total, p in zip(sums, parameters, strict=True)]

    def clamped_sum(self, bounds: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        """As `PerExample.clamped_sum`."""
        sums = [widened(torch.zeros_like(bound)) for bound in bounds]
        whole = torch.ones(len(self.inputs[0]), dtype=torch.bool, device=bounds[0].device)
        start = 0
        for gradients in self.each():
            stop = start + len(gradients[0])
            for total, gradient, bound in zip(sums, gradients, bounds, strict=True):
                total += clamped(gradient, bound, whole[start:stop]).sum(0)
            start = stop
        return [s.to(b.dtype) for s, b in zip(sums, bounds, strict=True)], whole


class OneHot(TorchFunctionMode):
    """In the block `one_hot(y, k)` compares: torch's own looks at values, which vmap refuses.

    A label outside of 0..k-1 is a row of 0; torch's own, in a plain pass first, refuses it.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is one_hot and (count := [*args[1:], *(kwargs or {}).values()]):
            return (args[0][..., None] == torch.arange(*count, device=args[0].device)).long()
        return func(*args, **(kwargs or {}))


@contextmanager
def as_it_was(network: nn.Module) -> Iterator[None]:
    """Put back parameters and other tensors: torch.func's own would stay.

    Raises:
        MixesExamples: a pass replaced a buffer by what it made of private examples.
    """
    own = [(m, name, p) for m in network.modules() for name, p in m._parameters.items()]
    held = [(m, k, v) for m in network.modules() for k, v in vars(m).items()]
    made = [x for x in held if isinstance(x[2], Tensor) and not isinstance(x[2], nn.Parameter)]
    buffers = [(m, dict(m._buffers)) for m in network.modules()]
    try:
        with still(network):
            yield
    finally:
        for module, name, parameter in own:
            module.__dict__.pop(name, None)
            module._parameters[name] = parameter
        for module, name, tensor in made:  # a weight that a hook computed
            module.__dict__[name] = tensor
        replaced = [
            m
            for m, held in buffers
            if any(held.get(k) is not b for k, b in m._buffers.items())
        ]
        for module, held in buffers:
            module._buffers.clear()
            module._buffers.update(held)
    if replaced:
        raise MixesExamples(
            f"a pass replaces buffers of {replaced[0]}, which would keep private examples without "
            "noise; set them before training, or call eval()"
        )


def per_example(
    network: nn.Module, loss: Callable[[Tensor], Tensor], *inputs: Tensor, reason: str | None
) -> tuple[Functional, Tensor]:
    """Each example's gradient, as `ghost_clipping.per_example`; warns of `reason` once.

    Raises:
        UnsupportedLayer: torch.func cannot run the network, or one example has several losses.
    """

    def one(call: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        return one_number(loss(call(*rows)), reason)

    return computed(Functional(network, one, inputs, reason))


def one_number(loss: Tensor, reason: str | None) -> Tensor:
    """The loss of one example, as a scalar.

    Raises:
        UnsupportedLayer: it has several elements, such as one for each label of the batch.
    """
    if loss.numel() != 1:
        raise UnsupportedLayer(
            f"the loss of one example must be one number, got shape {tuple(loss.shape)}; give "
            "labels as inputs, not from a closure: let the network take them and return the loss. "
            f"Examples go one by one here since {reason}"
        )
    return loss.sum()


def computed(gradients: Functional) -> tuple[Functional, Tensor]:
    """The gradients with their losses; warns once for each reason to be slower."""
    iterate(gradients.network)
    losses, reason = gradients.losses(), gradients.reason
    if reason is not None and reason not in _warned:
        _warned.add(reason)
        warnings.warn(
            f"{' '.join(reason.split())}; the whole network goes through torch.func, which is "
            f"slower (fast: {', '.join(kind.__name__ for kind in KINDS)}, each run once)",
            stacklevel=5,
        )
    return gradients, losses


_versions: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()


def iterate(network: nn.Module) -> None:
    """One power iteration in each training normalised layer whose weight has changed."""
    for keeper, layer, name, weight in list(_normalised(network)):
        if not keeper.training or _versions.get(keeper) == weight._version:
            continue
        _versions[keeper] = weight._version
        with torch.no_grad():
            if hook := _hook(keeper):
                hook.compute_weight(layer, do_power_iteration=True)
            else:
                getattr(layer, name)  # torch computes it, and iterates, on reading


@contextmanager
def still(network: nn.Module) -> Iterator[None]:
    """No power iteration within: weights are as the last one left them."""
    training = [keeper for keeper, *_ in _normalised(network) if keeper.training]
    for keeper in training:
        keeper.training = False
    try:
        yield
    finally:
        for keeper in training:
            keeper.training = True


def _normalised(network: nn.Module) -> Iterator[tuple[nn.Module, nn.Module, str, Tensor]]:
    """Who iterates in training mode, the layer, and its weight's name and value."""
    for layer in network.modules():
        if hook := _hook(layer):
            yield layer, layer, hook.name, getattr(layer, f"{hook.name}_orig")
        for name, ways in getattr(layer, "parametrizations", {}).items():
            for way in ways:
                if isinstance(way, _SpectralNorm):
                    yield way, layer, name, ways.original


def _hook(layer: nn.Module) -> SpectralNorm | None:
    """The older form of spectral normalisation."""
    hooks = layer._forward_pre_hooks.values()
    return next((hook for hook in hooks if isinstance(hook, SpectralNorm)), None)
