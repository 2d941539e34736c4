"""Writes what README.md says from what the kit computes: tables, launch links and a picture.

`python tests/contracts/readme.py` (or `make readme`) rewrites all; a test compares the text.
"""

import math
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlparse

from dpkit.claims import check
from dpkit.papers import PAPERS

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = "claims"
TABLE_1 = "table 1"
LAUNCH = "launch links"
# What mybinder.org calls a host, and how it wants owner and name joined.
HOSTS = {"github.com": ("gh", "/"), "gitlab.com": ("gl", "%2F")}
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


def launch_links(project: dict[str, Any], notebooks: list[str]) -> str:
    """A link to mybinder.org for each notebook, at the release's tag; "" without an address.

    Args:
        project: the table [project] of pyproject.toml; `urls.repository` is the address.
        notebooks: names of files in notebooks/.

    Raises:
        ValueError: the address is none of OWNER/NAME at a host that mybinder.org builds from.
    """
    address = project.get("urls", {}).get("repository", "")
    if not address:
        return ""
    parts = urlparse(address)
    path = parts.path.strip("/").removesuffix(".git")
    if parts.hostname not in HOSTS or path.count("/") != 1:
        raise ValueError(
            f"[project.urls] repository must be https://HOST/OWNER/NAME with HOST one of"
            f" {', '.join(HOSTS)}; got {address!r}. Leave it out to draw no links"
        )
    host, slash = HOSTS[parts.hostname]
    base = f"https://mybinder.org/v2/{host}/{path.replace('/', slash)}/v{project['version']}"
    links = [
        f"[{Path(name).stem}]({base}?urlpath={quote(f'lab/tree/notebooks/{name}')})"
        for name in notebooks
    ]
    return "![Launch on Binder](https://mybinder.org/badge_logo.svg) " + " · ".join(links)


def _launch_links() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return launch_links(project, sorted(path.name for path in ROOT.glob("notebooks/*.ipynb")))


def written(readme: str) -> str:
    """The README with what is computed now between its markers."""
    for name, table in (
        (CLAIMS, claims_table()),
        (TABLE_1, table_1()),
        (LAUNCH, _launch_links() or "<!-- none: pyproject.toml names no repository -->"),
    ):
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
