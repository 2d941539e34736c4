"""Per-example gradient norms and clipped sums, without storing the gradients.

One forward and one backward pass give each layer's features a and the gradients d at its output, of
every example. Norms and weighted sums follow from a and d alone (`layers`, `Gradients`). A network
with a layer whose products are not known goes through torch.func instead (`functional`). Clipped
sums, in parts where a batch is large, are what noise is then added to.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from dpkit.common import checks
from dpkit.privacy.clipping import ClippingRule, PerCoordinateClipping
from dpkit.training.device import precision
from dpkit.training.gradients import functional, independence, layers, unsupported
from dpkit.training.gradients.unsupported import (
    HalfPrecision,
    MixesExamples,
    UnsupportedLayer,
    check,
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
        """Full gradients, a few examples at a time: tensors (examples, *parameter.shape)."""
        ...


class LayerPasses(NamedTuple):
    """One layer's passes over a batch: features and output gradients, (batch, ...) each.

    An example's gradient is the sum over the passes; the bias takes part in the first
    `bias_passes` of them (in all where that is None).
    """

    layer: nn.Module
    passes: tuple[layers.Pass, ...]
    bias_passes: int | None = None

    @property
    def kind(self) -> layers.Kind:
        return layers.KINDS[type(self.layer)]

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
        """As `PerExample.norms`."""
        norms: list[Tensor] = []
        for one, bias in zip(self.layers, self._biases, strict=True):
            if not one.passes:  # it did not run
                own = [*one.layer.parameters(recurse=False)]
                norms += [own[0].new_zeros(self.batch).detach()] * len(own)
                continue
            norms.append(one.kind.norms(one.layer, one.passes))
            if bias is not None:
                norms.append(torch.linalg.vector_norm(bias.flatten(1), dim=1))
        return torch.stack(norms)

    def weighted_sum(self, weights: Tensor) -> list[Tensor]:
        """As `PerExample.weighted_sum`."""
        sums: list[Tensor] = []
        weights = layers.counting(weights)
        own = self
        if layers.waits_for(weights) or not weights.all():
            # weight 0 may meet infinite numbers; a look would wait for the device
            kept, left = [], layers.left_out
            for one in self.layers:
                passes = ((left(a, weights), left(d, weights)) for a, d in one.passes)
                kept.append(one._replace(passes=tuple(passes)))
            own = Gradients(tuple(kept))
        rows = iter(weights.expand(len(self.parameters), -1))
        for one, bias in zip(own.layers, own._biases, strict=True):
            if not one.passes:
                for parameter in one.layer.parameters(recurse=False):
                    sums.append(torch.zeros_like(parameter).detach())
                    next(rows)
                continue
            sums.append(one.kind.weighted_sum(one.layer, one.passes, next(rows)))
            if bias is not None:
                sums.append((next(rows) @ bias.flatten(1)).view(bias.shape[1:]))
        return sums

    def clamped_sum(self, bounds: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        """As `PerExample.clamped_sum`."""
        own = dict(zip(map(id, self.parameters), bounds, strict=True))
        whole = torch.ones(self.batch, dtype=torch.bool, device=bounds[0].device)
        sums: dict[int, Tensor] = {}
        # few numbers, which tell of most examples that they are cut
        for one, bias in zip(self.layers, self._biases, strict=True):
            if bias is not None:
                key = id(one.layer.bias)
                sums[key] = layers.clamped(bias, own[key], whole).sum(0)
        for one in self.layers:
            if one.passes:
                key = id(one.layer.weight)
                sums[key] = one.kind.clamped_sum(one.layer, one.passes, own[key], whole)
        return [sums[key] if key in sums else torch.zeros_like(own[key]) for key in own], whole

    def each(self) -> Iterator[list[Tensor]]:
        """Full gradients, as many examples at a time as fit in `functional.AT_ONCE` numbers."""
        at_once = functional.AT_ONCE
        at_most = at_once.get(self.parameters[0].device.type, at_once["cpu"])
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


def paired(first: Gradients, second: Gradients) -> Gradients:
    """The i-th gradient of `first` plus the i-th of `second`, for passes of one network."""
    others = {id(one.layer): one for one in second.layers}
    if len(others) != len(first.layers) or any(
        id(one.layer) not in others for one in first.layers
    ):
        raise ValueError("paired gradients need two passes of one network")
    both = []
    for one in first.layers:
        other = others[id(one.layer)]
        if not (one.passes and other.passes):
            both.append(one if one.passes else other)
            continue
        if len(one.passes[0][0]) != len(other.passes[0][0]):
            raise ValueError("paired gradients need two passes of one network, equal in batch")
        i, j = (len(p) if n is None else n for _, p, n in (one, other))
        in_order = (*one.passes[:i], *other.passes[:j], *one.passes[i:], *other.passes[j:])
        both.append(LayerPasses(one.layer, in_order, i + j))
    return Gradients(tuple(both))


def agrees(gradients: Gradients, row: int, wanted: Sequence[Tensor | None]) -> bool | None:
    """Whether an example's gradient is autograd's, up to rounding; None: not finite."""
    one = Gradients(tuple(passes.rows(slice(row, row + 1)) for passes in gradients.layers))
    norms = one.norms()
    off, size = 0.0, float(norms.square().sum())  # of what rounding adds up
    for total, other in zip(one.weighted_sum(torch.ones_like(norms[:1])), wanted, strict=True):
        other = torch.zeros_like(total) if other is None else other.to_dense()
        off += float((total - other).square().sum())
        size += float(other.square().sum())
    if not torch.tensor(off + size).isfinite():
        return None
    return off <= (1e-3 if norms.dtype == torch.float32 else 1e-6) ** 2 * size


class _Seen(NamedTuple):
    layer: nn.Module
    features: Tensor
    version: int
    output: GradientEdge
    shape: torch.Size


class Capture:
    """The passes that layers see while `capture` is open."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.layers = [m for m in network.modules() if [*m.parameters(recurse=False)]]
        self.seen: list[_Seen] = []

    def remember(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """Record a layer's features and the graph edge of its output; return the output."""
        if any(layer is seen.layer for seen in self.seen):
            raise UnsupportedLayer(
                f"layer {layer} ran twice in one capture: its gradients would be mixed up; "
                "open one capture for each pass and add the gradients with `paired`"
            )
        if len(inputs) != 1:
            raise UnsupportedLayer(
                f"{layer} must be called with its input as its one argument"
            )
        if not output.requires_grad:
            raise ValueError(
                f"the output of {layer} takes no gradient: capture needs grad mode, parameters "
                "that require gradients, and checkpoints with use_reentrant=False"
            )
        with torch.no_grad():
            features = layers.KINDS[type(layer)].features(layer, inputs[0].detach())
        if output.dtype not in (torch.float32, torch.float64):
            raise HalfPrecision(f"{layer} gave {output.dtype}; switch autocast off inside it")
        if output._is_view():  # whose place in the graph changes with its base
            output = output.clone()
        edge = get_gradient_edge(output)  # of the output before any change in place
        self.seen.append(_Seen(layer, features, features._version, edge, output.shape))
        return output

    def gradients(self, losses: Tensor) -> Gradients:
        """Factored gradients of each example's own loss.

        From time to time (see `independence`) two examples' gradients are computed a second way.
        The network is not run again, so examples that meet in a comparison, by detach() or over
        several batches are seen by `per_example` alone.

        Args:
            losses: shape (batch,), the i-th depending on the i-th example alone.

        Raises:
            UnsupportedLayer: they depend on others, or products do not give the gradients.
        """
        asked = independence.asked(self.network, "capture", type(losses.grad_fn).__name__)
        if not asked.due() or losses.shape == (0,):
            asked.batches += losses.shape != (0,)
            return Gradients(self.backward(losses)[0])
        gradients, certain = self.checked(losses, asked)
        asked.batches += certain and len(losses) > 1
        return gradients

    def checked(self, losses: Tensor, asked: independence.Asked) -> tuple[Gradients, bool]:
        """The gradients, and whether two examples' are autograd's (not if infinite).

        Raises:
            UnsupportedLayer: one is another than autograd's, or moves with another example.
        """
        self._refuse_other_rows(losses)
        parameters = [p for layer in self.layers for p in layer.parameters(recurse=False)]
        ends = [*parameters, *(seen.output for seen in self.seen)]
        wanted = {}
        for row in asked.rows(len(losses)):
            found = torch.autograd.grad(
                losses[row], ends, retain_graph=True, allow_unused=True
            )
            wanted[row] = found[: len(parameters)]
            for seen, d in zip(self.seen, found[len(parameters) :], strict=True):
                if d is None:
                    continue
                others = d[torch.arange(len(d), device=d.device) != row]
                if others.nan_to_num(0, 0, 0).any():  # 0 times infinity says nothing
                    raise UnsupportedLayer(MEET.format(layer=seen.layer))
        gradients = Gradients(self.backward(losses)[0])
        verdicts = [agrees(gradients, row, w) for row, w in wanted.items()]
        if False in verdicts:
            raise UnsupportedLayer(BESIDE)
        return gradients, None not in verdicts

    def backward(
        self, losses: Tensor, *others: Tensor
    ) -> tuple[tuple[LayerPasses, ...], list[Tensor]]:
        """One pass of each layer, and the losses' gradients at other tensors.

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
        return tuple(passes.values()), [
            torch.zeros_like(x) if g is None else g for x, g in rest
        ]

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
    unsupported.refuse(network)
    check(network)
    captured = Capture(network)
    with hooked(network, captured.remember):
        yield captured


@contextmanager
def hooked(network: nn.Module, remember: Callable[..., Tensor | None]) -> Iterator[None]:
    """Call remember(layer, inputs, output) after each layer with parameters has run.

    What it returns, if anything, takes the output's place.
    """
    own = [m for m in network.modules() if [*m.parameters(recurse=False)]]
    handles = [module.register_forward_hook(remember) for module in own]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@unsupported.not_compiled
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
            (looked at from time to time: see `independence`).
        UnsupportedLayer: torch.func does not run the network, or `refused` lists it.
        ValueError: the losses are not one for each example.
        TypeError: network or loss take another number of arguments.
    """
    unsupported.refuse(network)
    if len(inputs[0]) == 0:  # which not every layer takes
        return functional.per_example(network, loss, *inputs, reason=None)
    asked = independence.asked(network, "loss", loss)
    counts = True
    if asked.due():
        unsupported.refuse_arguments(network, loss, len(inputs))

        def losses_of(*rows: Tensor) -> Tensor:
            return unsupported.one_each(loss(network(*rows)), len(rows[0]))

        counts = independence.refuse_meeting(network, losses_of, inputs)
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
    asked: independence.Asked,
) -> tuple[PerExample, Tensor]:
    check(network)
    if PRODUCTS in asked.wrong:
        raise UnsupportedLayer(asked.wrong[PRODUCTS])
    try:
        captured = Capture(network)
        with hooked(network, captured.remember):
            losses = unsupported.one_each(loss(network(*inputs)), len(inputs[0]))
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


