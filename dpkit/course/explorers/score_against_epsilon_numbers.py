"""Stored scores joined with three epsilons: the numbers behind `ScoreAgainstEpsilon`.

Stored runs of Small Images are curves of inception score by step; broken ones are refused.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from dpkit.common import checks, records
from dpkit.papers.experiments import store
from dpkit.papers.experiments.store import seeds
from dpkit.papers.small_images import tables
from dpkit.papers.small_images.settings import (
    FIGURES,
    ORDERS,
    PUBLIC_SIZE,
    SETTINGS,
    SmallImagesSettings,
    settings_of,
)
from dpkit.privacy import Release, pld, rdp, shuffled
from dpkit.privacy.ledger import Guarantee

VARIED = {"figure_1": "clip norm", "figure_2": "noise", "figure_3": "capacity"}
VALUES: dict[str, Callable[[Any], float]] = {  # of what the figure varies, in a run's settings
    "figure_1": attrgetter("clipping.max_grad_norm"),
    "figure_2": attrgetter("noise_multiplier"),
    "figure_3": attrgetter("capacity"),
}
AXES = {
    "charged": "charged: RDP, Poisson assumed, classic conversion, the code's orders",
    "certified": "certified PLD, if batches were Poisson",
    "proven": "proven for the shuffled batches that were drawn",
}
DELTA = SETTINGS.target_delta
FINE, COARSE = (
    1e-3,
    1e-2,
)  # relative gaps of certified pairs: of a number, of a picture's point
PASS = (
    PUBLIC_SIZE // SETTINGS.expected_batch_size
)  # batches of a pass, without a short last one
RECORDS = "mnist"  # whose public size the prices take


class ScoreCurve(NamedTuple):
    """A run's score by step.

    steps: of each score, increasing.
    scores: its inception score there.
    spreads: standard deviation of that score over splits of the generated images.
    """

    steps: list[int]
    scores: list[float]
    spreads: list[float]


class Planned(NamedTuple):
    """A run of a figure: its name, the value that the figure varies, its settings."""

    key: str
    value: float
    settings: SmallImagesSettings


class ScoreRow(NamedTuple):
    """One run of a figure, read at one step.

    value: of what the figure varies.
    step: that of score and epsilons.
    score, spread: at that step, mean over seeds, None where none is stored; the spread is over
        splits of the images.
    lowest, highest: of the seeds' scores.
    seeds: stored runs.
    charged, certified, proven: guarantees at delta 1e-5 (see `price`).
    at_least: an epsilon that the shuffled batches cost at least; 0 before a whole pass.
    """

    value: float
    step: int
    score: float | None
    spread: float | None
    lowest: float | None
    highest: float | None
    seeds: int
    charged: Guarantee
    certified: Guarantee
    proven: Guarantee
    at_least: float


def planned(figure: str, *, scale: str) -> list[Planned]:
    """The private runs of a figure by value, with those that all figures share ("base").

    Raises:
        ValueError: an unknown figure or scale.
    """
    checks.one_of(tuple(VARIED), figure=figure)
    base = settings_of("common", scale=scale)["base"]
    runs = settings_of(figure, scale=scale) | {"base": base}
    found = [Planned(key, VALUES[figure](run), run) for key, run in runs.items()]
    return sorted(found, key=lambda run: run.value)


def numbers(
    *,
    figure: str,
    axis: str,
    steps: int,
    scale: str = "reduced",
    stored: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A figure's runs up to one step: scores where stored, and three epsilons.

    Args:
        figure: "figure_1" (clip norm), "figure_2" (noise multiplier) or "figure_3" (capacity).
        axis: the accounting that the picture takes: "charged", "certified" or "proven".
        steps: runs are read at their last point that is not later, and not after the last step of
            the figure's shortest run.
        scale: "reduced" or "paper".
        stored: parts by name, of the figures and of the plan "common"; None reads the kit's own.

    Returns:
        `rows`, a list of `ScoreRow`; `curves`, by value those with a point up to `end`; `level`,
        the non-private score, or None; `end`, the last readable step, and `steps`, the one read.

    Raises:
        ValueError: an argument is out of range, or a stored run is broken or of other settings.
    """
    checks.one_of(tuple(AXES), axis=axis)
    checks.whole(1, steps=steps)
    runs = planned(figure, scale=scale)
    parts = loaded(scale) if stored is None else stored
    curves = {
        run.value: one for run in runs if (one := curves_of(parts, run.key, run.settings))
    }
    level = seeds(parts, "non-private")
    stored_ends = (*curves.values(), curves_of(level, "non-private", None))
    lasts = [run.settings.max_steps for run in runs]
    end = min(*lasts, *(one.steps[-1] for ones in stored_ends for one in ones))
    at = min(steps, end)
    joined = {value: _mean(ones, end) for value, ones in curves.items()}
    return {
        "figure": figure,
        "what": VARIED[figure],
        "axis": axis,
        "scale": scale,
        "asked": steps,
        "steps": at,
        "end": end,
        "runs": runs,
        "curves": {value: curve for value, curve in joined.items() if curve.steps},
        "level": tables.level_of(tables.until(level, end)),
        "rows": [_row(run, curves.get(run.value, []), at) for run in runs],
    }


