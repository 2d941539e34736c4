"""Tables made again part by part, here or side by side; each part is stored when done.

A stored part is not computed again, so an interrupted command resumes where it stopped, whatever is
lost on the way. joblib hands the parts to processes, or to the workers of a Dask
scheduler.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import BrokenProcessPool
from threadpoolctl import threadpool_limits

from dpkit.common import checks
from dpkit.common.files import alone
from dpkit.common.lazy import remedy
from dpkit.common.progress import Progress, silent
from dpkit.common.records import (
    SCALES,
    SETTINGS,
    alike,
    code_version,
    provenance,
    read_json,
    write_json,
)
from dpkit.papers.experiments import store
from dpkit.papers.experiments.store import Part, PartsPlan, Values

Row = dict[str, str]  # "record", a stored file, and "summary", a line about it
KINDS = "serial, processes:N (such as processes:4) or dask://HOST:PORT"
# Workers that a part may lose when it is handed out alone, before it is given up
LOSSES = 3
NAMED = 5  # parts that an error names


class Sweep(NamedTuple):
    """The plan of a table and its arguments.

    plan: a function, or a partial of one with hashable arguments; other processes must find it too.
    tf32: as of `training.train`; stored, and compared as settings are.
    """

    paper: str
    table: str
    plan: PartsPlan
    scale: str
    seeds: int
    device: str
    progress: Progress = silent
    tf32: bool = False

    def parts(self) -> list[Part]:
        """All parts of the table, planned once a process."""
        plan: Any = self.plan
        asked: Any = {"scale": self.scale, "seeds": self.seeds, "device": self.device}
        made = getattr(plan, "func", plan), *getattr(plan, "args", ())
        return _planned(*made, **asked, progress=self.progress)


class Job(NamedTuple):
    """One part to compute and store, sent to a worker that plans it again by its name.

    settings: as planned where the task was made; a worker that plans others refuses.
    folder: of the table's stored parts.
    after: the part whose by-product it uses, if still to be made.
    """

    asked: Sweep
    name: str
    settings: Values
    folder: Path
    after: str | None = None

    @property
    def path(self) -> Path:
        """The file of the stored part."""
        return self.folder / f"{self.name}.json"

    @property
    def label(self) -> str:
        """Its name among all parts of all tables."""
        return f"{self.asked.paper} {self.asked.table} {self.name}"

    @property
    def before(self) -> str | None:
        """The label of the part before it."""
        return None if self.after is None else self._replace(name=self.after).label


class PartsFailed(RuntimeError):
    """Some parts could not be computed; the others are stored.

    failures: errors by the part's label.
    """

    def __init__(self, failures: Mapping[str, BaseException], parts: int) -> None:
        self.failures = dict(failures)
        causes: dict[str, str] = {}  # each with the first part that it stopped
        for label, error in failures.items():
            causes.setdefault(f"{type(error).__name__}: {error}".removesuffix(": "), label)
        named = [f"{label} ({words})" for words, label in causes.items()][:NAMED]
        more = f" and {len(failures) - len(named)} more" if len(failures) > len(named) else ""
        super().__init__(
            f"{len(failures)} of {parts} parts failed: {'; '.join(named)}{more}. "
            f"{'The others are stored; the' if len(failures) < parts else 'The'} same command "
            "computes only what is missing"
        )

    def format_message(self) -> str:
        """The command line's text."""
        return str(self)


def reproduce(
    paper: str,
    table: str,
    *,
    plans: Mapping[str, PartsPlan],
    scale: str = "paper",
    seeds: int = 3,
    parts: Sequence[str] | None = None,
    device: str = "auto",
    reprice: bool = False,
    results: Path | None = None,
    progress: Progress = silent,
    executor: str = "serial",
    tf32: bool = False,
) -> Iterator[Row]:
    """Compute the parts of `table` that are not stored yet, one after another or side by side.

    Args:
        paper: name of a paper's package, such as "dp_cgan", and of its folder of parts.
        table: name of one of its tables, such as "table_1".
        plans: the paper's `experiments.PLANS`, a plan for each table.
        scale: "paper" on the paper's data and sizes, or "reduced", which its plans describe.
        seeds: number of seeds of a column.
        parts: names, or beginnings of names, of the parts wanted; all by default.
        device, tf32: auto, cpu or cuda; see `Sweep`.
        reprice: price stored parts anew, and compute none: an old record's settings and steps get
            the epsilons of today's accountants, and what is now said of the settings' origin.
        results: folder to store in, instead of the kit's own.
        progress: wraps the steps of a run that is computed here, as tqdm does.
        executor: computes the parts, each by a worker on one thread (see `sweep`).

    Yields:
        a `Row` for each part.

    Raises:
        ValueError: no such table, scale, part or executor; or a part is stored with other settings.
        PartsFailed: at the end.
    """
    checks.whole(1, seeds=seeds)
    checks.one_of(SCALES, scale=scale)
    checks.one_of(tuple(plans), table=table)
    shown = progress if executor == "serial" else silent
    asked = Sweep(paper, table, plans[table], scale, seeds, device, shown, tf32)
    chosen = {part.name: part for part in _chosen(asked.parts(), parts)}
    todo = [task for task in tasks(asked, results=results) if task.name in chosen]
    for task in todo:
        if task.path.exists():
            check_same(task.path, chosen[task.name], tf32=tf32)
    if reprice:
        yield from _repriced(todo, chosen)
    else:
        yield from sweep(todo, executor=executor)


