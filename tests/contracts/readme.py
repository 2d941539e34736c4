"""Write what README.md and docs/ say from what the kit computes: tables, links and pictures.

`make readme` rewrites all, the values of claims that tests compare with, and
binder/requirements.txt; tests compare the texts.
"""

import io
import math
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlparse

import audit_pages
import doc_parts
from doc_parts import ranged, table
from packaging.requirements import Requirement

from dpkit.common import records
from dpkit.common.show import at_most
from dpkit.papers import PAPERS, with_claims
from dpkit.papers.adadp import tables as adadp
from dpkit.papers.claims import OUTCOMES, as_json, check, counted
from dpkit.papers.dp_cgan import tables as dp_cgan
from dpkit.papers.dpgan import tables as dpgan
from dpkit.papers.experiments import store
from dpkit.papers.rdp_gan import tables as rdp_gan
from dpkit.papers.small_images import tables as small_images
from dpkit.papers.targets import chosen, results
from dpkit.privacy import Guarantee, pld

ROOT = Path(__file__).resolve().parents[2]
# What mybinder.org calls a host, and how it wants owner and name joined.
HOSTS = {"github.com": ("gh", "/"), "gitlab.com": ("gl", "%2F")}
BINDER_REQUIREMENTS = ROOT / "binder" / "requirements.txt"
BINDER_HEAD = """\
# Written by `make readme` from pyproject.toml: what the notebooks need, without torch, whose CPU
# build postBuild installs with uv. The versions are those of constraints.txt.
-c ../constraints.txt"""
CLAIM_VALUES = ROOT / "tests" / "papers" / "claims.json"
SAMPLES = ROOT / "data" / "results" / "dp_cgan" / "table_1" / "samples.png"
CHART = ROOT / "docs" / "epsilons.svg"
SCORES = ROOT / "docs" / "audits.png"
UTILITY = ROOT / "docs" / "utility.png"
UTILITY_SAMPLES = ROOT / "docs" / "utility_samples.png"
COLAB = "https://colab.research.google.com"
DELTA = 1e-5
WORDS = {"ahead": "a gain", "behind": "a loss", "open": "not decided"}
ROWS = {"cgan": "CGAN", "published": "as published"}
ROWS |= {"basic_dp": "basic DP", "repaired": "repaired, 9.6"}


class System(NamedTuple):
    """A published system: epsilons claimed, certified upper bounds and measured lower ones.

    proven: of the run as published, in the sense of the batches that it draws; inf where no finite
        epsilon covers it.
    repaired: of the kit's counterpart with a valid guarantee.
    measured, measured_repaired: stored lower bounds on either, at 95 % confidence; inf where no
        finite epsilon fits.
    """

    name: str
    claimed: float
    proven: Guarantee
    repaired: Guarantee
    measured: float
    measured_repaired: float


@cache
def systems() -> tuple[System, ...]:
    """The papers' main runs, at the papers' scale; what was measured is of the stored attacks."""
    found = []
    for paper in PAPERS:
        run = paper.claims.main_run()
        proven, repaired = (pld.epsilon(one, delta=DELTA) for one in (run.published, run.repaired))
        rows = [
            results.stored(chosen(f"{paper.NAME}/{version}")[0])
            for version in ("published", "repaired")
        ]
        if None in rows:
            remedy = f"python -m dpkit audit run {paper.NAME} --store"
            raise ValueError(f"run `{remedy}`: a result is not stored")
        measured = (float(row["measured"]) for row in rows if row)
        found.append(System(run.name, run.claimed, proven, repaired, *measured))
    return tuple(found)


def systems_table() -> str:
    """Claimed, proven and measured epsilons, one row per system."""
    rows = (
        (
            system.name,
            f"{system.claimed:.3g}",
            audit_pages.least(system.measured),
            _epsilon(system.proven.epsilon),
            audit_pages.least(system.measured_repaired),
            _epsilon(system.repaired.epsilon),
        )
        for system in systems()
    )
    heads = "system | claimed | as published: measured | proven | repaired: measured | proven"
    return table(heads, rows)


