"""Tables as networks' input and back: one-hot categories, numbers in bins, squares.

What a column may hold is public, stated beforehand: categories or a range read off records would
be a release without noise.
"""

import hashlib
import math
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpkit.common import checks
from dpkit.datasets.sources import closest

if TYPE_CHECKING:
    import pandas as pd

normal = partial(unicodedata.normalize, "NFC")  # one form for texts that look the same


@dataclass(frozen=True)
class Categorical:
    """A column that holds one of `values`; with `missing`, NA is one category more, the last.

    Texts of one Unicode normal form are one category.

    Raises:
        ValueError: no values, or one that is no text, empty or twice there.
    """

    name: str
    values: tuple[str, ...]
    missing: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.values, tuple) and self.values):
            raise ValueError(
                f"{self.name}: values must be a tuple of texts, got {self.values!r}"
            )
        for value in self.values:
            if not (isinstance(value, str) and value):
                raise ValueError(
                    f"{self.name}: a value must be a text, not empty, got {value!r}"
                )
        for value, times in Counter(map(normal, self.values)).items():
            if times > 1:
                raise ValueError(f"{self.name}: value {value!r} is there twice; name it once")

    @property
    def size(self) -> int:
        """The number of categories, with that of missing values."""
        return len(self.values) + self.missing

    def codes(self, column: "pd.Series") -> np.ndarray:
        """The number of each row's category, int64 (rows,) (ValueError as `TableEncoder.codes`)."""
        unknown = _missing(column, self)
        if not _is_text(column.dtype):
            refuse(
                column,
                ~unknown,
                f"is of dtype {column.dtype}, not a category",
                "map the column's values to its categories beforehand",
            )
        found = _places(column, self.values)
        bad = (found < 0) & ~unknown
        if bad.any():
            refuse(
                column,
                bad,
                "is no category",
                closest(column.iloc[int(bad.argmax())], self.values),
            )
        found[unknown] = len(self.values)
        return found

    def column(self, codes: np.ndarray, rng: np.random.Generator | None) -> Any:
        """The categories that `codes`, int64 (rows,), number; nothing is drawn."""
        import pandas as pd

        known = np.where(codes < len(self.values), codes, -1)
        return pd.Categorical.from_codes(known, dtype=pd.CategoricalDtype(self.values))


