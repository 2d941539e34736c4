"""Networks and optimisers: refusals, and what moves them or lies in them unnoticed."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from dpkit.training.device import draws_put_back, same_sums, sums_of
from dpkit.training.gradients.independence import extents, meet
from dpkit.training.gradients.unsupported import refuse
from dpkit.training.optimizers import check_holds

SEVERAL = 8  # different numbers in a row that is no coincidence
ROWS = 4096  # records that are compared at a time
RESHAPES = "(Reshape|Select|Squeeze|Unsafe|Unsqueeze|View)"  # operations of autograd
CHANGED = (
    "the weights were changed between releases from released values and public numbers alone"
)


def check_network(network: Any, name: str, *, keeps_apart: bool = True) -> None:
    """Refuse a network that is not trained here.

    TypeError: it is no module, in half precision, on several devices, or, where it `keeps_apart`,
    mixes examples. ValueError: no parameter requires gradients, or one holds NaN or, if trained,
    infinity.
    """
    if not isinstance(network, nn.Module):
        raise TypeError(f"{name} must be a torch.nn.Module, got {type(network).__name__}")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ValueError(
            f"{name} has no parameters that require gradients: nothing is trained"
        )
    try:
        refuse(network, keeps_apart=keeps_apart)
    except TypeError as error:
        raise type(error)(f"{name}: {error}") from None
    if len({parameter.device for parameter in network.parameters()}) > 1:
        raise TypeError(f"{name} lies on several devices: move it to one")
    for place, p in network.named_parameters():
        if bool((~p.isfinite() if p.requires_grad else p.isnan()).any()):
            raise ValueError(
                f"{name}: parameter {place} holds NaN or infinite numbers: load or initialise it "
                "again"
            )


def hold(network: nn.Module) -> nn.Module:
    """The network, batch normalisation in eval(), as alone `check_network` takes it."""
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase):
            module.eval()
    return network


def check_optimizer(optimizer: Any, net: nn.Module) -> None:
    """Refuse what is not torch's optimiser (TypeError) of this network (ValueError)."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(
            f"optimizer must be a torch.optim.Optimizer, got {optimizer!r:.80}: pass "
            "torch.optim.Adam(net.parameters())"
        )
    check_holds(optimizer, [p for p in net.parameters() if p.requires_grad])


# within `own_step` or not
_steps: WeakKeyDictionary[torch.optim.Optimizer, bool] = WeakKeyDictionary()


