"""What is run for Table 1: training runs, and the classifiers fitted to what they generate."""

import json
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save

from dpkit import datasets
from dpkit.experiments import trial
from dpkit.experiments.part import Part, Progress, Result, Work
from dpkit.metrics import utility
from dpkit.papers.dp_cgan import algorithm
from dpkit.papers.dp_cgan.settings import (
    BASIC,
    HONEST,
    NON_PRIVATE,
    PUBLIC_SIZE,
    SETTINGS,
    Settings,
    small,
)  # fmt: skip
from dpkit.paths import cache_dir
from dpkit.privacy import rdp
from dpkit.records import describe, json_number, write_bytes
from dpkit.training.device import device_label, device_named, generator_on
from dpkit.training.loop import train
from dpkit.training.types import Data, Step


class Column(NamedTuple):
    """One column of Table 1: how its training images come about."""

    settings: Settings
    step: Step
    skipped: int  # first records left out: the code trains on the last 55,000


COLUMNS = {
    "cgan": Column(NON_PRIVATE, algorithm.step, 5_000),
    "basic_dp": Column(BASIC, algorithm.basic_step, 5_000),
    "published": Column(SETTINGS, algorithm.step, 5_000),
    "honest": Column(HONEST, algorithm.step, 0),
}
PUBLIC_SIZES = {"paper": PUBLIC_SIZE, "reduced": 1_437}  # declared: rates follow from it
CLASSIFIERS = {"lr": utility.logistic_regression, "mlp": utility.neural_network}
PRECISION = {"lr": np.float64, "mlp": np.float32}  # of the fit; scores are in double precision


