"""Columns of tables: what a cell may hold, and the number of the category it falls in.

What a column may hold is stated beforehand, as public knowledge. Nothing is learned from records:
a list of categories or a range read off private data would itself be a release without noise.
"""

import difflib
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dpkit.common import checks

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Categorical:
    """A column that holds one of `values`; with `missing`, NA is one category more, the last.

    Raises:
        ValueError: no values, or one that is no text, empty or twice there.
    """

    name: str
    values: tuple[str, ...]
    missing: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.values, tuple) and self.values):
            raise ValueError(f"{self.name}: values must be a tuple of texts, got {self.values!r}")
        for value in self.values:
            if not (isinstance(value, str) and value):
                raise ValueError(f"{self.name}: a value must be a text, not empty, got {value!r}")
            if self.values.count(value) > 1:
                raise ValueError(f"{self.name}: value {value!r} is there twice; name it once")

    @property
    def size(self) -> int:
        """The number of categories, that of missing values included."""
        return len(self.values) + self.missing

    def codes(self, column: "pd.Series") -> np.ndarray:
        """The number of each row's category, int64 (rows,) (ValueError as `TableEncoder.codes`)."""
        unknown = column.isna().to_numpy()
        if not self.missing:
            refuse(
                column,
                unknown,
                "is missing",
                "drop or fill such rows, or let the column have missing=True",
            )
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
            remedy = _known(column.iloc[int(bad.argmax())], self.values)
            refuse(column, bad, "is no category", remedy)
        found[unknown] = len(self.values)
        return found

    def column(self, codes: np.ndarray, rng: np.random.Generator | None) -> Any:
        """The categories that `codes`, int64 (rows,), number; nothing is drawn."""
        import pandas as pd

        kind = pd.CategoricalDtype(self.values)
        return pd.Categorical.from_codes(np.where(codes < len(self.values), codes, -1), dtype=kind)


@dataclass(frozen=True)
class Binned:
    """A numeric column in bins: [e0, e1), [e1, e2), ..., the last one closed.

    A last edge that is there twice makes a last bin of that one value: (80, 90, 90) has the bins
    [80, 90) and [90, 90]. Values outside the edges are refused, not moved to the nearest bin.

    Attributes:
        edges: finite, ascending; public knowledge, not the records' own minimum and maximum.
        whole: the column holds whole numbers.

    Raises:
        ValueError: edges that do not make bins, or a bin that holds no whole number.
    """

    name: str
    edges: tuple[float, ...]
    whole: bool

    def __post_init__(self) -> None:
        edges = self.edges
        if not (isinstance(edges, tuple) and len(edges) > 1):
            raise ValueError(f"{self.name}: edges must be a tuple of two or more, got {edges!r}")
        pairs = list(pairwise(edges))
        rising = all(low < high for low, high in pairs[:-1]) and pairs[-1][0] <= pairs[-1][1]
        if not (rising and math.isfinite(edges[-1] - edges[0])):
            raise ValueError(f"{self.name}: edges must be finite and ascending, got {edges}")
        if self.whole and not (np.diff(self._ends, axis=1) >= 0).all():
            raise ValueError(f"{self.name}: a bin of {edges} holds no whole number; drop its edge")

    @property
    def size(self) -> int:
        """The number of bins."""
        return len(self.edges) - 1

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
        refuse(
            column,
            column.isna().to_numpy(),
            "is missing (NaN)",
            "bins have no place for it: drop or fill such rows beforehand",
        )
        values = numbers(column)
        if values is None:
            found = _places(column, self.labels)
            refuse(
                column,
                found < 0,
                f"is no bin's label, and the dtype {column.dtype} no number",
                "make numbers of a whole column by pandas.to_numeric; "
                f"labels: {', '.join(self.labels)}",
            )
            return found
        low, high = self.edges[0], self.edges[-1]
        refuse(
            column,
            ~((values >= low) & (values <= high)),
            f"lies outside [{low}, {high}]",
            "drop or clip such rows beforehand, or choose wider edges",
        )
        if self.whole:
            refuse(
                column,
                values != np.floor(values),
                "is no whole number",
                "round beforehand, or let the column have whole=False",
            )
        return np.searchsorted(self.edges[1:-1], values, side="right").astype(np.int64)

    def column(self, codes: np.ndarray, rng: np.random.Generator | None) -> Any:
        """The labels of the bins `codes`, int64 (rows,); with `rng`, a uniform value in each bin.

        The values are int64 where the column is whole, else float64.
        """
        import pandas as pd

        if rng is None:
            return pd.Categorical.from_codes(codes, categories=self.labels, ordered=True)
        return self.within(codes, rng.random(len(codes)))

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


def numbers(column: "pd.Series") -> np.ndarray | None:
    """The column as float64 (rows,), missing values as NaN; None where it holds text, categories.

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
    label, value = column.index[at], column.iloc[at]
    label, value = (one.item() if isinstance(one, np.generic) else one for one in (label, value))
    others = f"; {bad.sum():,} such rows" if bad.sum() > 1 else ""
    raise ValueError(
        f"column {column.name}, row {at} (index {label!r}): {value!r} {problem}; {remedy}{others}; "
        f"{checks.TO_YOURSELF}"
    )


def _places(column: "pd.Series", values: tuple[str, ...]) -> np.ndarray:
    """Each cell's place among `values`, int64 (rows,); -1 where it is none of them."""
    import pandas as pd

    known = pd.Index(values, dtype=object)
    if not isinstance(column.dtype, pd.CategoricalDtype):
        texts = [cell if isinstance(cell, str) else None for cell in column]
        return known.get_indexer(pd.Index(texts, dtype=object)).astype(np.int64)
    found = known.get_indexer(column.cat.categories.astype(object))
    return np.append(found, -1)[column.cat.codes].astype(np.int64)  # code -1 is a missing value


def _is_text(kind: Any) -> bool:
    """Whether a column of this dtype holds categories or texts (or, if `object`, anything)."""
    import pandas as pd

    return isinstance(kind, pd.CategoricalDtype) or pd.api.types.is_string_dtype(kind)


def _known(value: Any, values: tuple[str, ...]) -> str:
    """The known values for a message, after the closest one if one is close."""
    folded = {one.casefold(): one for one in reversed(values)}
    near = difflib.get_close_matches(str(value).casefold(), folded, n=1)
    hint = f"did you mean {folded[near[0]]!r}? " if near else ""
    return hint + f"known: {', '.join(values)}"
