"""A run's fingerprint (settings, data, step, networks), the same in every process."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from hashlib import sha256
from importlib import metadata
from itertools import takewhile
from pathlib import PurePath
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpkit.training.device import device_label
from dpkit.training.types import Data, Model

_PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes)
_NAMED = (PurePath, torch.dtype, torch.device, torch.layout)
_STEPS = "a function of a module, a partial of one with plain arguments, or a frozen dataclass"


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

    Of the code, that is the version of dpkit and the sources, as they lie on disk when training
    begins, of the modules that define the step and the networks; not what these call elsewhere. A
    network's layers are compared by their repr and by their attributes that `described` knows and
    whose names begin without an underscore.

    Raises:
        ValueError: settings or step hold what no other process can compare or what may change
            between two steps (a dict, list or set), a source cannot be read, or a network has
            buffers that are not persistent.
    """
    transform = data.transform
    return {
        **_settings(settings),
        "public_size": str(data.public_size),
        "data": sha256(f"{_array(data.features)} {_array(data.labels)}".encode()).hexdigest(),
        **({} if transform is None else {"transform": _callable("transform", transform)}),
        "step": _callable("step", step),
        **{f"gan.{name}": _part(getattr(gan, name)) for name in gan._fields},
        "dpkit": metadata.version("dpkit"),
        "torch": str(torch.__version__),
        "device": device_label(rng.device),
        "dtype": str(torch.get_default_dtype()),
        "tf32": str(tf32),
        "threads": str(torch.get_num_threads()),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
    }


def described(value: Any) -> str:
    """A value in words that no other value has, the same in every process.

    Numbers, text, enums, arrays and tensors (by type, shape and the SHA-256 of their bytes), frozen
    dataclasses, tuples, lists, dicts and sets of such, classes of a module by their name, functions
    of one by name, defaults and source, and partials and methods of them.

    Raises:
        Unstable: it is something else, a lambda or closure, or a dataclass that is not frozen.
    """
    kind = type(value)
    if kind in _PLAIN or isinstance(value, _NAMED):
        return repr(value)
    if isinstance(value, Enum):
        return f"{_name(kind)}.{value.name}"
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return _array(value)
    if isinstance(value, type):
        return _name(value)
    if isinstance(value, FunctionType):
        defaults = (value.__defaults__, value.__kwdefaults__)
        words = f"{_name(value)} of source {_source(value)[:16]}"
        return words + (f" with {described(defaults)}" if any(defaults) else "")
    if isinstance(value, MethodType):
        return f"{described(value.__self__)}.{described(value.__func__)}"
    if isinstance(value, partial):
        return f"partial{described((value.func, value.args, value.keywords))}"
    if isinstance(value, tuple | list):
        return f"{_name(kind)}({', '.join(map(described, value))})"
    if isinstance(value, set | frozenset):
        return f"{_name(kind)}{{{', '.join(sorted(map(described, value)))}}}"
    if isinstance(value, dict):
        items = sorted(f"{described(key)}: {described(item)}" for key, item in value.items())
        return f"{_name(kind)}{{{', '.join(items)}}}"
    if not is_dataclass(value):
        raise Unstable(f"{repr(value)[:200]} is neither a plain value, an array nor a dataclass")
    if not kind.__dataclass_params__.frozen:  # pyright: ignore[reportAttributeAccessIssue]
        raise Unstable(f"{kind.__qualname__} is a dataclass that is not frozen")
    parts = (f"{field.name}={described(getattr(value, field.name))}" for field in fields(value))
    return f"{_name(kind)}({', '.join(parts)})"


def _name(kind: Any) -> str:
    if "<" in kind.__qualname__ or getattr(kind, "__closure__", None):
        raise Unstable(f"{kind.__qualname__} is a lambda, a closure or made inside a function")
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _array(value: Any) -> str:
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.is_quantized:
            raise Unstable(f"a tensor of layout {value.layout} is not compared")
        plain = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        content = plain.view(torch.uint8).numpy()
        return f"Tensor {_shape(value)} sha256 {sha256(content.data).hexdigest()}"
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise Unstable("an array of objects is not compared")
    digest = sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{type(value).__name__} {array.shape} {array.dtype.str} sha256 {digest}"