def plan_table_1(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """The parts of Table 1: each column's training runs, then a classifier's fit on each.

    Args:
        scale: "paper" (MNIST, the columns' own settings) or "reduced" (the digits, batch 128).
        seeds: training runs a column.
        device: auto, cpu or cuda; classifiers run on the CPU.
        progress: wraps a run's records, as tqdm does.
    """
    parts = [
        Part(f"real-seed0-{name}", {"classifier": name}, 0, partial(_fit_on_real, name, scale))
        for name in CLASSIFIERS
    ]
    for seed in range(seeds):
        for key, column in COLUMNS.items():
            run = Run(key, _scaled(column, scale), seed, scale, device, progress)
            settings = describe(run.column.settings)
            name = f"{key}-seed{seed}-train"
            parts.append(Part(name, settings, seed, run.train, run.work, run.prices))
            for name in CLASSIFIERS:
                fit = partial(run.fit, name)
                parts.append(
                    Part(f"{key}-seed{seed}-{name}", {**settings, "classifier": name}, seed, fit)
                )
    return parts


PLANS = {"table_1": plan_table_1}


class Run(NamedTuple):
    """One column trained with one seed, and the classifiers fitted to what it generates."""

    key: str
    column: Column
    seed: int
    scale: str
    device: str
    progress: Progress

    def train(self) -> Result:
        """Train, keep the generator in the cache, and show ten samples a class."""
        images, device = _images(self.scale, "train"), device_named(self.device)
        settings, public_size = self.column.settings, PUBLIC_SIZES[self.scale]
        data = Data(
            torch.from_numpy(images.flat()[self.column.skipped :]).to(device),
            torch.from_numpy(images.labels[self.column.skipped :]).to(device),
            public_size,
        )
        gan = algorithm.new_gan(settings, seed=self.seed, device=device)
        rng = generator_on(device, seed=self.seed)
        steps = settings.steps_allowed(public_size=public_size)
        records = train(self.column.step, gan, data, settings=settings, rng=rng)
        for _ in self.progress(records, total=steps, desc=f"{self.key} seed {self.seed}"):
            pass
        write_bytes(self._cached(), save(gan.averaged_net.state_dict()))
        classes = torch.arange(settings.classes, device=device)
        shown_rng = generator_on(device, seed=self.seed, stream="samples")
        samples = algorithm.generate(gan, classes.repeat(10), settings=settings, rng=shown_rng)
        values = {"steps": steps}
        values |= self.prices(values)
        side = round(settings.pixels**0.5)
        shown = (samples * 255).round().byte().reshape(-1, side, side).cpu().numpy()
        return Result(
            values, {images.name: images.checksum}, device_label(device),
            shown if self.seed == 0 else None,
        )  # fmt: skip

    def prices(self, values: dict[str, Any]) -> dict[str, Any]:
        """What a run of the stored number of steps costs."""
        settings, public_size = self.column.settings, PUBLIC_SIZES[self.scale]
        ledger = settings.ledger(public_size=public_size, steps=values["steps"])
        proven = rdp.epsilon(ledger, delta=settings.target_delta)
        return {
            "epsilon_claimed": settings.target_epsilon if settings.noise_multiplier > 0 else None,
            "epsilon_proven": json_number(proven.epsilon),
            "delta": proven.delta,
            "adjacency": proven.adjacency,
            "method": proven.method,
            "assumptions": [*proven.assumptions, *settings.sampling.assumptions],
        }

    def work(self) -> list[Work]:
        """The steps of its training, all of them: it is not stored on the way."""
        settings, size = self.column.settings, PUBLIC_SIZES[self.scale]
        return [trial.training(
            self.column.step, algorithm.new_gan, settings=settings, shape=(settings.pixels,),
            size=size, device=device_named(self.device),
            left=trial.steps_allowed(settings, public_size=size),
            every=settings.discriminator_steps,
        )]  # fmt: skip

    def fit(self, classifier: str) -> Result:
        """Fit a classifier to as many generated images as there are real ones; test it."""
        if not self._cached().exists():
            self.train()
        train_set, test_set = _images(self.scale, "train"), _images(self.scale, "test")
        labels = self._labels(train_set.labels)
        gan = algorithm.new_gan(self.column.settings, seed=self.seed, device=torch.device("cpu"))
        gan.averaged_net.load_state_dict(load_file(self._cached()))
        rng = generator_on(torch.device("cpu"), seed=self.seed, stream="synthesis")
        features = algorithm.generate(
            gan, torch.from_numpy(labels), settings=self.column.settings, rng=rng
        ).numpy()
        return _fit(classifier, features, labels, train_set, test_set, seed=self.seed)

    def _labels(self, private_labels: np.ndarray) -> np.ndarray:
        """Labels to generate: the private class counts as published; balanced where honest."""
        if self.column.settings.clipping.fakes_use_private_labels:
            return np.sort(private_labels)
        return np.sort(np.arange(len(private_labels)) % self.column.settings.classes)

    def _cached(self) -> Path:
        settings = json.dumps(describe(self.column.settings), sort_keys=True)
        digest = sha256(settings.encode()).hexdigest()[:12]
        name = f"{self.scale}-{self.key}-seed{self.seed}-{digest}.safetensors"
        return cache_dir() / "runs" / "dp_cgan" / name


def _scaled(column: Column, scale: str) -> Column:
    if scale == "paper":
        return column
    return column._replace(
        settings=small(column.settings, batch_size=128, steps=1_000), skipped=0
    )  # fmt: skip


def _images(scale: str, split: str) -> datasets.Images:
    return datasets.mnist(split=split) if scale == "paper" else datasets.digits(split=split)


def _fit_on_real(classifier: str, scale: str) -> Result:
    train_set, test_set = _images(scale, "train"), _images(scale, "test")
    features = train_set.pixels.reshape(train_set.n, -1) / 255.0
    return _fit(classifier, features, train_set.labels, train_set, test_set, seed=0)


def _fit(
    name: str, features: np.ndarray, labels: np.ndarray,
    train_set: datasets.Images, test_set: datasets.Images, *, seed: int,
) -> Result:  # fmt: skip
    classifier = utility.fit(CLASSIFIERS[name](seed=seed), features.astype(PRECISION[name]), labels)
    pixels = test_set.pixels.reshape(len(test_set.labels), -1)
    checksums = {f"{s.name} {w}": s.checksum for s, w in ((train_set, "train"), (test_set, "test"))}
    return Result(utility.evaluate(classifier, pixels, test_set.labels), checksums, "cpu")
