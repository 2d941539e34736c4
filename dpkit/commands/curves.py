"""epsilon --curve: epsilon over delta and delta over epsilon, as CSV and picture."""

import csv
import io
import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpkit import __version__
from dpkit.commands.pricing import Pricing
from dpkit.common import files
from dpkit.privacy.ledger import Guarantee, Releases

DELTAS = np.logspace(-12, -1, 23)
EPSILONS = 24  # from 0 to the epsilon of the smallest delta
# Of every (epsilon, delta) one was given; at that delta no epsilon below the last is possible
COLUMNS = ("given", "epsilon", "delta", "epsilon_at_least", "adjacency", "method", "version")


class Point(NamedTuple):
    """A price, of which delta or epsilon was given."""

    given: str
    found: Guarantee


def writer(path: str) -> Callable[[list[Point]], bytes]:
    """What makes the content of a file of that name.

    Raises:
        ValueError: it ends neither in .csv nor in .png.
        ModuleNotFoundError: it ends in .png, and matplotlib is not installed.
    """
    kind = {".csv": _as_csv, ".png": _as_png}.get(Path(path).suffix.lower())
    if kind is None:
        raise ValueError(f"--curve must end in .csv or .png, got {path!r}")
    if kind is _as_png:
        import_module("matplotlib")
    return kind


def write(paths: list[str], pricing: Pricing, ledger: Releases, delta: float) -> None:
    """Write the run's curves to each of these files, whole or not at all.

    Raises: as `writer`, and OSError where a file cannot be written.
    """
    writers = [writer(path) for path in paths]  # all names before any price
    found = points(pricing, ledger, delta)
    for path, content in zip(paths, [make(found) for make in writers], strict=True):
        files.write_bytes(Path(path), content)


def points(pricing: Pricing, ledger: Releases, delta: float) -> list[Point]:
    """Epsilon at 24 deltas, the one given among them, then delta at 24 epsilons from 0 on."""
    over_delta = [pricing.epsilon(ledger, one) for one in sorted({*DELTAS.tolist(), delta})]
    most = next((one.epsilon for one in over_delta if math.isfinite(one.epsilon)), 1.0)
    over_epsilon = [
        pricing.delta(ledger, one) for one in np.linspace(0, most or 1.0, EPSILONS)
    ]
    return [
        *(Point("delta", one) for one in over_delta),
        *(Point("epsilon", one) for one in over_epsilon),
    ]


def _as_csv(found: list[Point]) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for given, one in found:
        numbers = map(repr, (one.epsilon, one.delta, one.lower))
        rows.writerow((given, *numbers, one.adjacency, one.method, __version__))
    return text.getvalue().encode()


def _as_png(found: list[Point]) -> bytes:
    from dpkit.common import plots

    drawn, panels = plots.figure(width=9.6, height=3.6, panels=2)
    for ax, given in zip(panels, ("delta", "epsilon"), strict=True):
        computed = "epsilon" if given == "delta" else "delta"
        prices = [one.found for one in found if one.given == given]
        rows = np.array(
            [[getattr(one, name) for name in (given, computed, "lower")] for one in prices]
        )
        shown = np.isfinite(rows[:, 1]) & (rows[:, 1] > 0)
        x, y, least = rows[shown].T
        ax.plot(x, y, color=plots.COLOURS[0], linewidth=1.8)
        if not shown.any():
            ax.text(
                0.5, 0.5, f"no finite {computed} above 0", ha="center", transform=ax.transAxes
            )
        if least.any():
            fill, at, most = (
                (ax.fill_between, x, y) if given == "delta" else (ax.fill_betweenx, y, x)
            )
            fill(at, least, most, color=plots.COLOURS[0], alpha=0.3, linewidth=0)
        ax.set(xlabel=given, ylabel=computed)
        if given == "delta":
            ax.set(xscale="log", ylim=(0, None))
        else:
            ax.set(yscale="log", xlim=(0, None), ylim=(max(1e-14, y.min(initial=0.1)), 1))
    first = found[0].found
    method, _, _ = first.method.partition(", order")
    drawn.suptitle(f"{method}, {first.adjacency}", fontsize=10)
    return plots.picture(drawn, "").png()
