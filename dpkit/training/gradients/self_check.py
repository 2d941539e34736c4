"""Self-check: compare the fast gradients with autograd's on each network's first batch.

Layers say how their gradients are made of products, but a network may do more than run its layers:
use a parameter in a formula, change an output in a hook, mix the examples of its batch. So the
first batch of a network is computed a second way, and what was seen is remembered.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from dpkit.training.gradients.factored import Gradients
from dpkit.training.gradients.layers import MixesExamples

_seen: WeakKeyDictionary[nn.Module, dict[tuple, bool]] = WeakKeyDictionary()
_apart: WeakKeyDictionary[nn.Module, set[tuple]] = WeakKeyDictionary()


def state(network: nn.Module, kind: str) -> tuple:
    """What the answer may depend on beside the network itself."""
    return (kind, *(module.training for module in network.modules()))


def known(network: nn.Module, kind: str) -> bool | None:
    """Whether the fast way was right, None where that is not known yet."""
    return _seen.get(network, {}).get(state(network, kind))


def agrees(
    network: nn.Module, kind: str, gradients: Gradients, wanted: Sequence[Tensor | None]
) -> bool:
    """Whether the batch's gradients add up to autograd's; remembered where they are finite."""
    sums = gradients.weighted_sum(torch.ones(1, gradients.batch).to(gradients.parameters[0]))
    off = size = 0.0
    for total, other in zip(sums, wanted, strict=True):
        off += float((total if other is None else total - other).square().sum())
        size += 0.0 if other is None else float(other.square().sum())
    size += float(gradients.norms().square().sum())  # the parts may cancel in the sum
    rough = 1e-3 if sums[0].dtype == torch.float32 else 1e-6
    if not isfinite(off + size):
        return False  # and ask again at the next batch
    right = off <= rough**2 * size
    _seen.setdefault(network, {})[state(network, kind)] = right
    return right


def refuse_mixing(
    network: nn.Module, kind: str, losses: Tensor, alone: Callable[[], Tensor]
) -> None:
    """Compare the first example's loss in its batch with its loss alone, once.

    Args:
        losses: of the batch, (batch,).
        alone: the first example's loss, (1,), computed without the others.

    Raises:
        MixesExamples: they differ, so one record would move the gradients of others.
    """
    key = state(network, kind)
    if len(losses) < 2 or key in _apart.setdefault(network, set()):
        return
    try:
        one, again = alone(), alone()
        same = one.shape == (1,)
    except (RuntimeError, ValueError, IndexError) as error:
        raise MixesExamples(f"the network does not run on one example alone: {error}") from error
    if same and not (one.isfinite().all() and losses.isfinite().all()):
        return  # nothing to compare: ask again at the next batch
    if same and torch.equal(one, again):  # else it draws random numbers, and nothing can be said
        off = float((one[0] - losses[0]).abs())
        same = off <= 1e-3 * float(one[0].abs() + losses.abs().max())
    if not same:
        raise MixesExamples(
            "the first example's loss is another without the rest of its batch, so that one record "
            "would move the gradients of others; keep examples apart in network and loss, the "
            "first dimension being the example's"
        )
    _apart[network].add(key)