def price(
    axis: str, settings: SmallImagesSettings, steps: int, *, gap: float = FINE
) -> Guarantee:
    """The epsilon of `steps` steps at delta 1e-5, by one of three accountings.

    "charged" is the published code's: RDP at its own orders with the classic conversion, of Poisson
    batches. "certified" prices the same Poisson batches by PLD, as a pair `gap` apart. "proven" is
    of the shuffled batches: a Gaussian release under replace-one for each pass that was begun.
    """
    if axis == "proven":
        return _pld(tuple(settings.ledger(public_size=PUBLIC_SIZE, steps=steps)), gap)
    ledger = tuple(settings.claimed_ledger(public_size=PUBLIC_SIZE, steps=steps))
    return _charged(ledger) if axis == "charged" else _pld(ledger, gap)


@lru_cache(maxsize=4096)
def _charged(ledger: tuple[Release, ...]) -> Guarantee:
    return rdp.epsilon(ledger, delta=DELTA, conversion="classic", orders=ORDERS)


@lru_cache(maxsize=4096)
def _pld(ledger: tuple[Release, ...], gap: float) -> Guarantee:
    return pld.epsilon(ledger, delta=DELTA, gap=gap)


@lru_cache(maxsize=64)
def _one_pass(noise_multiplier: float) -> float:
    return shuffled.at_least(noise_multiplier, batches=PASS, delta=DELTA)


def _mean(curves: Sequence[ScoreCurve], end: int) -> ScoreCurve:
    """The mean over seeds, at the steps up to `end` at which all were judged."""
    points = [dict(zip(one.steps, zip(*one[1:], strict=True), strict=True)) for one in curves]
    steps = [
        step for step in curves[0].steps if step <= end and all(step in p for p in points)
    ]
    means = np.mean([[p[step] for step in steps] for p in points], axis=0).reshape(-1, 2)
    return ScoreCurve(steps, *means.T.tolist())


def _row(run: Planned, curves: Sequence[ScoreCurve], at: int) -> ScoreRow:
    joined = _mean(curves, at) if curves else ScoreCurve([], [], [])
    step = joined.steps[-1] if joined.steps else at
    each = [one.scores[one.steps.index(step)] for one in curves] if joined.steps else []
    return ScoreRow(
        run.value,
        step,
        *((joined.scores[-1], joined.spreads[-1]) if each else (None, None)),
        *((min(each), max(each)) if each else (None, None)),
        len(curves),
        **{axis: price(axis, run.settings, step) for axis in AXES},
        at_least=_one_pass(run.settings.noise_multiplier) if step >= PASS else 0.0,
    )


def loaded(scale: str) -> dict[str, Any]:
    """All stored parts of the figures, shared ones too, by name; empty for none.

    Raises:
        ValueError: a file is not whole JSON.
    """
    plans = [store.load("small_images", plan, scale=scale) for plan in ("common", *FIGURES)]
    return {name: part for parts in plans for name, part in parts.items()}


def curves_of(
    parts: Mapping[str, Any], key: str, settings: SmallImagesSettings | None
) -> list[ScoreCurve]:
    """The curves of the run `key`, one for each seed that is stored.

    Args:
        parts: stored parts by name, such as "base-seed0".
        key: a run's name, such as "base".
        settings: of the run's price, with the stored noise, batches and delta; None where the run
            has no price.

    Raises:
        ValueError: a part is not a run of these settings with a score at every point.
    """
    return [_curve(name, part, settings) for name, part in seeds(parts, key).items()]


def _curve(name: str, part: Any, settings: SmallImagesSettings | None) -> ScoreCurve:
    again = "; delete it and reproduce it"
    try:
        columns = part["values"]["curve"]
        found = [columns[column] for column in ("steps", "inception", "inception_spread")]
        described = part["provenance"]["settings"]
        own = tuple(
            described[field] for field in ("noise_multiplier", "sampling", "target_delta")
        )
        own += (described.get("records", RECORDS),)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"stored run {name} lacks {error}{again}") from error
    steps, scores, spreads = found
    if not all(isinstance(column, list) and column for column in found):
        raise ValueError(f"stored run {name} has a curve without points{again}")
    if not len(steps) == len(scores) == len(spreads):
        raise ValueError(f"stored run {name} has columns of different lengths{again}")
    if not all(isinstance(step, int) and step > 0 for step in steps) or not all(
        before < after for before, after in pairwise(steps)
    ):
        raise ValueError(
            f"stored run {name} has steps that are not whole and increasing{again}"
        )
    if not all(_is_number(one) and one > 0 for one in scores):
        raise ValueError(
            f"stored run {name} has an inception score that is no number > 0{again}"
        )
    if not all(_is_number(one) and one >= 0 for one in spreads):
        raise ValueError(f"stored run {name} has a spread that is no number >= 0{again}")
    if settings is not None and own != _priced(settings):
        raise ValueError(
            f"stored run {name} has noise_multiplier, sampling, target_delta and records {own}, "
            f"and the figure has {_priced(settings)}{again}"
        )
    return ScoreCurve(*found)


def _priced(settings: SmallImagesSettings) -> tuple[Any, ...]:
    sampling = records.describe(settings.sampling)
    return settings.noise_multiplier, sampling, settings.target_delta, RECORDS


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
