"""docs/utility.md: privacy against utility, from the stored comparison and published figures."""

from itertools import product
from typing import Any

import numpy as np

from dpkit.papers.comparison import tables
from dpkit.papers.comparison.tables import PROTOCOLS
from dpkit.papers.experiments import store

DATA = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}


def stored(data: str = "mnist") -> dict[str, dict[str, Any]]:
    """The comparison's stored parts on a data set."""
    both = (store.load("comparison", table) for table in (data, f"{data}_large"))
    return {name: part for parts in both for name, part in parts.items()}


def accuracies() -> str:
    """Accuracy of the CNN on real test images, a row a method, of every data set that is stored."""
    return "\n\n".join(_accuracies(data) for data in DATA if stored(data))


def _accuracies(data: str) -> str:
    heads = " | ".join(f"epsilon {epsilon:g}" for epsilon in tables.EPSILONS)
    lines = [f"| {DATA[data]} | {heads} |", "|---" * (1 + len(tables.EPSILONS)) + "|"]
    for row in tables.accuracies(stored(data)):
        cells = [_spread(row[epsilon]) for epsilon in tables.EPSILONS]
        if any(cells):
            lines.append(f"| {row['method']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def other_classifiers() -> str:
    """Accuracy of an MLP and of logistic regression on MNIST."""
    lines = ["| trained on | network | epsilon 1 | epsilon 10 |", "|---|---|---|---|"]
    for network, title in (("mlp", "MLP"), ("logistic", "logistic regression")):
        for row in tables.accuracies(stored(), network=network):
            cells = [_spread(row[epsilon]) for epsilon in (1.0, 10.0)]
            if any(cells):
                lines.append(f"| {row['method']} | {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def gains() -> str:
    """What a GAN's steps add to its start, in percentage points of the CNN's accuracy."""
    lines = ["| GAN | beside | epsilon | difference | 95 % interval | seeds |", "|---" * 6 + "|"]
    for row in tables.gains(stored()):
        interval = f"{row['low']:+.1f} to {row['high']:+.1f}"
        seeds = " and ".join(map(str, row["seeds"]))
        cells = (f"{row['epsilon']:g}", f"{row['difference']:+.1f}", interval, seeds)
        lines.append(f"| {row['method']} | {row['beside']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def likeness() -> str:
    """How like real test images of MNIST the samples are."""
    lines = [
        "| samples of | epsilon | distance | precision | recall | inception score |",
        "|---" * 6 + "|",
    ]
    for epsilon in (1.0, 10.0):
        for row in tables.likeness(stored(), epsilon):
            scores = (row["precision"], row["recall"], row["inception_score"])
            cells = (f"{epsilon:g}", f"{row['classifier_fid']:.1f}", *(f"{s:.2f}" for s in scores))
            lines.append(f"| {row['method']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def published() -> str:
    """Published figures by protocol: they are quoted."""
    lines = [
        "| method | kind | protocol | MNIST, 1 | 10 | Fashion-MNIST, 1 | 10 |",
        "|---" * 7 + "|",
    ]
    fashion = {row["method"]: row for row in tables.published("fashion_mnist")}
    for row in tables.published("mnist"):
        other = fashion.get(row["method"], {})
        cells = [one.get(epsilon) for one in (row, other) for epsilon in (1.0, 10.0)]
        shown = ("" if cell is None else f"{cell:.1f}" for cell in cells)
        lines.append(
            f"| {row['method']} | {row['kind']} | {row['protocol']} | {' | '.join(shown)} |"
        )
    for row in tables.accuracies(stored(), bench=True):
        cells = [_spread(row[epsilon]) for epsilon in (1.0, 10.0)]
        if any(cells):
            lines.append(f"| {row['method']}, here | | nearest | {' | '.join(cells)} | | |")
    said = [f"- **{name}**: {one.says} ({one.source})." for name, one in PROTOCOLS.items()]
    nearest = "- **nearest**: the records and delta of DPImageBench, the small CNN used here."
    return "\n".join([*lines, "", *said, nearest])


def draw() -> bytes:
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
    for row, mark in zip(tables.published("mnist"), "x+1234", strict=False):
        points = [(epsilon, row[epsilon]) for epsilon in (1.0, 10.0) if row[epsilon]]
        ax.plot(*zip(*points, strict=True), mark, color="0.35", ms=6, label=f"{row['method']} *")
    ax.set(xscale="log", ylim=(60, 100))
    ax.set_xticks(tables.EPSILONS, [f"{epsilon:g}" for epsilon in tables.EPSILONS])
    ax.minorticks_off()
    ax.set_xlabel("epsilon (* published, by another protocol at delta 1.67e-6, but Bie et al.)")
    ax.set_ylabel("accuracy of a CNN on real test images, %")
    drawn.legend(loc="outside right upper", frameon=False, fontsize=7.5)
    return plots.picture(drawn, "").png()


def draw_samples() -> bytes:
    """Draw ten samples of each epsilon, a method below the other."""
    from dpkit.common import plots

    known = stored()
    rows = {
        f"{title}, {epsilon:g}": store.load_images("comparison", _table(method), name)[:10]
        for method, title in tables.TITLES.items()
        for epsilon in tables.EPSILONS
        if (name := f"{tables.run_name(method, epsilon)}-seed0") in known
    }
    return plots.picture(plots.image_rows(rows), "").png()


def _table(method: str) -> str:
    return "mnist_large" if "large" in method else "mnist"


def _points(row: dict[Any, Any]) -> list[tuple[float, dict[str, Any]]]:
    return [(one, row[one]) for one in tables.EPSILONS if row[one]["mean"] is not None]


def _spread(cell: dict[str, Any]) -> str:
    if cell["mean"] is None:
        return ""
    if cell["seeds"] < 2:
        return f"{cell['mean']:.1f}"
    return f"{cell['mean']:.1f} ({cell['lowest']:.1f} to {cell['highest']:.1f})"