def everything(
    plans: Mapping[str, Mapping[str, PartsPlan]],
    *,
    scale: str,
    seeds: int,
    device: str = "auto",
    results: Path | None = None,
    progress: Progress = silent,
    executor: str = "serial",
    tf32: bool = False,
) -> Iterator[Row]:
    """Compute the parts of all tables that are not stored yet.

    Args:
        plans: by paper and table.
        scale, seeds, device, results, progress, executor, tf32: as for `reproduce`.

    Yields: as `sweep`.

    Raises:
        PartsFailed: at the end.
    """
    shown = progress if executor == "serial" else silent
    todo = [
        task
        for paper, tables in plans.items()
        for table, plan in tables.items()
        for task in tasks(
            Sweep(paper, table, plan, scale, seeds, device, shown, tf32), results=results
        )
    ]
    yield from sweep(todo, executor=executor)


def tasks(asked: Sweep, *, results: Path | None = None) -> list[Job]:
    """A task for each part of a table (ValueError: an unknown scale)."""
    folder = store.folder(asked.paper, asked.table, scale=asked.scale, results=results)
    where = folder.resolve()
    return [Job(asked, one.name, one.settings, where, one.after) for one in asked.parts()]


def sweep(todo: Sequence[Job], *, executor: str = "serial") -> Iterator[Row]:
    """Compute and store all parts, in the order in which they finish.

    An error in one part does not stop the others. After the loss of a worker, parts not yet stored
    are handed out again, one alone until one is done: a part that ends its worker `LOSSES` times
    when alone is given up.

    Args:
        todo: the parts; one that comes `after` another of these waits for it.
        executor: "serial", "processes:4" or "dask://host:port", the address of a Dask scheduler.

    Yields:
        a `Row` for each part, with its paper and table ("table").

    Raises:
        PartsFailed: at the end.
        ValueError: executor is none of these, or parts wait for each other in a circle.
        OSError: no scheduler answers at the address.
    """
    waiting = {task.label: task for task in todo}
    failures: dict[str, BaseException] = {}
    losses = Counter[str]()  # of parts that were handed out alone
    lone = False
    with _workers(executor) as jobs:
        while waiting:
            ready = [task for task in waiting.values() if task.before not in waiting]
            if not ready:
                raise ValueError(
                    f"after must name no part that waits for this one, {next(iter(waiting))}"
                )
            if lone:  # after a loss, of which all that was begun is suspected
                ready = ready[:1]
            try:
                for label, found in _attempts(ready, failures, jobs):
                    task, lone = waiting.pop(label), False
                    if isinstance(found, BaseException):
                        failures[label] = found
                    else:
                        yield found | {"table": f"{task.asked.paper} {task.asked.table}"}
            except _lost() as error:
                begun = [task.label for task in ready if task.label in waiting][:jobs]
                waiting |= {label: waiting.pop(label) for label in begun}  # to the end
                losses.update(begun if lone else [])
                if lone and losses[begun[0]] == LOSSES:
                    failures[begun[0]] = error
                    del waiting[begun[0]]
                lone = True
    if failures:
        raise PartsFailed(failures, len(todo)) from next(iter(failures.values()))


def computed(task: Job) -> Row:
    """Compute a part and store it, or leave what is stored.

    Raises:
        ValueError: the part is stored, or planned here, with other settings.
    """
    part = next(one for one in task.asked.parts() if one.name == task.name)
    other = differing(task.settings, part.settings)
    if other:
        raise ValueError(
            f"{task.label} is planned with other settings here ({', '.join(other)} differ) than "
            "where it was asked for; run the same version of dpkit"
        )
    path = task.path
    with alone(path):
        if path.exists():
            check_same(path, part, tf32=task.asked.tf32)
            return {"record": str(path), "summary": f"{part.name}: stored already"}
        start, how = perf_counter(), nullcontext()
        if task.asked.tf32 or "torch" in sys.modules:  # a part without torch waits for none
            how = import_module("dpkit.training.device").precision(tf32=task.asked.tf32)
        with how:
            result = part.compute()
        seconds = perf_counter() - start + result.earlier
        if result.images is not None:
            store.save_images(path.with_suffix(".npz"), result.images)
        written = provenance(
            settings=part.settings,
            seed=part.seed,
            data=result.data,
            device=result.device,
            wall_seconds=seconds,
            scale=task.asked.scale,
        ) | {"tf32": task.asked.tf32}
        write_json(path, {"values": result.values, "provenance": written})
    numbers = (
        (key, value) for key, value in result.values.items() if isinstance(value, float)
    )
    shown = ", ".join(f"{key} {checks.short(value, 4)}" for key, value in numbers)
    return {"record": str(path), "summary": f"{part.name}: {shown} ({seconds:.0f} s)"}


