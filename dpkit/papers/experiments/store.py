"""Parts of tables: their measurements, their files, and rows of stored ones."""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpkit.common import checks
from dpkit.common.files import cache_dir, results_dir
from dpkit.common.progress import Progress
from dpkit.common.records import SCALES, json_number, read_json, write_bytes
from dpkit.privacy.ledger import Guarantee

Values = dict[str, Any]  # JSON values
Rows = list[Values]
Stored = Mapping[str, Mapping[str, Any]]  # parts by name, as `load` returns them


class Result(NamedTuple):
    """The measurements of one part of a table.

    earlier: seconds that interrupted processes had worked on it.
    """

    values: Values
    data: dict[str, str]  # data set -> sha256
    device: str
    images: np.ndarray | None = None  # samples worth looking at, uint8
    earlier: float = 0.0


class Part(NamedTuple):
    """One part of a table or figure, computed and stored by itself: a run can be resumed.

    prices: a stored run's cost by today's accountants; None where it has no price.
    after: name of the part of the same table whose by-product this one reuses, such as a trained
        network: side by side, this one begins when that one is done.
    """

    name: str
    settings: Values
    seed: int | None
    compute: Callable[[], Result]
    prices: Callable[[Values], Values] | None = None
    after: str | None = None


class PartsPlan(Protocol):
    """Lists the parts of a table or figure; the command line shows its docstring.

    Args:
        scale: one of `records.SCALES`.
        seeds: runs of each setting.
        device: auto, cpu or cuda.
        progress: wraps a run's records, as tqdm does.
    """

    def __call__(
        self, *, scale: str, seeds: int, device: str, progress: Progress
    ) -> list[Part]: ...


def priced(
    proven: Guarantee, *, claimed: float | None, assumptions: Iterable[str] = ()
) -> dict[str, Any]:
    """A run's cost, as JSON values: the claimed epsilon, and the proven one with its terms.

    Args:
        proven: the accountant's guarantee of the run's ledger; its epsilon may be infinite.
        claimed: the stated epsilon of the run, or None.
        assumptions: of the price, beside the accountant's.
    """
    return {
        "epsilon_claimed": json_number(claimed),
        "epsilon_proven": json_number(proven.epsilon),
        "delta": proven.delta,
        "adjacency": proven.adjacency,
        "method": proven.method,
        "assumptions": [*proven.assumptions, *assumptions],
    }


def folder(paper: str, table: str, *, scale: str, results: Path | None = None) -> Path:
    """The folder of one table's parts at one scale.

    By default among the kit's own results; small ones, which are made in seconds, in the cache.

    Raises:
        ValueError: scale is none of `records.SCALES`.
    """
    checks.one_of(SCALES, scale=scale)
    own = cache_dir() / "results" if scale == "small" else results_dir()
    return (results or own) / paper / table / scale


def load(
    paper: str, table: str, *, scale: str = "paper", results: Path | None = None
) -> dict[str, dict[str, Any]]:
    """All stored parts of a table, by name; empty where nothing is stored."""
    paths = sorted(folder(paper, table, scale=scale, results=results).glob("*.json"))
    return {path.stem: read_json(path) for path in paths}


def save_images(path: Path, images: np.ndarray) -> Path:
    """Sample images, uint8 (images, height, width[, 3]), in a compressed .npz without pickle."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise ValueError(
            f"images must be uint8 (n, h, w[, 3]), got {images.dtype} {images.shape}"
        )
    buffer = io.BytesIO()
    np.savez_compressed(buffer, images=images)
    return write_bytes(path, buffer.getvalue())


def load_images(
    paper: str, table: str, part: str, *, scale: str = "paper", results: Path | None = None
) -> np.ndarray:
    """The sample images stored beside a part, uint8 (images, height, width[, 3])."""
    path = folder(paper, table, scale=scale, results=results) / f"{part}.npz"
    if not path.exists():
        raise FileNotFoundError(
            f"no stored images at {path}; make them with "
            f"`python -m dpkit reproduce {paper} {table} --scale {scale}`"
        )
    with np.load(path, allow_pickle=False) as stored:
        return stored["images"]


class Shown(NamedTuple):
    """One table of a report, made from stored parts.

    title: of the table.
    of: the plans whose stored parts `rows` takes, one argument each.
    rows: makes its rows, each by column.
    units: of its numbers, by column.
    """

    title: str
    of: tuple[str, ...]
    rows: Callable[..., Rows]
    units: Mapping[str, str] = {}


def part_name(key: str, seed: int, what: str = "") -> str:
    """Name the part of one run and seed, and its place among several."""
    return f"{key}-seed{seed}" + (f"-{what}" if what else "")


def seeds(stored: Stored, key: str, what: str = "") -> dict[str, Mapping[str, Any]]:
    """The parts of one run, one a seed, in the order of their names."""
    name = re.compile(
        re.escape(f"{key}-seed") + r"\d+" + re.escape(f"-{what}" if what else "")
    )
    return {one: part for one, part in sorted(stored.items()) if name.fullmatch(one)}


def values(stored: Stored, key: str, what: str = "") -> list[Mapping[str, Any]]:
    """The measurements of one run's seeds."""
    return [part["values"] for part in seeds(stored, key, what).values()]


def joined(rows: Callable[[Stored], Rows]) -> Callable[..., Rows]:
    """Join the parts of several tables into those of one, for the same rows."""

    def rows_of(*stored: Stored) -> Rows:
        return rows({name: part for some in stored for name, part in some.items()})

    return rows_of


def mean(numbers: Iterable[float]) -> float | None:
    """The mean over seeds, None where nothing is stored."""
    every = list(numbers)
    return float(np.mean(every)) if every else None


def spread(numbers: Sequence[float]) -> Values:
    """Mean, lowest and highest over seeds (None where nothing is stored), and their number."""
    return {
        "mean": mean(numbers),
        "lowest": min(numbers, default=None),
        "highest": max(numbers, default=None),
        "seeds": len(numbers),
    }


def lead(one: Sequence[float], other: Sequence[float]) -> Values:
    """Difference of two means over seeds, with Welch's 95 % interval, and what it decides.

    Seeds are taken as independent normal numbers. The verdict is "ahead" if the whole interval is
    above 0, "behind" if it is below, else "open". There is no interval with fewer than two seeds on
    a side, or if the seeds of both sides do not differ at all. "paired_low" and "paired_high" are
    those of the differences seed by seed, None where both sides have not as many: what two runs of
    one seed share (a start, a release) drops out of them.
    """
    found: Values = dict.fromkeys(("difference", "low", "high", "paired_low", "paired_high"))
    if not (len(one) and len(other)):
        return found | {"verdict": "not run"}
    found["difference"] = float(np.mean(one) - np.mean(other))
    if min(len(one), len(other)) < 2 or not np.var(one) + np.var(other) > 0:
        return found | {"verdict": "open"}
    from scipy.stats import ttest_ind, ttest_rel

    low, high = map(float, ttest_ind(one, other, equal_var=False).confidence_interval(0.95))
    if len(one) == len(other):
        pair = ttest_rel(one, other).confidence_interval(0.95)
        found |= {"paired_low": float(pair[0]), "paired_high": float(pair[1])}
    verdict = "ahead" if low > 0 else "behind" if high < 0 else "open"
    return found | {"low": low, "high": high, "verdict": verdict}
