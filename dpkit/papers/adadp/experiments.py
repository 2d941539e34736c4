"""The runs of tables and figures: private classifiers, and their accuracy along the way."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from math import isnan
from typing import Any

import numpy as np
import torch

from dpkit.common.progress import Progress
from dpkit.papers.adadp import agd, algorithm, data
from dpkit.papers.adadp.levels import (
    CIFAR_LEVELS,
    COMPONENTS,
    LEVELS,
    METHODS,
    READINGS,
    TABLE_1,
    TEN_EPOCHS,
    AnySettings,
    Level,
    at_level,
    on_cifar,
    small,
    sweeps,
)
from dpkit.papers.adadp.noise_shapes import RawHistory, ReleasedHistory
from dpkit.papers.adadp.settings import AgdSettings, proven
from dpkit.papers.experiments.run import Run
from dpkit.papers.experiments.store import Part, Result, Values, priced
from dpkit.training import Data

# Of an accuracy's curve: at least so many, at most so many steps apart
POINTS, APART = 20, 100
SHOWN = (100, 1_000)  # steps whose gradients and noise Figure 4 shows
STEPS = {"reduced": 30, "small": 5}  # on the digits
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


def prices(run: Run, values: Values) -> Values:
    """A run's cost: by Theorem 1, as the paper charges it, and by the certified pair."""
    settings, size, steps = run.settings, run.size, values["steps"]
    if isinstance(settings, AgdSettings):
        return priced(settings.guarantee(public_size=size), claimed=settings.target_epsilon)
    ledger = settings.ledger(public_size=size, steps=steps)
    as_if = settings.as_if_public(public_size=size, steps=steps)
    delta = settings.target_delta
    return {
        **priced(proven(ledger, delta=delta), claimed=settings.target_epsilon),
        "epsilon_charged": settings.charged(public_size=size, steps=steps),
        "epsilon_if_public": proven(as_if, delta=delta).epsilon,
    }


