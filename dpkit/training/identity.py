"""What a run is, in words that are the same in every process: what must agree to go on with it."""

import functools
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import sha256
from inspect import isclass
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpkit.training.types import Data, Gan

_PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes)
_NAMED = (PurePath, torch.dtype, torch.device, torch.layout)


class Unstable(ValueError):
    """A value that another process could not compare."""


def described(value: Any, codes: list[str] | None = None) -> str:
    """A value in words that tell it from every other, the same in every process.

    Numbers, text, enums, arrays and tensors (by type, shape and the SHA-256 of their bytes), frozen
    dataclasses, tuples, lists, dicts and sets of such, classes, functions of a module by their
    name, and partials of them.

    Args:
        value: what to describe.
        codes: the code of each function that was met is added here.

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
    inner = functools.partial(described, codes=codes)
    if is_dataclass(value) and not isclass(value):
        if not kind.__dataclass_params__.frozen:  # pyright: ignore[reportAttributeAccessIssue]
            raise Unstable(f"{kind.__qualname__} is a dataclass that is not frozen")
        parts = (f"{f.name}={inner(getattr(value, f.name))}" for f in fields(value))
        return f"{_name(kind)}({', '.join(parts)})"
    if isinstance(value, dict):
        parts = sorted(f"{inner(key)}: {inner(item)}" for key, item in value.items())
        return f"{_name(kind)}{{{', '.join(parts)}}}"
    if isinstance(value, set | frozenset):
        return f"{_name(kind)}{{{', '.join(sorted(map(inner, value)))}}}"
    if isinstance(value, tuple | list):
        return f"{_name(kind)}({', '.join(map(inner, value))})"
    return _callable(value, codes)


def _name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _array(value: Any) -> str:
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.is_quantized:
            raise Unstable(f"a tensor of layout {value.layout} is not compared")
        return f"Tensor {shape_of(value)} sha256 {_bytes(value).hexdigest()}"
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise Unstable("an array of objects is not compared")
    digest = sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{type(value).__name__} {array.shape} {array.dtype.str} sha256 {digest}"


def _bytes(tensor: Tensor) -> Any:
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    return sha256(plain.view(torch.uint8).numpy().data)


def _callable(value: Any, codes: list[str] | None) -> str:
    inner = functools.partial(described, codes=codes)
    if isinstance(value, functools.partial):
        given = [inner(item) for item in value.args]
        given += [f"{name}={inner(item)}" for name, item in sorted(value.keywords.items())]
        return f"partial({', '.join([inner(value.func), *given])})"
    if isinstance(value, MethodType):
        return f"{inner(value.__self__)}.{inner(value.__func__)}"
    if isclass(value) or isinstance(value, BuiltinFunctionType):
        if "<locals>" in value.__qualname__:
            raise Unstable(f"{value.__qualname__} is made inside a function")
        return _name(value)
    if not isinstance(value, FunctionType):
        text = repr(value)[:200]
        raise Unstable(f"{text} is neither a plain value, an array nor a frozen dataclass")
    free = set(value.__code__.co_freevars) - {"__class__"}
    if free or "<" in value.__qualname__:
        raise Unstable(f"{value.__qualname__} is a lambda, a closure or made inside a function")
    if codes is not None:
        codes.append(_code(value.__code__))
    defaults = (value.__defaults__, value.__kwdefaults__)
    return _name(value) + (f" with {inner(defaults)}" if any(defaults) else "")


def _code(code: CodeType) -> str:
    """What a function does itself, not what it calls: the same for the same source and Python."""
    constants = [
        _code(item) if isinstance(item, CodeType) else described(item) for item in code.co_consts
    ]
    known = (code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants)
    return sha256(repr(known).encode()).hexdigest()


def describe_settings(settings: Any) -> dict[str, str]:
    """A frozen dataclass in words: its type and each field.

    Raises:
        ValueError: it is no frozen dataclass, or a field holds what no other process can compare.
    """
    parameters = getattr(type(settings), "__dataclass_params__", None)
    if not is_dataclass(settings) or parameters is None or not parameters.frozen:
        raise ValueError(
            f"settings must be a frozen dataclass to be stored with a checkpoint, got {settings!r}"
        )
    found = {"settings": _name(type(settings))}
    for field in fields(settings):
        try:
            found[f"settings.{field.name}"] = described(getattr(settings, field.name))
        except Unstable as error:
            raise ValueError(
                f"settings.{field.name} must be a value that another process can compare, but "
                f"{error}; use a frozen dataclass"
            ) from error
    return found


def describe_step(step: Callable[..., Any], codes: list[str]) -> str:
    """The step's function and all that is bound to it, in words; what it does goes to `codes`.

    Raises:
        ValueError: it is a lambda or closure, or bound to what no other process can compare.
    """
    try:
        if not isinstance(step, FunctionType | functools.partial | MethodType):
            codes.append(_code(type(step).__call__.__code__))
        return described(step, codes)
    except (Unstable, AttributeError) as error:
        raise ValueError(
            f"step must be something that another process can compare, to be stored with a "
            f"checkpoint, but {error}; use a function of a module, a partial of one with plain "
            "arguments, or a frozen dataclass with __call__"
        ) from error


def describe_gan(gan: Gan, codes: list[str]) -> dict[str, str]:
    """Each network's layers, tensors and train or eval flags, each optimiser's kind, in words.

    What a network of one's own does goes to `codes`. Plain numbers and words that its modules hold
    count as well; what else they hold (functions, lists) is not looked at.

    Raises:
        ValueError: a network is described by its place in memory.
    """
    found = {}
    for name in gan._fields:
        part = getattr(gan, name)
        if not isinstance(part, nn.Module):
            sizes = [len(group["params"]) for group in part.param_groups]
            found[f"gan.{name}"] = f"{_name(type(part))} of {sizes} tensors"
            continue
        shapes = [f"{key} {shape_of(value)}" for key, value in part.state_dict().items()]
        frozen = [key for key, value in part.named_parameters() if not value.requires_grad]
        found[f"gan.{name}"] = ", ".join(shapes) + (f"; frozen: {frozen}" if frozen else "")
        layers = " ".join(repr(part).split())
        if " at 0x" in layers:
            raise ValueError(
                f"gan.{name} must describe its layers without their place in memory, got {layers}; "
                "give the layer an extra_repr"
            )
        modules = "; ".join(_module(key, module, codes) for key, module in part.named_modules())
        found[f"gan.{name}.layers"] = f"{layers} with {modules}"
        flags = flags_of(part)
        found[f"gan.{name}.training"] = str(flags[0] if len(set(flags)) == 1 else flags)
    return found


def _module(key: str, module: nn.Module, codes: list[str]) -> str:
    forward = getattr(type(module).forward, "__code__", None)
    if forward is not None and not type(module).__module__.startswith("torch."):
        codes.append(_code(forward))
    held = []
    for name, value in sorted(vars(module).items()):
        simple = value if isinstance(value, tuple) else (value,)
        if name[0] != "_" and name != "training" and all(type(one) in _PLAIN for one in simple):
            held.append(f"{name}={value!r}")
    for hooks in (module._forward_pre_hooks, module._forward_hooks):
        held += [getattr(hook, "__qualname__", type(hook).__name__) for hook in hooks.values()]
    return f"{key}: {_name(type(module))}({', '.join(held)})"


def flags_of(network: nn.Module) -> tuple[bool, ...]:
    """Train (True) or eval of each of its modules."""
    return tuple(module.training for module in network.modules())


def describe_arithmetic(
    rng: torch.Generator, *, tf32: bool = False, codes: list[str] | None = None
) -> dict[str, str]:
    """What a step's numbers depend on beside the run itself and the generator's state."""
    on_gpu = rng.device.type == "cuda"
    device = torch.cuda.get_device_name(rng.device) if on_gpu else rng.device.type
    return {
        "device": device,
        "torch": str(torch.__version__),
        "tf32": str(tf32),
        "threads": f"{torch.get_num_threads()}",
        "dtype": str(torch.get_default_dtype()),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
        "code": sha256(" ".join(codes or []).encode()).hexdigest(),
    }


def state_of(gan: Gan) -> str:
    """SHA-256 over all tensors and numbers that networks and optimisers hold."""
    digest = sha256()
    for name in gan._fields:
        digest.update(f"{name} {described(getattr(gan, name).state_dict())}\n".encode())
    return digest.hexdigest()


def checksum(data: Data) -> str:
    """SHA-256 over shape, type and bytes of features and labels. It is private: it tells a guess
    of the whole data set from a wrong one."""
    return sha256(" ".join(_array(t) for t in (data.features, data.labels)).encode()).hexdigest()


def shape_of(value: Any) -> str:
    """Shape and type of a tensor; of anything else, its kind."""
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    return type(value).__name__
