"""A private synthesizer for tables of categories: noisy two-way counts, and their tree.

Of the family of PrivBayes (Zhang et al. 2017) and MST (McKenna, Miklau, Sheldon 2021): one Gaussian
release of all two-way counts reads the records; all else is post-processing. Every column depends
on the target and on at most one column more, the tree of Friedman, Geiger, Goldszmidt 1997. Works
without torch.

A pair's table has shape (categories of the first column, of the second), first < second. Noise is
independent in every cell, of one standard deviation `std` (in shares of the total).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpkit.common import checks
from dpkit.privacy import calibrate, normals
from dpkit.synthesizers.records import NoisedRelease

Floats = NDArray[np.float64]
Pairs = Mapping[tuple[int, int], Floats]
ROUNDS = 500  # of iterative proportional fitting, at most
AGREED = 1e-10  # largest difference of a fitted table's sums from the wanted ones
SPREAD = 1e-3  # of the null mixed into a table, at most: zeros could not be fitted


class Tables(NamedTuple):
    """Probabilities that agree: each pair's table sums to the shares of both its columns.

    shares: one array (categories,) a column.
    pairs: one table a pair of columns, over the keys (i, j) with i < j.
    seen: for each pair, the part of what it shows beyond the null that is not noise, in [0, 1].
    """

    shares: tuple[Floats, ...]
    pairs: Pairs
    seen: Mapping[tuple[int, int], float]

    def pair(self, i: int, j: int) -> Floats:
        """The table of columns i and j, shape (categories of i, categories of j)."""
        return self.pairs[i, j] if i < j else self.pairs[j, i].T


def made_consistent(
    noisy: Pairs, sizes: Sequence[int], *, target: int | None, std: float
) -> Tables:
    """Noisy tables (in shares of a known total) as probabilities that agree.

    A column's shares average its pairs by inverse variance, projected onto probabilities. What a
    pair shows beyond its null is shrunk by the noise expected in it (positive-part James, Stein
    1961): noise alone becomes the null. That is independence; for a pair without the target, if
    there is one, independence given the target.
    """
    shares = tuple(_shares(noisy, sizes, column) for column in range(len(sizes)))
    pairs, seen = {}, {}
    with_target = [pair for pair in noisy if target in pair]
    for i, j in [*with_target, *(pair for pair in noisy if target not in pair)]:
        null = np.outer(shares[i], shares[j])
        if target is not None and target not in (i, j):
            # each given the target, shape (categories, target's categories)
            first, second = (
                (pairs[c, target] if c < target else pairs[target, c].T)
                / _no_zero(shares[target])
                for c in (i, j)
            )
            null = first @ np.diag(shares[target]) @ second.T
        beyond = noisy[i, j] - null
        # less the means of rows and columns, which their sums show
        beyond = beyond - beyond.mean(0) - beyond.mean(1, keepdims=True) + beyond.mean()
        power = float((beyond**2).sum())
        noise = std**2 * (sizes[i] - 1) * (sizes[j] - 1)
        seen[i, j] = max(0.0, 1 - noise / power) if power > noise else 0.0
        table = onto_probabilities(null + seen[i, j] * beyond) if seen[i, j] else null
        spread = min(SPREAD, std)  # less than the noise
        start = (1 - spread) * table + spread * null
        pairs[i, j] = fitted(start, {(0,): shares[i], (1,): shares[j]})
    return Tables(
        shares, {pair: pairs[pair] for pair in combinations(range(len(sizes)), 2)}, seen
    )


def central(noisy: Pairs, sizes: Sequence[int], *, std: float) -> int:
    """Return the column that tells most of the others: the sum of its mutual information, in nats.

    It is read off noisy tables, which costs no privacy. A column of too many categories for a
    target (`check_cells`) is not chosen.
    """
    tables = made_consistent(noisy, sizes, target=None, std=std)
    most = MOST_CELLS / _cells(sizes)
    told = {column: 0.0 for column, size in enumerate(sizes) if size <= most}
    for pair, table in tables.pairs.items():
        for column in set(pair) & set(told):
            told[column] += dependence(table[..., None])
    return max(told, key=lambda column: told[column])


def triangle(tables: Tables, i: int, j: int, target: int) -> Floats:
    """The distribution of largest entropy of columns i, j and the target that has their pairs.

    Shape (categories of i, of j, of the target). It has no interaction of all three (Darroch,
    Ratcliff 1972): what it says of the target given the others is additive in their log odds.
    """
    first, second, both = (tables.pair(*p) for p in ((i, target), (j, target), (i, j)))
    start = first[:, None, :] * second[None] / _no_zero(tables.shares[target])
    return fitted(start, {(0, 1): both, (0, 2): first, (1, 2): second})


def dependence(cube: Floats) -> float:
    """Mutual information in nats of axes 0 and 1 given axis 2, >= 0 up to rounding."""
    first, second = (cube.sum(axis, keepdims=True) for axis in (1, 0))
    null = first * second / _no_zero(cube.sum((0, 1)))
    some = (cube > 0) & (null > 0)
    return float((cube[some] * np.log(cube[some] / null[some])).sum())


def onto_probabilities(values: Floats) -> Floats:
    """The nearest array that is >= 0 and sums to 1, same shape (Duchi et al. 2008, Fig. 1)."""
    ordered = np.sort(values.ravel())[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, ordered.size + 1)
    return np.maximum(values - excess[np.flatnonzero(ordered > excess)[-1]], 0.0)


def fitted(start: Floats, sums: Mapping[tuple[int, ...], Floats]) -> Floats:
    """`start` scaled until it has the wanted sums (iterative proportional fitting).

    Deming, Stephan 1940. Cells that start at 0 stay 0.

    Args:
        start: >= 0.
        sums: the wanted sums over all axes but the key's, shaped by the key's axes.
    """
    fit = start.copy()
    for _ in range(ROUNDS):
        furthest = 0.0
        for kept, wanted in sums.items():
            others = tuple(axis for axis in range(fit.ndim) if axis not in kept)
            now = fit.sum(others)
            furthest = max(furthest, float(np.abs(now - wanted).max()))
            fit *= np.expand_dims(wanted / _no_zero(now), others)
        if furthest <= AGREED:
            break
    return fit


def _shares(noisy: Pairs, sizes: Sequence[int], column: int) -> Floats:
    """A column's shares from all its pairs: a sum over k cells has k times a cell's variance."""
    total, weights = np.zeros(sizes[column]), 0.0
    for (i, j), table in noisy.items():
        if column in (i, j):
            other = j if column == i else i
            total += table.sum(1 if column == i else 0) / sizes[other]
            weights += 1 / sizes[other]
    return onto_probabilities(total / weights)  # a constant added changes nothing


def _no_zero(values: Floats) -> Floats:
    """To divide by what is 0 only where the numerator is."""
    return np.where(values > 0, values, 1.0)


Codes = NDArray[np.int64]
MOST_CELLS = 50_000_000  # of all pairs, each by the target: 400 MB


@dataclass(frozen=True)
class MarginalsSettings(NoisedRelease):
    """The measurement of a table, and its noise.

    Args:
        sizes: categories of each column, in order; public, never read off the records. Each >= 2.
        target: index of the column that every other one depends on, such as what is to be
            predicted; None: the one that `central` reads off the noisy counts.
        noise_multiplier: noise standard deviation of a cell / sqrt(pairs of columns); 0 for none,
            which is not private.

    Raises:
        ValueError: fewer than two columns, a size below 2, more than 50 million cells of pairs
            by the target, a target that is no column, or a noise_multiplier that is neither 0
            nor in [1e-9, 1e13].
    """

    sizes: tuple[int, ...]
    target: int | None
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(self.sizes))
        if len(self.sizes) < 2:
            raise ValueError("one column has no pairs to count: add another, or use a GAN")
        checks.whole(2, **{f"sizes[{i}]": size for i, size in enumerate(self.sizes)})
        if self.target is not None:
            checks.in_range(0, len(self.sizes) - 1, target=checks.whole(target=self.target))
        super().__post_init__()
        check_cells(
            self.sizes, self.target, [f"column {column}" for column in range(len(self.sizes))]
        )

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of columns that are counted, (i, j) with i < j."""
        return list(combinations(range(len(self.sizes)), 2))

    @property
    def cells(self) -> int:
        """Cells of all pairs' tables together."""
        return _cells(self.sizes)

    @property
    def sensitivity(self) -> float:
        """L2, under add-remove: a record counts once in each pair's table, so sqrt(pairs)."""
        return sqrt(len(self.pairs))


