"""What is run for the tables and figures: each run is one part, stored by itself."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from dpkit.experiments import trial
from dpkit.experiments.part import Part, Progress, Result, Work
from dpkit.papers.rdp_gan import adaptive, algorithm, honest
from dpkit.papers.rdp_gan.settings import (
    GradientNoise,
    MultiplicativeNoise,
    ParameterNoise,
    Settings,
)
from dpkit.papers.rdp_gan.tasks import CHANGES, JUDGED, PUBLIC_SIZES, Task, task
from dpkit.privacy import pld
from dpkit.privacy.ledger import Guarantee
from dpkit.privacy.sampling import mechanism
from dpkit.records import describe, json_number
from dpkit.training.device import device_label, device_named, generator_on
from dpkit.training.loop import train
from dpkit.training.types import Data, Gan

CURVE_EVERY = 50  # iterations between two points of an accuracy's curve
CURVE_RECORDS = 1_000


class Run(NamedTuple):
    """One method trained with one seed on one task, and what it generates judged."""

    key: str
    records: str
    settings: Settings
    seed: int
    scale: str
    device: str
    progress: Progress
    kept: tuple[int, ...] = ()  # iterations that are judged, beside the last
    by_digit: bool = False  # a GAN for each digit, as in the code
    samples: bool = False

    @property
    def part(self) -> Part:
        """Its name and settings, and what computes it."""
        described = describe(self.settings) | {"records": self.records, "by_digit": self.by_digit}
        name = f"{self.key}-seed{self.seed}"
        return Part(name, described, self.seed, self.compute, self.work, self.prices)

    def prices(self, values: dict[str, Any]) -> dict[str, Any]:
        """What the run costs: its settings say how long it may be, whatever was stored."""
        settings = replace(self.settings, **CHANGES[self.records])
        if self.by_digit:
            settings = replace(settings, classes=0)
        priced = _proven(settings, PUBLIC_SIZES[self.records][self.scale])
        return {"epsilon_claimed": _claimed(self.settings), **priced}

    def work(self) -> list[Work]:
        """All steps of its training; where the noise is tuned it may end before."""
        settings = replace(self.settings, **CHANGES[self.records])
        gans, size = 1, PUBLIC_SIZES[self.records][self.scale]
        if self.by_digit:
            gans, size, settings = 10, size // 10, replace(settings, classes=0)
        return [training(settings, size=size, device=device_named(self.device), gans=gans)]

    def compute(self) -> Result:
        """Train, judge, and say what is claimed and proven of it."""
        wanted, device = task(self.records, scale=self.scale), device_named(self.device)
        settings = replace(self.settings, **wanted.changes)
        if self.by_digit:
            settings = replace(settings, classes=0)
        kept = {i for i in (*self.kept, settings.iterations) if i <= settings.iterations}
        if self.by_digit:
            made, curve = self._by_digit(wanted, settings, kept, device)
        else:
            made, curve = self._whole(wanted, settings, kept, device)
        scores = {str(i): wanted.judge(*records) for i, records in sorted(made.items())}
        last = max(made)
        images = None
        if self.samples and not settings.parts:
            images = _shown(*made[last])
        values = {
            "iterations": last, "discriminator_steps": settings.discriminator_steps,
            "epsilon_claimed": _claimed(self.settings), "scores": scores, "curve": curve,
            "trained": {
                "features": settings.features, "classes": settings.classes,
                "parts": list(settings.parts), "public_size": wanted.data.public_size,
            },
            **_proven(settings, wanted.data.public_size),
        }  # fmt: skip
        return Result(values, wanted.checksums, device_label(device), images)

    def _whole(
        self, wanted: Task, settings: Settings, kept: set[int], device: torch.device
    ) -> "tuple[dict[int, tuple[np.ndarray, np.ndarray]], dict[str, list[Any]]]":
        """One GAN on all records: generated records at the kept iterations, and the curve."""
        gan = algorithm.new_gan(settings, seed=self.seed, device=device)
        data = _on(wanted.data, device)
        sampled = generator_on(device, seed=self.seed, stream="judged")
        made, curve = {}, {"iterations": [], "accuracy": [], "noise": []}
        last, noise = 0, 0.0
        for last, noise in self._iterations(gan, data, wanted, settings, device):
            if last % CURVE_EVERY == 0:
                curve["iterations"].append(last)
                curve["noise"].append(noise)
                few = _generated(gan, settings, CURVE_RECORDS, sampled)
                curve["accuracy"].append(wanted.accuracy(*few))
            if last in kept:
                made[last] = _generated(gan, settings, _judged(settings, data), sampled)
        made[last] = made.get(last) or _generated(gan, settings, _judged(settings, data), sampled)
        return made, curve

    def _iterations(
        self, gan: Gan, data: Data, wanted: Task, settings: Settings, device: torch.device
    ) -> Iterator[tuple[int, float]]:
        """Train; after each iteration of the generator, how many there were, and its noise."""
        rng = generator_on(device, seed=self.seed)
        step = algorithm.step_of(settings)
        desc = f"{self.key} seed {self.seed}"
        each = settings.discriminator_steps
        if settings.tuning is None:
            records = train(step, gan, data, settings=settings, rng=rng)
            total = settings.iterations * each
            for record in self.progress(records, total=total, desc=desc):
                if (record.step + 1) % each == 0:
                    yield (record.step + 1) // each, settings.noise.schedule(record.step // each)
            return
        sampled = generator_on(device, seed=self.seed, stream="tested")
        count, share = wanted.correct, 1.0
        if isinstance(settings.noise, GradientNoise):
            budget: adaptive.Budget = adaptive.FilterBudget(
                honest.filter_for(settings, public_size=data.public_size), settings,
                data.public_size,
            )  # fmt: skip
        else:  # the paper's accuracy, for free
            count, share = wanted.accuracy, data.public_size
            budget = adaptive.PaperBudget.of(settings, data.public_size, self.records)
        tested = adaptive.tuned(
            step, gan, data, settings=settings, rng=rng, budget=budget,
            correct=lambda g: share * count(*_generated(g, settings, CURVE_RECORDS, sampled)),
        )  # fmt: skip
        for one in self.progress(tested, total=settings.iterations, desc=desc):
            yield one.iteration + 1, one.noise

    def _by_digit(
        self, wanted: Task, settings: Settings, kept: set[int], device: torch.device
    ) -> "tuple[dict[int, tuple[np.ndarray, np.ndarray]], dict[str, list[Any]]]":
        """As in the code: a GAN for each digit, trained apart; what all ten generate, together."""
        found: dict[int, list[np.ndarray]] = {i: [] for i in kept}
        curves = []
        for digit in range(10):
            chosen = wanted.data.labels == digit
            features = wanted.data.features[chosen]
            # Shuffled batches take a declared size for the true one: this digit's own count.
            data = Data(features, wanted.data.labels[chosen] * 0, len(features))
            only = wanted._replace(
                data=data, accuracy=lambda x, y, asked=digit: wanted.accuracy(x, y * 0 + asked)
            )
            one = self._replace(key=f"{self.key} digit {digit}", by_digit=False, samples=False)
            made, curve = one._whole(only, settings, kept, device)
            for i in kept:
                found[i].append(made[i][0][: JUDGED // 10])
            curves.append(curve)
        made = {i: _joined(parts) for i, parts in found.items()}
        accuracy = np.mean([curve["accuracy"] for curve in curves], axis=0).tolist()
        by_digit = [curve["accuracy"] for curve in curves]
        return made, {**curves[0], "accuracy": accuracy, "by_digit": by_digit}


def training(settings: Settings, *, size: int, device: torch.device, gans: int = 1) -> Work:
    """The steps of so many GANs' training, each on `size` records."""
    each = settings.discriminator_steps
    return trial.training(
        algorithm.step_of(settings), algorithm.new_gan, settings=settings,
        shape=(settings.features,), size=size, device=device,
        left=gans * settings.iterations * each, every=each,
    )  # fmt: skip


