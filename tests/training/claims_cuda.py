"""A GPU that is not there: its tensors and generators say cuda:0, and hold ones of the CPU.

All is computed, so that looks at values give true answers. For torch's own code, which makes zeros
of its own now and then, a tensor lies on the meta device.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import dpkit
from dpkit.training import device as devices
from dpkit.training.gradients import independence

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
PACKAGE = f"{Path(dpkit.__file__).parent.as_posix()}/"  # a clone's own folder may be called so too
OWN = Path(__file__).as_posix()
DECIDING = ("_local_scalar_dense", "nonzero", "equal", "masked_select", "is_nonzero", "bincount")
DECIDING += ("allclose", "_unique2", "unique_dim", "unique_consecutive", "repeat_interleave")
_optimizer: Any = import_module("torch.optim.optimizer")  # torch.optim hides its name
COPIES = ("_to_copy", "copy_")


class OnCuda(Tensor):
    """A tensor that says it lies on cuda:0."""

    held: Tensor
    device: Any = property(lambda self: CUDA)
    __torch_function__: Any = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnCuda":
        like: Any = {"dtype": held.dtype, "strides": held.stride(), "device": "meta"}
        like |= {"storage_offset": held.storage_offset()}
        made = Tensor._make_wrapper_subclass(cls, held.shape, **like)
        made.held = held
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made: Any = OnCuda(self.held.clone()).requires_grad_(self.requires_grad)
        if isinstance(self, nn.Parameter):
            made._is_param = True
        return memo.setdefault(id(self), made)

    def get_device(self) -> int:
        return 0

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} of a tensor on cuda:0 runs outside of `gpu`")


class GeneratorOnCuda(devices.PrivateGenerator):
    """A generator that says it lies on cuda:0; operators see one of the CPU."""

    device: Any = property(lambda self: CUDA)

    def __new__(cls, device: torch.device) -> "GeneratorOnCuda":
        return torch.Generator.__new__(cls)


class Gpu(TorchDispatchMode):
    """Operators on the GPU, counted; what a GPU would be waited for, by line; and what met."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.waits = 0, Counter()
        self.faults: list[str] = []  # also those that somebody caught

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), func.overloadpacket.__name__
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        there = any(isinstance(x, OnCuda) for x in given)
        pinned, wanted = kwargs.pop("pin_memory", False), kwargs.get("device")
        goes = there if wanted is None else torch.device(wanted).type != "cpu"
        kwargs |= {} if wanted is None else {"device": CPU}
        goes = isinstance(args[0], OnCuda) if name == "copy_" else goes
        away = there and any(x.dim() and not isinstance(x, OnCuda) for x in given)
        if away and name not in (*COPIES, "index", "index_put", "index_put_"):
            self.fault(f"{func} of a tensor of the CPU and one of cuda:0")
        self.count += there or goes
        if (there or goes) and _waits(name, args, kwargs, goes):
            self.waits[_place(name)] += 1
        if name == "_efficientzerotensor":  # of forward differentiation, which holds nothing
            func = torch.ops.aten.zeros.default
        bare = tree_map(lambda x: x.held if isinstance(x, OnCuda) else x, (args, kwargs))
        if name == "_to_copy" and there and goes and set(kwargs) <= {"device", "non_blocking"}:
            return OnCuda(bare[0][0])  # it is there
        found = func(*bare[0], **bare[1])
        given_back = dict(zip(map(id, tree_leaves(bare)), tree_leaves((args, kwargs)), strict=True))

        if pinned:
            found.pinned = True

        def out(x: Any) -> Any:
            made = goes and isinstance(x, Tensor) and id(x) not in given_back
            return OnCuda(x) if made else given_back.get(id(x), x)

        return tree_map(out, found)

    def fault(self, words: str) -> None:
        self.faults.append(f"{words}, {_place('')}")
        raise RuntimeError(self.faults[-1])


def _waits(name: str, args: Any, kwargs: Any, goes: bool) -> bool:
    """Whether a GPU is waited for: values are looked at, or host memory is not pinned."""
    if name in COPIES:
        ends = args[:2] if name == "copy_" else args[:1]
        early = kwargs.get("non_blocking", name == "copy_" and len(args) > 2 and args[2])
        pinned = early and any(hasattr(x, "pinned") for x in ends)
        return goes != isinstance(ends[-1], OnCuda) and not pinned
    if name in ("index", "index_put", "index_put_"):  # by a mask, or by a list or tensor of the CPU
        given = [x for x in args[1] if x is not None]
        filled = name != "index" and args[2].numel() == 1
        masks = not filled and any(x.dtype == torch.bool for x in given)
        return masks or any(x.dim() and not isinstance(x, OnCuda) for x in given)
    return name in DECIDING


def _place(name: str) -> str:
    """The line that asks for it."""
    frame: Any = sys._getframe(1)
    while "/torch/" in (file := Path(frame.f_code.co_filename).as_posix()) or file == OWN:
        frame = frame.f_back
    return f"{file.removeprefix(PACKAGE)}:{frame.f_lineno} {name}"


class Calls(TorchFunctionMode):
    """A draw's generator has to lie where the draw does."""

    gpu: Gpu

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and "device" in kwargs:
            device = kwargs.pop("device")  # torch itself would copy it, and show nobody
            return func(*args, **kwargs).to(device)
        found, rng = func(*args, **kwargs), kwargs.get("generator")
        if isinstance(found, Tensor) and rng is not None and found.device != rng.device:
            self.gpu.fault(f"{func.__name__} on {found.device} by a generator of {rng.device}")
        return found


@contextmanager
def gpu() -> Iterator[Gpu]:
    """In this block cuda:0 is there, and networks are checked at their first batch alone."""
    default, fork = GeneratorOnCuda(CUDA), torch.random.fork_rng
    for name in ("get_state", "set_state", "manual_seed"):  # of the one that operators draw from
        setattr(default, name, getattr(torch.default_generator, name))
    types = [*_optimizer._foreach_supported_types, OnCuda]  # as a GPU's optimisers do
    with pytest.MonkeyPatch.context() as patch, Gpu() as found, Calls() as calls:
        calls.gpu = found
        patch.setattr(torch.cuda, "_lazy_init", lambda: None)
        patch.setattr(torch.cuda, "default_generators", (default,))
        patch.setattr(torch.cuda, "Event", Mock())
        patch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
        patch.setattr(torch.cuda, "get_rng_state", lambda *_: torch.get_rng_state())
        patch.setattr(torch.cuda, "set_rng_state", lambda state, *_: torch.set_rng_state(state))
        patch.setattr(torch.random, "fork_rng", lambda *_, **__: fork(devices=[]))
        patch.setattr(_optimizer, "_foreach_supported_types", types)
        patch.setattr(independence.Asked, "due", lambda self: not self.batches)
        patch.setattr(devices, "PrivateGenerator", GeneratorOnCuda)
        patch.setattr(torch.__future__, "_swap_module_params_on_conversion", True)
        yield found
