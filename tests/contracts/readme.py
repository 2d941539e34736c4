"""Writes what README.md says from what the kit computes: its claims table and its picture.

`python tests/contracts/readme.py` (or `make readme`) rewrites both; a test compares the table.
"""

import math
from pathlib import Path

from dpkit.claims import check
from dpkit.papers import PAPERS

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = "claims"
TABLE_1 = "table 1"
SAMPLES = ROOT / "data" / "results" / "dp_cgan" / "table_1" / "samples.png"
ROWS = {
    "cgan": "CGAN", "published": "as published", "basic_dp": "basic DP", "honest": "honest, 9.6",
}  # fmt: skip


def claims_table() -> str:
    """All claims as a table: what is said, stated, computed, verdict."""
    lines = ["| claim | what is said | stated | computed | |", "|---|---|---|---|---|"]
    for paper in PAPERS:
        for claim in paper.CLAIMS:
            verdict = check(claim)
            stated, computed = _number(claim.stated), _number(verdict.computed)
            mark = f"**{verdict.verdict}**" if verdict.verdict == "fails" else verdict.verdict
            lines.append(f"| `{claim.id}` | {claim.says} | {stated} | {computed} | {mark} |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return ""
    return "none" if math.isinf(value) else f"{value:.6g}"


def table_1() -> str:
    """DP-CGAN's Table 1 from the stored runs: means over seeds, per cent, by both protocols."""
    from dpkit.experiments import store
    from dpkit.papers.dp_cgan.tables import table_1 as rows_of

    stored = store.load("dp_cgan", "table_1")
    published, ours = rows_of(stored), rows_of(stored, protocol="auroc")
    lines = [
        "| trained on | | paper | our runs, tested in 0..255 as published | in [0, 1] |",
        "|---|---|---|---|---|",
    ]
    for row, other in zip(published, ours, strict=True):
        cells = (_percent(row["paper"]), _spread(row), _spread(other))
        lines.append(f"| {row['column']} | {row['classifier']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _spread(row: dict) -> str:
    if row["seeds"] < 2:
        return _percent(row["mean"])
    return f"{row['mean']:.2f} ({row['lowest']:.2f} to {row['highest']:.2f})"


def written(readme: str) -> str:
    """The README with the tables that are computed now between their markers."""
    for name, table in ((CLAIMS, claims_table()), (TABLE_1, table_1())):
        start, end = f"<!-- {name}: written by `make readme` -->", f"<!-- end of {name} -->"
        before, rest = readme.split(start)
        readme = f"{before}{start}\n\n{table}\n\n{end}{rest.split(end)[1]}"
    return readme


def draw_samples() -> bytes:
    """The picture of generated digits, from the stored samples."""
    from dpkit import plots
    from dpkit.experiments import store

    rows = {
        title: store.load_images("dp_cgan", "table_1", f"{key}-seed0-train")
        for key, title in ROWS.items()
    }
    return plots.picture(plots.image_rows(rows), "").png


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(written(readme.read_text(encoding="utf-8")), encoding="utf-8")
    SAMPLES.write_bytes(draw_samples())
