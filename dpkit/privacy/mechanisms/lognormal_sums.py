"""The sum of independent lognormals of mean 1, as two finite laws that bracket it.

With noise s, a batch that holds the record has the likelihood ratio X = exp(z / s - 1 / (2 s^2)),
z ~ N(0, 1). For every convex h `upper` has at least E[h(S)], and `lower` at most: pld/proof.md, J.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpkit.privacy.mechanisms.base import UNIT, Floats
from dpkit.privacy.mechanisms.gaussian import NODES, WEIGHTS

CELL = 2.0**-5  # of z
REACH = 9.1  # of z, either side: beyond lies a mass of 5e-20
MOST = 800  # cells of a sum
# Sums are formed in so many parts, so that few terms are added one after the other
BLOCKS = 64
DROPPED = 1e-20  # mass at each end of a sum's law
LOST = 1e-18  # more than the mass left out so, under P or Q, for each variable
NEAR_ZERO = 1e-12  # of its mean: a sum that is smaller is raised to it
SINGLE = 1e-13  # relative error of one variable's masses: 20 nodes, exponents below 200
GUARD = 1e-9  # by which deviations are widened, or narrowed: more than their relative errors


class Law(NamedTuple):
    """The law of a sum of `count` variables, but for a mass of count * LOST.

    at: increasing deviations of the sum from its mean `count`, (n,).
    mass: of each, (n,), off by a relative `doubt` at most.
    """

    at: Floats
    mass: Floats
    count: int
    doubt: float


def upper(noise: float, count: int) -> Law:
    """Most of a law above the sum's in convex order."""
    z, shares, weights = _cells(noise)
    low = weights * np.exp(shares / noise) * np.expm1((CELL - shares) / noise)
    high = weights * np.expm1(shares / noise)
    mass = np.zeros(z.size + 1)
    mass[:-1] = low.sum(axis=1) / np.expm1(CELL / noise)
    mass[1:] += high.sum(axis=1) / np.expm1(CELL / noise)
    ends = np.append(z, z[-1] + CELL)
    one = Law(np.expm1((ends - 0.5 / noise) / noise), mass, 1, SINGLE)
    found = _sum(one, count, _spread, noise)
    return found._replace(at=found.at * (1 + GUARD))


def lower(noise: float, count: int) -> Law:
    """Most of a law below the sum's in convex order."""
    z, shares, weights = _cells(noise)
    mass = weights.sum(axis=1)
    deviations = np.expm1((z[:, None] + shares - 0.5 / noise) / noise)
    one = Law((weights * deviations).sum(axis=1) / mass, mass, 1, SINGLE)
    found = _sum(one, count, _merged, noise)
    return found._replace(at=found.at * (1 - GUARD))


def _cells(noise: float) -> tuple[Floats, Floats, Floats]:
    """Cells' lower ends (n,), nodes above these (20,), and N(0, 1)'s mass there (n, 20)."""
    z = CELL * np.arange(np.floor(-REACH / CELL), np.ceil((REACH + 1 / noise) / CELL))
    shares = CELL / 2 * (NODES + 1)
    nodes = z[:, None] + shares
    return z, shares, CELL / 2 * WEIGHTS * np.exp(-nodes * nodes / 2) / np.sqrt(2 * np.pi)


Place = Callable[[Floats, Floats, "Scale"], tuple[Floats, Floats, int]]


class Scale(NamedTuple):
    """A sum's cells: even in asinh((S - count) / width), in log(S) below count / 2."""

    count: int
    width: float

    def of(self, at: Floats) -> Floats:
        half = self.count / 2
        low = np.log((at + self.count) / half)
        return np.where(
            at > -half, np.arcsinh(at / self.width), low - np.arcsinh(half / self.width)
        )

    def back(self, x: Floats) -> Floats:
        half = self.count / 2
        joint = math.asinh(half / self.width)
        low = half * np.expm1(np.minimum(x + joint, 0.0)) - half
        return np.where(x > -joint, self.width * np.sinh(np.maximum(x, -joint)), low)


def _sum(one: Law, count: int, place: Place, noise: float) -> Law:
    """The law of `count` copies, by doubling."""
    with np.errstate(over="ignore"):
        width = min(1.0, float(np.sqrt(np.expm1(1 / noise**2))))
    total = None
    while True:
        if count % 2:
            total = one if total is None else _added(total, one, place, width)
        count //= 2
        if not count:
            assert total is not None
            return total
        one = _added(one, one, place, width)


def _added(a: Law, b: Law, place: Place, width: float) -> Law:
    count = a.count + b.count
    sums = np.maximum(a.at[:, None] + b.at, -count * (1 - NEAR_ZERO))
    scale = Scale(count, width * math.sqrt(count))
    at, mass, terms = place(sums, a.mass[:, None] * b.mass, scale)
    p = mass * (1 + at / count)  # with the record in one of the batches
    kept = (np.cumsum(p[::-1])[::-1] > DROPPED) & (np.cumsum(mass) > DROPPED)
    doubt = (1 + a.doubt) * (1 + b.doubt) * (1 + 1.01 * (terms + 4) * UNIT) - 1
    return Law(at[kept], mass[kept], count, doubt + 2 * UNIT)


def _indices(at: Floats, scale: Scale) -> tuple[np.ndarray, Floats, int]:
    """Each sum's cell, the cells' ends, and the most terms of a mass.

    A cell's index is raised in each block of rows, so that bincount keeps the blocks apart.
    """
    x = scale.of(at)
    step = max(float(x[-1, -1] - x[0, 0]) / MOST, 1e-6)
    first = int(np.floor(x[0, 0] / step))
    cells = np.maximum(np.floor(x / step).astype(np.int64) - first, 0)
    ends = scale.back(step * np.arange(first, first + int(cells.max()) + 2, dtype=np.float64))
    ends[0] = at[0, 0]
    blocks = np.arange(at.shape[0]) * BLOCKS // at.shape[0]
    cells = (cells + blocks[:, None] * ends.size).ravel()
    return cells, ends, int(np.bincount(cells).max()) + BLOCKS


def _totals(cells: np.ndarray, weights: Floats, size: int) -> Floats:
    """The weights of each cell: by blocks of rows, then all of them."""
    return np.bincount(cells, weights.ravel(), BLOCKS * size).reshape(BLOCKS, size).sum(axis=0)


def _spread(at: Floats, mass: Floats, scale: Scale) -> tuple[Floats, Floats, int]:
    cells, ends, terms = _indices(at, scale)
    low = cells % ends.size
    share = np.clip((at.ravel() - ends[low]) / (ends[low + 1] - ends[low]), 0.0, 1.0)
    found = _totals(cells, mass.ravel() * (1 - share), ends.size)
    found[1:] += _totals(cells, mass.ravel() * share, ends.size)[:-1]
    kept = found > 0
    return ends[kept], found[kept], terms + 1


def _merged(at: Floats, mass: Floats, scale: Scale) -> tuple[Floats, Floats, int]:
    cells, ends, terms = _indices(at, scale)
    found = _totals(cells, mass, ends.size)
    kept = found > 0
    means = _totals(cells, mass * at, ends.size)[kept] / found[kept]
    return means, found[kept], terms
