"""A list of parts over any executor: each is stored once, whatever becomes of the workers."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from typing import Any, Protocol

from dpkit import checks
from dpkit.experiments.task import Row, Task, on_one_thread

LOSSES = 3  # workers that a part may lose before it is given up
NAMED = 5  # parts that an error names


class Submits(Protocol):
    """What a sweep needs of a `concurrent.futures.Executor`, which every one has."""

    def submit(self, call: Callable[..., Any], /, *args: Any) -> Future: ...


class PartsFailed(RuntimeError):
    """Some parts could not be computed; all others are stored.

    failures: what went wrong, by the part's label.
    """

    def __init__(self, failures: Mapping[str, BaseException], parts: int) -> None:
        self.failures = dict(failures)
        named = [f"{label} ({_told(error)})" for label, error in failures.items()]
        more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        super().__init__(
            f"{len(named)} of {parts} parts failed: {'; '.join(named[:NAMED])}{more}. The others "
            "are stored; the same command computes only what is missing"
        )


def sweep(
    tasks: Sequence[Task],
    *,
    executor: Submits,
    at_once: int | None = None,
    call: Callable[[Task], Row] = on_one_thread,
) -> Iterator[Row]:
    """Compute and store all parts, in whatever order they finish.

    A part is handed to one worker. If that is lost the part is handed out again, `LOSSES` times at
    most; where the lost one stored it after all, it is left as it is. An error in one part does
    not keep the others from being computed. What is stored already is not computed.

    Args:
        tasks: the parts; one that comes `after` another of these waits for it.
        executor: runs them: any executor of processes, or of workers on other machines.
        at_once: tasks that are handed out at once; all that are ready by default.
        call: what computes a task.

    Yields:
        for each part its stored file ("record") and a line about it ("summary").

    Raises:
        PartsFailed: at the end; some parts could not be computed.
        ValueError: at_once is not an integer >= 1, or parts come after each other in a circle.
    """
    if at_once is not None:
        checks.whole(1, at_once=at_once)
    waiting, running = list(tasks), dict[Future, Task]()
    lost, failures = Counter[str](), dict[str, BaseException]()
    while waiting or running:
        _leave_out(waiting, failures)
        for task in _ready(waiting, list(running.values()), at_once):
            waiting.remove(task)
            running[_submitted(executor, call, task)] = task
        if waiting and not running:
            raise ValueError(f"after must name no part that waits for this one: {waiting[0].label}")
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            task = running.pop(future)
            error = _error(future)
            if error is None:
                yield _row(task, future.result())
            elif isinstance(error, _losses()) and lost[task.label] < LOSSES:
                lost[task.label] += 1
                waiting.insert(0, task)
            else:
                failures[task.label] = error
    if failures:
        raise PartsFailed(failures, len(tasks)) from next(iter(failures.values()))


def _ready(waiting: list[Task], running: list[Task], at_once: int | None) -> list[Task]:
    """The tasks that may be handed out now: their predecessors are done, and a worker is free."""
    unfinished = {task.label for task in (*waiting, *running)}
    ready = [task for task in waiting if _before(task) not in unfinished]
    return ready if at_once is None else ready[: max(at_once - len(running), 0)]


def _leave_out(waiting: list[Task], failures: dict[str, BaseException]) -> None:
    """Do not compute what builds on a part that failed."""
    for task in list(waiting):
        if _before(task) in failures:
            waiting.remove(task)
            failures[task.label] = RuntimeError(f"{task.after}, which comes before it, failed")


def _before(task: Task) -> str | None:
    return None if task.after is None else task._replace(name=task.after).label


def _submitted(executor: Submits, call: Callable[[Task], Row], task: Task) -> Future:
    """The task's future; where the executor takes no more, one that holds its error."""
    try:
        return executor.submit(call, task)
    except BrokenExecutor as error:
        refused: Future = Future()
        refused.set_exception(error)
        return refused


def _error(future: Future) -> BaseException | None:
    return CancelledError() if future.cancelled() else future.exception()


def _losses() -> tuple[type[BaseException], ...]:
    """What a task ends with whose worker was lost: of the library's pools, and of Dask's."""
    dask = sys.modules.get("distributed")
    return (BrokenExecutor, CancelledError, *((dask.KilledWorker,) if dask else ()))


def _row(task: Task, row: Row) -> Row:
    return row | {"table": f"{task.asked.paper} {task.asked.table}"}


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
