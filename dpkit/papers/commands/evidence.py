"""claims and reproduce: recompute a paper's claims and its tables."""

import csv
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from inspect import getdoc
from io import StringIO
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import Annotated, Any

import typer

from dpkit.commands.output import AsJson, print_json
from dpkit.common import checks
from dpkit.common.files import cache_dir, write_bytes
from dpkit.common.records import SCALES, write_json
from dpkit.datasets.sources import closest
from dpkit.papers.claims import Verdict, as_json, check_all, counted


def claims(
    claim: Annotated[
        str | None, typer.Argument(help="Only this one, such as dp_cgan/label-leak.")
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(help="Only this paper's, such as dp_cgan; ledger: later literature's."),
    ] = None,
    recompute: Annotated[
        bool,
        typer.Option(
            "--recompute", help="Measure stored evidence again (minutes, with data)."
        ),
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            help="Write a CSV file too, and its columns' types beside it (CSV on the Web)."
        ),
    ] = None,
    json_: AsJson = False,
) -> None:
    """Recompute the papers' claims: stated value, computed value, verdict.

      python -m dpkit claims --paper dp_cgan

    A claim holds or fails; "computed" means that no value was stated. Slow claims rest on stored
    evidence (data/results/claims), which --recompute measures again. "cannot be checked" means that
    evidence is missing, or that the paper omits what decides the value.
    """
    from dpkit import papers  # with all their settings, which other commands do without

    there = papers.with_claims()
    chosen = there if paper is None else (papers.named(paper, there),)
    every = {one.id: one for source in chosen for one in source.CLAIMS}
    if claim is not None and claim not in every:
        raise ValueError(f"claim {claim!r} is unknown; {closest(claim, list(every))}")
    verdicts = check_all(
        [every[one] for one in ([claim] if claim else every)], recompute=recompute
    )
    if export is not None:
        _export(export, verdicts)
    if json_:
        print_json([as_json(verdict) for verdict in verdicts])
    else:
        _show(verdicts)


def _export(path: Path, verdicts: list[Verdict]) -> None:
    """Write a row a claim, infinite values as INF, and W3C's metadata of the columns."""
    text, rows = StringIO(), []
    for verdict in verdicts:
        row = as_json(verdict)
        code = row.pop("code") or {}
        numbers = {"stated": verdict.claim.stated, "computed": verdict.computed}
        for name, value in numbers.items():
            missing = value is None or math.isnan(value)
            row[name] = "" if missing else f"{value:.10g}".replace("inf", "INF")
        rows.append(
            row | {f"code_{name}": code.get(name) for name in ("was", "should", "cause")}
        )
    table = csv.DictWriter(text, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
    write_bytes(path, text.getvalue().encode())
    types = dict.fromkeys(rows[0], "string") | dict.fromkeys(numbers, "double")
    columns = [{"name": name, "datatype": kind} for name, kind in types.items()]
    schema = {"columns": columns, "primaryKey": "id"}
    about = {"@context": "http://www.w3.org/ns/csvw", "url": path.name, "tableSchema": schema}
    write_json(path.with_name(f"{path.name}-metadata.json"), about)


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(help="Such as dp_cgan, or comparison; not needed with --all."),
    ] = None,
    table: Annotated[
        str | None, typer.Argument(help="Such as table_1. Without it: what there is.")
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="All tables, of the paper or of all; then one report."),
    ] = False,
    scale: Annotated[
        str,
        typer.Option(
            help="paper: its own data and sizes. reduced: smaller and shorter, as tables' lists "
            "say. small: seconds a table, no data set."
        ),
    ] = "paper",
    seeds: Annotated[
        int | None, typer.Option(help="Seeds of a column: 3 by default, 1 at scale small.")
    ] = None,
    parts: Annotated[
        str | None, typer.Option(help="Only parts that begin so, such as a,b.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 (and so on).")] = "auto",
    tf32: Annotated[bool, typer.Option("--tf32", help="Faster, rougher on a GPU.")] = False,
    reprice: Annotated[
        bool,
        typer.Option(
            "--reprice", help="Run nothing; price stored parts by today's accountants."
        ),
    ] = False,
    executor: Annotated[
        str,
        typer.Option(
            help="serial: one part after another. processes:4: side by side, also on one GPU "
            "(small networks leave it idle). dask://HOST:PORT: by a Dask scheduler's workers."
        ),
    ] = "serial",
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder of results: data/results by default, data/cache/results at scale small."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="HTML file that --all writes: by default report.html in --results, or "
            "data/cache/report-SCALE.html."
        ),
    ] = None,
    json_: AsJson = False,
) -> None:
    """Reproduce a paper's table; each part is stored when done, and computed only if missing.

    python -m dpkit reproduce dp_cgan

    python -m dpkit reproduce dp_cgan table_1 --scale reduced

    DPKIT_DATA=... python -m dpkit reproduce dp_cgan table_1 --scale paper

    python -m dpkit reproduce --all --scale small --executor processes:2

    Where a paper stores its training on the way, an interrupted run resumes.
    """
    checks.one_of(SCALES, scale=scale)
    seeds = seeds if seeds is not None else 1 if scale == "small" else 3
    checks.whole(1, seeds=seeds)
    from tqdm import tqdm

    from dpkit import papers
    from dpkit.papers import comparison

    known = (*papers.PAPERS, comparison)
    asked: dict[str, Any] = {
        "scale": scale,
        "seeds": seeds,
        "device": device,
        "results": results,
    }
    shown = partial(tqdm, mininterval=1, leave=False, disable=True if json_ else None)
    how: dict[str, Any] = {"executor": executor, "progress": shown, "tf32": tf32}
    if every:
        alone = {"table": table, "parts": parts, "reprice": reprice or None}
        given = [name for name, value in alone.items() if value is not None]
        if given:
            names = " and ".join(given)
            raise ValueError(f"{names} cannot be given with --all; leave one of them out")
        chosen = known if paper is None else (papers.named(paper, known),)
        own = results / "report.html" if results else cache_dir() / f"report-{scale}.html"
        _everything(chosen, known, report or own, asked, how, as_json=json_)
        return
    if paper is None:
        raise ValueError("give a paper, such as dp_cgan, or --all")
    plans = papers.plans_of(paper, known)
    if table is None:
        _list(plans, as_json=json_)
        return

    from dpkit.papers.experiments import reproduce as experiments

    wanted = None if parts is None else [part.strip() for part in parts.split(",")]
    more: dict[str, Any] = {"plans": plans, "parts": wanted, "reprice": reprice}
    _tell(experiments.reproduce(paper, table, **more, **asked, **how), as_json=json_)


