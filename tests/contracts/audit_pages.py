"""docs/audits.md: what attacks measured, from the stored results."""

import math
from typing import Any

from doc_parts import table
from own_mechanisms import targets as own

from dpkit.common.show import at_least, at_most
from dpkit.papers import PAPERS
from dpkit.papers.targets import results, targets
from dpkit.papers.targets.target import Target

OWN = "mechanisms"  # the group of the targets that tests hold
COLUMNS = "target | claimed | charged | proven | measured | trials | seconds"


def least(measured: float) -> str:
    """A measured epsilon in a table."""
    return "no finite epsilon" if math.isinf(measured) else f"≥ {at_least(measured, 3)}"


def every() -> list[Target]:
    """What `audit list` has, and after the papers' the kit's own mechanisms, which tests attack."""
    papers = {paper.NAME for paper in PAPERS}
    return sorted((*targets(), *own.TARGETS), key=lambda t: (t.group not in papers, t.group != OWN))


def refuted() -> list[dict[str, Any]]:
    """Stored rows of the published variants whose claimed or charged epsilon does not hold."""
    rows = [results.stored(target) for target in every()]
    return [row for row in rows if row and row["refuted"] and row["version"] == "published"]


def draw_scores() -> bytes:
    """Draw both worlds' scores of each refuted variant: what the attacker tells apart."""
    from dpkit.common import plots

    rows = refuted()
    drawn, axes = plots.grid(len(rows), columns=4, width=9.6, row=1.5)
    for ax, row in zip(axes, rows, strict=True):
        scores, filled = row["scores"], {"fill": True, "alpha": 0.55}
        for world, colour in (("absent", 0), ("present", 1)):
            ax.stairs(scores[world], scores["edges"], **filled, color=plots.COLOURS[colour])
        ax.set_title(row["target"], fontsize=7.5)
        ax.tick_params(labelsize=6, left=False, labelleft=False)
        ax.locator_params(axis="x", nbins=4)
        ax.xaxis.offsetText.set_fontsize(6)
    return plots.picture(drawn, "").png()


def audits() -> str:
    """All targets by group: what is said, proven and measured; below it each attack's targets."""
    titles = {paper.NAME: paper.TITLE for paper in PAPERS} | {
        **{OWN: "Mechanisms of the kit", "sampling": "How batches are drawn"},
        **{"training": "Training with the kit", "baselines": "One release of data"},
    }
    groups: dict[str, list[dict[str, Any]]] = {}
    for target in every():
        row = results.stored(target)
        if row is None:
            raise ValueError(f"attack {target.id} with --store, as docs/audits.md says: not stored")
        groups.setdefault(titles[target.group], []).append(row)
    parts = []
    for title, rows in groups.items():
        columns = zip(COLUMNS.split(" | "), *map(_cells, rows), strict=True)
        heads, *cells = zip(*(column for column in columns if any(column[1:])), strict=True)
        parts += [f"### {title}", table(" | ".join(heads), cells)]
        attacks: dict[str, list[str]] = {}
        for row in rows:
            said = f"- `{row['target']}`: {row['says']} ({row['where']})"
            attacks.setdefault(row["attack"], []).append(said)
        parts += ["\n".join([f"Attack: {one}\n", *said]) for one, said in attacks.items()]
    return "\n\n".join(parts)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    said = ("" if row[name] is None else f"{row[name]:.4g}" for name in ("claimed", "charged"))
    measured = least(float(row["measured"]))
    return (
        f"`{row['target']}`",
        *said,
        "no finite epsilon" if row["proven"] == "inf" else at_most(row["proven"]),
        f"**{measured}**" if row["refuted"] else measured,
        f"{row['trials']:,}",
        f"{row['seconds']:.0f}",
    )
