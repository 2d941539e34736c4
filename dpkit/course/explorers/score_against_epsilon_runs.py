"""Stored runs of Small Images as curves of inception score by step; what is broken is refused."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from dpkit.common import records
from dpkit.papers.experiments import store
from dpkit.papers.experiments.store import seeds
from dpkit.papers.small_images.settings import FIGURES, Settings

RECORDS = "mnist"  # whose public size the prices take


class Curve(NamedTuple):
    """A run's score by step.

    steps: at which the generator was scored, increasing.
    scores: its inception score there.
    spreads: standard deviation of that score over splits of the generated images.
    """

    steps: list[int]
    scores: list[float]
    spreads: list[float]


def loaded(scale: str) -> dict[str, Any]:
    """All stored parts of the figures and of what they share, by name; empty where there are none.

    Raises:
        ValueError: a file is not whole JSON.
    """
    plans = [store.load("small_images", plan, scale=scale) for plan in ("common", *FIGURES)]
    return {name: part for parts in plans for name, part in parts.items()}


def curves_of(parts: Mapping[str, Any], key: str, settings: Settings | None) -> list[Curve]:
    """The curves of the run `key`, one for each seed that is stored.

    Args:
        parts: stored parts by name, such as "base-seed0".
        key: a run's name, such as "base".
        settings: what the run's price is computed from, to which the stored noise, batches and
            delta must agree; None where the run has no price.

    Raises:
        ValueError: a part is not a run of these settings with a score at every point.
    """
    return [_curve(name, part, settings) for name, part in seeds(parts, key).items()]


def _curve(name: str, part: Any, settings: Settings | None) -> Curve:
    again = "; delete it and reproduce it"
    try:
        columns = part["values"]["curve"]
        found = [columns[column] for column in ("steps", "inception", "inception_spread")]
        described = part["provenance"]["settings"]
        own = tuple(described[field] for field in ("noise_multiplier", "sampling", "target_delta"))
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
        raise ValueError(f"stored run {name} has steps that are not whole and increasing{again}")
    if not all(_is_number(one) and one > 0 for one in scores):
        raise ValueError(f"stored run {name} has an inception score that is no number > 0{again}")
    if not all(_is_number(one) and one >= 0 for one in spreads):
        raise ValueError(f"stored run {name} has a spread that is no number >= 0{again}")
    if settings is not None and own != _priced(settings):
        raise ValueError(
            f"stored run {name} has noise_multiplier, sampling, target_delta and records {own}, "
            f"and the figure has {_priced(settings)}{again}"
        )
    return Curve(*found)


def _priced(settings: Settings) -> tuple[Any, ...]:
    sampling = records.describe(settings.sampling)
    return settings.noise_multiplier, sampling, settings.target_delta, RECORDS


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
