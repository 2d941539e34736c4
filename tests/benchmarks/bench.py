"""Speed and memory against plain code and peers: a table, and build/bench.json (`make bench`).

A row says what is compared, and with what: `plain` does the same without privacy, `peer` is another
library's way to the same answer. Times are medians of interleaved runs in one process, so that they
hold as ratios; null where there is nothing to compare with. Every module of this folder with a
function `rows() -> Iterator[Row]` takes part.
"""

import gc
import math
import os
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from types import ModuleType
from typing import NamedTuple

from dpkit.common.records import write_json

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parents[1] / "build" / "bench.json"
COLUMNS = ("plain_ms", "dpkit_ms", "peer_ms", "ratio_to_plain", "ratio_to_peer")


class Row(NamedTuple):
    """One comparison; times in milliseconds, ratios are dpkit's share (below 1 is better)."""

    name: str
    dpkit_ms: float
    plain_ms: float | None = None
    peer: str | None = None  # the peer's name and version
    peer_ms: float | None = None
    peak_memory_ratio: float | None = None  # to the peer, or to plain code where there is no peer

    def as_json(self) -> dict[str, str | float | None]:
        """The row with its two ratios of time, as stored in bench.json."""
        return {
            **self._asdict(),
            "ratio_to_plain": ratio(self.dpkit_ms, self.plain_ms),
            "ratio_to_peer": ratio(self.dpkit_ms, self.peer_ms),
        }


def ratio(ours: float, theirs: float | None) -> float | None:
    """Ours over theirs, None where there is nothing to compare with."""
    return None if theirs is None else ours / theirs


def medians(contenders: Mapping[str, Callable[[], object]], *, repeats: int) -> dict[str, float]:
    """The median time of each contender in milliseconds.

    One warm-up round, then `repeats` rounds in which everyone runs once, so that a change in the
    machine's load falls on all alike.
    """
    if not repeats >= 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for index in range(repeats + 1):
        for name, run in contenders.items():
            gc.collect()
            began = perf_counter()
            run()
            if index > 0:
                times[name].append(1000 * (perf_counter() - began))
    return {name: median(values) for name, values in times.items()}


def against(
    name: str, ours: Callable[[], object], peer: str, theirs: Callable[[], object], *, repeats: int
) -> Row:
    """The row of two ways to the same answer."""
    times = medians({"dpkit": ours, "peer": theirs}, repeats=repeats)
    return Row(name, times["dpkit"], peer=peer, peer_ms=times["peer"])


def benchmarks(device: str) -> Iterator[ModuleType]:
    """The modules of this folder that have rows, in order of their names; on a GPU, training's."""
    for path in sorted(HERE.glob("*.py" if device == "cpu" else "training.py")):
        if path.stem != "bench" and not path.stem.startswith(("test_", "conftest")):
            module = import_module(path.stem)
            if hasattr(module, "rows"):
                yield module


def line(row: dict[str, str | float | None]) -> str:
    """One row of the printed table."""
    cells = [row[column] for column in COLUMNS]
    shown = ["-" if not isinstance(cell, float) else f"{cell:.3g}" for cell in cells]
    return (
        f"{row['name']!s:48}" + "".join(f"{cell:>15}" for cell in shown) + f"  {row['peer'] or ''}"
    )


def main() -> None:
    print(f"{'':48}" + "".join(f"{column:>15}" for column in COLUMNS) + "  peer")
    rows = []
    device = os.environ.get("DEVICE", "cpu")
    for module in benchmarks(device):
        for row in module.rows():
            numbers = [value for value in row if isinstance(value, float)]
            if not all(math.isfinite(number) for number in numbers):
                raise ValueError(f"{module.__name__}: {row} holds a number that is not finite")
            rows.append(row.as_json())
            print(line(rows[-1]), flush=True)
    output = OUTPUT if device == "cpu" else OUTPUT.with_name(f"bench-{device}.json")
    if device != "cpu":
        rows += import_module("training").figures()
    write_json(output, rows)
    print(f"Written to {output}")


if __name__ == "__main__":
    main()
