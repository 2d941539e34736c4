"""Figures 1 to 3 as rows, from stored runs: each curve's end and break-off."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np

from dpkit.papers.experiments.store import Rows, Shown, Stored, joined, mean, seeds, spread

Curve = Mapping[str, Sequence[Any]]

# The share of a curve's points, its last ones, whose scores are its plateau
PLATEAU = 0.25
# The share of the plateau's gain over 1 that a curve has at its break-off
REACHED = 0.9


def plateau(curve: Curve) -> float:
    """A run's final inception score: the mean over the last quarter of its points.

    Of the columns of a stored run, `part["values"]["curve"]`.

    Raises:
        ValueError: there is no score, or one that is not finite.
    """
    scores = curve["inception"]
    if not (len(scores) and np.isfinite(scores).all()):
        raise ValueError(
            f"inception must be finite scores, one a point, got {scores}; store the run anew"
        )
    return float(np.mean(scores[-ceil(PLATEAU * len(scores)) :]))


def rising(curve: Curve) -> bool:
    """Return True if a run has not levelled off: its last quarter lies above the one before.

    By more than twice the standard error of the two quarters' means, taken from their points; a
    curve of fewer than eight points cannot tell and counts as rising.
    """
    scores = np.asarray(curve["inception"], float)
    count = ceil(PLATEAU * len(scores))
    if len(scores) < 8:
        return True
    last, before = scores[-count:], scores[-2 * count : -count]
    error = np.sqrt((last.var(ddof=1) + before.var(ddof=1)) / count)
    return bool(last.mean() - before.mean() > 2 * error)


def break_off(curve: Curve) -> float | None:
    """The epsilon, as the paper counts, below which a curve breaks off from its plateau.

    That of the first point with nine tenths of the plateau's gain over 1, the score of images that
    are all alike; not interpolated. A curve that hardly rises has it at its first point, so read it
    beside the plateau. The curve is as for `plateau`.

    Returns:
        None where there is no finite epsilon.
    """
    wanted = 1 + REACHED * (plateau(curve) - 1)
    first = next(i for i, score in enumerate(curve["inception"]) if score >= wanted)
    epsilon = curve["epsilon_claimed"][first]
    return epsilon if isinstance(epsilon, float) else None


def figure_1(stored: Stored) -> Rows:
    """Rows of Figure 1, by clip norm, as in `figure_3`."""
    return _rows(stored, "norm-", lambda settings: settings["clipping"]["max_grad_norm"])


def figure_2(stored: Stored) -> Rows:
    """Rows of Figure 2, by noise multiplier, as in `figure_3`."""
    return _rows(stored, "noise-", lambda settings: settings["noise_multiplier"])


def figure_3(stored: Stored) -> Rows:
    """Rows of Figure 3, by capacity.

    Args:
        stored: parts by name: those of the figure and of the plan "common", at one scale, from
            `experiments.store.load`, joined by `|`.

    Returns:
        for each run that is stored its `value` of what the figure varies, mean `plateau` over
        seeds with `lowest` and `highest`, `spread` (of the last score over its splits, mean over
        seeds), `break_off_epsilon` (mean over seeds), `steps`, `epsilon_claimed` and
        `epsilon_proven` at the end, and `difference`: the non-private level, where it is stored,
        minus the plateau. Curves are read up to the step where the shortest of them ends.
    """
    return _rows(stored, "capacity-", lambda settings: settings["capacity"])


def common(stored: Stored) -> Rows:
    """The same of the runs that all figures share: base, non-private, repaired."""
    level = level_of(stored)
    found = {
        key: [*seeds(stored, key).values()] for key in ("non-private", "base", "repaired")
    }
    return [{"run": key, **_row(parts, level)} for key, parts in found.items() if parts]


def cut(stored: Stored, prefix: str) -> dict[str, dict[str, Any]]:
    """A figure's runs, each curve cut at the end of the shortest: all have equal steps.

    These are the base run, the non-private run and the figure's own, whose names begin with
    `prefix`, such as "capacity-"; stored as for `figure_3`.
    """
    chosen = {
        name: part
        for name, part in stored.items()
        if name.startswith(("base-", "non-private-", prefix))
    }
    last = min((part["values"]["curve"]["steps"][-1] for part in chosen.values()), default=0)
    found = {}
    for name, part in chosen.items():
        curve = part["values"]["curve"]
        kept = sum(step <= last for step in curve["steps"])
        shorter = {column: values[:kept] for column, values in curve.items()}
        found[name] = {**part, "values": {**part["values"], "curve": shorter}}
    return found


def _rows(stored: Stored, prefix: str, value: Any) -> Rows:
    shown = cut(stored, prefix)
    level = level_of(shown)
    rows = []
    for key in {name.rpartition("-seed")[0] for name in shown}:
        if key != "non-private":
            parts = [*seeds(shown, key).values()]
            varied = value(parts[0]["provenance"]["settings"])
            rows.append({"value": varied, **_row(parts, level)})
    return sorted(rows, key=lambda row: row["value"])


def level_of(stored: Stored) -> float | None:
    """The dashed line: the largest score of the non-private run, as in the paper; mean of seeds.

    None where that run is not stored.
    """
    parts = seeds(stored, "non-private").values()
    scores = [part["values"]["curve"]["inception"] for part in parts]
    return mean(max(one) for one in scores) if all(scores) else None


def _row(parts: Sequence[Mapping[str, Any]], level: float | None) -> dict[str, Any]:
    curves = [part["values"]["curve"] for part in parts]
    plateaus = [plateau(curve) for curve in curves]
    breaks = [epsilon for curve in curves if (epsilon := break_off(curve)) is not None]
    scores = spread(plateaus)
    level_off = scores.pop("mean")
    return {
        "plateau": level_off,
        **scores,
        "spread": mean(curve["inception_spread"][-1] for curve in curves),
        "break_off_epsilon": mean(breaks),
        "steps": curves[0]["steps"][-1],
        "epsilon_claimed": curves[0]["epsilon_claimed"][-1],
        "epsilon_proven": curves[0]["epsilon_proven"][-1],
        "difference": None if level is None else level - level_off,
    }


_PLATEAU = {"plateau": "inception score", "spread": "inception score"}
SHOWN = (
    Shown("Runs that all figures show", ("common",), common, units=_PLATEAU),
    *(
        Shown(
            f"Figure {number}: inception score by {varied} (value)",
            (f"figure_{number}", "common"),
            joined(rows),
            units=_PLATEAU | {"value": varied},
        )
        for number, varied, rows in (
            (1, "clip norm", figure_1),
            (2, "noise multiplier", figure_2),
            (3, "capacity", figure_3),
        )
    ),
)
