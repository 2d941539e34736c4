"""Parts of docs/: findings of later literature, the papers' runs drawn five ways, and utility."""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np

from dpkit.common.show import interval
from dpkit.papers import literature
from dpkit.papers.adadp import recomputed as adadp
from dpkit.papers.adadp.settings import ADADP, PUBLIC_SIZE
from dpkit.papers.claims import CAUSES, Verdict, check
from dpkit.papers.comparison import tables
from dpkit.papers.comparison.tables import PROTOCOLS
from dpkit.papers.dp_cgan.claims import CODE_NOISE, charged_steps
from dpkit.papers.dp_cgan.settings import SETTINGS as DP_CGAN
from dpkit.papers.dpgan.settings import MNIST as DPGAN
from dpkit.papers.dpgan.settings import STEPS
from dpkit.papers.experiments import store
from dpkit.papers.rdp_gan import recomputed as rdp_gan
from dpkit.papers.rdp_gan.settings import SETTINGS as RDP_GAN
from dpkit.papers.small_images.settings import EPOCHS
from dpkit.papers.small_images.settings import SETTINGS as SMALL_IMAGES
from dpkit.privacy import Gaussian, Release, as_drawn, best_of, calibrate, rdp

DELTA = 1e-5


def table(heads: str, rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table: the heads between bars, and a row's cells."""
    lines = [f"| {heads} |", "|---" * (heads.count("|") + 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def findings() -> str:
    """A table for each kind of error, and one of the rest; below it, where each was read."""
    groups: dict[str | None, list[Verdict]] = {cause: [] for cause in (*CAUSES, None)}
    for claim in literature.CLAIMS:
        groups[claim.code.cause if claim.code else None].append(check(claim))
    return "\n\n".join(_findings(cause, found) for cause, found in groups.items() if found)


def _findings(cause: str | None, found: list[Verdict]) -> str:
    title = f"**{cause.capitalize()}**: {CAUSES[cause]}" if cause else "**No line to mend**"  # pyright: ignore
    heads = "finding | what is said | stated | computed | "
    ordered = sorted(found, key=lambda one: one.claim.id)
    written = table(heads + " | as it was | as it should be" * bool(cause), map(_cells, ordered))
    places = "\n".join(f"- `{one.claim.id}`: {one.claim.where}" for one in ordered)
    return f"{title}.\n\n{written}\n\n{places}"


def _cells(one: Verdict) -> list[str]:
    claim = one.claim
    mark = f"**{one.verdict}**" if one.verdict == "fails" else one.verdict
    values = (claim.shown(value) for value in (claim.stated, one.computed))
    cells = [f"`{claim.id}`", claim.says, *values, mark]
    for text in (claim.code.was, claim.code.should) if claim.code else ():
        cells.append("<br>".join(f"`{line.strip()}`" for line in text.splitlines()))
    return [cell.replace("|", "\\|") for cell in cells]


def published_runs() -> tuple[tuple[str, str, as_drawn.DrawnRun], ...]:
    """Name, way of drawing, and run at the noise that is charged for a step, whatever is added.

    Of the five papers; AdaDP's example stands beside its run.
    """
    batch, of = SMALL_IMAGES.expected_batch_size, rdp_gan.MNIST
    iterations = RDP_GAN.discriminator_steps * RDP_GAN.iterations
    size = round(ADADP.lot / adadp.EXAMPLE_RATE)
    run = as_drawn.DrawnRun
    dpgan = run(DPGAN.noise_multiplier, DPGAN.expected_batch_size, DPGAN.private_examples, STEPS)
    dp_cgan = run(CODE_NOISE, DP_CGAN.expected_batch_size, 55_000, charged_steps())
    half = run(ADADP.noise_multiplier, ADADP.lot, PUBLIC_SIZE, ADADP.max_steps)
    example = run(adadp.EXAMPLE_NOISE, ADADP.lot, size, adadp.EXAMPLE_STEPS)
    small = run(0.5, batch, PUBLIC_SIZE, EPOCHS * (PUBLIC_SIZE // batch))
    loss = run(rdp_gan.SIGMA / of.sensitivity, of.batch, of.size, iterations)
    return (
        ("dpGAN, MNIST, one group of weights", "shuffled", dpgan),
        ("DP-CGAN, MNIST", "shuffled", dp_cgan),
        ("AdaDP, MNIST at epsilon 0.5", "poisson", half),
        ("AdaDP, Theorem 1's example", "poisson; the theorem is on fixed", example),
        ("Small Images, MNIST, noise 0.5", "shuffled", small),
        ("RDP-GAN, MNIST, its loss values", "shuffled", loss),
    )


def drawn() -> str:
    """A row for each run: the certified pairs of the five ways."""
    rows = []
    for name, way, run in published_runs():
        title = (
            f"{name}: noise {run.noise_multiplier:.4g}, {run.batch_size} of "
            f"{run.public_size:,}, {run.steps:,} steps"
        )
        found = as_drawn.every_way(run, delta=DELTA).values()
        rows.append((title, way, *(interval(one.lower, one.epsilon) for one in found)))
    heads = ("the run, its noise as charged", "its code, or text, draws", *as_drawn.WAYS)
    return table(" | ".join(heads), rows)


DATA = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}


def stored(data: str = "mnist") -> dict[str, dict[str, Any]]:
    """The comparison's stored parts on a data set."""
    return store.load("comparison", data)


def accuracies() -> str:
    """Accuracy of the CNN on real test images, a row a method, of every data set that is stored."""
    written = []
    for data, title in DATA.items():
        rows = tables.accuracies(stored(data))
        run = [one for one in tables.EPSILONS if any(row[one]["seeds"] for row in rows)]
        heads = " | ".join((title, *(f"epsilon {epsilon:g}" for epsilon in run)))
        written += [table(heads, _rows(rows, run))] if run else []
    return "\n\n".join(written)


def _rows(rows: list[dict[Any, Any]], epsilons: Iterable[float]) -> Iterator[list[str]]:
    """Methods with their spreads, where there are any."""
    for row in rows:
        cells = [ranged(row[epsilon], digits=1) for epsilon in epsilons]
        if any(cells):
            yield [row["method"], *cells]


def other_classifiers() -> str:
    """Accuracy of an MLP and of logistic regression on MNIST."""
    rows = (
        (method, title, *cells)
        for network, title in (("mlp", "MLP"), ("logistic", "logistic regression"))
        for method, *cells in _rows(tables.accuracies(stored(), network=network), (1.0, 10.0))
    )
    return table("trained on | network | epsilon 1 | epsilon 10", rows)


def gains() -> str:
    """What a GAN's steps add to its start, in percentage points of the CNN's accuracy."""
    rows = []
    for row in tables.gains(stored()):
        between = f"{row['low']:+.1f} to {row['high']:+.1f}"
        seeds = " and ".join(map(str, row["seeds"]))
        cells = (f"{row['epsilon']:g}", f"{row['difference']:+.1f}", between, seeds)
        rows.append((row["method"], row["beside"], *cells))
    return table("GAN | baseline | epsilon | difference | 95 % interval | seeds", rows)


def likeness() -> str:
    """How like real test images of MNIST the samples are."""
    rows = []
    for epsilon in (1.0, 10.0):
        for row in tables.likeness(stored(), epsilon):
            scores = (row["precision"], row["recall"], row["inception_score"])
            cells = (f"{epsilon:g}", f"{row['classifier_fid']:.1f}", *(f"{s:.2f}" for s in scores))
            rows.append((row["method"], *cells))
    return table("samples of | epsilon | distance | precision | recall | inception score", rows)


def synthetic_tables() -> str:
    """What tables of each synthesizer teach, and how near their shares come, a table a data set."""
    written = []
    for data, title in (("adult", "Adult"), ("census", "simulated census")):
        rows = (
            (
                row["method"],
                f"{row['epsilon']:g}" if row["epsilon"] else "",
                *(ranged(row[score], digits=3) for score in tables.TABULAR_SCORES),
            )
            for row in tables.tabular_rows(store.load("comparison", data))
        )
        heads = (f"{title}: rows of", "epsilon", *tables.TABULAR_SCORES.values())
        written.append(table(" | ".join(heads), rows))
    return "\n\n".join(written)


def published() -> str:
    """Published figures by protocol: they are quoted."""
    rows = []
    quoted = {data: {row["method"]: row for row in tables.published(data)} for data in DATA}
    for method, row in quoted["mnist"].items():
        known = [quoted[data].get(method, {}).get(e) for data in DATA for e in (1.0, 10.0)]
        shown = ("" if cell is None else f"{cell:.1f}" for cell in known)
        rows.append((method, row["kind"], row["protocol"], *shown))
    found = {data: tables.accuracies(stored(data), bench=True) for data in DATA}
    for own in zip(*found.values(), strict=True):
        cells = [ranged(row[epsilon], digits=1) for row in own for epsilon in (1.0, 10.0)]
        if any(cells):
            rows.append((f"{own[0]['method']}, here", "", "nearest", *cells))
    heads = " | ".join(f"{title}, 1 | 10" for title in DATA.values())
    lines = [table(f"method | kind | protocol | {heads}", rows)]
    said = [f"- **{name}**: {one.says}. Source: {one.source}." for name, one in PROTOCOLS.items()]
    nearest = "- **nearest**: the records and delta of DPImageBench, the small CNN used here."
    return "\n".join([*lines, "", *said, nearest, f"- **Choice of settings**: {chosen()}"])


def chosen() -> str:
    """What it would cost to choose among the settings that are known of a published figure."""
    delta, mean = 1.6658e-6, 25  # of DPImageBench
    noises = [calibrate.gaussian_noise_multiplier(epsilon, delta=delta) for epsilon in (1, 10)]
    best = [best_of([Release(Gaussian(noise))], mean=mean) for noise in noises]
    low, high = (rdp.epsilon(one, delta=delta).epsilon for one in best)
    return (
        "`PrivateImages` has one rule for all data, settled beforehand: it costs nothing more. "
        f"Whether FETA-Pro's figure at epsilon 1 was chosen among its {mean} is not said. If a run "
        f"were one Gaussian release, the best of a random number of runs, {mean} on average "
        f"(geometric), would cost epsilon {low:.1f} instead of 1, and {high:.1f} instead of 10 "
        "(Renyi DP; Papernot, Steinke 2022)."
    )


def draw_utility() -> bytes:
    """Draw accuracy on MNIST against epsilon, a line a method, and published points."""
    from dpkit.common import plots

    drawn, (ax,) = plots.figure(width=7.6, height=4.2)
    rows = [row for row in tables.accuracies(stored()) if _points(row)]
    styles = product(("-", "--"), plots.COLOURS)  # more methods than colours
    for row, (line, colour) in zip(rows, styles, strict=False):
        found = _points(row)
        x, means = zip(*((epsilon, one["mean"]) for epsilon, one in found), strict=True)
        ax.plot(x, means, f"o{line}", color=colour, label=row["method"], ms=4)
        low, high = (np.array([one[end] for _, one in found]) for end in ("lowest", "highest"))
        ax.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
    for row, mark in zip(tables.published("mnist"), "x+1234*", strict=False):
        points = [(epsilon, row[epsilon]) for epsilon in (1.0, 10.0) if row[epsilon]]
        ax.plot(*zip(*points, strict=True), mark, color="0.35", ms=6, label=f"{row['method']} *")
    ax.set(xscale="log", ylim=(60, 100))
    ax.set_xticks(tables.EPSILONS, [f"{epsilon:g}" for epsilon in tables.EPSILONS])
    ax.minorticks_off()
    ax.set_xlabel("epsilon (* published, by another protocol at delta 1.67e-6, but Bie et al.)")
    ax.set_ylabel("accuracy of a CNN on real test images, %")
    drawn.legend(loc="outside right upper", frameon=False, fontsize=7.5)
    return plots.picture(drawn, "").png()


def draw_utility_samples() -> bytes:
    """Draw ten samples of each epsilon, a method below the other."""
    from dpkit.common import plots

    known = stored()
    rows = {
        f"{title}, {epsilon:g}": store.load_images("comparison", "mnist", name)[:10]
        for method, title in tables.TITLES.items()
        for epsilon in tables.EPSILONS
        if (name := f"{tables.run_name(method, epsilon)}-seed0") in known
    }
    return plots.picture(plots.image_rows(rows), "").png()


def _points(row: dict[Any, Any]) -> list[tuple[float, dict[str, Any]]]:
    return [(one, row[one]) for one in tables.EPSILONS if row[one]["mean"] is not None]


def ranged(row: dict[Any, Any], score: str = "mean", *, digits: int = 2) -> str:
    """A score, with its range where several seeds have one; "" where there is none."""
    if row[score] is None:
        return ""
    if row["seeds"] < 2:
        return f"{row[score]:.{digits}f}"
    return f"{row[score]:.{digits}f} ({row['lowest']:.{digits}f} to {row['highest']:.{digits}f})"