def _everything(
    chosen: Sequence[ModuleType],
    known: tuple[ModuleType, ...],
    path: Path,
    asked: dict[str, Any],
    how: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Make all tables of the papers, then the report, even if parts failed."""
    from dpkit.papers import plans_of
    from dpkit.papers.experiments.reproduce import PartsFailed, everything
    from dpkit.papers.report import write

    failed = None
    plans = {paper.NAME: plans_of(paper.NAME, known) for paper in chosen}
    try:
        _tell(everything(plans, **asked, **how), as_json=as_json)
    except PartsFailed as error:
        failed = error
    write(path, chosen, plans, **asked)
    print(f"report: {path}", file=sys.stderr if as_json else sys.stdout)
    if failed is not None:
        raise failed


def _tell(rows: Iterable[dict[str, str]], *, as_json: bool) -> None:
    """Print a line for each part as it is done, or all rows as one JSON value at the end."""
    done = []
    for row in rows:
        done.append(row)
        if not as_json:
            print(" ".join(filter(None, (row.get("table"), row["summary"]))), flush=True)
    if as_json:
        print_json(done)


def _list(plans: Mapping[str, Any], *, as_json: bool) -> None:
    """Print each table of a paper with the first line of its plan's docstring."""
    lines = {}
    for table, plan in plans.items():
        line = (getdoc(getattr(plan, "func", plan)) or "").partition("\n")[0]
        lines[table] = ": ".join([*getattr(plan, "args", ()), line])
    if as_json:
        print_json([{"table": table, "plan": line} for table, line in lines.items()])
    else:
        print("\n".join(f"{table}: {line}" for table, line in lines.items()))


def _show(verdicts: list[Verdict]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("claim", "stated", "computed", "verdict")
    for claim, computed, verdict, _ in verdicts:
        values = (claim.shown(value) or "-" for value in (claim.stated, computed))
        table.add_row(claim.id, *values, verdict)
    console = Console(highlight=False)
    console.print(table)
    console.print(f"{len(verdicts)} claims: {counted(verdicts)}")
    for claim, _, verdict, explanation in verdicts:
        console.print(f"\n[bold]{claim.id}[/bold] {verdict} ({claim.where})")
        console.print(f"Stated: {claim.says}\nWhy: {explanation}", markup=False)
        if claim.code is not None:
            for name, text in (
                ("As it was", claim.code.was),
                ("As it should be", claim.code.should),
            ):
                console.print(f"{name}:\n{indent(text, '    ')}", markup=False)