def _cells(sizes: Sequence[int]) -> int:
    return sum(i * j for i, j in combinations(sizes, 2))


def check_cells(sizes: Sequence[int], target: int | None, names: Sequence[str]) -> None:
    """Refuse (ValueError) more than 50 million cells of pairs by the target; without one, by any.

    Args:
        sizes, target: as `MarginalsSettings`.
        names: of the columns, for the message.
    """
    held = _cells(sizes) * (min(sizes) if target is None else sizes[target])
    if held > MOST_CELLS:
        largest = sorted(zip(sizes, names, strict=True), reverse=True)[:2]
        listed = " and ".join(f"{name} ({size:,})" for size, name in largest)
        other = "" if target is None else f", or take another target than {names[target]}"
        raise ValueError(
            f"pairs of columns by the target make {held:,} cells and {MOST_CELLS:,} fit; merge "
            f"categories of {listed}{other}"
        )


def settings_for(
    target_epsilon: float, *, delta: float, sizes: tuple[int, ...], target: int | None
) -> MarginalsSettings:
    """The settings with the least noise for an epsilon, as by `class_moments.settings_for`."""
    return MarginalsSettings(
        sizes, target, calibrate.gaussian_noise_multiplier(target_epsilon, delta=delta)
    )


class ConditionalTable(NamedTuple):
    """One column given others, drawn before it.

    table: probabilities, shape (categories of each column in `given`..., categories of `column`).
    """

    column: int
    given: tuple[int, ...]
    table: Floats


