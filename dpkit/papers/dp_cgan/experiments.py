"""The runs for Table 1: training runs, and classifiers fitted to their images."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from dpkit import datasets
from dpkit.common.files import alone
from dpkit.common.progress import Progress
from dpkit.papers.dp_cgan import algorithm, tables
from dpkit.papers.dp_cgan.settings import (
    BASIC,
    NON_PRIVATE,
    PILOT,
    PUBLIC_SIZE,
    REPAIRED,
    SETTINGS,
    TEXT,
    DpCganSettings,
    small,
)
from dpkit.papers.experiments.run import CPU, Run, as_bytes
from dpkit.papers.experiments.store import Part, Result, Values, part_name, priced
from dpkit.privacy import rdp
from dpkit.training import Data, Step


class RunsColumn(NamedTuple):
    """One column of Table 1: the origin of its training images."""

    settings: DpCganSettings
    step: Step
    skipped: int  # first records left out: the code trains on the last 55,000


COLUMNS = {
    "cgan": RunsColumn(NON_PRIVATE, algorithm.step, 5_000),
    "basic_dp": RunsColumn(BASIC, algorithm.basic_step, 5_000),
    "published": RunsColumn(SETTINGS, algorithm.step, 5_000),
    "text": RunsColumn(TEXT, algorithm.step, 0),
    "repaired": RunsColumn(REPAIRED, algorithm.step, 0),
}
# Declared: rates follow from it. At both other scales the records are scikit-learn's digits.
PUBLIC_SIZES = {"paper": PUBLIC_SIZE, "reduced": 1_437, "small": 1_437}
STEPS = {"reduced": 1_000, "small": 20}
# The fitted classifiers and their precision; scores are in double precision.
CLASSIFIERS = {
    "lr": (tables.logistic_regression, np.float64),
    "mlp": (tables.neural_network, np.float32),
}
SMALL_FIT = 5  # iterations of a classifier at scale "small"


def plan_table_1(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Table 1: training runs and classifiers (reduced: scikit-learn's digits, in minutes).

    At scale "paper" the columns have their own settings; "reduced" and "small" take batch 128 and
    1,000 or 20 steps, and small classifiers are fitted in a few iterations, on the CPU as all are.
    """
    parts = [
        Part(part_name("real", 0, name), {"classifier": name}, 0, partial(_fit, name, scale))
        for name in CLASSIFIERS
    ]
    for seed in range(seeds):
        for key, column in COLUMNS.items():
            parts += _parts(key, column, seed, scale, device, progress, tuple(CLASSIFIERS))
    return parts


def plan_pilot(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """The repaired run that was scored before Table 1's settings were chosen, one seed."""
    column = RunsColumn(PILOT, algorithm.step, 0)
    return _parts("repaired", column, 0, scale, device, progress, ("lr",))


PLANS = {"table_1": plan_table_1, "pilot": plan_pilot}


def _parts(
    key: str,
    column: RunsColumn,
    seed: int,
    scale: str,
    device: str,
    progress: Progress,
    classifiers: tuple[str, ...],
) -> list[Part]:
    """A training run of a column, and the classifiers fitted to its images."""
    if scale in STEPS:
        column = RunsColumn(
            small(column.settings, batch_size=128, steps=STEPS[scale]),
            column.step,
            column.skipped // 50,
        )
    settings, size = column.settings, PUBLIC_SIZES[scale]
    run = Run("dp_cgan", key, settings, seed, size, scale, "", device, progress)
    trained = run.part(
        partial(_train, run, column), what="train", prices=partial(_prices, run)
    )
    fits = [
        run.part(
            partial(_fit_on_generated, run, column, name), what=name, classifier=name
        )._replace(after=trained.name)
        for name in classifiers
    ]
    return [trained, *fits]


def _train(run: Run, column: RunsColumn) -> Result:
    """Train, keep the generator in the cache, and show ten samples a class."""
    images, device, settings = _images(run.scale, "train"), run.device, run.settings
    data = Data(
        torch.from_numpy(images.flat()[column.skipped :]).to(device),
        torch.from_numpy(images.labels[column.skipped :]).to(device),
        run.size - column.skipped,
    )
    gan = algorithm.new_gan(settings, seed=run.seed, device=device)
    # the code charges batches of 60,000 records and draws them from 55,000: as long as it charges
    longer = replace(settings, target_epsilon=2 * settings.target_epsilon)
    done = run.train(column.step, gan, data, settings=longer, steps=run.steps)
    run.finish(done, total=run.steps)
    run.keep(gan.averaged_net)
    classes = torch.arange(settings.classes, device=device).repeat(10)
    samples = algorithm.generate(gan, classes, settings=settings, rng=run.rng("samples"))
    side = round(settings.pixels**0.5)
    shown = as_bytes(samples.reshape(-1, side, side), low=0.0) if run.seed == 0 else None
    values = {"steps": run.steps}
    run.forget()
    return run.result(values | _prices(run, values), {images.name: images.checksum}, shown)


def _prices(run: Run, values: Values) -> Values:
    """The cost of a run of the stored number of steps."""
    settings = run.settings
    ledger = settings.ledger(public_size=run.size, steps=values["steps"])
    claimed = settings.target_epsilon if settings.noise_multiplier > 0 else None
    proven = rdp.epsilon(ledger, delta=settings.target_delta)
    return priced(proven, claimed=claimed, assumptions=settings.sampling.assumptions)


def _fit_on_generated(run: Run, column: RunsColumn, classifier: str) -> Result:
    """Fit a classifier to as many generated images as there are real ones; test it.

    Their labels are the private ones as published, balanced in the repaired run.
    """
    with alone(run.weights):
        if not run.weights.exists():
            _train(run, column)
    labels = _images(run.scale, "train").labels
    if not run.settings.clipping.fakes_use_private_labels:  # else their counts are published
        labels = np.arange(len(labels)) % run.settings.classes
    labels = np.sort(labels)
    gan = algorithm.new_gan(run.settings, seed=run.seed, device=CPU)
    run.load(gan.averaged_net)
    features = algorithm.generate(
        gan,
        torch.from_numpy(labels),
        settings=run.settings,
        rng=run.rng("synthesis", device=CPU),
    ).numpy()
    return _fit(classifier, run.scale, (features, labels), seed=run.seed)


def _images(scale: str, split: str) -> datasets.Images:
    return datasets.mnist(split=split) if scale == "paper" else datasets.digits(split=split)


def _fit(
    name: str,
    scale: str,
    generated: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    seed: int = 0,
) -> Result:
    """Fit a classifier to generated images in [0, 1] and their labels, or to real ones; test it."""
    train, test = _images(scale, "train"), _images(scale, "test")
    features, labels = generated or (train.pixels.reshape(train.n, -1) / 255.0, train.labels)
    new, precision = CLASSIFIERS[name]
    unfitted = new(seed=seed)
    if scale == "small":
        unfitted.set_params(estimator__max_iter=SMALL_FIT)
    classifier = tables.fit(unfitted, features.astype(precision), labels)
    values = tables.evaluate(classifier, test.pixels.reshape(test.n, -1), test.labels)
    checksums = {f"{s.name} {w}": s.checksum for s, w in ((train, "train"), (test, "test"))}
    return Result(values, checksums, "cpu")
