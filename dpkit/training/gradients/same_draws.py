"""Random numbers that stay with their records when one record is left out of a batch."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


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

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        devices = [one.device for one in args if isinstance(one, Tensor)]
        device = torch.device(kwargs.get("device") or [*devices, "cpu"][0])
        own = torch.cuda.default_generators if device.type == "cuda" else [torch.default_generator]
        generator = kwargs.get("generator") or own[device.index or 0]
        state = generator.get_state()
        whole = [self._whole(one) for one in args]
        drawn = func(*whole, **kwargs)
        generator.set_state(state)
        seed = torch.randint(2**31, (), generator=generator, device=generator.device)
        generator.manual_seed(int(seed))  # seeds below 2**31 count on every device
        self.shapes.append(tuple(tree_leaves(drawn)[0].shape))
        if all(one is other for one, other in zip(whole, args, strict=True)):
            return drawn
        cut = tree_map(lambda part: part[:-1].clone(), drawn)
        return args[0].copy_(cut) if func._schema.name.endswith("_") else cut  # in place

    def _whole(self, argument: Any) -> Any:
        """A size or a tensor with one row fewer than `rows`, with one more: the last again."""
        if isinstance(argument, list) and argument[:1] == [self.rows - 1]:
            return [self.rows, *argument[1:]]
        if isinstance(argument, Tensor) and argument.dim() and len(argument) == self.rows - 1:
            return torch.cat((argument, argument[-1:]))
        return argument
