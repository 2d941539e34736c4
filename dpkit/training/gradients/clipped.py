"""Clipped sums of a batch, in parts where the batch is large: what noise is then added to."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpkit.common import checks
from dpkit.privacy.clipping import ClippingRule, PerCoordinateClipping
from dpkit.training.device import precision
from dpkit.training.gradients.factored import PerExample
from dpkit.training.gradients.layers.products import counting, widened


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
    at_most: int | None = None,
) -> Clipped:
    """The sum over a batch of gradients that are clipped example by example.

    A sum over examples is the sum of its parts' sums, so a Poisson batch of any size fits into the
    memory of `at_most` examples, and the answer is the same.

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
        at_most: examples at a time; None takes all at once.

    Raises:
        ValueError: at_most is not an integer >= 1, or a rule's tensors are not the network's.
    """
    if at_most is None:
        at_most = max(len(inputs[0]), 1)
    checks.whole(1, at_most=at_most)
    total: Clipped | None = None
    for part in zip(*(x.split(at_most) for x in inputs), strict=True):
        gradients, losses = of(*part)
        with precision(tf32=False):
            sums, weights = _clipped(gradients, rule)
        clipped = Clipped(gradients.parameters, sums, weights, losses)
        total = clipped if total is None else _added(total, clipped)
    assert total is not None  # even an empty batch is one empty part
    sums = [s.to(p.dtype) for s, p in zip(total.sums, total.parameters, strict=True)]
    return total._replace(sums=sums)


def _added(first: Clipped, second: Clipped) -> Clipped:
    if any(p is not q for p, q in zip(first.parameters, second.parameters, strict=True)):
        raise ValueError("all parts of a batch must take the same way through the network")
    # in double precision: in single, what is added before a record decides which digits are kept
    # of all that comes after it, so that one record would move the sum by more than its own part
    sums = [widened(total).add_(more) for total, more in zip(first.sums, second.sums, strict=True)]
    weights = torch.cat((first.weights, second.weights), 1)
    return first._replace(
        sums=sums, weights=weights, losses=torch.cat((first.losses, second.losses))
    )


def _clipped(
    gradients: PerExample, rule: ClippingRule | PerCoordinateClipping
) -> tuple[list[Tensor], Tensor]:
    """The clipped sums and what each example was scaled by."""
    if isinstance(rule, PerCoordinateClipping):
        rule.check_shapes([p.shape for p in gradients.parameters])
        pairs = zip(rule.bounds, gradients.parameters, strict=True)
        sums, whole = gradients.clamped_sum([_rounded_down(b, p) for b, p in pairs])
        return sums, whole[None].to(sums[0].dtype)
    if (own := getattr(rule, "clipped_sum", None)) is not None:
        return own(gradients)
    weights = counting(rule.weights(gradients.norms()))
    return gradients.weighted_sum(weights), weights


def _rounded_down(bound: Any, parameter: Tensor) -> Tensor:
    """A bound in its parameter's type and on its device."""
    wide = torch.as_tensor(bound, device=parameter.device).detach()
    narrow = wide.to(parameter.dtype)
    if narrow.dtype == wide.dtype:
        return wide
    return torch.where(narrow > wide, narrow.nextafter(torch.zeros_like(narrow)), narrow)
