"""Refusals of per-example gradients, by name, with the remedy.

`check` refuses layers that `layers.KINDS` does not list, `refuse` what no way could clip.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from inspect import signature
from traceback import walk_tb
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from dpkit.training.gradients.layers import KINDS

P = ParamSpec("P")
R = TypeVar("R")

PARALLEL = {
    "DataParallel",
    "DistributedDataParallel",
    "FullyShardedDataParallel",
    "FSDPModule",
}
ONE = "it must run on a batch of one example, under torch.func.vmap, without looking at values"

LOOP = (
    "take DPLSTM, DPGRU or DPRNN of opacus.layers, or write its cell with nn.Linear, in a loop "
    "over time"
)
INSTEAD = {  # words of torch's message: what to write instead
    ("random",): (
        "it draws random numbers, which would differ from pass to pass of one loss; call eval() on "
        "it, or leave it out"
    ),
    ("autograd.function",): (
        "a checkpoint needs use_reentrant=False, an own autograd.Function setup_context and "
        "generate_vmap_rule = True"
    ),
    ("scaled_dot_product",): (
        "put the step inside `with sdpa_kernel(SDPBackend.MATH):` of torch.nn.attention, which has "
        "second derivatives"
    ),
    (
        "inplace",
        "in-place",
    ): "it writes to a tensor in place; compute a new one, and keep no state",
    ("data-dependent", "dynamic shape", "item()"): (
        "choose by torch.where or by a product with the mask, not by `if` or boolean indices"
    ),
    ("batch_size",): (
        "the loss reads labels of the whole batch from around it: let the network take them as an "
        "input and return the loss"
    ),
}


class UnsupportedLayer(TypeError):
    """A layer whose per-example gradients are not known as products, or are not defined."""


class HalfPrecision(TypeError):
    """Parameters in which a clipped sum would not keep to its bound."""


class MixesExamples(UnsupportedLayer):
    """A layer in which one example's output depends on the others of its batch."""


def not_compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Leave a function to Python inside torch.compile, which drops tangents and checks.

    Networks that are compiled themselves stay so.
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        eager: Any = (
            torch.compiler.disable(function) if torch.compiler.is_compiling() else function
        )
        return eager(*args, **kwargs)

    return called


def refuse(network: nn.Module, *, keeps_apart: bool = True) -> None:
    """Refuse modules and settings under which gradients could not be clipped example by example.

    Args:
        network: to be looked at.
        keeps_apart: whether it must keep the examples of a batch apart.

    Raises:
        UnsupportedLayer: wrappers for many devices, scripted or lazy modules, mixed types.
        MixesExamples: batch normalisation, or running statistics, where one record's gradient is
            not defined; embeddings that a batch renormalises.
        HalfPrecision: autocast is on.
    """
    for module in network.modules():
        name = type(module).__name__
        # what eval() would normalise by
        held = getattr(module, "running_mean", None) is not None
        normalises = isinstance(module, nn.modules.batchnorm._BatchNorm)
        if keeps_apart and normalises and (module.training or not held):
            raise MixesExamples(
                f"{module} mixes the examples of a batch, so that one record's gradient is not "
                "defined; use layer, group or instance normalisation, or none, or keep it in "
                "eval() with running statistics of public data"
            )
        if keeps_apart and module.training and getattr(module, "track_running_stats", False):
            raise MixesExamples(
                f"{module} keeps running statistics of private examples, without noise; "
                "set track_running_stats to False"
            )
        if PARALLEL & {kind.__name__ for kind in type(module).__mro__}:
            raise UnsupportedLayer(
                f"{name} never sees these gradients, so that its replicas would drift apart: give "
                "its .module"
            )
        if isinstance(module, torch.jit.ScriptModule):
            raise UnsupportedLayer(
                f"{name} hides its layers; give the module it was made from"
            )
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
            raise MixesExamples(
                f"max_norm of {module} changes the table by which rows a batch reads, without "
                "noise; leave it out"
            )
    if any(map(nn.parameter.is_lazy, network.parameters())):
        raise UnsupportedLayer(
            "the network has a lazy module without a shape; run it once, on zeros, beforehand"
        )
    types = {p.dtype for p in network.parameters()}
    wide = types <= {torch.float32, torch.float64}
    if len(types) > 1 or not wide:
        raise (UnsupportedLayer if wide else HalfPrecision)(
            f"parameters are of {', '.join(sorted(map(str, types)))}, and clipped sums keep to "
            "their bound in float32 or float64 alone: call float() or double() on the network"
        )
    for kind in {p.device.type for p in network.parameters()}:
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            raise HalfPrecision(
                "gradients are clipped in float32 or float64; switch autocast off around them"
            )


