"""Searches that end on the private side, for every accountant."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def bracket(
    private: Callable[[float], bool], *, tolerance: float = 1e-13, largest: float = math.inf
) -> tuple[float, float]:
    """(not private, private): two values >= 0 around the least one that is private, by bisection.

    Both are 0 where 0 is private; the second is `inf` where nothing up to `largest` is.

    Args:
        private: False below some value and True from there on; False where it is not a number.
        tolerance: relative, of the distance of the two.
        largest: a value from which on the search for a private one is given up.
    """
    if private(0.0):
        return 0.0, 0.0
    low, high = 0.0, 1.0
    while not private(high):
        low, high = high, 4 * high
        if high > largest or high == math.inf:
            return low, math.inf
    while high - low > tolerance * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if private(middle) else (middle, high)
    return low, high


def halved(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    holds: Callable[[NDArray[np.float64]], Any],
    *,
    rounds: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both ends of intervals, each of one shape, after so many bisections.

    `holds` is False below some number and True from there on; NaN belongs to neither.
    """
    for _ in range(rounds):
        middle = (low + high) / 2
        there = holds(middle)
        low, high = np.where(there, low, middle), np.where(there, middle, high)
    return low, high


def most(private: Callable[[int], bool], *, limit: int) -> int:
    """The largest whole number that is private, 0 where not even 1 is.

    Args:
        private: True up to some number and False beyond it.

    Raises:
        OverflowError: numbers up to `limit` and beyond are private.
    """
    low, high = 0, 1
    while private(high):
        low, high = high, 2 * high
        if high >= limit:
            raise OverflowError
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if private(middle) else (low, middle)
    return low
