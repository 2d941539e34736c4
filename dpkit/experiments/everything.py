"""Every table of every paper in one sweep."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dpkit.experiments.estimate import Estimate, estimate
from dpkit.experiments.executors import Here
from dpkit.experiments.part import Part, Plan, Progress, Work, silent
from dpkit.experiments.sweep import Submits, sweep
from dpkit.experiments.task import Asked, Row, Task, computed, on_one_thread, tasks

BRIEF = 0.02  # seconds for which each kind of step is tried at least: there are many kinds


def everything(
    plans: Mapping[str, Mapping[str, Plan]],
    *,
    scale: str,
    seeds: int,
    device: str = "auto",
    results: Path | None = None,
    progress: Progress = silent,
    estimated: Callable[[Estimate], None] | None = None,
    executor: Submits | None = None,
) -> Iterator[Row]:
    """Compute the parts of all tables that are not stored yet.

    Args:
        plans: by paper and table, such as `papers.plans_of` has them.
        scale, seeds, device, results: as for `reproduce`.
        progress: wraps the steps of a run that is computed here, as tqdm does.
        estimated: called first with how long all that is not stored will take on one worker.
        executor: what computes the parts side by side; by default they are computed here.

    Yields:
        for each part its stored file ("record"), its paper and table ("table"), and a line about
        it ("summary").

    Raises:
        PartsFailed: at the end; some parts could not be computed, and all others are stored.
    """
    shown = progress if executor is None else silent
    asked = [
        Asked(paper, table, plan, scale, seeds, device, shown)
        for paper, tables in plans.items()
        for table, plan in tables.items()
    ]
    todo = [task for one in asked for task in tasks(one, results=results)]
    if estimated is not None:
        estimated(_total(asked, todo, device=device, progress=progress))
    if executor is None:
        yield from sweep(todo, executor=Here(), at_once=1, call=computed)
    else:
        yield from sweep(todo, executor=executor, call=on_one_thread)


def _total(asked: list[Asked], todo: list[Task], *, device: str, progress: Progress) -> Estimate:
    """How long all tables take: what several of them reuse counts once."""
    from dpkit.training.device import device_label, device_named

    parts = [
        part._replace(name=f"{one.paper} {one.table} {part.name}", work=_work(part, one))
        for one in asked
        for part in one.parts()
    ]
    stored = {task.label for task in todo if (task.folder / f"{task.name}.json").exists()}
    label = device_label(device_named(device))
    return estimate(
        "all tables", parts, stored=stored, device=label, progress=progress, brief=BRIEF
    )


def _work(part: Part, asked: Asked) -> Callable[[], list[Work]] | None:
    """What is left of a part; of small ones, steps of one table that look alike are tried once.

    There are so many kinds, of other noise or clipping, that to try each would take as long as to
    run them.
    """
    if part.work is None or asked.scale != "small":
        return part.work
    return partial(_roughly, part.work, (asked.paper, asked.table))


def _roughly(work: Callable[[], list[Work]], table: tuple[str, str]) -> list[Work]:
    def kind(what: Any) -> Any:
        return type(what).__name__ if is_dataclass(what) else what

    found = work()
    whats = [one.what if isinstance(one.what, tuple) else (one.what,) for one in found]
    return [
        one._replace(what=(*table, *map(kind, what)))
        for one, what in zip(found, whats, strict=True)
    ]
