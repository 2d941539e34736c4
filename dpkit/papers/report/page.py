"""The page: stored parts and claims, gathered by paper, in the template.

It holds no dates and no durations: the same stored parts give the same bytes, however often the
runs were interrupted.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from inspect import getdoc
from pathlib import Path
from types import ModuleType
from typing import Any

from dpkit.common.records import code_version, write_bytes
from dpkit.common.show import Table, at_most, counted, short
from dpkit.papers.claims import check
from dpkit.papers.claims import counted as outcomes
from dpkit.papers.experiments import store
from dpkit.papers.experiments.reproduce import Sweep
from dpkit.papers.experiments.store import PartsPlan, Shown, Stored

SCALES = {
    "paper": "The papers' own data sets, sizes and numbers of steps.",
    "reduced": "Smaller networks and fewer steps than the papers', as each table's plan says.",
    "small": "A few steps of tiny networks on the embedded digits and a simulated census: this "
    "shows that everything runs, and how it would be shown. Scores at this scale mean nothing; "
    "epsilons are those of these short runs.",
}
RUN = ("run", "seed", "epsilon claimed", "epsilon proven", "device", "code")


def write(
    path: Path,
    papers: Sequence[ModuleType],
    plans: Mapping[str, Mapping[str, PartsPlan]],
    *,
    scale: str,
    seeds: int,
    device: str = "auto",
    results: Path | None = None,
) -> Path:
    """Write the report, whole or not at all, and return its path.

    Args:
        path: of one HTML file, which needs no other.
        papers: packages, each with its claims and shown tables.
        plans: by paper and table.
        scale, seeds, device, results: of the stored parts, as `reproduce`.
    """
    sections, records = [], []
    for paper in papers:
        asked = [
            Sweep(paper.NAME, name, plan, scale, seeds, device)
            for name, plan in plans[paper.NAME].items()
        ]
        stored = {one.table: _wanted(one, results) for one in asked}
        records += [part for some in stored.values() for part in some.values()]
        sections.append(_section(paper, asked, stored))
    page = _template().render(
        papers=sections,
        scale=scale,
        scale_words=SCALES[scale],
        seeds=seeds,
        versions=Table(("what", "version"), _versions(records)),
        data=Table(("data set", "SHA-256 of what was read"), _data(records)),
        code=code_version(),
    )
    return write_bytes(path, page.encode())


def _section(
    paper: ModuleType, asked: Sequence[Sweep], stored: Mapping[str, Stored]
) -> dict[str, Any]:
    """One paper's tables, verdicts and runs: of each plan name, purpose, parts and their table."""
    verdicts = [check(claim) for claim in paper.CLAIMS]
    return {
        "of": paper,
        "about": (getdoc(paper) or "").split("\n\n"),
        "grids": [(shown.title, grid(shown, stored)) for shown in paper.tables.SHOWN],
        "verdicts": verdicts,
        "outcomes": outcomes(verdicts),
        "stored": sum(len(some) for some in stored.values()),
        "planned": sum(len(one.parts()) for one in asked),
        "runs": [
            (
                one.table,
                (getdoc(getattr(one.plan, "func", one.plan)) or "").partition("\n")[0],
                len(one.parts()),
                Table(RUN, [_run(*part) for part in sorted(stored[one.table].items())]),
            )
            for one in asked
        ],
    }


def _run(name: str, part: Mapping[str, Any]) -> list[str]:
    """One stored part and its origin."""
    told, found = part["provenance"], part["values"]
    epsilons = [text(found.get(f"epsilon_{key}"), at_most) for key in ("claimed", "proven")]
    return [name, text(told["seed"]), *epsilons, told["device"], told["code"]]


def _wanted(asked: Sweep, results: Path | None) -> dict[str, Any]:
    """The stored parts that this run asked for."""
    names = {part.name for part in asked.parts()}
    stored = store.load(asked.paper, asked.table, scale=asked.scale, results=results)
    return {name: part for name, part in stored.items() if name in names}


def _versions(records: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The software of the stored parts: each name and all its versions."""
    found: dict[str, set[str]] = {}
    for record in records:
        told = record["provenance"]
        named = {"Python": told["python"], "code": told["code"], "device": told["device"]}
        for name, version in (named | told["packages"]).items():
            found.setdefault(name, set()).add(version)
    return [(name, ", ".join(sorted(versions))) for name, versions in found.items()]


def _data(records: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The data sets read, with their checksums."""
    return sorted({one for record in records for one in record["provenance"]["data"].items()})


def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    env = Environment(
        autoescape=True,
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "shown": text,
        "counted": counted,
        "html": lambda table: Markup(table.html()),
        "ticked": lambda words: Markup(
            re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(words)))
        ),
    }
    return env.get_template("page.html")


def grid(shown: Shown, stored: Mapping[str, Stored]) -> Table:
    """A report's table from the stored parts of all plans of its paper, by plan.

    A column's lowest and highest value stand in brackets beside it. Columns whose
    name or unit is an epsilon are rounded upwards.
    """
    rows = [_folded(row) for row in shown.rows(*(stored.get(name, {}) for name in shown.of))]
    heads = {
        column: column.replace("_", " ") + (f" ({unit})" if unit else "")
        for row in rows
        for column in row
        for unit in [shown.units.get(column)]
    }
    forms = {name: at_most if "epsilon" in head else short for name, head in heads.items()}
    cells = [[text(row.get(name), forms[name]) for name in heads] for row in rows]
    return Table(list(heads.values()), cells)


def text(value: Any, rounded: Callable[..., str] = short) -> str:
    """A value as its cell shows it; "none" where it is infinite."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if value == "inf" or (isinstance(value, float) and math.isinf(value)):
        return "none"
    return rounded(value, 4) if isinstance(value, float) else str(value)


def _folded(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with each range beside its number: of "lowest" the column before it."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        key = name.removesuffix("_range")
        if name == "lowest":
            last = next(reversed(found))
            found[last] = _ranged(found[last], value, row["highest"], row.get("seeds"))
        elif key != name and key in found:
            found[key] = _ranged(found[key], *(value or (None, None)))
        elif name != "highest":
            found[name] = _ranged(**value) if isinstance(value, Mapping) else value
    return found


def _ranged(mean: Any, lowest: Any, highest: Any, seeds: int | None = None) -> Any:
    """A number, with the lowest and highest one where there are several seeds."""
    alone = seeds == 1 or lowest is None or mean is None
    return mean if alone else f"{text(mean)} ({text(lowest)} to {text(highest)})"
