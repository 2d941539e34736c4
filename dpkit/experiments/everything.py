"""Every table of every paper in one sweep."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dpkit.experiments.estimate import Estimate, estimate
from dpkit.experiments.executors import Here
from dpkit.experiments.part import Plan, Progress, silent
from dpkit.experiments.sweep import Submits, sweep
from dpkit.experiments.task import Asked, Row, Task, computed, on_one_thread, tasks
from dpkit.training.device import device_label, device_named

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
    parts = [
        part._replace(name=f"{one.paper} {one.table} {part.name}")
        for one in asked
        for part in one.parts()
    ]
    stored = {task.label for task in todo if (task.folder / f"{task.name}.json").exists()}
    label = device_label(device_named(device))
    return estimate(
        "all tables", parts, stored=stored, device=label, progress=progress, brief=BRIEF
    )