class Clipped(NamedTuple):
    """A clipped sum. It describes private data until noise is added: do not release it."""

    parameters: list[Tensor]
    sums: list[Tensor]  # one for each parameter
    weights: Tensor
    """(tensors or 1, batch): what each example's gradient was scaled by. Where it was clipped
    coordinate by coordinate, 1 for an example of which nothing was cut, else 0. Otherwise 0 for an
    example that counts as zero, since its gradient is not finite, or too large to be squared."""
    losses: Tensor  # (batch,)


def clipped_sum(
    of: Callable[..., tuple[PerExample, Tensor]],
    *inputs: Tensor,
    rule: ClippingRule | PerCoordinateClipping,
    microbatch_size: int | None = None,
) -> Clipped:
    """The sum over a batch of gradients that are clipped example by example.

    A sum over examples is the sum of its parts' sums, so a Poisson batch of any size fits into the
    memory of `microbatch_size` examples, and the answer is the same.

    A record whose gradient is not finite, or too large to be squared, adds nothing: zero is within
    every bound, so that it moves the sum by no more than another, and no record ends a run. (Where
    clipping goes coordinate by coordinate, each that is NaN adds nothing.)

    Norms and sums are computed in float32 or wider, whatever torch is set to. The network's own
    passes are as it is set (for a GPU's convolutions that is TF32, unless `train` calls this):
    rougher gradients, but of those the norms, and no record moves the sum by more than its bound.

    Args:
        of: per-example gradients and losses of inputs, such as
            `functools.partial(per_example, network, loss)`.
        inputs: tensors whose first dimension is the example's, (batch, ...).
        rule: clips, and answers the sensitivity of the sum. Clipping by coordinate forms full
            gradients, a few examples at a time. One that needs more than norms of the tensors has a
            method `clipped_sum(gradients)`, which returns the sums and weights.
        microbatch_size: examples at a time; None takes all at once.

    Raises:
        ValueError: microbatch_size is no integer >= 1, or a rule's tensors are not the network's.
    """
    if microbatch_size is None:
        microbatch_size = max(len(inputs[0]), 1)
    checks.whole(1, microbatch_size=microbatch_size)
    found: Clipped | None = None
    for part in zip(*(x.split(microbatch_size) for x in inputs), strict=True):
        gradients, losses = of(*part)
        with precision(tf32=False):
            sums, weights = _clipped(gradients, rule)
        if found is not None:
            pairs = zip(found.parameters, gradients.parameters, strict=True)
            if any(p is not q for p, q in pairs):
                raise ValueError(
                    "all parts of a batch must take the same way through the network"
                )
            # in double precision: in single, a record would decide which digits are kept of all
            # that comes after it, and move the sum by more than its own part
            sums = [layers.widened(a).add_(b) for a, b in zip(found.sums, sums, strict=True)]
            weights = torch.cat((found.weights, weights), 1)
            losses = torch.cat((found.losses, losses))
        found = Clipped(gradients.parameters, sums, weights, losses)
    assert found is not None  # even an empty batch is one empty part
    sums = [s.to(p.dtype) for s, p in zip(found.sums, found.parameters, strict=True)]
    return found._replace(sums=sums)


def _clipped(
    gradients: PerExample, rule: ClippingRule | PerCoordinateClipping
) -> tuple[list[Tensor], Tensor]:
    """The clipped sums and what each example was scaled by."""
    if isinstance(rule, PerCoordinateClipping):
        rule.check_shapes([p.shape for p in gradients.parameters])
        bounds = []  # each in its parameter's type, rounded down, on its device
        for bound, parameter in zip(rule.bounds, gradients.parameters, strict=True):
            wide = torch.as_tensor(bound, device=parameter.device).detach()
            narrow = wide.to(parameter.dtype)
            if narrow.dtype != wide.dtype:
                below = narrow.nextafter(torch.zeros_like(narrow))
                narrow = torch.where(narrow > wide, below, narrow)
            bounds.append(narrow)
        sums, whole = gradients.clamped_sum(bounds)
        return sums, whole[None].to(sums[0].dtype)
    if (own := getattr(rule, "clipped_sum", None)) is not None:
        return own(gradients)
    weights = layers.counting(rule.weights(gradients.norms()))
    return gradients.weighted_sum(weights), weights
