"""A run's fingerprint (settings, data, step, networks), the same in every process."""

import inspect
import io
import pickle
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from hashlib import sha256
from importlib import metadata
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpkit.training.device import device_label
from dpkit.training.types import Data, Model

LONG = 200  # characters of a value that are said
USE = "a function of a module, a partial of one with plain arguments, or a frozen dataclass"


class Unstable(ValueError):
    """A value that another process cannot compare."""


def fingerprint(
    gan: Model,
    data: Data,
    *,
    step: Callable[..., Any],
    settings: Any,
    rng: torch.Generator,
    tf32: bool = False,
) -> dict[str, str]:
    """Everything that must be the same for a run to go on: its steps are then repeated to the bit.

    Of the code, that is the version of dpkit and the source, as it lies on disk when training
    begins, of the module that defines the step; not what it calls elsewhere, nor the networks',
    which are compared by what they print of themselves and by their tensors' shapes.

    Raises:
        ValueError: settings or step hold what no other process can compare, a source cannot be
            read, or a network has buffers that are not persistent.
    """
    parameters = getattr(type(settings), "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise ValueError(
            f"settings must be a frozen dataclass to be stored with a checkpoint, got {settings!r}"
        )
    held = {f"settings.{field.name}": getattr(settings, field.name) for field in fields(settings)}
    held |= {"step": step} | ({} if data.transform is None else {"transform": data.transform})
    return {
        "settings": f"{type(settings).__module__}.{type(settings).__qualname__}",
        **{name: _comparable(name, value) for name, value in held.items()},
        "public_size": str(data.public_size),
        "data": digest((data.features, data.labels)),
        **{f"gan.{name}": _part(getattr(gan, name)) for name in gan._fields},
        "dpkit": metadata.version("dpkit"),
        "torch": str(torch.__version__),
        "device": device_label(rng.device),
        "dtype": str(torch.get_default_dtype()),
        "tf32": str(tf32),
        "threads": str(torch.get_num_threads()),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
    }


def digest(value: Any) -> str:
    """SHA-256 of a value, the same in every process: of its pickle, in which arrays and tensors are
    their type, shape and bytes, and functions their name and source.

    Raises:
        Unstable: it cannot be pickled so: a lambda or closure, or a function without a source.
    """
    file = io.BytesIO()
    pickler = _Pickler(file, protocol=5)
    pickler.fast = True  # an object is written again wherever it stands, whether or not it is one
    try:
        pickler.dump(value)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise Unstable(f"{_said(value)} cannot be pickled ({error})") from error
    return sha256(file.getbuffer()).hexdigest()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor | np.ndarray | np.generic):
            return str, (_array(value),)
        if isinstance(value, FunctionType):
            return str, (f"{_named(value)} {value.__defaults__} {value.__kwdefaults__}",)
        return NotImplemented


def described(value: Any) -> str:
    """A value in words, with a part of its `digest` (and raises as it does)."""
    words = _named(value) if isinstance(value, FunctionType) else _said(value)
    return f"{words} {digest(value)[:16]}"


def _said(value: Any) -> str:
    if isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return " ".join(re.sub(" at 0x[0-9a-f]+", "", repr(value)).split())[:LONG]


def _named(function: FunctionType) -> str:
    if "<" in function.__qualname__ or function.__closure__:
        raise Unstable(f"{_said(function)} is a lambda, a closure or made inside a function")
    return f"{_said(function)} of source {_source(function)}"


def _source(function: Callable[..., Any]) -> str:
    """SHA-256 of the source of a function's module; in a notebook, which has no file, its own."""
    module: Any = sys.modules.get(function.__module__)
    held = module if getattr(module, "__file__", None) else function
    try:
        if inspect.getfile(held) == "<string>":  # the one source that 3.13 keeps is of `python -c`
            raise OSError("it was made by exec")
        return sha256(inspect.getsource(held).encode()).hexdigest()[:16]
    except (OSError, TypeError) as error:
        raise Unstable(f"the source of {function.__qualname__} cannot be read ({error})") from error


def _array(value: Any) -> str:
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.is_quantized:
            raise Unstable(f"a tensor of layout {value.layout} is not compared")
        plain = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        kind, array = f"Tensor {value.dtype}", plain.view(torch.uint8).numpy()
    else:
        kind, array = f"{type(value).__name__} {value.dtype.str}", np.ascontiguousarray(value)
    if array.dtype.hasobject:
        raise Unstable("an array of objects is not compared")
    return f"{kind} {tuple(value.shape)} sha256 {sha256(array.tobytes()).hexdigest()}"


def _comparable(name: str, value: Any) -> str:
    """A setting, a step or a transform of the data; of a callable object, its class too."""
    try:
        words, made = described(value), value
        while isinstance(made, partial):
            made = made.func
        bare = not callable(made) or isinstance(made, FunctionType | MethodType | type)
        return words if bare else f"{words} {described(type(made).__call__)}"
    except Unstable as error:
        raise ValueError(
            f"{name} must be something that another process can compare, to be stored with a "
            f"checkpoint, but {error}; use {USE}"
        ) from error


def _part(part: nn.Module | torch.optim.Optimizer) -> str:
    """Layers and tensors of a network; kind and size of an optimiser."""
    if isinstance(part, torch.optim.Optimizer):
        sizes = [len(group["params"]) for group in part.param_groups]
        return f"{type(part).__qualname__} of {sizes} tensors"
    state = part.state_dict()
    lost = [name for name, _ in part.named_buffers() if name not in state]
    if lost:
        raise ValueError(
            f"a network's buffers must be persistent to be stored with a checkpoint, but {lost} "
            "are not in its state_dict; register them with persistent=True"
        )
    tensors = {key: x for key, x in state.items() if isinstance(x, Tensor)}
    shapes = [f"{key} {tuple(x.shape)} {x.dtype}" for key, x in tensors.items()]
    frozen = [key for key, value in part.named_parameters() if not value.requires_grad]
    flags = [module.training for module in part.modules()]
    layers = " ".join(re.sub(" at 0x[0-9a-f]+", "", repr(part)).split())
    return f"{layers}; {', '.join(shapes)}; frozen: {frozen}; training: {flags}"


def state_of(gan: Model) -> str:
    """SHA-256 of all tensors and numbers that networks and optimisers hold."""
    return digest([getattr(gan, name).state_dict() for name in gan._fields])


def differing(stored: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """The entries of two fingerprints that differ, with both values where these are not hashes."""
    names = sorted(stored.keys() | present.keys())
    pairs = [(name, str(stored.get(name)), str(present.get(name))) for name in names]
    return [
        name if name == "data" else f"{name} (stored {one}, now {other})"
        for name, one, other in pairs
        if one != other
    ]
