"""Training runs, which the figures show as curves of inception score against epsilon."""

import json
import shutil
from collections.abc import Generator, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from dpkit import datasets
from dpkit.experiments import trial
from dpkit.experiments.part import Part, Progress, Result, Work, silent
from dpkit.metrics.judge import (
    CLASSIFIERS,
    Judge,
    as_images,
    judge,
    scoring_work,
    training_work,
)
from dpkit.papers.small_images import algorithm
from dpkit.papers.small_images.scores import IMAGES
from dpkit.papers.small_images.settings import ORDERS, PUBLIC_SIZES, Settings
from dpkit.paths import cache_dir
from dpkit.privacy import pld, rdp
from dpkit.privacy.ledger import Guarantee
from dpkit.records import describe, json_number, read_json, write_bytes, write_json
from dpkit.training.checkpoint import Checkpoints, spent
from dpkit.training.device import device_label, device_named, generator_on
from dpkit.training.loop import train
from dpkit.training.types import Data, Gan, Record

CHECKPOINT_EVERY = 250  # steps
WATCHED = 1_024  # private images on which the critic is looked at, the first ones
SHOWN = 100  # generated images that are kept to be looked at


class Run(NamedTuple):
    """A run with one seed, whose generator is scored on the way.

    key: what the figure calls it.
    every: steps from one point of the curve to the next; the last step is a point too.
    records: an image set of the kit, "mnist" or "digits".
    images: generated for each point's score.
    samples: keep some images of the last generator.
    """

    key: str
    settings: Settings
    seed: int
    every: int
    device: str = "auto"
    progress: Progress = silent
    records: str = "mnist"
    images: int = IMAGES
    samples: bool = False

    @property
    def part(self) -> Part:
        """The part that stores it: name, settings, and the function that computes it."""
        name = f"{self.key}-seed{self.seed}"
        return Part(name, self._described(), self.seed, self.compute, self.work, self.prices)

    @property
    def checkpoint(self) -> Path:
        """Path of an unfinished run's checkpoint. PRIVATE, as the data are (see Checkpoints)."""
        return self._named("run") / "checkpoint"

    @property
    def weights(self) -> Path:
        """The path of the last generator's weights, as safetensors."""
        return self._named("safetensors")

    def points(self) -> list[int]:
        """Steps after which the generator is judged."""
        size = PUBLIC_SIZES[self.records]
        steps = trial.steps_allowed(self.settings, public_size=size)
        return sorted({*range(self.every, steps, self.every), steps})

    def compute(self) -> Result:
        """Train and judge, going on where an interrupted run stopped, and say what it cost.

        Values: `curve`, a list for each of `COLUMNS`; of the last point the epsilons, and in which
        sense they hold; `accuracy` of the classifier behind the scores. Gradient norms, losses and
        scores describe private data; the curve is of the method, and not released with a model.
        """
        device = device_named(self.device)
        learning = CLASSIFIERS[self.records]
        classifier = judge(learning, device=device, progress=self.progress)
        train_set = datasets.load(self.records, split="train")
        images = as_images(train_set, device)
        unused = torch.zeros(len(images), dtype=torch.int64, device=device)
        data = Data(images, unused, PUBLIC_SIZES[self.records])
        gan = algorithm.new_gan(self.settings, seed=self.seed, device=device)

        curve = self._begun()
        desc = f"{self.key} seed {self.seed}"
        left = self.points()[-1] - (curve["steps"] or [0])[-1]
        with closing(self._steps(gan, data, classifier, curve)) as steps:  # stored on an error too
            for _ in self.progress(steps, total=left, desc=desc):
                pass
        write_bytes(self.weights, save(gan.averaged_net.state_dict()))
        values = {"curve": curve, "accuracy": classifier.accuracy, **self._spent()}
        samples = self._samples(gan, device) if self.samples else None
        self._forget()
        return Result(values, classifier.checksums, device_label(device), samples)

    def work(self) -> list[Work]:
        """The work left: the classifier's training, the steps, the scores of the points."""
        settings, size = self.settings, PUBLIC_SIZES[self.records]
        learning, device = CLASSIFIERS[self.records], device_named(self.device)
        points = self.points()
        images = (len(points) - len(self._begun()["steps"])) * self.images

        def generated() -> Iterator[float]:
            gan = algorithm.new_gan(settings, seed=0, device=device)
            rng = generator_on(device, seed=0, stream="trial")
            while True:
                made = algorithm.generate(gan, algorithm.AT_MOST, settings=settings, rng=rng)
                yield made.mean().item()

        kind = ("generated", settings, str(device))
        return [
            *training_work(learning, device=device),
            trial.training(
                algorithm.step_of(settings), algorithm.new_gan, settings=settings,
                shape=(1, settings.side, settings.side), size=size, device=device,
                left=points[-1] - trial.steps_done(self.checkpoint), every=settings.critic_steps,
            ),
            Work(kind, -(-images // algorithm.AT_MOST), generated),
            scoring_work(learning, images=images, device=device),
        ]  # fmt: skip

    def _steps(
        self, gan: Gan, data: Data, classifier: Judge, curve: dict[str, list[Any]]
    ) -> Generator[Record, None, None]:
        """Take all steps that are left; each point reached extends the curve, on disk too.

        Each point ends one call of `train`, which stores the run: if the point's measurement is
        then interrupted, the next process restores the run and measures it without a step.
        """
        device = data.features.device
        step = algorithm.step_of(self.settings)
        for point in self.points()[len(curve["steps"]) :]:
            yield from train(
                step, gan, data, settings=self.settings, steps=point,
                rng=generator_on(device, seed=self.seed),
                checkpoint=Checkpoints(self.checkpoint, every=CHECKPOINT_EVERY),
            )  # fmt: skip
            rng = generator_on(device, seed=self.seed, stream=f"judged after {point}")
            measured = self._measured(gan, data.features[:WATCHED], classifier, rng)
            for name, value in {"steps": point, **measured}.items():
                curve[name].append(value)
            write_json(self._curve_file, curve)

    def _measured(
        self, gan: Gan, private: Tensor, classifier: Judge, rng: torch.Generator
    ) -> dict[str, Any]:
        made = algorithm.generate(gan, self.images, settings=self.settings, rng=rng)
        found = classifier.score(made)
        seen = algorithm.watch(gan, private, settings=self.settings, rng=rng)
        cost = self._spent()
        bound = getattr(self.settings.clipping, "max_grad_norm", float("inf"))
        return {
            "epsilon_claimed": cost["epsilon_claimed"],
            "epsilon_proven": cost["epsilon_proven"],
            "inception": json_number(found.mean),
            "inception_spread": json_number(found.spread),
            "critic_loss": json_number(seen.losses.mean().item()),
            "smallest_norm": json_number(seen.norms.min().item()),
            "median_norm": json_number(seen.norms.median().item()),
            "clipped": json_number((seen.norms > bound).float().mean().item()),
        }

    def _spent(self) -> dict[str, Any]:
        """The cost of all steps that were run, including those charged again."""
        return self.prices({"steps": spent(self.checkpoint)})

    def prices(self, values: dict[str, Any]) -> dict[str, Any]:
        """Price a run's steps, by the paper's accounting and by what is proven.

        Where the values have a curve, each of its points is priced, too.

        Raises:
            ValueError: steps were charged again: which points they came before is not stored.
        """
        steps, size = values["steps"], PUBLIC_SIZES[self.records]
        proven = proven_epsilon(self.settings, public_size=size, steps=steps)
        claimed = claimed_epsilon(self.settings, public_size=size, steps=steps)
        points = {}
        if "curve" in values:
            curve = values["curve"]
            if curve["steps"][-1] != steps:
                raise ValueError(
                    f"steps must be those of the curve's last point, {curve['steps'][-1]}, got "
                    f"{steps}: some were charged again; run {self.key} anew"
                )
            found = [self.prices({"steps": point}) for point in curve["steps"]]
            columns = ("epsilon_claimed", "epsilon_proven")
            points = {"curve": curve | {name: [one[name] for one in found] for name in columns}}
        return points | {
            "steps": steps,
            "epsilon_claimed": json_number(None if claimed is None else claimed.epsilon),
            "claimed_assumptions": [] if claimed is None else list(claimed.assumptions),
            "epsilon_proven": json_number(proven.epsilon),
            "delta": proven.delta, "adjacency": proven.adjacency, "method": proven.method,
            "assumptions": list(proven.assumptions),
        }  # fmt: skip

    def _begun(self) -> dict[str, list[Any]]:
        """The curve that an interrupted run has measured; if complete, without its last point."""
        path = self._curve_file
        curve = read_json(path) if path.exists() else {name: [] for name in COLUMNS}
        if len(curve["steps"]) == len(self.points()):
            return {name: column[:-1] for name, column in curve.items()}
        return curve

    def _forget(self) -> None:
        """Remove the checkpoint of a run that is done: who reads it takes the noise off again."""
        done = self._named("done")
        shutil.rmtree(done, ignore_errors=True)
        self._named("run").rename(done)  # at once: never a curve without its checkpoint
        shutil.rmtree(done)

    def _samples(self, gan: Gan, device: torch.device) -> np.ndarray:
        rng = generator_on(device, seed=self.seed, stream="samples")
        shown = algorithm.generate(gan, SHOWN, settings=self.settings, rng=rng)
        return ((shown[:, 0] + 1) * 127.5).round().byte().cpu().numpy()

    def _described(self) -> dict[str, Any]:
        classifier = describe(CLASSIFIERS[self.records])
        return describe(self.settings) | {
            "records": self.records, "every": self.every, "images": self.images,
            "classifier": classifier,
        }  # fmt: skip

    @property
    def _curve_file(self) -> Path:
        return self._named("run") / "curve.json"

    def _named(self, kind: str) -> Path:
        known = json.dumps(self._described(), sort_keys=True)
        digest = sha256(known.encode()).hexdigest()[:12]
        name = f"{self.records}-{self.key}-seed{self.seed}-{digest}.{kind}"
        return cache_dir() / "runs" / "small_images" / name


COLUMNS = (
    "steps", "epsilon_claimed", "epsilon_proven", "inception", "inception_spread", "critic_loss",
    "smallest_norm", "median_norm", "clipped",
)  # fmt: skip


def claimed_epsilon(settings: Settings, *, public_size: int, steps: int) -> Guarantee | None:
    """The epsilon that the paper's code charges for `steps` steps; None where no noise is added."""
    if not settings.noise_multiplier > 0:
        return None
    ledger = settings.claimed_ledger(public_size=public_size, steps=steps)
    return rdp.epsilon(
        ledger, delta=settings.target_delta, conversion="classic", orders=ORDERS
    )  # fmt: skip


def proven_epsilon(settings: Settings, *, public_size: int, steps: int) -> Guarantee:
    """The epsilon proven for `steps` steps, by the certified accountant."""
    ledger = settings.ledger(public_size=public_size, steps=steps)
    return pld.epsilon(ledger, delta=settings.target_delta)
