"""Tables as input of networks and back: one-hot categories, numbers in bins, squares for images."""

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpkit.datasets.columns import Binned, Categorical, numbers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Binned", "Categorical", "TableEncoder"]


@dataclass(frozen=True)
class TableEncoder:
    """A table's columns, in the order in which their categories lie in the one-hot vector.

    Three forms of a table: a data frame; codes, int64 (rows, columns), each the number of a
    category; and the array of networks, (rows, width), one-hot within each column's slice.

    Raises:
        ValueError: no columns, or two of one name.
    """

    columns: tuple[Categorical | Binned, ...]

    def __post_init__(self) -> None:
        good = isinstance(self.columns, tuple) and self.columns
        if not good or not all(isinstance(one, Categorical | Binned) for one in self.columns):
            raise ValueError(
                f"columns must be a tuple of Categorical and Binned, got {self.columns!r}"
            )
        for name in self.names:
            if self.names.count(name) > 1:
                raise ValueError(f"columns: the name {name!r} is there twice; names must differ")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each column's categories lie in the one-hot vector, in the columns' order."""
        ends = np.cumsum([0, *(column.size for column in self.columns)]).tolist()
        return {name: slice(*ends[i : i + 2]) for i, name in enumerate(self.names)}

    @property
    def width(self) -> int:
        """The length of the one-hot vector: the sum of the columns' categories."""
        return sum(column.size for column in self.columns)

    @property
    def side(self) -> int:
        """The side of the smallest square that holds the one-hot vector."""
        return math.isqrt(self.width - 1) + 1

    def codes(self, frame: "pd.DataFrame") -> np.ndarray:
        """The category of each cell by its number: int64 (rows, columns), in the encoder's order.

        The frame's columns may stand in any order; a frame without rows is fine.

        Raises:
            TypeError: not a data frame.
            ValueError: a column is missing, unknown or twice there; a cell is missing, of no known
                category, of the wrong kind, not finite, or outside the edges. The message names
                column, row, value and remedy.
        """
        import pandas as pd

        if not isinstance(frame, pd.DataFrame):
            raise TypeError(f"frame must be a pandas.DataFrame, got {type(frame).__name__}")
        _check_names(list(frame.columns), self.names)
        found = np.empty((len(frame), len(self.columns)), dtype=np.int64)
        if len(frame):  # the columns of an empty frame are often of no kind at all
            for i, column in enumerate(self.columns):
                found[:, i] = column.codes(_series(frame, column.name))
        return found

    def frame(self, codes: Any, rng: np.random.Generator | None = None) -> "pd.DataFrame":
        """The table that `codes` number, with names for bins; with `rng`, a uniform value in each.

        Raises:
            ValueError: `codes` has the wrong shape, or numbers a category that is not there.
        """
        import pandas as pd

        codes = self._checked(codes)
        columns = zip(self.columns, codes.T, strict=True)
        return pd.DataFrame({column.name: column.column(one, rng) for column, one in columns})

    def one_hot(self, codes: Any) -> np.ndarray:
        """Zeros, and a one for each column's category: float32 (rows, width).

        Raises: ValueError as `frame`.
        """
        codes = self._checked(codes)
        array = np.zeros((len(codes), self.width), dtype=np.float32)
        starts = [place.start for place in self.slices.values()]
        np.put_along_axis(array, codes + starts, 1, axis=1)
        return array

    def encode(self, frame: "pd.DataFrame") -> np.ndarray:
        """The table as networks take it: float32 (rows, width). Raises: as `codes`."""
        return self.one_hot(self.codes(frame))

    def decode(self, array: Any) -> np.ndarray:
        """The greatest entry of each column's slice (the first, if several): codes (rows, columns).

        So what a generator puts out, which is seldom one-hot, is decoded as well.

        Raises:
            ValueError: the wrong shape, or an entry that is NaN or infinite.
        """
        array = _matrix("array", array, self.width)
        bad = ~np.isfinite(array)
        if bad.any():
            row, entry = np.argwhere(bad)[0].tolist()
            name = next(name for name, place in self.slices.items() if entry < place.stop)
            raise ValueError(
                f"array must be finite, got {array[row, entry]} in row {row}, entry {entry} "
                f"(column {name}); a network that puts this out has diverged"
            )
        best = [array[:, place].argmax(axis=1) for place in self.slices.values()]
        return np.stack(best, axis=1).astype(np.int64)

    def square(self, array: Any) -> np.ndarray:
        """One-hot vectors (rows, width) as images, padded by zeros: (rows, 1, side, side)."""
        array = _matrix("array", array, self.width)
        padded = np.pad(array, ((0, 0), (0, self.side**2 - self.width)))
        return padded.reshape(len(array), 1, self.side, self.side)

    def flat(self, images: Any) -> np.ndarray:
        """Images (rows, 1, side, side) as vectors again, without the padding: (rows, width)."""
        images = np.asarray(images)
        if images.shape[1:] != (1, self.side, self.side):
            raise ValueError(
                f"images must have shape (rows, 1, {self.side}, {self.side}), got {images.shape}"
            )
        return images.reshape(len(images), self.side**2)[:, : self.width]

    def checksum(self, frame: "pd.DataFrame") -> str:
        """The sha256 over shape, categories' numbers and numbers: the same on every machine.

        Raises: as `codes`.
        """
        codes = self.codes(frame).astype("<i8")
        digest = hashlib.sha256(f"{codes.shape} {self.names}".encode())
        for name, column in zip(self.names, codes.T, strict=True):
            values = numbers(_series(frame, name)) if len(frame) else None
            digest.update(column.tobytes() if values is None else values.astype("<f8").tobytes())
        return digest.hexdigest()

    def _checked(self, codes: Any) -> np.ndarray:
        codes = _matrix("codes", codes, len(self.columns))
        if codes.dtype.kind not in "iu" and codes.size:
            raise ValueError(f"codes must be integers, got dtype {codes.dtype}")
        bad = (codes < 0) | (codes >= [column.size for column in self.columns])
        if bad.any():
            row, i = np.argwhere(bad)[0].tolist()
            column = self.columns[i]
            raise ValueError(
                f"codes of column {column.name} must be 0 to {column.size - 1}, "
                f"got {codes[row, i]} in row {row}"
            )
        return codes.astype(np.int64)


def _matrix(name: str, array: Any, width: int) -> np.ndarray:
    array = np.asarray(array)
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"{name} must have shape (rows, {width}), got {array.shape}")
    return array


def _check_names(given: list[Any], wanted: tuple[str, ...]) -> None:
    twice = [name for name in wanted if given.count(name) > 1]
    missing = [name for name in wanted if name not in given]
    extra = [name for name in given if name not in wanted]
    if twice:
        raise ValueError(
            f"frame has the column {twice[0]!r} {given.count(twice[0])} times; keep one"
        )
    if missing:
        raise ValueError(f"frame has no column {', '.join(missing)}; it has {given}")
    if extra:
        raise ValueError(
            f"frame has columns that the encoder does not know: {extra}; "
            "leave them out: frame[list(encoder.names)]"
        )


def _series(frame: "pd.DataFrame", name: str) -> "pd.Series":
    return cast("pd.Series", frame[name])
