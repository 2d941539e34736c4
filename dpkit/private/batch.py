"""The batch on hand: one release each, of its own rows."""

from typing import Any
from weakref import ref

from torch import Tensor


class Drawn:
    """Batches as they are drawn, and what may be taken for one.

    Amplification by sampling holds for one release a batch, of rows that each come from one record
    of it. Tensors that were made outside of the loss are not followed, but an older batch, a slice
    of the data set, and other numbers of rows are.
    """

    def __init__(self, data: tuple[Tensor, ...]) -> None:
        self._data = {_storage(part) for part in data}
        self._rows: tuple[Tensor, ...] = ()
        self._earlier: list[ref[Tensor]] = []
        self.fresh = False

    def next(self, rows: tuple[Tensor, ...]) -> None:
        """Take a batch that was just drawn."""
        self._earlier = [one for one in self._earlier if one() is not None]
        self._earlier += [ref(row) for row in self._rows]
        self._rows, self.fresh = rows, True

    def take(self, given: tuple[Any, ...]) -> tuple[Tensor, ...]:
        """The rows of a step, checked; the batch counts as used from here.

        Raises:
            RuntimeError: no batch was drawn, or it was already used.
            TypeError, ValueError: what is given are not rows of the batch.
        """
        if not self._rows:
            raise RuntimeError("no batch was drawn yet: call step within `for x, y in private:`")
        if not self.fresh:
            raise RuntimeError(
                "this batch was already used for a step; amplification by sampling holds for one "
                "release a batch: draw the next one (critic steps before a generator's: loop on)"
            )
        self._check(given)
        self.fresh = False
        return tuple(row.detach() for row in given)

    def _check(self, given: tuple[Any, ...]) -> None:
        batch = len(self._rows[0])
        for row in given:
            if not isinstance(row, Tensor):
                raise TypeError(f"step takes tensors of rows, got {type(row).__name__}")
            if not row.ndim or len(row) != batch:
                raise ValueError(
                    f"each row must come from one record of the batch just drawn, which has "
                    f"{batch}, but a tensor of shape {tuple(row.shape)} was given; pass what "
                    "`for x, y in private` yields, and what is made of it row by row"
                )
        if not given:
            raise ValueError("step takes the batch after the loss: private.step(loss, x, y)")
        if not batch:
            return
        own = {_storage(row) for row in self._rows}
        old = {_storage(row) for one in self._earlier if (row := one()) is not None and len(row)}
        places = {_storage(row) for row in given}
        if places & self._data:
            raise ValueError("a slice of the data set was given in place of the batch just drawn")
        if places & (old - own):
            raise ValueError(
                "rows of an earlier batch were given; pass those of the one just drawn"
            )
        if not places & own:
            raise ValueError(
                "none of the tensors is of the batch just drawn: pass one of those that the loop "
                "yields (to change images on the way, give transform=, or do it in the loss, where "
                "it is checked that no two rows meet)"
            )


def _storage(tensor: Tensor) -> tuple[str, int]:
    return str(tensor.device), tensor.untyped_storage().data_ptr()
