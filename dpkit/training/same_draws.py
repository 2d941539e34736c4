"""The same random numbers for batches of different sizes: what `check_step` compares them with."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

MOST = 2**31  # seeds below it count on every device


class SameDraws(TorchDispatchMode):
    """Inside the block, a record that is left out changes no draw but its own.

    What is drawn for one example fewer than `rows` is drawn for `rows` and cut, so that each keeps
    its numbers. And every draw moves its generator on by the same amount, however many numbers it
    takes, so that what is drawn next is the same.

    Attributes:
        shapes: of all that was drawn, in order, before it was cut.
    """

    def __init__(self, *, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        generator = kwargs.get("generator") or _global_generator(args, kwargs)
        before = generator.get_state()
        drawn = self._drawn(func, args, kwargs)
        generator.set_state(before)
        seed = torch.randint(MOST, (), generator=generator, device=generator.device)
        generator.manual_seed(int(seed))
        return drawn

    def _drawn(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        named = zip(func._schema.arguments, args, strict=False)
        whole = [self._whole(one, is_size=argument.name == "size") for argument, one in named]
        drawn = func(*whole, **kwargs)
        first = drawn[0] if isinstance(drawn, tuple) else drawn
        self.shapes.append(tuple(first.shape))
        if all(one is other for one, other in zip(whole, args, strict=True)):
            return drawn
        if func._schema.name.endswith("_"):  # in place
            return args[0].copy_(drawn[:-1])
        if isinstance(drawn, tuple):
            return tuple(one[:-1].clone() for one in drawn)
        return drawn[:-1].clone()

    def _whole(self, argument: Any, *, is_size: bool) -> Any:
        """A size or a tensor with one row fewer than `rows`, with one more: the last again."""
        if is_size and len(argument) and argument[0] == self.rows - 1:
            return [self.rows, *argument[1:]]
        if isinstance(argument, Tensor) and argument.dim() and len(argument) == self.rows - 1:
            return torch.cat((argument, argument[-1:]))
        return argument


def _global_generator(args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Generator:
    """Torch's own on the device that is drawn on."""
    tensors = [one.device for one in args if isinstance(one, Tensor)]
    device = torch.device(kwargs.get("device") or [*tensors, "cpu"][0])
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index or 0]
    return torch.default_generator