def check_same(path: Path, part: Part, *, tf32: bool) -> None:
    """Refuse a record of other settings, or precision (ValueError), in the part's place."""
    stored = read_json(path)["provenance"]
    before = stored["settings"] | {"tf32": stored.get("tf32", False)}
    changed = differing(before, part.settings | {"tf32": tf32})
    if changed:
        raise ValueError(
            f"{path} is stored with other settings ({', '.join(changed)} differ); move it away to "
            "compute it anew"
        )


def differing(one: Values, other: Values) -> list[str]:
    """Names of the settings that differ; `chosen` is words about them."""
    names = {*one, *other} - {"chosen"}
    return sorted(n for n in names if not alike(one.get(n), other.get(n), within=SETTINGS))


@contextmanager
def _workers(name: str) -> Iterator[int]:
    """Enter joblib's named backend; yield the number of parts at once (-1: all it can)."""
    kind, _, number = name.partition(":")
    if name == "serial":
        yield 1
    elif kind == "processes" and number.isdecimal() and int(number) > 0:
        try:
            with parallel_config("loky"):
                yield max(int(number), 2)  # one would be this process
        finally:
            get_reusable_executor().shutdown(kill_workers=True)
    elif kind == "dask" and number.startswith("//"):
        try:
            client = import_module("distributed").Client
        except ModuleNotFoundError as error:
            raise ValueError(
                f"executor {name} needs Dask, which is not installed: {remedy('distributed')}, "
                "here and where the workers run"
            ) from error
        with client(f"tcp:{number}"), parallel_config("dask"):
            yield -1
    else:
        raise ValueError(f"executor must be {KINDS}, got {name!r}")


def _attempts(
    ready: list[Job], failures: Mapping[str, Any], jobs: int
) -> Iterator[tuple[str, Row | BaseException]]:
    """Yield each part's row, or its error; a part after a failed one fails too."""
    for task in [task for task in ready if task.before in failures]:
        ready.remove(task)
        yield task.label, RuntimeError(f"{task.after}, which comes before it, failed")
    # Unlike joblib's types
    at_once: Any = {"batch_size": 1, "return_as": "generator_unordered"}
    run: Any = Parallel(n_jobs=jobs, **at_once)
    yield from run(delayed(_attempt)(task, jobs) for task in ready)


def _attempt(task: Job, jobs: int) -> tuple[str, Row | BaseException]:
    """Compute the part, inside one worker of several on one thread."""
    try:
        if jobs == 1:
            return task.label, computed(task)
        task.asked.parts()  # imports what is computed with
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        with threadpool_limits(1):
            return task.label, computed(task)
    except Exception as error:
        return task.label, error


def _lost() -> tuple[type[BaseException], ...]:
    """The errors of a lost worker: of joblib's processes, and of Dask's."""
    dask = sys.modules.get("distributed")
    return (BrokenProcessPool, *((dask.KilledWorker,) if dask else ()))


@cache
def _planned(plan: Callable[..., list[Part]], *args: Any, **asked: Any) -> list[Part]:
    """A partial's function and arguments: a worker gets another partial with each part."""
    return plan(*args, **asked)


def _repriced(todo: list[Job], parts: Mapping[str, Part]) -> Iterator[Row]:
    for task in todo:
        path, prices = task.path, parts[task.name].prices
        if prices is None or not path.exists():
            continue
        record = read_json(path)
        old, new = record["values"], prices(record["values"])
        changed = [key for key in new if not alike(old.get(key), new[key])]
        told, words = record["provenance"], parts[task.name].settings.get("chosen")
        said = told["settings"].pop("chosen", None)
        if words is not None:
            told["settings"]["chosen"] = words
        if changed:
            record["values"], told["priced_by"] = old | new, code_version()
        if changed or words != said:
            write_json(path, record)
        changes = ", ".join(f"{key} {old.get(key)} is now {new[key]}" for key in changed)
        yield {"record": str(path), "summary": f"{task.name}: {changes or 'priced as stored'}"}


def _chosen(planned: list[Part], wanted: Sequence[str] | None) -> list[Part]:
    for name in wanted or ():
        if not any(part.name.startswith(name) for part in planned):
            names = ", ".join(part.name for part in planned)
            raise ValueError(f"parts must begin one of {names}; got {name!r}")
    return [one for one in planned if wanted is None or one.name.startswith(tuple(wanted))]
