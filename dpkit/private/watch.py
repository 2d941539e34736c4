"""What training measured: tables, a bar, TensorBoard. It describes private data: keep it so."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

from dpkit.common.lazy import remedied
from dpkit.training.device import floats
from dpkit.training.types import Record

COLUMNS = {  # of the table -> of a record
    "step": "step",
    "batch_size": "batch_size",
    "critic_loss": "discriminator_loss",
    "generator_loss": "generator_loss",
    "clipped": "clipped",
}


def table(rows: Iterable[tuple[Any, ...]], *names: str) -> pd.DataFrame:
    """A row a step; tensors of one element become numbers, those of a row in one transfer.

    Printed, the table says over its columns that it is private.
    """
    columns = pd.Index(names, name="private")
    return pd.DataFrame([floats(*row) for row in rows], columns=columns)


def curves(records: Iterable[Record]) -> pd.DataFrame:
    """Steps counted from 1, batch size, losses and share clipped."""
    rows = (tuple(getattr(record, name) for name in COLUMNS.values()) for record in records)
    return table(rows, *COLUMNS).assign(step=lambda frame: frame["step"] + 1)


def watched(
    records: Iterable[Record], *, steps: int, bar: bool, board: Any | None
) -> Iterator[Record]:
    """The same records, with a bar and on a board, where these are wanted."""
    with tqdm(total=steps, disable=not bar, unit="step") as progress:
        for record in records:
            progress.update(record.step + 1 - progress.n)
            if board is not None:
                _write(board, record)
            yield record
    if board is not None:
        board.close()


def board(folder: str | Path | None) -> Any | None:
    """A TensorBoard writer, or None where no folder is given.

    Raises:
        ModuleNotFoundError: tensorboard is not installed.
    """
    if folder is None:
        return None
    with remedied():
        from torch.utils.tensorboard.writer import SummaryWriter
    return SummaryWriter(str(folder))


def _write(board: Any, record: Record) -> None:
    for name, own in COLUMNS.items():
        value = getattr(record, own)
        if name != "step" and value is not None:
            board.add_scalar(name, float(value), record.step + 1)
