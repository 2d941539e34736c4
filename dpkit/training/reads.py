"""What a function reads while it runs: whether it goes to the data set beside the rows it is given.

A price is that of rows drawn at random. A loss, a transform or a network that reads other records
as well (a mean over the data set, a memory of records) moves what is released by more. So the
operations on the data's own memory are watched, whatever name leads there. What is not seen:
NumPy's arithmetic, `tolist`, and copies of the data, or numbers computed from it, made beforehand.
"""

import re
import secrets
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, strided
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SHAPE_ALONE = re.compile("_like$|::new_")  # operations that read no number
WORK: Any = 10_000  # solutions to try of where arrays meet (the stubs know -1 and 0 alone)
ONE_IN = 16  # later calls that are watched too, at random


class ReadsData(ValueError):
    """A function reads records that it was not given."""


class Extent(NamedTuple):
    """The memory that holds an array's numbers."""

    device: str
    memory: np.ndarray  # over the same addresses, never read


def extents(*data: Any) -> list[Extent]:
    """Of the tensors and arrays among the data, as far as they hold numbers.

    Keep these as long as the extents: memory that is freed is soon another tensor's.
    """
    found = []
    for x in data:
        if isinstance(x, Tensor) and x.layout == strided and (first := x.data_ptr()):
            steps = tuple(step * x.itemsize for step in x.stride())
            place = {"data": (first, True), "shape": tuple(x.shape), "strides": steps, "version": 3}
            there = SimpleNamespace(__array_interface__=place | {"typestr": f"|V{x.itemsize}"})
            found.append(Extent(str(x.device), np.asarray(there)))
        elif isinstance(x, np.ndarray) and x.size:
            found.append(Extent("cpu", x))
    return found


def meet(some: Sequence[Extent], others: Sequence[Extent]) -> bool:
    """Whether any of them share a number: alternate rows of one array do not."""
    pairs = ((a.memory, b.memory) for a in some for b in others if a.device == b.device)
    try:
        return any(np.shares_memory(*pair, max_work=WORK) for pair in pairs)
    except np.exceptions.TooHardError:
        return True


class Watched(TorchDispatchMode):
    """Inside the block, an operation on the numbers at `places` (see `extents`) raises ReadsData.

    The error says `what` runs there ("the loss"), and what to write instead (`remedy`).
    """

    def __init__(self, what: str, places: Sequence[Extent], *, remedy: str) -> None:
        super().__init__()
        self.what, self.places, self.remedy = what, places, remedy

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        reads_numbers = not (func.is_view or SHAPE_ALONE.search(func._schema.name))
        if reads_numbers and meet(extents(*tree_leaves((args, kwargs))), self.places):
            raise ReadsData(
                f"{self.what} reads the data set beside the rows that it is given "
                f"({func._schema.name}), and its price is that of rows drawn at random; "
                f"{self.remedy}"
            )
        return func(*args, **(kwargs or {}))


def now_and_then() -> bool:
    """Whether a call is watched though it is not the first: one in sixteen, at random."""
    return secrets.randbelow(ONE_IN) == 0