@dataclass(frozen=True, eq=False)
class MarginalsModel:
    """The release of `fit`, from noisy counts and public values alone.

    columns: in the order they are drawn, the target first.
    tables: the shares and two-way tables behind the model, which agree with one another.
    """

    settings: MarginalsSettings
    columns: tuple[ConditionalTable, ...]
    tables: Tables

    def sample(self, n: int, *, rng: np.random.Generator) -> Codes:
        """`n` rows of codes, shape (n, columns), each drawn from the model on its own.

        Raises:
            ValueError: n is not an integer >= 0.
        """
        checks.whole(n=n)
        rows = np.zeros((n, len(self.settings.sizes)), dtype=np.int64)
        for column, given, table in self.columns:
            below = np.cumsum(table, axis=-1)[..., :-1]  # the last category takes what is left
            limits = below[tuple(rows[:, other] for other in given)]
            rows[:, column] = (rng.random((n, 1)) >= limits).sum(-1)
        return rows


def fit(
    codes: ArrayLike,
    *,
    settings: MarginalsSettings,
    public_size: int,
    rng: np.random.Generator,
) -> MarginalsModel:
    """A model of the records, which costs `settings.ledger()`.

    Args:
        codes: integers, shape (records, columns), column i in 0 .. sizes[i] - 1; records may be 0.
        public_size: declared number of records, not a count: the total of every table.
        rng: of the noise, which `dpkit.privacy.normals` adds.

    Raises:
        ValueError: a code that is out of range (its row and column are named), another shape or
            type, or a public_size that is not an integer >= 1.
    """
    checks.whole(1, public_size=public_size)
    counts = pair_counts(codes, settings.sizes)
    noisy = normals.noised(counts, noise_std=settings.noise_std, rng=rng)
    return model_from(noisy, settings=settings, public_size=public_size)


