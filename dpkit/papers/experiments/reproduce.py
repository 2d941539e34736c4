"""Reproduce the tables of papers part by part, storing each part when it is done."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dpkit.common import checks
from dpkit.common.progress import Progress, silent
from dpkit.common.records import SCALES, alike, code_version, read_json, write_json
from dpkit.papers.experiments.part import Part, Plan
from dpkit.papers.experiments.sweep import Asked, Row, Task, check_same, sweep, tasks


def reproduce(
    paper: str,
    table: str,
    *,
    plans: Mapping[str, Plan],
    scale: str = "paper",
    seeds: int = 3,
    parts: Sequence[str] | None = None,
    device: str = "auto",
    recompute: bool = False,
    reprice: bool = False,
    results: Path | None = None,
    progress: Progress = silent,
    executor: str = "serial",
) -> Iterator[Row]:
    """Compute the parts of `table` that are not stored yet, one after another or side by side.

    Args:
        paper: name of a paper's package, such as "dp_cgan": where its parts are stored.
        table: name of one of its tables, such as "table_1".
        plans: the paper's `experiments.PLANS`, a plan for each table.
        scale: "paper" on the paper's data and sizes, or "reduced", which its plans describe.
        seeds: how many seeds a column is run with.
        parts: names, or beginnings of names, of the parts wanted; all by default.
        device: auto, cpu or cuda.
        recompute: compute stored parts anew.
        reprice: price stored parts anew, and compute none. What a run cost follows from its
            settings and steps: the epsilons of an old record become those of today's accountants.
        results: folder to store in, instead of the kit's own.
        progress: wraps the steps of a run that is computed here, as tqdm does.
        executor: what computes the parts, each by a worker on one thread (see `sweep`).

    Yields:
        for each part its stored file ("record") and a line about it ("summary").

    Raises:
        ValueError: no such table, scale, part or executor; or a part is stored with other settings.
        PartsFailed: at the end; some parts could not be computed.
    """
    checks.whole(1, seeds=seeds)
    checks.one_of(SCALES, scale=scale)
    if table not in plans:
        raise ValueError(f"table must be one of {', '.join(plans)}, got {table!r}")
    shown = progress if executor == "serial" else silent
    asked = Asked(paper, table, plans[table], scale, seeds, device, shown)
    chosen = {part.name: part for part in _chosen(asked.parts(), parts)}
    todo = tasks(asked, results=results, recompute=recompute, names=chosen)
    for path, part in ((_path(task), chosen[task.name]) for task in todo if not recompute):
        if path.exists():
            check_same(path, part)
    if reprice:
        yield from _repriced(todo, chosen)
    else:
        yield from sweep(todo, executor=executor)


def everything(
    plans: Mapping[str, Mapping[str, Plan]],
    *,
    scale: str,
    seeds: int,
    device: str = "auto",
    results: Path | None = None,
    progress: Progress = silent,
    executor: str = "serial",
) -> Iterator[Row]:
    """Compute the parts of all tables that are not stored yet.

    Args:
        plans: by paper and table.
        scale, seeds, device, results, progress, executor: as for `reproduce`.

    Yields: as `sweep`.

    Raises:
        PartsFailed: at the end; some parts could not be computed, and all others are stored.
    """
    shown = progress if executor == "serial" else silent
    todo = [
        task
        for paper, tables in plans.items()
        for table, plan in tables.items()
        for task in tasks(Asked(paper, table, plan, scale, seeds, device, shown), results=results)
    ]
    yield from sweep(todo, executor=executor)


def _path(task: Task) -> Path:
    return task.folder / f"{task.name}.json"


def _repriced(todo: list[Task], parts: Mapping[str, Part]) -> Iterator[Row]:
    for task in todo:
        path, prices = _path(task), parts[task.name].prices
        if prices is None or not path.exists():
            continue
        record = read_json(path)
        old, new = record["values"], prices(record["values"])
        changed = [key for key in new if not alike(old.get(key), new[key])]
        if changed:
            record["values"] = old | new
            record["provenance"]["priced_by"] = code_version()
            write_json(path, record)
        changes = ", ".join(f"{key} {old.get(key)} is now {new[key]}" for key in changed)
        yield {"record": str(path), "summary": f"{task.name}: {changes or 'priced as stored'}"}


def _chosen(planned: list[Part], wanted: Sequence[str] | None) -> list[Part]:
    if wanted is None:
        return planned
    for name in wanted:
        if not any(part.name.startswith(name) for part in planned):
            names = ", ".join(part.name for part in planned)
            raise ValueError(f"parts must begin one of {names}; got {name!r}")
    return [part for part in planned if part.name.startswith(tuple(wanted))]
