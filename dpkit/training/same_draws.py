"""The same random numbers for batches of different sizes: what `check_step` compares them with."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

MOST = 2**31  # seeds below it count on every device


class SameDraws(TorchDispatchMode):
    """Inside the block, a record that is left out changes no draw but its own.

    What is drawn for `rows` examples, or for one fewer, is drawn for `rows` and cut, so that each
    example keeps its numbers. And every draw moves its generator on by the same amount, however
    many numbers it takes, so that what is drawn next is the same.

    Attributes:
        shapes: of everything that was drawn, in order, after cutting up to `rows`.
    """

    def __init__(self, *, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        generator = kwargs.get("generator") or _default(args, kwargs)
        before = generator.get_state()
        drawn = self._drawn(func, list(args), kwargs)
        generator.set_state(before)
        seed = torch.randint(MOST, (), generator=generator, device=generator.device)
        generator.manual_seed(int(seed))
        return drawn

    def _drawn(self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        names = [one.name for one in func._schema.arguments]  # type: ignore[attr-defined]
        if "size" in names and self._grows(args[names.index("size")]):
            at = names.index("size")
            size = args[at]
            args[at] = [self.rows, *size[1:]]
            self.shapes.append((self.rows, *size[1:]))
            return func(*args, **kwargs)[: size[0]].clone()
        if func._schema.name.endswith("_") and self._grows(args[0].shape):  # type: ignore[attr-defined]
            own = args[0]
            whole = own.new_empty((self.rows, *own.shape[1:]))
            self.shapes.append(tuple(whole.shape))
            return own.copy_(func(whole, *args[1:], **kwargs)[: len(own)])
        out = func(*args, **kwargs)
        self.shapes.append(tuple(out.shape) if isinstance(out, Tensor) else ())
        return out

    def _grows(self, size: Sequence[int]) -> bool:
        return len(size) > 0 and self.rows - 1 <= size[0] <= self.rows


def _default(args: Sequence[Any], kwargs: dict[str, Any]) -> torch.Generator:
    """The global generator of the device that is drawn on."""
    tensors = [one for one in args if isinstance(one, Tensor)]
    device = torch.device(kwargs.get("device") or (tensors[0].device if tensors else "cpu"))
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index or 0]
    return torch.default_generator