def draw_chart() -> bytes:
    """Draw claimed epsilons, and from measured to proven a line on which the true one lies."""
    from matplotlib import rc_context

    from dpkit.common import plots

    drawn, (ax,) = plots.figure(width=7.6, height=3.2)
    edge, floor, colours = 3e4, 0.1, plots.MEANINGS
    marks = (("o", "claimed", "claimed"), ("|", "measured", "published: measured"))
    marks += (("D", "proven", "published: proven"), ("|", "repaired", "repaired: measured"))
    marks += (("s", "repaired", "repaired: proven"),)
    for mark, colour, name in marks:
        ax.plot([], [], mark, color=colours[colour], label=name, mew=2 if mark == "|" else 1)
    for y, system in enumerate(reversed(systems())):
        rows = (
            (y + 0.13, system.measured, system.proven, ("measured", "proven", "D")),
            (y - 0.2, system.measured_repaired, system.repaired, ("repaired", "repaired", "s")),
        )
        for height, measured, proven, (low, high, mark) in rows:
            if math.isinf(measured):
                how: Any = {"textcoords": "offset points", "ha": "right", "va": "center"}
                ax.annotate("no finite epsilon", (edge, height), (-8, 0), **how, fontsize=8)
                ax.plot(edge, height, ">", ms=7, color=colours[high])
                continue
            ends = (max(measured, floor), proven.epsilon)
            ax.plot(ends, (height, height), "-", lw=1.6, color=colours[high])
            ax.plot(ends[0], height, "|", ms=9, mew=2, color=colours[low])
            ax.plot(ends[1], height, mark, ms=6, color=colours[high])
        ax.plot(system.claimed, y + 0.13, "o", color=colours["claimed"], ms=8, zorder=5)
    names = [system.name for system in reversed(systems())]
    ax.set_yticks(range(len(names)), names)
    ax.set(xscale="log", xlim=(0.8 * floor, 1.3 * edge), ylim=(-0.6, len(names) - 0.4))
    ax.xaxis.set_major_formatter("{x:,g}")
    ax.xaxis.tick_top()
    ax.set_xlabel("epsilon at delta 1e-5: smaller is more private", loc="left")
    ax.xaxis.set_label_position("top")
    drawn.legend(loc="outside upper left", ncols=5, frameon=False, fontsize=8)
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "dpkit"}):  # the same names on every run
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def verdicts_table() -> str:
    """How many claims of each paper hold, fail, or have nothing stated to compare with."""
    rows = []
    for paper in with_claims():
        count = Counter(check(claim).verdict for claim in paper.CLAIMS)
        cells = (len(paper.CLAIMS), *(count[name] for name in OUTCOMES))
        rows.append((paper.TITLE, *map(str, cells)))
    return table(f"paper | claims | {' | '.join(OUTCOMES.values())}", rows)


def claims_table() -> str:
    """All claims, folded by paper: what is said, stated, computed, verdict."""
    parts = []
    for paper in PAPERS:
        verdicts = [check(claim) for claim in paper.CLAIMS]
        rows = []
        for claim, computed, verdict, _ in verdicts:
            mark = f"**{verdict}**" if verdict == "fails" else verdict
            values = (claim.shown(value) for value in (claim.stated, computed))
            rows.append((f"`{claim.id}`", claim.says, *values, mark))
        summary = f"<summary><b>{paper.TITLE}</b>: {counted(verdicts)}</summary>"
        written = table("claim | what is said | stated | computed |", rows)
        parts.append(f"<details>\n{summary}\n\n{written}\n\n</details>")
    return "\n\n".join(parts)


def table_1() -> str:
    """DP-CGAN's Table 1 from the stored runs: means over seeds, per cent, by both protocols."""
    stored = store.load("dp_cgan", "table_1")
    published, ours = (dp_cgan.table_1(stored, protocol=one) for one in ("auroc_255", "auroc"))
    rows = []
    for row, other in zip(published, ours, strict=True):
        printed = "" if row["paper"] is None else f"{row['paper']:.2f}"
        rows.append((row["column"], row["classifier"], printed, ranged(row), ranged(other)))
    heads = "trained on | | paper | our runs, tested in 0..255 as published | in [0, 1]"
    return table(heads, rows)


def table_5() -> str:
    """RDP-GAN's Table V: the paper's score, and what is learned from the generated records."""
    rows = (
        [row["trained on or tested on"]]
        + [_share(row, score) for score in ("accuracy", "trained_on_generated")]
        for row in rdp_gan.figure_8(store.load("rdp_gan", "table_5"))
    )
    heads = "generated by | a classifier of real records answers them | a classifier trained on "
    return table(heads + "them answers real ones", rows)


def figures() -> str:
    """Small Images: Figures 1 to 3 from the stored runs, and what follows for the findings."""
    from dpkit.papers.small_images import findings

    shared = store.load("small_images", "common", scale="reduced")
    stored = {
        name: store.load("small_images", name, scale="reduced") | shared
        for name in ("figure_1", "figure_2", "figure_3")
    }
    rows = [("", row["run"], row) for row in small_images.common(shared)]
    for name, varied in zip(stored, ("clip norm", "noise", "capacity"), strict=True):
        title = name.replace("_", " ").capitalize()
        found = getattr(small_images, name)(stored[name])
        rows += [(title, f"{varied} {row['value']:g}", row) for row in found]
    cells = []
    for title, run, row in rows:
        names = ("break_off_epsilon", "epsilon_claimed", "epsilon_proven")
        epsilons = (_epsilon(row[name]) for name in names)
        numbers = (f"{row['steps']:,}", ranged(row, "plateau"), *epsilons)
        cells.append((title, run, *numbers))
    said = [
        f"- **{one.verdict}**: {one.says} ({one.where}) "
        f"{one.explanation[:1].upper()}{one.explanation[1:]}"
        for one in findings.findings(*stored.values())
    ]
    heads = "| run | steps | plateau | break-off at epsilon | epsilon charged | epsilon proven"
    return "\n".join([table(heads, cells), "", *said])


