"""What is run for the tables and figures: each run is one part, stored by itself."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from dpkit.common.progress import Progress
from dpkit.papers.experiments.run import Run
from dpkit.papers.experiments.store import Part, Result, priced
from dpkit.papers.rdp_gan import adaptive, algorithm, repaired
from dpkit.papers.rdp_gan.settings import (
    GradientNoise,
    MultiplicativeNoise,
    ParameterNoise,
    Settings,
)
from dpkit.papers.rdp_gan.tasks import CHANGES, JUDGED, PUBLIC_SIZES, Task, task
from dpkit.privacy import pld
from dpkit.privacy.sampling import mechanism
from dpkit.training.types import Data, Gan

Generated = tuple[np.ndarray, np.ndarray]  # records, and the labels they were asked for
CURVE_EVERY = 50  # iterations between two points of an accuracy's curve
CURVE_RECORDS = 1_000


class Judged(NamedTuple):
    """One method trained with one seed on one task, and what it generates judged."""

    run: Run
    kept: tuple[int, ...] = ()  # iterations that are judged, beside the last
    by_digit: bool = False  # a GAN for each digit, as in the code
    samples: bool = False

    @classmethod
    def of(
        cls,
        key: str,
        records: str,
        settings: Settings,
        seed: int,
        scale: str,
        device: str,
        progress: Progress,
        *,
        kept: tuple[int, ...] = (),
        by_digit: bool = False,
        samples: bool = False,
    ) -> "Judged":
        """The run that the tables call `key`, of "digits" or "census"."""
        size, also = PUBLIC_SIZES[records][scale], {"records": records, "by_digit": by_digit}
        run = Run("rdp_gan", key, settings, seed, size, scale, records, device, progress, also=also)
        return cls(run, kept, by_digit, samples)

    @property
    def part(self) -> Part:
        """The part that stores it."""
        return self.run.part(self.compute, prices=self.prices)

    @property
    def settings(self) -> Settings:
        """Those that a GAN is trained with: in the records' form, and by digit without labels."""
        settings = replace(self.run.settings, **CHANGES[self.run.records])
        return replace(settings, classes=0) if self.by_digit else settings

    def prices(self, values: dict[str, Any]) -> dict[str, Any]:
        """What the run costs: its settings say how long it may be, whatever was stored."""
        return _priced(self.settings, self.run.size)

    def compute(self) -> Result:
        """Train and score it; return its claimed and proven epsilon."""
        wanted = task(self.run.records, scale=self.run.scale)
        settings = replace(self.settings, **wanted.changes)
        if self.by_digit:
            settings = replace(settings, classes=0)
        kept = {i for i in (*self.kept, settings.iterations) if i <= settings.iterations}
        run = self._by_digit if self.by_digit else self._whole
        made, curve = run(wanted, settings, kept)
        last, size = max(made), wanted.data.public_size
        values = {
            "iterations": last,
            "discriminator_steps": settings.discriminator_steps,
            "scores": {str(i): wanted.judge(*records) for i, records in sorted(made.items())},
            "curve": curve,
            "trained": {
                "features": settings.features,
                "classes": settings.classes,
                "parts": list(settings.parts),
                "public_size": size,
            },
            **_priced(settings, size),
        }
        shown = self.samples and not settings.parts
        return self.run.result(values, wanted.checksums, _shown(*made[last]) if shown else None)

    def _whole(
        self, wanted: Task, settings: Settings, kept: set[int]
    ) -> tuple[dict[int, Generated], dict[str, list[Any]]]:
        """One GAN on all records: generated records at the kept iterations, and the curve."""
        gan = algorithm.new_gan(settings, seed=self.run.seed, device=self.run.device)
        data = on_device(wanted.data, self.run.device)
        sampled, count = self.run.rng("judged"), _judged(settings, data, self.run.scale)
        made, curve = {}, {"iterations": [], "accuracy": [], "noise": []}
        last, noise = 0, 0.0
        for last, noise in self._iterations(gan, data, wanted, settings):
            if last % CURVE_EVERY == 0:
                curve["iterations"].append(last)
                curve["noise"].append(noise)
                few = _generated(gan, settings, CURVE_RECORDS, sampled)
                curve["accuracy"].append(wanted.accuracy(*few))
            if last in kept:
                made[last] = _generated(gan, settings, count, sampled)
        made[last] = made.get(last) or _generated(gan, settings, count, sampled)
        return made, curve

    def _iterations(
        self, gan: Gan, data: Data, wanted: Task, settings: Settings
    ) -> Iterator[tuple[int, float]]:
        """Train; after each iteration of the generator, how many there were, and its noise."""
        step = algorithm.step_of(settings)
        each = settings.discriminator_steps
        if settings.tuning is None:
            records = self.run.train(step, gan, data, settings=settings)
            for record in self.run.shown(records, total=settings.iterations * each):
                if (record.step + 1) % each == 0:
                    yield (record.step + 1) // each, settings.noise.schedule(record.step // each)
            return
        sampled = self.run.rng("tested")
        count, share = wanted.correct, 1.0
        if isinstance(settings.noise, GradientNoise):
            budget: adaptive.Budget = adaptive.FilterBudget(
                repaired.filter_for(settings, public_size=data.public_size),
                settings,
                data.public_size,
            )
        else:  # the paper's accuracy, for free
            count, share = wanted.accuracy, data.public_size
            budget = adaptive.PaperBudget.of(settings, data.public_size, self.run.records)
        tested = adaptive.tuned(
            step,
            gan,
            data,
            settings=settings,
            rng=self.run.rng(),
            budget=budget,
            correct=lambda g: share * count(*_generated(g, settings, CURVE_RECORDS, sampled)),
        )
        for one in self.run.shown(tested, total=settings.iterations):
            yield one.iteration + 1, one.noise

    def _by_digit(
        self, wanted: Task, settings: Settings, kept: set[int]
    ) -> tuple[dict[int, Generated], dict[str, list[Any]]]:
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
            named = self.run._replace(key=f"{self.run.key} digit {digit}")
            made, curve = self._replace(run=named)._whole(only, settings, kept)
            for i in kept:
                found[i].append(made[i][0][: JUDGED[self.run.scale] // 10])
            curves.append(curve)
        made = {i: _joined(parts) for i, parts in found.items()}
        accuracy = np.mean([curve["accuracy"] for curve in curves], axis=0).tolist()
        by_digit = [curve["accuracy"] for curve in curves]
        return made, {**curves[0], "accuracy": accuracy, "by_digit": by_digit}


def _joined(parts: list[np.ndarray]) -> Generated:
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def on_device(data: Data, device: torch.device) -> Data:
    """The same records on a device."""
    return data._replace(features=data.features.to(device), labels=data.labels.to(device))


def _judged(settings: Settings, data: Data, scale: str) -> int:
    """How many records are generated to be judged: images, or as many table records as private."""
    return data.public_size if settings.parts else JUDGED[scale]


def _generated(gan: Gan, settings: Settings, count: int, rng: torch.Generator) -> Generated:
    labels = torch.arange(count, device=rng.device) % max(settings.classes, 1)
    made = algorithm.generate(gan, labels, settings=settings, rng=rng)
    return made.cpu().numpy(), labels.cpu().numpy()


def _shown(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Five images a label, uint8."""
    chosen = [np.flatnonzero(labels == label)[i] for i in range(5) for label in range(10)]
    return ((images[chosen] + 1) * 127.5).round().astype(np.uint8).reshape(-1, 28, 28)


def _priced(settings: Settings, public_size: int) -> dict[str, Any]:
    """The run's claim, by the paper or by us, and its guarantee: by PLD, by the filter, or none."""
    if settings.tuning is not None and settings.tuning.count_noise > 0:
        proven = repaired.filter_for(settings, public_size=public_size).guarantee()
    else:
        ledger = settings.ledger(public_size=public_size)
        proven = pld.epsilon(ledger, delta=settings.target_delta)
    assumed: set[str] = set()
    if proven.epsilon < math.inf:  # nothing is priced, and nothing assumed, where there is none
        release = mechanism(settings.sampling, noise_multiplier=1.0, public_size=public_size)
        assumed = {*release.assumptions, *settings.sampling.assumptions}
    unsaid = isinstance(settings.noise, MultiplicativeNoise | ParameterNoise)  # the code's own
    prices = priced(proven, claimed=None if unsaid else settings.target_epsilon)
    return prices | {"assumptions": sorted(assumed | {*proven.assumptions})}