def _joined(parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def _on(data: Data, device: torch.device) -> Data:
    return data._replace(features=data.features.to(device), labels=data.labels.to(device))


def _judged(settings: Settings, data: Data) -> int:
    """How many records are generated to be judged: images, or as many table records as private."""
    return data.public_size if settings.parts else JUDGED


def _generated(
    gan: Gan, settings: Settings, count: int, rng: torch.Generator
) -> tuple[np.ndarray, np.ndarray]:
    labels = torch.arange(count, device=rng.device) % max(settings.classes, 1)
    made = algorithm.generate(gan, labels, settings=settings, rng=rng)
    return made.cpu().numpy(), labels.cpu().numpy()


def _shown(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Five images a label, uint8."""
    chosen = [np.flatnonzero(labels == label)[i] for i in range(5) for label in range(10)]
    return ((images[chosen] + 1) * 127.5).round().astype(np.uint8).reshape(-1, 28, 28)


def _claimed(settings: Settings) -> float | None:
    """What is said of such a run, by the paper or by us; of the code's own variants, nothing is."""
    unsaid = isinstance(settings.noise, MultiplicativeNoise | ParameterNoise)
    return None if unsaid else settings.target_epsilon


def _proven(settings: Settings, public_size: int) -> dict[str, Any]:
    """The guarantee of the run: by PLD, by the filter, or none."""
    if settings.tuning is not None and settings.tuning.count_noise > 0:
        found = honest.filter_for(settings, public_size=public_size).guarantee()
    else:
        ledger = settings.ledger(public_size=public_size)
        found: Guarantee = pld.epsilon(ledger, delta=settings.target_delta)
    assumed: set[str] = set()
    if found.epsilon < math.inf:  # nothing is priced, and nothing assumed, where there is none
        release = mechanism(settings.sampling, noise_multiplier=1.0, public_size=public_size)
        assumed = {*release.assumptions, *settings.sampling.assumptions}
    return {
        "epsilon_proven": json_number(found.epsilon), "delta": found.delta,
        "adjacency": found.adjacency, "method": found.method,
        "assumptions": sorted(assumed | {*found.assumptions}),
    }  # fmt: skip
