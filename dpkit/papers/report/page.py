"""The page: what is stored and claimed, gathered by paper, and put into the template.

It says nothing of when it was written or how long anything took: the same stored parts give the
same bytes, however often the runs were interrupted.
"""

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from inspect import getdoc
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from dpkit.common.records import code_version, write_bytes
from dpkit.papers.claims import OUTCOMES, Verdict, check
from dpkit.papers.experiments import store
from dpkit.papers.experiments.reproduce import Asked
from dpkit.papers.experiments.store import Plan, Stored
from dpkit.papers.report import cells, pictures

SCALES = {
    "paper": "The papers' own data sets, sizes and numbers of steps.",
    "reduced": "Smaller networks and fewer steps than the papers', as each table's plan says.",
    "small": "A few steps of tiny networks on the embedded digits and a simulated census: this "
    "shows that everything runs, and how it would be shown. Scores at this scale mean nothing; "
    "epsilons are those of these short runs.",
}
MARKS = {"holds": "good", "fails": "bad", "computed": "plain", "cannot be checked": "open"}


class PartRow(NamedTuple):
    """How one stored part came about."""

    name: str
    seed: int | None
    device: str
    code: str
    claimed: Any
    proven: Any


class Table(NamedTuple):
    """What is planned and stored of one table."""

    name: str
    about: str
    planned: int
    parts: list[PartRow]
    samples: list[pictures.Drawn]
    curves: list[pictures.Drawn]


class Paper(NamedTuple):
    """One paper's section."""

    name: str
    title: str
    about: list[str]
    grids: list[cells.Grid]
    tables: list[Table]
    verdicts: list[Verdict]

    @property
    def counts(self) -> list[tuple[str, str, int]]:
        """Of each verdict its name, its mark, and how many claims have it."""
        count = Counter(one.verdict for one in self.verdicts)
        return [(name, MARKS[name], count[name]) for name in OUTCOMES]

    @property
    def stored(self) -> int:
        """Number of parts that are stored."""
        return sum(len(table.parts) for table in self.tables)

    @property
    def planned(self) -> int:
        """Number of parts that there are."""
        return sum(table.planned for table in self.tables)


def write(
    path: Path,
    papers: Sequence[ModuleType],
    plans: Mapping[str, Mapping[str, Plan]],
    *,
    scale: str,
    seeds: int,
    device: str = "auto",
    results: Path | None = None,
) -> Path:
    """Write the report, whole or not at all, and return its path.

    Args:
        path: of one HTML file, which needs no other.
        papers: packages, each with its claims, and with the tables that it shows.
        plans: by paper and table.
        scale, seeds, device, results: what was computed, and where it is stored (`reproduce`).
    """
    sections, records = [], []
    for paper in papers:
        asked = [
            Asked(paper.NAME, name, plan, scale, seeds, device)
            for name, plan in plans[paper.NAME].items()
        ]
        stored = {one.table: _wanted(one, results) for one in asked}
        records += [part for some in stored.values() for part in some.values()]
        sections.append(_section(paper, asked, stored, results))
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
    paper: ModuleType, asked: Sequence[Asked], stored: Mapping[str, Stored], results: Path | None
) -> Paper:
    tables = [_table(one, stored[one.table], results) for one in asked]
    grids = [cells.grid(shown, stored) for shown in paper.tables.SHOWN]
    about = (getdoc(paper) or "").split("\n\n")
    return Paper(paper.NAME, paper.TITLE, about, grids, tables, [*map(check, paper.CLAIMS)])


def _table(asked: Asked, stored: Stored, results: Path | None) -> Table:
    name, plan = asked.table, asked.plan
    about = (getdoc(getattr(plan, "func", plan)) or "").partition("\n")[0]
    rows = [_part(*one) for one in sorted(stored.items())]
    curves = pictures.curves(stored, name.replace("_", " "))
    samples = [*_samples(asked, stored, results)]
    return Table(name, about, len(asked.parts()), rows, samples, curves)


def _wanted(asked: Asked, results: Path | None) -> dict[str, Any]:
    """The stored parts that this run asked for: not those of more seeds."""
    names = {part.name for part in asked.parts()}
    stored = store.load(asked.paper, asked.table, scale=asked.scale, results=results)
    return {name: part for name, part in stored.items() if name in names}


def _samples(asked: Asked, stored: Stored, results: Path | None) -> Iterable[pictures.Drawn]:
    where = {"scale": asked.scale, "results": results}
    folder = store.folder(asked.paper, asked.table, **where)
    for name in sorted(stored):
        if (folder / f"{name}.npz").exists():
            images = store.load_images(asked.paper, asked.table, name, **where)
            yield pictures.samples(images, name)


def _part(name: str, record: Mapping[str, Any]) -> PartRow:
    told, values = record["provenance"], record["values"]
    epsilons = (values.get(f"epsilon_{sense}") for sense in ("claimed", "proven"))
    return PartRow(name, told["seed"], told["device"], told["code"], *epsilons)


def _versions(records: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What the stored parts were computed with: each name and all its versions."""
    found: dict[str, set[str]] = {}
    for record in records:
        told = record["provenance"]
        named = {"Python": told["python"], "code": told["code"], "device": told["device"]}
        for name, version in (named | told["packages"]).items():
            found.setdefault(name, set()).add(version)
    return [(name, ", ".join(sorted(versions))) for name, versions in found.items()]


def _data(records: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The data sets that were read, with their checksums."""
    return sorted({one for record in records for one in record["provenance"]["data"].items()})


def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    loader = FileSystemLoader(Path(__file__).parent)
    env = Environment(
        autoescape=True,
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "shown": cells.text,
        "epsilon": cells.epsilon,
        "ticked": lambda words: Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(words)))),
        "inline": lambda png: f"data:image/png;base64,{b64encode(png).decode()}",
    }
    return env.get_template("page.html")
