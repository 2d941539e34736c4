"""Stored parts as rows of a table: the seeds of a run, and the mean and range of their numbers."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Stored = Mapping[str, Mapping[str, Any]]  # parts by name, as `store.load` returns them


class Shown(NamedTuple):
    """One table of a report, made from stored parts.

    title: what it shows.
    of: the plans whose stored parts `rows` takes, one argument each.
    rows: makes its rows, each by column.
    units: what a column's numbers are, by column.
    """

    title: str
    of: tuple[str, ...]
    rows: Callable[..., list[dict[str, Any]]]
    units: Mapping[str, str] = {}


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


def joined(rows: Callable[[Stored], list[dict[str, Any]]]) -> Callable[..., list[dict[str, Any]]]:
    """The same rows from the parts of several tables, which are taken as those of one."""

    def rows_of(*stored: Stored) -> list[dict[str, Any]]:
        return rows({name: part for some in stored for name, part in some.items()})

    return rows_of


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