@dataclass(frozen=True)
class Binned:
    """A numeric column in bins: [e0, e1), [e1, e2), ..., the last one closed.

    A last edge given twice is a bin of that value: (80, 90, 90) has the bins [80, 90), [90, 90].
    Values outside the edges are refused, not moved to the nearest bin.

    Attributes:
        edges: finite, ascending; public, not the records' own minimum and maximum.
        whole: the column holds whole numbers.
        missing: NA is one bin more, the last, without a label.

    Raises:
        ValueError: edges that do not make bins, or a bin that holds no whole number.
    """

    name: str
    edges: tuple[float, ...]
    whole: bool
    missing: bool = False

    def __post_init__(self) -> None:
        edges = self.edges
        if not (isinstance(edges, tuple) and len(edges) > 1):
            raise ValueError(
                f"{self.name}: edges must be a tuple of two or more, got {edges!r}"
            )
        pairs = list(pairwise(edges))
        rising = all(low < high for low, high in pairs[:-1]) and pairs[-1][0] <= pairs[-1][1]
        if not (rising and math.isfinite(edges[-1] - edges[0])):
            raise ValueError(f"{self.name}: edges must be finite and ascending, got {edges}")
        if self.whole and not (np.diff(self._ends, axis=1) >= 0).all():
            raise ValueError(
                f"{self.name}: a bin of {edges} holds no whole number; drop its edge"
            )

    @property
    def size(self) -> int:
        """The number of bins, with that of missing values."""
        return len(self.edges) - 1 + self.missing

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The bins' names: "20-29" where the column is whole, else "[0.5, 1.5)"."""
        if self.whole:
            ends = self._ends.astype(np.int64).tolist()
            to = " to " if self.edges[0] < 0 else "-"
            return tuple(f"{low}" if low == high else f"{low}{to}{high}" for low, high in ends)
        names = [f"[{low}, {high})" for low, high in pairwise(self.edges)]
        return (*names[:-1], f"{names[-1][:-1]}]")

    @cached_property
    def _ends(self) -> np.ndarray:
        """Least and greatest whole number of each bin: float64 (bins, 2)."""
        low, high = np.ceil(self.edges[:-1]), np.ceil(self.edges[1:]) - 1
        high[-1] = math.floor(self.edges[-1])
        return np.stack([low, high], axis=1)

    def codes(self, column: "pd.Series") -> np.ndarray:
        """The number of each row's bin, int64 (rows,), from numbers or from the bins' `labels`.

        Raises: ValueError as `TableEncoder.codes`.
        """
        unknown = _missing(column, self)
        values = numbers(column)
        if values is None:
            found = _places(column, self.labels)
            refuse(
                column,
                (found < 0) & ~unknown,
                f"is no bin's label, and the dtype {column.dtype} no number",
                "make numbers of a whole column by pandas.to_numeric; "
                f"labels: {', '.join(self.labels)}",
            )
            return np.where(unknown, len(self.labels), found)
        low, high = self.edges[0], self.edges[-1]
        refuse(
            column,
            ~((values >= low) & (values <= high) | unknown),
            f"lies outside [{low}, {high}]",
            "drop or clip such rows beforehand, or choose wider edges",
        )
        if self.whole:
            refuse(
                column,
                (values != np.floor(values)) & ~unknown,
                "is no whole number",
                "round beforehand, or state bins of numbers: (low, high), or whole=False",
            )
        found = np.searchsorted(self.edges[1:-1], values, side="right")
        return np.where(unknown, len(self.labels), found).astype(np.int64)

    def column(self, codes: np.ndarray, rng: np.random.Generator | None) -> Any:
        """The labels of the bins `codes`, int64 (rows,); with `rng`, uniform values in them.

        Values of a whole column are int64 (Int64 where some may be missing), else float64.
        """
        import pandas as pd

        unknown = codes == len(self.labels)
        if rng is None:
            held = np.where(unknown, -1, codes)
            return pd.Categorical.from_codes(held, categories=self.labels, ordered=True)
        values = self.within(np.where(unknown, 0, codes), rng.random(len(codes)))
        if not self.missing:
            return values
        return pd.Series(values, dtype="Int64" if self.whole else "float64").mask(unknown)

    def within(self, codes: np.ndarray, share: np.ndarray) -> np.ndarray:
        """The value at `share` of the way through each bin, so uniform where `share` is.

        Args:
            codes: numbers of bins, int64 (rows,).
            share: (rows,) in [0, 1).

        Returns:
            (rows,), int64 where the column is whole, else float64; always within the bin.
        """
        if self.whole:
            low, high = self._ends[codes].T
            return (low + np.floor(share * (high - low + 1))).astype(np.int64)
        edges = np.asarray(self.edges, dtype=np.float64)
        below = np.nextafter(edges[1:], -np.inf)  # the greatest value of each bin
        below[-1] = edges[-1]
        low, high = edges[codes], edges[codes + 1]
        return np.minimum(low + share * (high - low), below[codes])


