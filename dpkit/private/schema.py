"""What a table's columns may hold, as a user writes it: public, never read off the records."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpkit.common import checks
from dpkit.datasets.encoding import Binned, Categorical, TableEncoder, refuse

BINS = 16  # of numbers, where no other number of bins is given
REASON = (
    "what a column may hold is not read off the data, as a list of categories or a largest value "
    "would be released without noise: state it as public knowledge, such as "
    "{'sex': ['female', 'male'], 'age': range(17, 91), 'income': (0, 1e6)}"
)


class Schema:
    """Columns as `TableEncoder` has them, with categories that are no texts written as texts.

    Args:
        columns: for each column's name one of: a list of categories (texts, whole numbers or
            truths; None in it stands for a missing cell); (low, high) or (low, high, bins) for
            numbers in equal bins; range(low, high + 1) for whole numbers, range(low, high + 1,
            width) with that many in a bin. Or a sequence of `Categorical` and `Binned`, or a
            `TableEncoder`, which holds one.

    Raises:
        TypeError: no such thing, or a data frame.
        ValueError: bounds, bins or categories that make no column.
    """

    def __init__(self, columns: Any) -> None:
        if columns is None:
            raise TypeError(f"columns must be given, got None: {REASON}")
        if hasattr(columns, "iloc"):
            raise TypeError(f"columns is a {type(columns).__name__}: {REASON}")
        self._texts: dict[str, dict[Any, str]] = {}
        if isinstance(columns, Mapping):
            made = [self._column(name, given) for name, given in columns.items()]
        else:
            given = columns.columns if isinstance(columns, TableEncoder) else columns
            made = list(given) if isinstance(given, Sequence) else [given]
        if not made or not all(isinstance(one, Categorical | Binned) for one in made):
            raise TypeError(
                f"columns must say what each column may hold, got {columns!r:.80}: {REASON}"
            )
        for column in made:
            checks.whole(2, **{f"categories or bins of column {column.name}": column.size})
        self.encoder = TableEncoder(tuple(made))

    def _column(self, name: Any, given: Any) -> Categorical | Binned:
        if not isinstance(name, str):
            raise TypeError(f"columns: names must be texts, got {name!r}")
        if isinstance(given, range):
            return Binned(name, _whole_edges(name, given), whole=True)
        if isinstance(given, list):
            return self._categories(name, given)
        if isinstance(given, tuple) and any(isinstance(one, str) for one in given):
            raise TypeError(
                f"columns: {name} is a tuple, {given!r:.80}: for categories take a list, as (low, "
                "high) stands for numbers"
            )
        if isinstance(given, tuple) and len(given) in (2, 3):
            return Binned(name, _edges(name, *given), whole=False)
        raise TypeError(
            f"columns: {name} must be a list of categories, (low, high), (low, high, bins) or a "
            f"range, got {given!r:.80}"
        )

    def _categories(self, name: str, given: list[Any]) -> Categorical:
        values = [one for one in given if one is not None]
        if all(isinstance(one, str) for one in values):
            return Categorical(name, tuple(values), missing=None in given)
        if not all(isinstance(one, int | np.integer | np.bool_) for one in values):
            raise TypeError(
                f"columns: categories of {name} must all be texts, or all whole numbers or truths, "
                f"got {given!r:.80}; numbers with fractions need (low, high)"
            )
        self._texts[name] = {one: str(one) for one in values}
        if len(self._texts[name]) < len(values):
            raise ValueError(f"columns: a category of {name} is there twice, got {given!r:.80}")
        return Categorical(name, tuple(str(one) for one in values), missing=None in given)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of each column's categories or bins."""
        return tuple(column.size for column in self.encoder.columns)

    def codes(self, frame: Any) -> np.ndarray:
        """Each cell's category by its number, int64 (rows, columns).

        Raises:
            TypeError, ValueError: as `TableEncoder.codes`.
        """
        import pandas as pd

        if not isinstance(frame, pd.DataFrame):
            raise TypeError(
                f"fit takes a pandas.DataFrame, got {type(frame).__name__}; make one of it: "
                f"pandas.DataFrame(data, columns={list(self.encoder.names)})"
            )
        extra = [name for name in frame.columns if name not in self.encoder.names]
        if extra:
            raise ValueError(
                f"the data have columns of which nothing is stated: {extra}; add them to columns, "
                "or leave them out"
            )
        written = frame.copy(deep=False)
        for name, texts in self._texts.items():
            if name in frame:
                written[name] = _as_texts(frame[name], texts)
        return self.encoder.codes(written)

    def frame(self, codes: np.ndarray, rng: np.random.Generator) -> Any:
        """The table of such codes, with a number drawn uniformly from each bin."""
        import pandas as pd

        frame = self.encoder.frame(codes, rng)
        for name, texts in self._texts.items():
            back = {text: value for value, text in texts.items()}
            values = pd.Series([back.get(cell) for cell in frame[name]])
            frame[name] = values.convert_dtypes() if values.hasnans else values
        return frame


def _edges(name: str, low: Any, high: Any, bins: Any = BINS) -> tuple[float, ...]:
    number = checks.whole(1, **{f"columns: bins of {name}": bins})
    bounds = {f"columns: low of {name}": low, f"columns: high of {name}": high}
    low, high = checks.in_range(-1e300, 1e300, **bounds)
    if not low < high:
        raise ValueError(f"columns: {name} needs (low, high) with low < high, got ({low}, {high})")
    return tuple(np.linspace(low, high, number + 1).tolist())


def _whole_edges(name: str, given: range) -> tuple[float, ...]:
    """Edges of bins of `step` whole numbers; of as many as make at most `BINS` bins, for a step 1.

    Raises:
        ValueError: fewer than two bins, or a falling range.
    """
    if given.step < 1 or len(given) < 2:
        raise ValueError(f"columns: {name} needs a rising range of two bins or more, got {given}")
    width = given.step if given.step > 1 else -(-len(given) // BINS)
    starts = range(given.start, given.stop, width)
    return (*map(float, starts), float(given.stop - 1))


def _as_texts(column: Any, texts: dict[Any, str]) -> Any:
    unknown = ~column.isin(list(texts)) & column.notna()
    known = ", ".join(texts.values())
    refuse(column, unknown.to_numpy(), "is no category", f"known: {known}")
    return column.astype(object).map(texts)
