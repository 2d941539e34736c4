"""Reproduce a paper's table part by part, storing each part when it is done."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dpkit.experiments import store
from dpkit.experiments.estimate import Estimate, estimate
from dpkit.experiments.part import Part, Plan, Progress, silent
from dpkit.experiments.sweep import Submits, sweep
from dpkit.experiments.task import Asked, check_same, stored_or_computed, tasks
from dpkit.records import alike, code_version, read_json, write_json


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
    estimated: Callable[[Estimate], None] | None = None,
    executor: Submits | None = None,
) -> Iterator[dict[str, str]]:
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
        progress: wraps the steps of a run, as tqdm does.
        estimated: called, before the first part is computed, with how long those that are not
            stored will take; a few steps of each kind are timed for it. None times none.
        executor: what computes the parts, each by a worker on one thread, as they come (see
            `sweep`); by default they are computed here, in their order.

    Yields:
        for each part its stored file ("record") and a line about it ("summary").

    Raises:
        ValueError: no such table, scale or part; or a part is stored with other settings.
        PartsFailed: with an executor, at the end; some parts could not be computed.
    """
    if not seeds >= 1:
        raise ValueError(f"seeds must be >= 1, got {seeds}")
    folder = store.folder(paper, table, scale=scale, results=results)
    if table not in plans:
        raise ValueError(f"table must be one of {', '.join(plans)}, got {table!r}")
    planned = plans[table](scale=scale, seeds=seeds, device=device, progress=progress)
    chosen = _chosen(planned, parts)
    for part in chosen:
        store.check_renamed(folder / f"{part.name}.json")
    if reprice:
        yield from _repriced(chosen, folder)
        return
    if estimated is not None:
        names = [part.name for part in chosen if not recompute]
        stored = {name for name in names if (folder / f"{name}.json").exists()}
        estimated(estimate(table, chosen, stored=stored, device=_label(device), progress=progress))
    if executor is not None:
        asked = Asked(paper, table, plans[table], scale, seeds, device)
        names = [part.name for part in chosen]
        todo = tasks(asked, results=results, recompute=recompute, names=names)
        yield from sweep(todo, executor=executor)
        return
    for part in chosen:
        path = folder / f"{part.name}.json"
        yield stored_or_computed(part, path, scale, recompute=recompute)


def _repriced(chosen: list[Part], folder: Path) -> Iterator[dict[str, str]]:
    for part in chosen:
        path = folder / f"{part.name}.json"
        if part.prices is None or not path.exists():
            continue
        check_same(path, part)
        record = read_json(path)
        old, new = record["values"], part.prices(record["values"])
        changed = [key for key in new if not alike(old.get(key), new[key])]
        if changed:
            record["values"] = old | new
            record["provenance"]["priced_by"] = code_version()
            write_json(path, record)
        changes = ", ".join(f"{key} {old.get(key)} is now {new[key]}" for key in changed)
        yield {"record": str(path), "summary": f"{part.name}: {changes or 'priced as stored'}"}


def _label(device: str) -> str:
    from dpkit.training.device import device_label, device_named

    return device_label(device_named(device))


def _chosen(planned: list[Part], wanted: Sequence[str] | None) -> list[Part]:
    if wanted is None:
        return planned
    for name in wanted:
        if not any(part.name.startswith(name) for part in planned):
            names = ", ".join(part.name for part in planned)
            raise ValueError(f"parts must begin one of {names}; got {name!r}")
    return [part for part in planned if part.name.startswith(tuple(wanted))]
