"""Draws that repeat, and how unlikely a statistic of them is."""

from typing import Any

import numpy as np


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def two_sided(distribution: Any, value: float) -> float:
    """The p-value of what lies so far out on either side."""
    return 2 * min(distribution.sf(value), distribution.cdf(value))