def _shape(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _comparable(name: str, value: Any, *, use: str) -> str:
    try:
        words = described(value)
    except Unstable as error:
        raise ValueError(
            f"{name} must be something that another process can compare, to be stored with a "
            f"checkpoint, but {error}; use {use}"
        ) from error
    for held in _held(value):
        if isinstance(held, dict | list | set):
            raise ValueError(
                f"{name} must not hold a {type(held).__name__}, which may change unseen between "
                f"two steps, got {repr(held)[:200]}; use a tuple or a frozen dataclass"
            )
    return words


def _held(value: Any) -> Iterator[Any]:
    """A value that can be described and all that it holds, but for a collection that can change."""
    yield value
    parts: Iterable[Any] = ()
    if isinstance(value, FunctionType):
        parts = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    elif isinstance(value, MethodType):
        parts = (value.__self__, value.__func__)
    elif isinstance(value, partial):
        parts = (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, tuple | frozenset):
        parts = value
    elif is_dataclass(value) and not isinstance(value, type):
        parts = (getattr(value, field.name) for field in fields(value))
    for part in parts:
        yield from _held(part)


def _settings(settings: Any) -> dict[str, str]:
    """Type and fields of a frozen dataclass, each by itself."""
    parameters = getattr(type(settings), "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise ValueError(
            f"settings must be a frozen dataclass to be stored with a checkpoint, got {settings!r}"
        )
    held = {f"settings.{field.name}": getattr(settings, field.name) for field in fields(settings)}
    words = {name: _comparable(name, one, use="a frozen dataclass") for name, one in held.items()}
    return {"settings": _name(type(settings)), **words}


def _callable(name: str, made: Callable[..., Any]) -> str:
    """A step, or a transform of the data."""
    words = _comparable(name, made, use=_STEPS)
    while isinstance(made, partial):
        made = made.func
    bare = isinstance(made, FunctionType | MethodType)  # whose own description has its source
    return words if bare else f"{words} {_comparable(name, type(made).__call__, use=_STEPS)}"


def _source(function: Callable[..., Any]) -> str:
    """SHA-256 of the source of a function's module; in a notebook, which has no file, its own."""
    module: Any = sys.modules.get(function.__module__)
    held = module if getattr(module, "__file__", None) else function
    try:
        if inspect.getfile(held) == "<string>":  # the one source that 3.13 keeps is of `python -c`
            raise OSError("it was made by exec")
        source = inspect.getsource(held)
    except (OSError, TypeError) as error:
        raise Unstable(f"the source of {function.__qualname__} cannot be read ({error})") from error
    return sha256(source.encode()).hexdigest()


def _part(part: nn.Module | torch.optim.Optimizer) -> str:
    """Layers, their attributes and tensors of a network; kind and size of an optimiser."""
    if isinstance(part, torch.optim.Optimizer):
        sizes = [len(group["params"]) for group in part.param_groups]
        return f"{_name(type(part))} of {sizes} tensors"
    layers = " ".join(re.sub(" at 0x[0-9a-f]+", "", repr(part)).split())
    state = part.state_dict()
    lost = [name for name, _ in part.named_buffers() if name not in state]
    if lost:
        raise ValueError(
            f"a network's buffers must be persistent to be stored with a checkpoint, but {lost} "
            "are not in its state_dict; register them with persistent=True"
        )
    shapes = [f"{key} {_shape(state[key])}" for key in state if isinstance(state[key], Tensor)]
    frozen = [key for key, value in part.named_parameters() if not value.requires_grad]
    flags = [module.training for module in part.modules()]
    own = [
        type(module)
        for module in part.modules()
        if not type(module).__module__.startswith("torch.")
    ]
    sources = sorted({_source(kind.forward)[:16] for kind in own})
    return (
        f"{layers}; {', '.join(shapes)}; frozen: {frozen}; training: {flags}; sources: {sources}; "
        f"attributes: {', '.join(_attributes(part))}"
    )


def _attributes(network: nn.Module) -> Iterator[str]:
    """What layers hold beside tensors and layers: their repr does not print all of it."""
    for place, layer in network.named_modules():
        for name, value in vars(layer).items():
            if not name.startswith("_") and name != "training":
                with suppress(Unstable, RecursionError):
                    yield f"{place}.{name}={described(value)}"


def state_of(gan: Model) -> str:
    """SHA-256 of all tensors and numbers that networks and optimisers hold."""
    states = (described(getattr(gan, name).state_dict()) for name in gan._fields)
    return sha256("\n".join(states).encode()).hexdigest()


def differing(stored: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """The entries of two fingerprints that differ, with both values where these are not hashes."""
    names = sorted(stored.keys() | present.keys())
    pairs = [(name, str(stored.get(name)), str(present.get(name))) for name in names]
    return [
        name if name == "data" else f"{name} {_both(one, other)}"
        for name, one, other in pairs
        if one != other
    ]


def _both(*parts: str) -> str:
    """Both values; of long ones, what surrounds the place where they begin to differ."""
    at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*parts, strict=False)))
    if max(map(len, parts)) > 400:
        parts = tuple(f"...{part[max(at - 60, 0) : at + 140]}..." for part in parts)
    return f"(stored {parts[0]}, now {parts[1]})"
