"""Turn noisy two-way tables into probabilities that agree: post-processing, at no privacy cost.

A pair's table has shape (categories of the first column, of the second), first < second. Noise is
independent in every cell, with one standard deviation `std` for all (in shares of the total).
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Pairs = Mapping[tuple[int, int], Floats]
ROUNDS = 500  # of iterative proportional fitting, at most
AGREED = 1e-10  # largest difference of a fitted table's sums from what they should be
SPREAD = 1e-3  # of the null mixed into a table, at most, so that sums can be fitted at all


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


def made_consistent(noisy: Pairs, sizes: Sequence[int], *, target: int, std: float) -> Tables:
    """Noisy tables (in shares of a known total) as probabilities that agree.

    A column's shares are the average of what its pairs say, by inverse variance, projected onto
    probabilities. What a pair shows beyond its null is shrunk by the noise expected in it
    (positive-part James, Stein 1961), so that a pair that shows noise alone becomes its null. The
    null of a pair with the target is independence; of another, independence given the target.
    """
    shares = tuple(_shares(noisy, sizes, column) for column in range(len(sizes)))
    pairs, seen = {}, {}
    with_target = [pair for pair in noisy if target in pair]
    for i, j in [*with_target, *(pair for pair in noisy if target not in pair)]:
        null = np.outer(shares[i], shares[j])
        if target not in (i, j):
            first, second = (_given(pairs, shares, column, target) for column in (i, j))
            null = first @ np.diag(shares[target]) @ second.T
        beyond = _centred(noisy[i, j] - null)
        power = float((beyond**2).sum())
        noise = std**2 * (sizes[i] - 1) * (sizes[j] - 1)
        seen[i, j] = max(0.0, 1 - noise / power) if power > noise else 0.0
        table = onto_probabilities(null + seen[i, j] * beyond) if seen[i, j] else null
        spread = min(SPREAD, std)  # less than the noise
        start = (1 - spread) * table + spread * null
        pairs[i, j] = fitted(start, {(0,): shares[i], (1,): shares[j]})
    return Tables(shares, {pair: pairs[pair] for pair in combinations(range(len(sizes)), 2)}, seen)


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
    first, second, last = cube.sum(1, keepdims=True), cube.sum(0, keepdims=True), cube.sum((0, 1))
    null = first * second / _no_zero(last)
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
        sums: what is left when all axes but those of the key are summed, each shaped by its axes.
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
    return onto_probabilities(total / weights)  # the same for all that differ by a constant


def _given(pairs: Pairs, shares: Sequence[Floats], column: int, target: int) -> Floats:
    """Probability of the column given the target, shape (categories, target's categories)."""
    table = pairs[column, target] if column < target else pairs[target, column].T
    return table / _no_zero(shares[target])


def _centred(values: Floats) -> Floats:
    """Less the means of rows and columns: what no row or column sum shows."""
    return values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()


def _no_zero(values: Floats) -> Floats:
    """To divide by: what is divided is 0 where this was 0."""
    return np.where(values > 0, values, 1.0)
