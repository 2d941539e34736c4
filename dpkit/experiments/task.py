"""One part of a table as a small description that a worker turns into a stored record."""

import pickle
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

from dpkit.experiments import store
from dpkit.experiments.alone import alone
from dpkit.experiments.part import Part, Plan, Progress, silent
from dpkit.records import SETTINGS, alike, provenance, read_json, write_json

Row = dict[str, str]  # "record", a stored file, and "summary", a line about it
_ONE_AT_A_TIME = Lock()  # torch's random state and threads belong to a process, not to a thread


class Asked(NamedTuple):
    """What a table is planned from.

    plan: a function of a module, or a partial of one, so that it can be pickled.
    """

    paper: str
    table: str
    plan: Plan
    scale: str
    seeds: int
    device: str
    progress: Progress = silent

    def parts(self) -> list[Part]:
        """All parts of the table, planned once a process."""
        asked = (self.scale, self.seeds, self.device, self.progress)
        return _planned(pickle.dumps(self.plan), *asked)


class Task(NamedTuple):
    """One part to compute and store: what travels to a worker, which plans it again by its name.

    settings: as they were planned where the task was made; a worker that plans others refuses.
    folder: where the table's parts are stored.
    after: the part whose by-product it uses, if that is still to be made.
    recompute: compute it although it is stored.
    """

    asked: Asked
    name: str
    settings: dict[str, Any]
    folder: Path
    after: str | None = None
    recompute: bool = False

    @property
    def label(self) -> str:
        """Its name among all parts of all tables."""
        return f"{self.asked.paper} {self.asked.table} {self.name}"


def tasks(
    asked: Asked, *, results: Path | None = None, recompute: bool = False, names: Any = None
) -> list[Task]:
    """A task for each part of a table, or for those in `names`.

    Raises:
        ValueError: scale is unknown, or a part is stored under an older version's name.
    """
    folder = store.folder(asked.paper, asked.table, scale=asked.scale, results=results).resolve()
    chosen = [part for part in asked.parts() if names is None or part.name in names]
    for part in chosen:
        store.check_renamed(folder / f"{part.name}.json")
    return [Task(asked, part.name, part.settings, folder, part.after, recompute) for part in chosen]


def computed(task: Task) -> Row:
    """Compute a part and store it, or leave what is stored; on one thread of its own.

    Raises:
        ValueError: the part is stored with other settings, or planned with others here.
    """
    with _ONE_AT_A_TIME:
        part = next(one for one in task.asked.parts() if one.name == task.name)
        other = differing(task.settings, part.settings)
        if other:
            raise ValueError(
                f"{task.label} is planned with other settings here ({', '.join(other)} differ) "
                "than where it was asked for: run the same version of dpkit in both places"
            )
        return stored_or_computed(
            part, task.folder / f"{part.name}.json", task.asked.scale, recompute=task.recompute
        )


def on_one_thread(task: Task) -> Row:
    """As `computed`, for one worker of several: what computes inside it takes one thread."""
    from threadpoolctl import threadpool_limits

    task.asked.parts()  # imports what is computed with
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    with threadpool_limits(1):
        return computed(task)


def stored_or_computed(part: Part, path: Path, scale: str, *, recompute: bool = False) -> Row:
    """The row of a part that is stored, or that is computed and stored now; never twice at once."""
    with alone(path):
        if path.exists() and not recompute:
            check_same(path, part)
            return {"record": str(path), "summary": f"{part.name}: stored already"}
        return {"record": str(path), "summary": _compute(part, path, scale)}


def check_same(path: Path, part: Part) -> None:
    """Refuse a record of other settings (ValueError) in the part's place."""
    changed = differing(read_json(path)["provenance"]["settings"], part.settings)
    if changed:
        raise ValueError(
            f"{path} is stored with other settings ({', '.join(changed)} differ); move it away to "
            "compute it anew"
        )


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Names of the settings in which two runs differ."""
    names = one.keys() | other
    return sorted(n for n in names if not alike(one.get(n), other.get(n), within=SETTINGS))


def _compute(part: Part, path: Path, scale: str) -> str:
    start = perf_counter()
    result = part.compute()
    seconds = perf_counter() - start
    if result.images is not None:
        store.save_images(path.with_suffix(".npz"), result.images)
    written = provenance(
        settings=part.settings,
        seed=part.seed,
        data=result.data,
        device=result.device,
        wall_seconds=seconds,
        scale=scale,
    )
    write_json(path, {"values": result.values, "provenance": written})
    shown = ", ".join(
        f"{key} {value:.4g}" for key, value in result.values.items() if isinstance(value, float)
    )
    return f"{part.name}: {shown} ({seconds:.0f} s)"


@cache
def _planned(
    pickled: bytes, scale: str, seeds: int, device: str, progress: Callable[..., Any]
) -> list[Part]:
    plan: Plan = pickle.loads(pickled)
    return plan(scale=scale, seeds=seeds, device=device, progress=progress)