def ablation() -> str:
    """dpGAN on MNIST, as published and repaired at one epsilon, as far as the runs are stored."""
    stored = {
        name: part
        for table in ("table_2", "table_9")
        for name, part in store.load("dpgan", table, scale="reduced").items()
    }
    lines = [
        f"| {row['setting']} | | {ranged(row)} | | | |"
        for row in dpgan.table_2(stored)[:3]  # real images, GAN, public images alone
    ]
    rows = []
    for row in dpgan.table_9(stored):
        if row["seeds"]:
            epsilons = (_epsilon(row[f"epsilon {x}"]) for x in ("claimed", "if Poisson", "proven"))
            rows.append((row["configuration"], row["arm"], ranged(row), *epsilons))
    heads = "optimisations | | inception score | epsilon claimed | if Poisson, add-remove | proven"
    written = table(heads, rows).split("\n")
    own = "all optimisations, as published, ahead of | points | | seed by seed"
    ahead = table(own, [(row["over"], *_lead(row, 2)) for row in dpgan.leads(stored)])
    return "\n".join([*written[:2], *lines, *written[2:], "", ahead])


def semi_supervised() -> str:
    """dpGAN's Table 6: accuracy on MNIST as printed, and of the stored runs."""
    rows = dpgan.table_6(store.load("dpgan", "table_6", scale="reduced"))
    short = ["GAN", "as published", "matched", "repaired"]
    titles = list(dict.fromkeys(row["setting"] for row in rows))
    cells = []
    for labels in dpgan.LABELS:
        own = {row["setting"]: row for row in rows if row["labels"] == labels}
        printed = [one[labels] for one in dpgan.PRINTED["table_6"].values()]
        ours = [own[titles[0]]["supervised"], *(own[title]["mean"] for title in titles)]
        numbers = ("" if one is None else f"{one:.3f}" for one in (*printed, *ours))
        cells.append((f"{labels:,}", *numbers))
    heads = f"labels | printed: alone | GAN | dpGAN | ours: alone | {' | '.join(short)}"
    return table(heads, cells)


def levels() -> str:
    """AdaDP and its rivals: accuracies at three epsilons, and the printed gains beside ours."""
    shown = [f"{epsilon:g}" for epsilon in adadp.EPSILONS]
    written, verdicts = [], []
    for name, title in adadp.FIGURES.items():
        stored = store.load("adadp", name)
        rows = (
            (row["method"], *(ranged(row[one]) for one in shown)) for row in adadp.levels(stored)
        )
        written += [f"**{title}.**", table(f"accuracy at epsilon | {' | '.join(shown)}", rows)]
        gains = []
        for row in adadp.gains(stored, name):
            verdicts.append((name, row["verdict"]))
            known = (row["over"], f"{row['epsilon']:g}", f"{row['paper']:+.1f}")
            gains.append((*known, *_lead(row, 1, "published"), f"{row['repaired']:+.1f}"))
        heads = (
            "AdaDP ahead of | at epsilon | printed | as published, here | | seed by seed | repaired"
        )
        written.append(table(heads, gains))
    counts = Counter(verdicts)
    told = [
        f"{title}: {', '.join(f'{counts[name, one]} {said}' for one, said in WORDS.items())}"
        for name, title in adadp.FIGURES.items()
    ]
    return "\n\n".join([*written, f"Of nine printed gains each. {'. '.join(told)}."])


def _lead(row: dict, digits: int, key: str = "difference") -> tuple[str, str, str]:
    """A lead with Welch's interval, its verdict, and the interval seed by seed."""
    low, high, *pair = (
        "" if row[end] is None else f"{row[end]:+.{digits}f}"
        for end in ("low", "high", "paired_low", "paired_high")
    )
    welch = f" ({low} to {high})" if low else ""
    seeds = " to ".join(pair) if pair[0] else ""
    return f"{row[key]:+.{digits}f}{welch}", WORDS[row["verdict"]], seeds


def _epsilon(value: float | str | None) -> str:
    if not value:
        return "" if value is None else "0"
    if isinstance(value, str) or math.isinf(value):
        return "no finite epsilon"
    return at_most(value)