def pair_counts(codes: ArrayLike, sizes: tuple[int, ...]) -> Floats:
    """Records in every cell of every pair's table, before noise, (cells,).

    Pairs in the order of `MarginalsSettings.pairs`, each in row-major order. A record is 1 in one
    cell of each pair.

    Raises:
        ValueError: as `fit`.
    """
    checked = _checked(codes, sizes)
    counts = [
        np.bincount(checked[:, i] * sizes[j] + checked[:, j], minlength=sizes[i] * sizes[j])
        for i, j in combinations(range(len(sizes)), 2)
    ]
    return np.concatenate(counts).astype(np.float64)


def model_from(
    noisy: Floats, *, settings: MarginalsSettings, public_size: int
) -> MarginalsModel:
    """The model of noisy `pair_counts`: post-processing.

    Raises:
        ValueError: another shape, or counts that are not finite.
    """
    if noisy.shape != (settings.cells,) or not np.isfinite(noisy).all():
        raise ValueError(
            f"noisy must be {settings.cells} finite counts, got shape {noisy.shape}"
        )
    sizes = settings.sizes
    ends = np.cumsum([sizes[i] * sizes[j] for i, j in settings.pairs])
    pairs = {
        (i, j): part.reshape(sizes[i], sizes[j]) / public_size
        for (i, j), part in zip(settings.pairs, np.split(noisy, ends[:-1]), strict=True)
    }
    std = settings.noise_std / public_size
    target = central(pairs, sizes, std=std) if settings.target is None else settings.target
    tables = made_consistent(pairs, sizes, target=target, std=std)
    columns = [ConditionalTable(target, (), tables.shares[target])]
    cubes = {
        pair: triangle(tables, *pair, target)
        for pair in pairs
        if target not in pair and tables.seen[pair]
    }
    for column, parent in _tree(tables, cubes, target):
        if parent is None:
            given, table = (target,), tables.pair(target, column)
        else:
            first = column < parent
            cube = cubes[column, parent] if first else cubes[parent, column]
            # parent, target, column
            given, table = (parent, target), np.moveaxis(cube, 0 if first else 1, -1)
        total = table.sum(-1, keepdims=True)  # of others that never occur: uniform
        share = np.where(total > 0, table / _no_zero(total), 1 / table.shape[-1])
        columns.append(ConditionalTable(column, given, share))
    return MarginalsModel(settings, tuple(columns), tables)


def _tree(
    tables: Tables, cubes: Mapping[tuple[int, int], Floats], target: int
) -> list[tuple[int, int | None]]:
    """(column, parent) from a maximum spanning forest by dependence given the target (Prim).

    Pairs that show nothing but noise are no edges; a column without one has no parent.
    """
    weights = {pair: dependence(cube) for pair, cube in cubes.items()}
    left = [column for column in range(len(tables.shares)) if column != target]
    tree: list[tuple[int, int | None]] = []
    while left:
        edges = [
            (weights[min(new, old), max(new, old)], new, old)
            for new in left
            for old, _ in tree
            if (min(new, old), max(new, old)) in weights
        ]
        weight, column, parent = max(edges, default=(0.0, left[0], left[0]))
        tree.append((column, parent if weight > 0 else None))
        left.remove(column)
    return tree


def _checked(codes: ArrayLike, sizes: tuple[int, ...]) -> Codes:
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != len(sizes):
        raise ValueError(
            f"codes must have shape (records, {len(sizes)}), one column a size, got {array.shape}"
        )
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(
            f"codes must be integers, got {array.dtype}; encode categories, the missing one too, "
            "as 0, 1, ..; whole floats are codes.astype(int)"
        )
    fine = (array >= 0) & (array < np.array(sizes))
    if not fine.all():
        row, column = np.argwhere(~fine)[0]
        raise ValueError(
            f"codes must lie in 0 .. {sizes[column] - 1} in column {column}, got "
            f"{array[row, column]} in row {row}; encode missing values as a category"
        )
    return array.astype(np.int64)
