"""The batch on hand: one release each, of its own rows."""

from collections.abc import Sequence
from typing import Any
from weakref import ref

import torch
from torch import Tensor

REMEDY = (
    "pass those that the loop yields, or views of their rows (to change images on the way, give "
    "transform=, or do it within the loss: of both it is checked that no two rows meet)"
)


class Drawn:
    """Batches as they are drawn, and what may be taken for one.

    Amplification by sampling holds for one release a batch, and the price of a release for rows
    that each come from one record of it. So what is given for private rows are tensors of the
    batch, as they were drawn, or views in which row i is of row i.
    """

    def __init__(self, data: tuple[Tensor, ...]) -> None:
        self._data = {_storage(part) for part in data}
        self._rows: tuple[Tensor, ...] = ()
        self._kept: list[Tensor] = []  # copies of the rows
        self._earlier: list[ref[Tensor]] = []
        self._fresh = False

    def next(self, rows: tuple[Tensor, ...]) -> None:
        """Take a batch that was just drawn."""
        self._earlier = [one for one in self._earlier if one() is not None]
        self._earlier += [ref(row) for row in self._rows]
        self._rows, self._fresh = rows, True
        self._kept = [row.clone() for row in rows]

    def take(self, own: Sequence[Any], beside: Sequence[Any] = ()) -> list[Tensor]:
        """The rows of a step, checked. `use` follows, when they are used.

        Args:
            own: what is given as rows of the batch.
            beside: what is given as made without them, with as many rows: that is not checked.

        Raises:
            RuntimeError: no batch was drawn, or it was already used.
            TypeError, ValueError: what is given are not rows of the batch.
        """
        if not self._rows:
            raise RuntimeError("no batch was drawn yet: call step within `for x, y in private:`")
        if not self._fresh:
            raise RuntimeError(
                "this batch was already used for a step; amplification by sampling holds for one "
                "release a batch: draw the next one (critic steps before a generator's: loop on)"
            )
        if not own:
            raise ValueError("step takes the batch after the loss: private.step(loss, x, y)")
        for row in (*own, *beside):
            self._check_rows(row)
        if len(self._rows[0]):
            self._check_own(own)
        return [row.detach() for row in (*own, *beside)]

    def use(self) -> None:
        """The batch counts as used from here."""
        self._fresh = False

    def check_around(self, read: Sequence[Any]) -> None:
        """Refuse a loss that reads the data set beside its rows (ValueError)."""
        if any(isinstance(x, Tensor) and _storage(x) in self._data for x in read):
            raise ValueError(
                "the loss reads the data set from around it, and its price is that of rows drawn "
                f"at random; {REMEDY}"
            )

    def _check_rows(self, row: Any) -> None:
        batch = len(self._rows[0])
        if not isinstance(row, Tensor):
            raise TypeError(f"step takes tensors of rows, got {type(row).__name__}")
        if not row.ndim or len(row) != batch:
            raise ValueError(
                f"each row must come from one record of the batch just drawn, which has {batch}, "
                f"but a tensor of shape {tuple(row.shape)} was given; {REMEDY}"
            )
        if batch and _storage(row) in self._data:
            raise ValueError("a slice of the data set was given in place of the batch just drawn")

    def _check_own(self, given: Sequence[Tensor]) -> None:
        if not all(map(torch.equal, self._rows, self._kept)):
            raise ValueError(f"the batch was changed in place after it was drawn; {REMEDY}")
        earlier = {_storage(row) for one in self._earlier if (row := one()) is not None}
        for row in given:
            if any(_is_row_by_row(row, of) for of in self._rows):
                continue
            if _storage(row) in earlier:
                raise ValueError("rows of an earlier batch were given; pass those just drawn")
            raise ValueError(
                "a tensor was given that is not of the batch just drawn, or in which its rows lie "
                f"otherwise; {REMEDY}"
            )


def _is_row_by_row(view: Tensor, base: Tensor) -> bool:
    """Whether each row of the view lies within the same row of a contiguous base."""
    if _storage(view) != _storage(base) or view.dtype != base.dtype:
        return False
    start = view.storage_offset() - base.storage_offset()
    reach = sum((size - 1) * step for size, step in zip(view.shape, view.stride(), strict=True))
    reach -= (len(view) - 1) * view.stride(0)
    within = base[0].numel()
    return (len(view) == 1 or view.stride(0) == within) and 0 <= start <= start + reach < within


def _storage(tensor: Tensor) -> tuple[str, int]:
    return str(tensor.device), tensor.untyped_storage().data_ptr()