def _share(row: dict, score: str) -> str:
    if row[score] is None:
        return ""
    low, high = row[f"{score}_range"]
    return f"{row[score]:.3f}" + (f" ({low:.3f} to {high:.3f})" if low < high else "")


def launch_links(project: dict[str, Any], notebooks: list[str]) -> str:
    """Links to mybinder.org, and from GitHub to Colab, at the release's tag; "" without an address.

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
    (host, slash), tag = HOSTS[parts.hostname], f"v{project['version']}"
    binder = f"https://mybinder.org/v2/{host}/{path.replace('/', slash)}/{tag}"
    drawn = "![Launch on Binder](https://mybinder.org/badge_logo.svg) " + " · ".join(
        f"[{Path(name).stem}]({binder}?urlpath={quote(f'lab/tree/notebooks/{name}')})"
        for name in notebooks
    )
    if host != "gh":
        return drawn
    colab = f"{COLAB}/github/{path}/blob/{tag}/notebooks"
    badge = f"<br>![Open in Colab]({COLAB}/assets/colab-badge.svg) "
    return drawn + badge + " · ".join(f"[{Path(name).stem}]({colab}/{name})" for name in notebooks)


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def binder_requirements() -> str:
    """Return the text of binder/requirements.txt: what the notebooks need, and uv for torch."""
    project = _project()
    extras = project["optional-dependencies"]
    lines = {*project["dependencies"], *extras["train"], *extras["notebooks"], "uv"}
    wanted = sorted(one for one in lines if Requirement(one).name not in ("dpkit", "torch"))
    return "\n".join([BINDER_HEAD, *wanted, ""])


def launch_links_now() -> str:
    """To all notebooks, at the release that pyproject.toml names."""
    links = launch_links(_project(), sorted(path.name for path in ROOT.glob("notebooks/*.ipynb")))
    return links or "<!-- none: pyproject.toml names no repository -->"


def labs_plan() -> str:
    """Return both labs' parts, minutes and exercises, which takes what reads notebooks."""
    import labs

    return labs.plan()


# file -> name of a part between two markers -> what makes it
PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"systems": systems_table},
    "notebooks/README.md": {"launch links": launch_links_now},
    "docs/book/teaching.md": {"labs": labs_plan},
    "docs/claims.md": {
        **{"verdicts": verdicts_table, "claims": claims_table},
        "findings": doc_parts.findings,
    },
    "docs/accountants.md": {"drawn": doc_parts.drawn},
    "docs/audits.md": {"audits": audit_pages.audits},
    "docs/utility.md": {
        "accuracies": doc_parts.accuracies,
        **{"other classifiers": doc_parts.other_classifiers, "gains": doc_parts.gains},
        **{"likeness": doc_parts.likeness, "published": doc_parts.published},
        "synthetic tables": doc_parts.synthetic_tables,
    },
    "docs/results.md": {
        **{"table 1": table_1, "rdp_gan table 5": table_5},
        **{"small_images figures": figures, "adadp levels": levels},
        **{"dpgan tables 2 and 9": ablation, "dpgan table 6": semi_supervised},
    },
}


def written(page: str, text: str) -> str:
    """A page's text with what is computed now between its markers."""
    for name, part in PAGES[page].items():
        start, end = f"<!-- {name}: written by `make readme` -->", f"<!-- end of {name} -->"
        before, rest = text.split(start)
        text = f"{before}{start}\n\n{part()}\n\n{end}{rest.split(end)[1]}"
    return text


def draw_samples() -> bytes:
    """The picture of generated digits, from the stored samples."""
    from dpkit.common import plots

    rows = {
        title: store.load_images("dp_cgan", "table_1", f"{key}-seed0-train")
        for key, title in ROWS.items()
    }
    return plots.picture(plots.image_rows(rows), "").png()


def claim_values() -> dict[str, dict[str, Any]]:
    """What each claim states, what is computed and the verdict: tests compare with these."""
    every = (as_json(check(claim)) for paper in with_claims() for claim in paper.CLAIMS)
    kept = ("stated", "computed", "verdict")
    return {one["id"]: {key: one[key] for key in kept} for one in every}


if __name__ == "__main__":
    BINDER_REQUIREMENTS.write_text(binder_requirements(), encoding="utf-8")
    records.write_json(CLAIM_VALUES, claim_values())
    for page in PAGES:
        path = ROOT / page
        path.write_text(written(page, path.read_text(encoding="utf-8")), encoding="utf-8")
    SAMPLES.write_bytes(draw_samples())
    CHART.write_bytes(draw_chart())
    SCORES.write_bytes(audit_pages.draw_scores())
    UTILITY.write_bytes(doc_parts.draw_utility())
    UTILITY_SAMPLES.write_bytes(doc_parts.draw_utility_samples())
