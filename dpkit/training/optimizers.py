"""Update rules, described without torch so that settings can hold them, and their steps."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dpkit.privacy.schedules import Schedule

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent with a learning rate for each step."""

    rate: Schedule

    def build(self, parameters: Iterable["torch.nn.Parameter"]) -> "torch.optim.Optimizer":
        """A torch optimiser over `parameters`."""
        import torch

        return torch.optim.SGD(parameters, lr=self.rate(0))


@dataclass(frozen=True)
class RmsProp:
    """RMSProp (torch's, which adds its `eps` outside the root) with a rate for each step.

    decay: weight of the past squares, 1 - gamma in AdaDP's eq. 1.
    """

    rate: Schedule
    decay: float = 0.99

    def build(self, parameters: Iterable["torch.nn.Parameter"]) -> "torch.optim.Optimizer":
        """A torch optimiser over `parameters`."""
        import torch

        return torch.optim.RMSprop(parameters, lr=self.rate(0), alpha=self.decay)


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2015) with a learning rate for each step."""

    rate: Schedule
    betas: tuple[float, float] = (0.9, 0.999)

    def build(self, parameters: Iterable["torch.nn.Parameter"]) -> "torch.optim.Optimizer":
        """A torch optimiser over `parameters`."""
        import torch

        return torch.optim.Adam(parameters, lr=self.rate(0), betas=self.betas)


def set_rate(optimizer: "torch.optim.Optimizer", rate: float) -> None:
    """The learning rate of all that `optimizer` updates."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def update(
    optimizer: "torch.optim.Optimizer",
    parameters: Sequence["torch.Tensor"],
    gradients: Sequence["torch.Tensor"],
) -> None:
    """One step of `optimizer` along given gradients, not those of a backward pass.

    Args:
        optimizer: over exactly these parameters (frozen ones may be among its own): what else it
            held would move along whatever a backward pass has left there.
        parameters: the network's, each with its gradient.
        gradients: one for each parameter, of its shape.

    Raises:
        ValueError: the optimiser holds other parameters, or its step asks for the loss again.
        FloatingPointError: a gradient is not finite, or a weight after the step. On a GPU the next
            update or `settle` looks at the weights: a look at once would wait for all that is
            queued.
    """

    check_holds(optimizer, parameters)
    if gradients and not _waits_for(gradients[0]) and not _finite(gradients):
        raise FloatingPointError(f"a gradient is {_LOST}")
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
    settle(optimizer)  # what the last update left to be looked at
    if parameters:
        finite = _finite(parameters)
        waits = _waits_for(finite)
        _looks[optimizer] = _on_its_way(finite) if waits else finite.__bool__
        if not waits:
            settle(optimizer)


def descend(optimizer: "torch.optim.Optimizer", loss: "torch.Tensor") -> None:
    """One `update` down a loss that reads no private data, over all of the parameters."""
    from torch.autograd import grad

    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    update(optimizer, parameters, grad(loss, parameters))


def settle(optimizer: "torch.optim.Optimizer") -> None:
    """Look at the weights that the last `update` left, where that was put off on a GPU.

    Raises:
        FloatingPointError: one is NaN or infinite.
    """
    seen = _looks.pop(optimizer, None)
    if seen is not None and not seen():
        raise FloatingPointError(f"a weight is {_LOST}")


_looks: "WeakKeyDictionary[torch.optim.Optimizer, Callable[[], bool]]" = WeakKeyDictionary()
_LOST = (
    "NaN or infinite, so training stops (what was released before stays charged): take a smaller "
    "learning rate, and scale the data, to [-1, 1] for example"
)


def _finite(tensors: Sequence["torch.Tensor"]) -> "torch.Tensor":
    """One look for all: a sum is finite only if all of its terms are."""
    import torch

    return torch.isfinite(torch.stack([x.detach().sum() for x in tensors]).sum())


def _waits_for(flag: "torch.Tensor") -> bool:
    return flag.device.type == "cuda"


def _on_its_way(flag: "torch.Tensor") -> Callable[[], bool]:
    """A reader of a copy of a GPU's flag, which waits only for work queued by now."""
    import torch

    copy = torch.empty((), dtype=torch.bool, pin_memory=True)
    copy.copy_(flag, non_blocking=True)
    copied = torch.cuda.Event()
    copied.record()

    def read() -> bool:
        copied.synchronize()
        return bool(copy)

    return read


def check_holds(
    optimizer: "torch.optim.Optimizer", parameters: Sequence["torch.Tensor"]
) -> None:
    """Refuse (ValueError) an optimiser of others than these, or that computes gradients."""
    import torch

    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(
            "optimizer LBFGS computes the loss again within its step, on private records and "
            "without noise; use one that takes gradients as they are, such as SGD or Adam"
        )
    held = {id(p) for g in optimizer.param_groups for p in g["params"] if p.requires_grad}
    given = {id(p) for p in parameters}
    if held != given:
        raise ValueError(
            f"the optimizer does not hold {len(given - held)} of the {len(given)} parameters that "
            f"are trained, and holds {len(held - given)} others, which would move without noise: "
            "make one optimizer for each network, of net.parameters(), and freeze other "
            "parameters by requires_grad_(False)"
        )


def average(
    averaged: "torch.nn.Module", network: "torch.nn.Module", *, decay: float, updates: int
) -> None:
    """Move `averaged` towards `network`: an exponential moving average of its parameters.

    Buffers (a batch normalisation's means and variances) are copied. It averages what is already
    released: post-processing.

    Args:
        averaged: a copy of `network`, changed in place.
        network: as it is after its latest update.
        decay: weight of the past, in [0, 1); 0 copies. Early on it is at most
            (1 + updates) / (10 + updates), so that the first weights are forgotten.
        updates: number of updates so far.

    Raises:
        ValueError: decay is out of range, or the two are networks of another shape.
    """
    import torch

    if not 0 <= decay < 1:
        raise ValueError(f"decay must be in [0, 1), got {decay}")
    decay = min(decay, (1 + updates) / (10 + updates))
    with torch.no_grad():
        for past, present in zip(averaged.parameters(), network.parameters(), strict=True):
            past.lerp_(present, 1 - decay)
        for past, present in zip(averaged.buffers(), network.buffers(), strict=True):
            past.copy_(present)
