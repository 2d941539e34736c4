"""The page: stored parts and claims, gathered by paper, in the template.

It holds no dates and no durations: the same stored parts give the same bytes, however often the
runs were interrupted.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from inspect import getdoc
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from dpkit.common.records import code_version, write_bytes
from dpkit.common.show import at_most, short
from dpkit.papers.claims import OUTCOMES, check
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
MARKS = {"holds": "good", "fails": "bad", "computed": "plain", "cannot be checked": "open"}
NOTHING = "–"
_FOLDED = ("lowest", "highest")


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
        outcomes=[(name, MARKS[name]) for name in OUTCOMES],
        marks=MARKS,
        versions=_versions(records),
        data=_data(records),
        code=code_version(),
    )
    return write_bytes(path, page.encode())


def _section(
    paper: ModuleType, asked: Sequence[Sweep], stored: Mapping[str, Stored]
) -> dict[str, Any]:
    """One paper's section; of each verdict name, mark and number of claims."""
    tables = [_table(one, stored[one.table]) for one in asked]
    verdicts = [check(claim) for claim in paper.CLAIMS]
    count = Counter(one.verdict for one in verdicts)
    return {
        "name": paper.NAME,
        "title": paper.TITLE,
        "about": (getdoc(paper) or "").split("\n\n"),
        "grids": [grid(shown, stored) for shown in paper.tables.SHOWN],
        "tables": tables,
        "verdicts": verdicts,
        "counts": [(name, MARKS[name], count[name]) for name in OUTCOMES],
        "stored": sum(len(table["parts"]) for table in tables),
        "planned": sum(table["planned"] for table in tables),
    }


def _table(asked: Sweep, stored: Stored) -> dict[str, Any]:
    """The planned and stored parts of one table, and each one's origin."""
    name, plan = asked.table, asked.plan
    return {
        "name": name,
        "about": (getdoc(getattr(plan, "func", plan)) or "").partition("\n")[0],
        "planned": len(asked.parts()),
        "parts": [
            {
                "name": one,
                **{key: part["provenance"][key] for key in ("seed", "device", "code")},
                **{key: part["values"].get(f"epsilon_{key}") for key in ("claimed", "proven")},
            }
            for one, part in sorted(stored.items())
        ],
    }


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
        "epsilon": epsilon,
        "ticked": lambda words: Markup(
            re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(words)))
        ),
    }
    return env.get_template("page.html")


class PictureGrid(NamedTuple):
    """A table as text.

    heads: of each column its name and unit ("" where stated elsewhere).
    numeric: of each column whether it holds numbers.
    """

    title: str
    heads: list[tuple[str, str]]
    numeric: list[bool]
    rows: list[list[str]]


def grid(shown: Shown, stored: Mapping[str, Stored]) -> PictureGrid:
    """A report's table from the stored parts of all plans of its paper, by plan.

    A column's lowest and highest value stand in brackets beside it. Columns whose
    name or unit is an epsilon are rounded upwards.
    """
    rows = [_folded(row) for row in shown.rows(*(stored.get(name, {}) for name in shown.of))]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return PictureGrid(
        shown.title,
        [(column.replace("_", " "), shown.units.get(column, "")) for column in columns],
        [any(_number(row.get(column)) for row in rows) for column in columns],
        [[_cell(row.get(column), column, shown) for column in columns] for row in rows],
    )


def epsilon(value: Any) -> str:
    """An epsilon as its cell shows it, rounded upwards."""
    finite = isinstance(value, float) and math.isfinite(value)
    return at_most(value) if finite else text(value)


def text(value: Any) -> str:
    """A value as its cell shows it; "none" where it is infinite."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Ranged):
        alone = value.seeds == 1 or value.lowest is None or value.mean is None
        ends = "" if alone else f" ({text(value.lowest)} to {text(value.highest)})"
        return text(value.mean) + ends
    if isinstance(value, int):
        return f"{value:,}"
    if value == "inf" or (isinstance(value, float) and math.isinf(value)):
        return "none"
    return short(value, 4) if isinstance(value, float) else str(value)


class Ranged(NamedTuple):
    """A number with the lowest and highest one over seeds."""

    mean: float | None
    lowest: float | None
    highest: float | None
    seeds: int | None = None


def _cell(value: Any, column: str, shown: Shown) -> str:
    named = f"{column} {shown.units.get(column, '')}"
    return epsilon(value) if "epsilon" in named else text(value)


def _folded(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with each range beside its number: of "lowest" the column before it."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if name == "lowest":
            last = next(reversed(found))
            found[last] = Ranged(found[last], value, row["highest"], row.get("seeds"))
        elif name.endswith("_range") and name.removesuffix("_range") in found:
            key = name.removesuffix("_range")
            found[key] = Ranged(found[key], *(value or (None, None)))
        elif name not in _FOLDED:
            found[name] = Ranged(**value) if _is_spread(value) else value
    return found


def _is_spread(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == set(Ranged._fields)


def _number(value: Any) -> bool:
    return isinstance(value, int | float | Ranged) and not isinstance(value, bool)