def refuse_arguments(network: nn.Module, loss: Callable[..., Tensor], inputs: int) -> None:
    """Refuse (TypeError) inputs that the network, or a loss of its output, does not take."""
    if unlike := does_not_take(network, inputs):
        raise TypeError(
            f"{type(network).__name__} does not take {inputs} inputs ({unlike}); all that follow "
            "the loss go to the network. Labels that the loss alone needs: let a module take them "
            "too and return the loss, or read them from around it, loss=lambda out: f(out, labels)"
        )
    if unlike := does_not_take(loss, 1):
        raise TypeError(
            f"the loss must take one argument, the network's output ({unlike}): let the network "
            "take the labels too and return the loss, or write loss=lambda out: f(out, labels)"
        )


def does_not_take(function: Callable[..., object], count: int) -> str:
    """Why a function does not take so many arguments; empty if it does, or unknown."""
    with suppress(ValueError):  # not written in Python
        try:
            signature(getattr(function, "forward", function)).bind(*[None] * count)
        except TypeError as error:
            return str(error)
    return ""


def one_each(losses: object, batch: int) -> Tensor:
    """Losses, one number for each example (else ValueError), unrounded (HalfPrecision)."""
    shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
    if not isinstance(losses, Tensor) or shape != (batch,):
        raise ValueError(
            f"the losses of {batch} examples must be one number for each, shape ({batch},), got "
            f"{shape}: pass reduction='none', squeeze(1) or sum each example's losses, no packs of "
            "examples, and give labels as an input, not in a closure"
        )
    if losses.dtype not in (torch.float32, torch.float64):
        raise HalfPrecision(f"losses are {losses.dtype}; compute them in float32")
    return losses


@contextmanager
def explained(network: nn.Module, reason: str | None) -> Iterator[None]:
    """UnsupportedLayer: where torch.func failed, why it was asked, and the remedy."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, IndexError) as error:
        inside = set(network.modules())
        running = [frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__)]
        where = [None, *(x for x in running if isinstance(x, nn.Module) and x in inside)][-1]
        words = str(error).strip() or type(error).__name__
        known = (
            hint for some, hint in INSTEAD.items() if any(w in words.lower() for w in some)
        )
        hint = LOOP if isinstance(where, nn.RNNBase | nn.RNNCellBase) else next(known, ONE)
        name = "network and loss" if where is None else named(where)
        because = f"; torch.func is needed since {' '.join(reason.split())}" if reason else ""
        raise UnsupportedLayer(
            f"torch.func does not run {name} on one example alone: {hint}"
            f"{because} (torch: {words.splitlines()[0]})"
        ) from error


def named(module: nn.Module) -> str:
    """A module in a sentence: its settings, but not all of its parts."""
    return str(module) if next(module.children(), None) is None else type(module).__name__


def check(network: nn.Module) -> None:
    """Refuse networks whose per-example gradients are not known as products.

    Raises:
        UnsupportedLayer: a layer with parameters that `layers.KINDS` does not list, or parameters
            that two layers share.
    """
    owners: set[int] = set()
    for module in network.modules():
        if not (own := dict(module.named_parameters(recurse=False))):
            continue
        kind = KINDS.get(type(module))
        if kind is None or not own.keys() <= {"weight", "bias"}:
            raise UnsupportedLayer(
                f"per-example gradients of {named(module)} are not known as products"
            )
        if reason := kind.refused(module):
            raise UnsupportedLayer(f"{module} has no per-example gradients here: {reason}")
        if not all(parameter.requires_grad for parameter in own.values()):
            raise UnsupportedLayer(f"{module} has parameters that are frozen")
        places = {id(parameter) for parameter in own.values()}
        if places & owners:
            raise UnsupportedLayer(f"{module} shares a parameter with another layer")
        owners |= places