@dataclass(frozen=True)
class TableEncoder:
    """A table's columns, in the order in which their categories lie in the one-hot vector.

    Three forms of a table: a data frame; codes, int64 (rows, columns), each a category's number;
    and the array of networks, (rows, width), one-hot within each column's slice.

    Raises:
        ValueError: no columns, or two of one name.
    """

    columns: tuple[Categorical | Binned, ...]

    def __post_init__(self) -> None:
        if not (
            isinstance(self.columns, tuple)
            and self.columns
            and all(isinstance(one, Categorical | Binned) for one in self.columns)
        ):
            raise ValueError(
                f"columns must be a tuple of Categorical and Binned, got {self.columns!r}"
            )
        for name in self.names:
            if self.names.count(name) > 1:
                raise ValueError(
                    f"columns: the name {name!r} is there twice; names must differ"
                )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Each column's place in the one-hot vector, in the columns' order."""
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
        check_names(list(frame.columns), self.names)
        found = np.empty((len(frame), len(self.columns)), dtype=np.int64)
        if len(frame):  # columns of an empty frame often have no kind
            for i, column in enumerate(self.columns):
                found[:, i] = column.codes(_series(frame, column.name))
        return found

    def frame(self, codes: Any, rng: np.random.Generator | None = None) -> "pd.DataFrame":
        """The table that `codes` number, with names for bins; with `rng`, a uniform value in each.

        Raises:
            ValueError: `codes` has the wrong shape, or numbers a category that is not there.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                column.name: column.column(one, rng)
                for column, one in zip(self.columns, self._checked(codes).T, strict=True)
            }
        )

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
        """The greatest entry of each column's slice (the first of equals): codes (rows, columns).

        So a generator's output, seldom one-hot, is decoded too.

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
        """Images (rows, 1, side, side) as vectors without the padding: (rows, width)."""
        images = np.asarray(images)
        if images.shape[1:] != (1, self.side, self.side):
            raise ValueError(
                f"images must have shape (rows, 1, {self.side}, {self.side}), got {images.shape}"
            )
        return images.reshape(len(images), self.side**2)[:, : self.width]

    def checksum(self, frame: "pd.DataFrame") -> str:
        """The sha256 of shape, categories' numbers and numbers: the same on every machine.

        Raises: as `codes`.
        """
        codes = self.codes(frame).astype("<i8")
        digest = hashlib.sha256(f"{codes.shape} {self.names}".encode())
        for name, column in zip(self.names, codes.T, strict=True):
            values = numbers(_series(frame, name)) if len(frame) else None
            digest.update((column if values is None else values.astype("<f8")).tobytes())
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


def check_names(given: list[Any], wanted: tuple[str, ...]) -> None:
    """Refuse (ValueError) columns that are twice there, missing or not stated."""
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
            f"frame has columns of which nothing is stated: {extra}; add them to columns, or "
            "leave them out"
        )


def _series(frame: "pd.DataFrame", name: str) -> "pd.Series":
    return cast("pd.Series", frame[name])


def numbers(column: "pd.Series") -> np.ndarray | None:
    """The column as float64 (rows,), missing values NaN; None where it holds text, categories.

    Raises:
        ValueError: a column of another kind, such as dates, or true and false.
    """
    kind = column.dtype
    if _is_text(kind):
        return None
    if getattr(kind, "kind", "") not in ("i", "u", "f"):
        refuse(
            column,
            np.ones(len(column), dtype=bool),
            f"is of dtype {kind}, not a number",
            "convert the column beforehand",
        )
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def refuse(column: "pd.Series", bad: np.ndarray, problem: str, remedy: str) -> None:
    """Raise ValueError naming the first row that is `bad`, bool (rows,), and what is there."""
    if not bad.any():
        return
    at = int(bad.argmax())
    found = column.index[at], column.iloc[at]
    label, value = (one.item() if isinstance(one, np.generic) else one for one in found)
    others = f"; {bad.sum():,} such rows" if bad.sum() > 1 else ""
    raise ValueError(
        f"column {column.name}, row {at} (index {label!r}): {value!r} {problem}; {remedy}{others}; "
        f"{checks.TO_YOURSELF}"
    )


def _missing(column: "pd.Series", stated: Categorical | Binned) -> np.ndarray:
    """The missing cells, bool (rows,); refused where the column allows none."""
    unknown = column.isna().to_numpy()
    if not stated.missing:
        place = (
            "(range, None)" if getattr(stated, "whole", False) else "(low, high, bins, None)"
        )
        if isinstance(stated, Categorical):
            place = "None in the list of categories"
        refuse(
            column,
            unknown,
            "is missing",
            f"drop or fill such rows, or allow them: {place}, or missing=True",
        )
    return unknown


def _places(column: "pd.Series", values: tuple[str, ...]) -> np.ndarray:
    """Each cell's place among `values`, int64 (rows,); -1 where it is none of them."""
    import pandas as pd

    known = pd.Index([normal(value) for value in values], dtype=object)
    kinds = isinstance(column.dtype, pd.CategoricalDtype)
    cells = column.cat.categories if kinds else column
    texts = [normal(cell) if isinstance(cell, str) else None for cell in cells]
    found = known.get_indexer(pd.Index(texts, dtype=object)).astype(np.int64)
    # code -1 is a missing value
    return np.append(found, -1)[column.cat.codes] if kinds else found


def _is_text(kind: Any) -> bool:
    """Whether this dtype is of categories or texts (or, if `object`, of anything)."""
    import pandas as pd

    return isinstance(kind, pd.CategoricalDtype) or pd.api.types.is_string_dtype(kind)