@contextmanager
def own_step(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Let a guarded optimiser step: along what was released."""
    _steps[optimizer] = True
    try:
        yield
    finally:
        _steps[optimizer] = False


def guard(optimizer: torch.optim.Optimizer) -> None:
    """From here on the optimiser steps within `own_step` alone."""
    if optimizer not in _steps:
        _steps[optimizer] = False
        optimizer.register_step_pre_hook(_refuse_step)


def _refuse_step(optimizer: Any, *_: Any) -> None:
    if not _steps[optimizer]:
        raise RuntimeError(
            "optimizer.step() was called outside of private.step, along gradients without noise: "
            "leave backward() and step() out of the loop; for other training make another optimizer"
        )


def try_step(optimizer: torch.optim.Optimizer) -> None:
    """Take one step along zeros, and take it back: errors come before a release.

    Hooks and a scheduler's wrapper of the step are left out.
    """
    groups = [dict(group) for group in optimizer.param_groups]
    state = {p: deepcopy(own) for p, own in optimizer.state.items()}
    kept = {
        p: p.detach().clone() for group in groups for p in group["params"] if p.requires_grad
    }
    plain = type(optimizer).step
    try:
        for p in kept:
            p.grad = torch.zeros_like(p)
        getattr(plain, "__wrapped__", plain)(optimizer)
    finally:
        for group, own in zip(optimizer.param_groups, groups, strict=True):
            group.clear()
            group.update(own)
        optimizer.state.clear()
        optimizer.state.update(state)
        with torch.no_grad():
            for p, values in kept.items():
                p.copy_(values)
                p.grad = None


class Weights:
    """Notices other moves of a network than releases: an optimiser, a clamp, an average.

    Honest code does this too: a change is warned about once, and the statement then assumes that
    it was post-processing.
    """

    def __init__(self, net: nn.Module) -> None:
        self._net, self._left = net, dict[torch.device, torch.Tensor]()
        self.changed = False

    def look(self) -> None:
        """Warn where something has changed since `leave`."""
        if self.changed or not self._left or same_sums(self._left, self._sums()):
            return
        self.changed = True
        warnings.warn(
            "weights or buffers of net have changed since the last step. The price holds if they "
            "follow from released weights and public numbers alone (a clamp, an average), as the "
            "statement says",
            stacklevel=5,
        )

    def leave(
        self, parameters: Sequence[torch.Tensor], released: Sequence[torch.Tensor]
    ) -> None:
        """End a release; notice a hook that replaced its gradients."""
        pairs = [(p.grad, own) for p, own in zip(parameters, released, strict=True)]
        self.changed |= any(g is not None and (g is not own or g._version) for g, own in pairs)
        self._left = self._sums()

    def _sums(self) -> dict[torch.device, torch.Tensor]:
        """Of all that is published, but what spectral norms compute of weights."""
        own = {name for name, _ in self._net.named_buffers() if name.endswith(("_u", "_v"))}
        return sums_of(x for name, x in self._net.state_dict().items() if name not in own)


def check_no_records(
    network: nn.Module, data: Sequence[torch.Tensor], *, attributes: bool = False
) -> None:
    """Refuse a network whose state holds records: it would publish them (ValueError).

    Records are found by their memory, and by equal rows of `SEVERAL` different numbers; a mean is
    not. A pickled network publishes its modules' `attributes` too.
    """
    places, state = extents(*data), dict(network.state_dict())
    for place, module in network.named_modules() if attributes else ():
        own = vars(module).items()
        state |= {f"{place}.{name}": x for name, x in own if isinstance(x, torch.Tensor)}
    for name, held in state.items():
        if meet(extents(held), places) or any(_holds_rows(held, part) for part in data):
            raise ValueError(
                f"{name} of the network holds records of the data set, which would be published "
                "with it: take what a network is made of from public data"
            )


def _holds_rows(held: torch.Tensor, part: torch.Tensor) -> bool:
    """Whether they share a row of at least `SEVERAL` different numbers."""
    size = part[:1].numel()
    if size < SEVERAL or held.numel() % size:
        return False
    wanted = {one for row, one in _rows(held, size) if len(np.unique(row)) >= SEVERAL}
    return bool(wanted) and not wanted.isdisjoint(one for _, one in _rows(part, size))


def _rows(numbers: torch.Tensor, size: int) -> Iterator[tuple[np.ndarray, bytes]]:
    for some in numbers.detach().reshape(-1, size).split(ROWS):
        yield from ((row, row.tobytes()) for row in some.cpu().float().numpy())


def check_pair(
    generator: nn.Module,
    critic: nn.Module,
    *,
    shape: tuple[int, ...],
    latent_size: tuple[int, ...],
    classes: int | None,
) -> tuple[torch.Tensor, ...]:
    """Try both networks on noise and public labels; they stay in evaluation mode.

    Both are on one device; `shape` is of one example, `latent_size` of one latent. Returns four
    examples that the generator made, and their labels, if there are any.

    Raises:
        TypeError, ValueError: a network is of a kind that is not trained here, they do not run or
            do not fit the data or each other, or a fake depends on another's latent or label.
    """
    like = next(generator.parameters())
    inputs = [torch.randn(4, *latent_size, device=like.device, dtype=like.dtype)]
    if classes is not None:
        inputs.append(torch.linspace(0, classes - 1, 4, device=like.device).long())
    labelled = " and 4 labels" if inputs[1:] else ""
    how = f"latents of shape {(4, *latent_size)}{labelled}; set latent_size and classes to fit"
    made = partial(_tried, "generator", generator, how=how)
    fakes = made(*inputs)
    if tuple(fakes.shape) != (4, *shape):
        remedy = "let the generator end in that shape (are generator and critic swapped?)"
        if shape == (*fakes.shape[2:], *fakes.shape[1:2]):
            axes = (0, len(shape), *range(1, len(shape)))
            remedy = (
                f"x.permute{axes} puts the data's channels first (x.transpose{axes} in NumPy)"
            )
        raise ValueError(
            f"the generator must make {(4, *shape)}, as an example of the data is {shape}, got "
            f"{tuple(fakes.shape)}; {remedy}"
        )
    if fakes.dtype != like.dtype:
        raise TypeError(
            f"the generator must make {like.dtype}, got {fakes.dtype}: let it end in .to(z.dtype)"
        )
    if not fakes.isfinite().all():
        raise ValueError("the generator makes NaN or infinite numbers; initialise it again")
    other = made(*(x[[3, 1, 2, 3]] for x in inputs))  # the first row as the last
    # sums on a GPU come in any order
    rough = 0.0 if torch.equal(fakes, made(*inputs)) else 1e-4
    if not torch.allclose(fakes[1:], other[1:], rtol=rough, atol=rough):
        raise ValueError(
            "what the generator makes of one row depends on other rows, in evaluation mode too, so "
            "that one record's label would change many fakes; keep rows apart, and give batch "
            "normalisation track_running_stats=True"
        )
    check_network(critic, "critic")
    how = f"what the generator makes, {tuple(fakes.shape)}{labelled}; make the two fit"
    answers = _tried("critic", critic, fakes, *inputs[1:], how=how)
    if tuple(answers.shape) not in ((4,), (4, 1)):
        raise ValueError(
            f"the critic must give one number an example, (4,) or (4, 1), got "
            f"{tuple(answers.shape)} for 4 (are generator and critic swapped?)"
        )
    return fakes, *inputs[1:]


def check_logits(answers: torch.Tensor) -> None:
    """Refuse (ValueError) a critic's probabilities where the loss takes logits."""
    node: Any = answers.grad_fn
    while node is not None and re.match(RESHAPES, node.name()):
        node = node.next_functions[0][0]
    if node is not None and node.name().startswith("Sigmoid"):
        raise ValueError(
            'the critic ends in a sigmoid, and the loss "bce" takes logits, to which it applies '
            "its own: remove the critic's last layer"
        )


def _tried(name: str, network: nn.Module, *inputs: Any, how: str) -> torch.Tensor:
    """Its output in evaluation mode, of the same draws each time."""
    try:
        with torch.no_grad(), draws_put_back(next(network.parameters()).device):
            output = network.eval()(*inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"the {name} does not run on {how} ({error}; are generator and critic swapped?)"
        ) from error
    if not isinstance(output, torch.Tensor):
        raise TypeError(
            f"the {name} must return one tensor, got {type(output).__name__}: wrap it in a module "
            "that returns the tensor alone, such as its output[0] or output['logits']"
        )
    return output
