"""Stored parts as rows of a table: the seeds of a run, and the mean and range of their numbers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Stored = Mapping[str, Mapping[str, Any]]  # parts by name, as `store.load` returns them


def part_name(key: str, seed: int, what: str = "") -> str:
    """Name the part of one run and seed, and which of its parts if there are several."""
    return f"{key}-seed{seed}" + (f"-{what}" if what else "")


def seeds(stored: Stored, key: str, what: str = "") -> dict[str, Mapping[str, Any]]:
    """The parts of one run, one a seed, in the order of their names."""
    name = re.compile(re.escape(f"{key}-seed") + r"\d+" + re.escape(f"-{what}" if what else ""))
    return {one: part for one, part in sorted(stored.items()) if name.fullmatch(one)}


def values(stored: Stored, key: str, what: str = "") -> list[Mapping[str, Any]]:
    """What the seeds of one run measured."""
    return [part["values"] for part in seeds(stored, key, what).values()]


def mean(numbers: Iterable[float]) -> float | None:
    """The mean over seeds, None where nothing is stored."""
    every = list(numbers)
    return float(np.mean(every)) if every else None


def spread(numbers: Sequence[float]) -> dict[str, Any]:
    """Mean, lowest and highest over seeds (None where nothing is stored), and their number."""
    return {
        "mean": mean(numbers),
        "lowest": min(numbers, default=None),
        "highest": max(numbers, default=None),
        "seeds": len(numbers),
    }
