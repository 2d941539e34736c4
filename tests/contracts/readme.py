"""Writes what README.md says from what the kit computes: its claims table and its picture.

`python tests/contracts/readme.py` (or `make readme`) rewrites both; a test compares the table.
"""

import math
from pathlib import Path

from dpkit.claims import check
from dpkit.papers import PAPERS

ROOT = Path(__file__).resolve().parents[2]
START, END = "<!-- claims: written by `make readme` -->", "<!-- end of claims -->"
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


def written(readme: str) -> str:
    """The README with the table that is computed now between its two markers."""
    before, rest = readme.split(START)
    after = rest.split(END)[1]
    return f"{before}{START}\n\n{claims_table()}\n\n{END}{after}"


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
