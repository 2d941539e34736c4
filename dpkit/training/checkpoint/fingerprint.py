"""A run's fingerprint (settings, data, step, networks), the same in every process."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields
from hashlib import sha256
from importlib import metadata
from pickle import Pickler, PicklingError
from types import FunctionType, SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn

from dpkit.training.device import device_label
from dpkit.training.types import Data, Model


def fingerprint(
    gan: Model, data: Data, *, step: Any, settings: Any, rng: torch.Generator, tf32: bool
) -> dict[str, str]:
    """What must be the same for a run to go on to the bit; ValueError where that cannot be said."""
    if not getattr(getattr(settings, "__dataclass_params__", None), "frozen", False):
        raise ValueError(f"a checkpoint needs settings of a frozen dataclass, got {settings!r}")
    held = {f"settings.{field.name}": getattr(settings, field.name) for field in fields(settings)}
    held |= {"step": step, "transform": data.transform}
    return {
        "settings": f"{type(settings).__module__}.{type(settings).__qualname__}",
        **{name: described(name, value) for name, value in held.items()},
        **{f"gan.{name}": _part(getattr(gan, name)) for name in gan._fields},
        "public_size": str(data.public_size),
        "data": digest("data", data[:2]),
        "dpkit": metadata.version("dpkit"),
        "torch": str(torch.__version__),
        "device": device_label(rng.device),
        "dtype": str(torch.get_default_dtype()),
        "tf32": str(tf32),
        "threads": str(torch.get_num_threads()),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
    }


def described(name: str, value: Any) -> str:
    """The value of a name in words, and a part of its `digest`."""
    kind = "source" if callable(value) else "digest"
    return f"{_said(value)[:200]} of {kind} {digest(name, value)[:16]}"


def digest(name: str, value: Any) -> str:
    """SHA-256 of a value as `_Pickler` writes it, or ValueError."""
    written = sha256()
    pickler = _Pickler(cast(Any, SimpleNamespace(write=written.update)), protocol=5)
    pickler.fast = True  # an object is written again wherever it stands, whether or not it is one
    try:
        pickler.dump(value)
    except (PicklingError, AttributeError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be something that another process can compare, to be stored with a "
            f"checkpoint ({error}); use a function of a module, a partial of one with plain "
            "arguments, or a frozen dataclass"
        ) from error
    return written.hexdigest()


class _Pickler(Pickler):
    """A tensor is its type, shape and bytes; functions and what has a __call__, name and source."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor) and not value.is_quantized:
            plain = value.flatten().contiguous().view(torch.uint8).numpy(force=True)
            return str, (type(value).__name__, str(value.dtype), tuple(value.shape), plain)
        code = value.__call__ if isinstance(value, type) else getattr(value, "__func__", value)
        if not isinstance(code, FunctionType):
            return NotImplemented
        name, bound = f"{value.__module__}.{value.__qualname__}", getattr(value, "__self__", None)
        return str, (name, _source(name, code), code.__defaults__, code.__kwdefaults__, bound)


def _source(name: str, code: FunctionType) -> str:
    """Of its module, as it lies on disk; where that has no file, as in a notebook, its own."""
    module = inspect.getmodule(code)
    held: Any = module if getattr(module, "__file__", None) else code
    free = {*code.__code__.co_freevars} - {"__class__"}  # which super() is given
    if "<" in name or free or inspect.getfile(held) == "<string>":
        raise PicklingError(f"{name} is a lambda, a closure or made by a function or exec")
    return inspect.getsource(held)


def _said(one: Any) -> str:
    words = f"{one.__module__}.{one.__qualname__}" if isinstance(one, FunctionType) else repr(one)
    return " ".join(re.sub(" at 0x[0-9a-f]+", "", words).split())


def _part(part: nn.Module | torch.optim.Optimizer) -> str:
    """Layers and tensors of a network; kind of an optimiser."""
    if not isinstance(part, nn.Module):
        return type(part).__qualname__
    state = part.state_dict()
    if lost := [name for name, _ in part.named_buffers() if name not in state]:
        raise ValueError(
            f"no checkpoint holds a network's buffers {lost}: register them with persistent=True"
        )
    shapes = [f"{k} {tuple(x.shape)} {x.dtype}" for k, x in state.items() if isinstance(x, Tensor)]
    frozen = [name for name, x in part.named_parameters() if not x.requires_grad]
    flags = [module.training for module in part.modules()]
    return f"{_said(part)}; {', '.join(shapes)}; frozen: {frozen}; training: {flags}"


def state_of(gan: Model) -> str:
    """SHA-256 of all tensors and numbers that networks and optimisers hold."""
    return digest("gan", [part.state_dict() for part in gan])


def differing(stored: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """The entries of two fingerprints that differ, with both values where these are not hashes."""
    return [
        name if name == "data" else f"{name} (stored {stored.get(name)}, now {present.get(name)})"
        for name in sorted(dict(stored.items() ^ present.items()))
    ]