def judged(run: Run, *, watched: bool) -> Result:
    """A classifier's accuracy on test images at `POINTS` places along its training.

    The run is on "mnist", "digits" or "cifar10"; if `watched`, Figure 4's quantities are measured.
    """
    settings = run.settings
    wanted = task(run.also["records"], settings.pca_noise, run.seed, settings.widths[0])
    own = wanted.data._replace(
        features=wanted.data.features.to(run.device), labels=wanted.data.labels.to(run.device)
    )
    test = wanted.test.to(run.device), wanted.test_labels.to(run.device)
    step, new = method(settings)
    model = new(settings, seed=run.seed, device=run.device)
    curve: dict[str, list[Any]] = {"steps": [], "accuracy": [], "loss": []}
    every, seen, done = min(max(run.steps // POINTS, 1), APART), {}, 0
    with suppress(FloatingPointError):  # it diverges: gradients are no longer finite
        for record in run.shown(run.train(step, model, own), total=run.steps):
            done = record.step + 1
            if done % every == 0:
                curve["steps"].append(done)
                curve["accuracy"].append(algorithm.accuracy(model.net.net, *test))
                curve["loss"].append(None if isnan(record.loss) else record.loss)
            if watched and done in SHOWN:
                seen[str(done)] = quantities(model, own, run.rng(f"watched at {done}"))
    values = {
        "steps": done,
        "accuracy": algorithm.accuracy(model.net.net, *test),
        "diverged": done < run.steps,
        "curve": curve,
        "words": wanted.words,
        **({"watched": seen} if watched else {}),
    }
    return run.result(values | prices(run, values), wanted.checksums)


def method(
    settings: AnySettings,
) -> tuple[Callable[..., algorithm.AdadpRecord], Callable[..., Any]]:
    """The step of these settings, and the maker of its model."""
    if isinstance(settings, AgdSettings):
        return agd.step, agd.new_descent
    return algorithm.step, algorithm.new_classifier


@cache
def task(records: str, pca_noise: float | None, seed: int, dimensions: int) -> data.AdadpTask:
    """The private records as a run takes them; DP-PCA's draws follow from its seed and noise."""
    if records == "cifar10":
        return data.cifar10(data.SPLIT)
    whole = data.images_of_digits(records)
    if pca_noise is None:
        return whole
    # Two releases of other noise must not share their draws: the difference would have none
    rng = np.random.default_rng([seed, round(1_000 * pca_noise)])
    return data.projected(whole, noise_multiplier=pca_noise, rng=rng, dimensions=dimensions)


def quantities(
    model: algorithm.AdadpClassifier, own: Data, rng: torch.Generator
) -> dict[str, dict[str, float]]:
    """Figure 4 (c) and (d): quantiles over coordinates of |g|, sqrt(E') and sigma, at one moment.

    They describe private records. g is the raw gradient of the mean loss of 600 of them.
    """
    chosen = torch.randperm(len(own.features), generator=rng, device=rng.device)[:600]
    rows = own.features[chosen], own.labels[chosen]
    raw = algorithm.raw_squares(model.net, rows, len(chosen), "mean")
    named = {"gradient": [one.sqrt() for one in raw], "noise": model.shape.now().noise_stds}
    if isinstance(model.shape, RawHistory | ReleasedHistory):
        named["estimate"] = [one.clamp(min=0).sqrt() for one in model.shape.remembered()]
    found = {}
    for name, parts in named.items():
        flat = [torch.as_tensor(part).flatten().double() for part in parts]
        at = np.quantile(torch.cat(flat).cpu().numpy(), QUANTILES)
        found[name] = dict(zip(map(str, QUANTILES), at.tolist(), strict=True))
    return found


def _runs(
    table: Mapping[str, AnySettings],
    *,
    records: str,
    scale: str,
    seeds: int,
    device: str,
    progress: Progress,
    watched: bool = False,
) -> list[Part]:
    """Parts of runs by key, seed by seed; at the scales of `STEPS` all on the digits."""
    if scale in STEPS:
        records = "digits"
        shorter = partial(small, public_size=data.PUBLIC_SIZES[records], steps=STEPS[scale])
        table = {key: shorter(settings) for key, settings in table.items()}
    size, also = data.PUBLIC_SIZES.get(records) or data.SPLIT.private, {"records": records}
    runs = [
        Run("adadp", key, settings, seed, size, scale, records, device, progress, also=also)
        for seed in range(seeds)
        for key, settings in table.items()
    ]
    compute = partial(judged, watched=watched)
    return [one.part(partial(compute, one), prices=partial(prices, one)) for one in runs]


def _each(
    levels: Iterable[Level], made: Callable[[str, Level], AnySettings] = at_level
) -> dict[str, AnySettings]:
    return {f"{m}-{level.epsilon:g}": made(m, level) for level in levels for m in METHODS}


def plan_table_1(**asked: Any) -> list[Part]:
    """Table I: accuracy along runs at noise 3 and DP-PCA noise 6 (reduced: digits, 30 steps)."""
    return _runs(TABLE_1, records="mnist", **asked)


def plan_figure_2(**asked: Any) -> list[Part]:
    """Figure 2: MNIST, the paper's noise and Theorem 1's steps (reduced: digits, 30 steps)."""
    return _runs(_each(LEVELS), records="mnist", **asked)


def plan_ten_epochs(**asked: Any) -> list[Part]:
    """Figure 2's methods, at noise that ten epochs spend on each epsilon (reduced: as there)."""
    return _runs(_each(TEN_EPOCHS), records="mnist", **asked)


def plan_figure_3(**asked: Any) -> list[Part]:
    """Figure 3: CIFAR-10, not at the paper's noise or network (reduced: digits, 30 steps)."""
    return _runs(_each(CIFAR_LEVELS, on_cifar), records="cifar10", **asked)


def plan_figure_4(**asked: Any) -> list[Part]:
    """Figure 4: AdaDP's halves, gradients and noise, as Figure 2 (reduced: digits, 30 steps)."""
    return _runs(COMPONENTS, records="mnist", watched=True, **asked)


def plan_figure_5(**asked: Any) -> list[Part]:
    """Figure 5: rate, beta, noise and lot around Figure 2's run (reduced: digits, 30 steps)."""
    return _runs(sweeps(), records="mnist", **asked)


def plan_readings(**asked: Any) -> list[Part]:
    """The readings of Algorithm 1, one change at a time (reduced: digits, 30 steps)."""
    return _runs(READINGS, records="mnist", **asked)


PLANS = {
    "table_1": plan_table_1,
    "figure_2": plan_figure_2,
    "ten_epochs": plan_ten_epochs,
    "figure_3": plan_figure_3,
    "figure_4": plan_figure_4,
    "figure_5": plan_figure_5,
    "readings": plan_readings,
}
