"""The batch on hand: one release each, of its own rows."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from torch import Tensor

from dpkit.training.gradients.self_check import equal, extents, meet

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
        self._data = extents(*data)
        self.rows: tuple[Tensor, ...] = ()
        self.unused = False  # whether the rows are a batch that no step has used yet
        self._kept: list[Tensor] = []  # copies of the rows
        self._process, self._lock = os.getpid(), Lock()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One draw or step at a time, in the process that made this object (else RuntimeError)."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "a forked process cannot go on with its parent's Private, whose noise it would "
                "draw again; make a new one in each process"
            )
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "a step is running, in another thread or around this call: one batch serves one "
                "step, so let one thread train, and call step outside of losses and hooks"
            )
        try:
            yield
        finally:
            self._lock.release()

    def next(self, rows: tuple[Tensor, ...]) -> None:
        """Take a batch that was just drawn."""
        self.rows, self.unused = rows, True
        self._kept = [row.clone() for row in rows]

    def take(self, own: Sequence[Any], beside: Sequence[Any] = ()) -> list[Tensor]:
        """The rows of a step, checked. `unused` becomes False when they are used.

        They are the batch's own, and those made beside them, as many: how is not checked.
        RuntimeError: no batch was drawn, or it was already used. TypeError, ValueError: a tensor is
        not of the batch.
        """
        if not self.rows:
            raise RuntimeError("no batch was drawn yet: call step within `for x, y in private:`")
        if not self.unused:
            raise RuntimeError(
                "this batch was already used for a step; amplification by sampling holds for one "
                "release a batch: draw the next one (critic steps before a generator's: loop on)"
            )
        if not own:
            raise ValueError("step takes the batch after the loss: private.step(loss, x, y)")
        given = [self._checked(row) for row in (*own, *beside)]
        if not all(map(equal, self.rows, self._kept)):
            with self.exchanged(self._kept):  # after which it is put back
                raise ValueError(
                    f"the batch was changed in place, and is now as it was drawn; {REMEDY}"
                )
        for row in own if len(self.rows[0]) else ():
            if not any(_is_row_by_row(row, of) for of in self.rows):
                raise ValueError(
                    "a tensor was given that is not of the batch just drawn, or in which its rows "
                    f"lie otherwise; {REMEDY}"
                )
        return given

    @contextmanager
    def exchanged(self, records: Sequence[Tensor]) -> Iterator[None]:
        """Within the block, the batch's memory, and so all views of it, hold other records.

        Of fewer records the batch's own tensors, not views of them, are as short.
        """
        whole = [row.data for row in self.rows]  # of data no graph refuses a change
        try:
            for row, other in zip(self.rows, records, strict=True):
                row.data = row.data[: len(other)].copy_(other)
            yield
        finally:
            for row, own, kept in zip(self.rows, whole, self._kept, strict=True):
                row.data = own.copy_(kept)

    def _checked(self, row: Any) -> Tensor:
        batch = len(self.rows[0])
        if not isinstance(row, Tensor):
            raise TypeError(f"step takes tensors of rows, got {type(row).__name__}")
        if not row.ndim or len(row) != batch:
            raise ValueError(
                f"each row must come from one record of the batch just drawn, which has {batch}, "
                f"but a tensor of shape {tuple(row.shape)} was given; {REMEDY}"
            )
        if meet(extents(row), self._data):
            raise ValueError("a slice of the data set was given in place of the batch just drawn")
        return row.detach()


def _is_row_by_row(view: Tensor, base: Tensor) -> bool:
    """Whether each row of the view lies within the same row of a contiguous base."""
    same = view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    if not same or (view.device, view.dtype) != (base.device, base.dtype):
        return False
    start = view.storage_offset() - base.storage_offset()
    reach = sum((n - 1) * step for n, step in zip(view[0].shape, view[0].stride(), strict=True))
    within = base[0].numel()
    return (len(view) == 1 or view.stride(0) == within) and 0 <= start <= start + reach < within
