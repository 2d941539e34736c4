"""The figures' runs: curves of inception score against epsilon, all on MNIST.

The plan `common` holds the parts of all three figures: the shared run, the non-private level, and a
repaired run. At reduced scale networks are smaller (capacity 16, in Figure 3 as it says) and
runs end after `settings.REDUCED_STEPS` steps, Figure 3's after `REDUCED_STEPS_BY_CAPACITY`; data,
batches, noise and scores are the same.
"""

from collections.abc import Generator
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpkit import datasets
from dpkit.common.progress import Progress, silent
from dpkit.common.records import describe, json_number, read_json, write_json
from dpkit.metrics.judge import CLASSIFIERS, Judge, Learning, as_images, judge
from dpkit.papers.experiments.run import Run, as_bytes
from dpkit.papers.experiments.store import Part, Result, Values, priced
from dpkit.papers.small_images import algorithm
from dpkit.papers.small_images.settings import (
    EVERY,
    FIGURES,
    ORDERS,
    PUBLIC_SIZES,
    RECORDS,
    SmallImagesSettings,
    settings_of,
)
from dpkit.privacy import pld, rdp
from dpkit.training import Data, Gan, Record, device_named, spent
from dpkit.training.device import device_label

IMAGES = 9_984  # generated images of a score, as in the public code
# Private images on which the critic is looked at, the first ones
WATCHED = 1_024
SHOWN = 100  # generated images to keep as samples
# Images of a point's score
SCORED = {"paper": IMAGES, "reduced": IMAGES, "small": 200}
COLUMNS = (
    *("steps", "epsilon_claimed", "epsilon_proven", "inception", "inception_spread"),
    *("critic_loss", "smallest_norm", "median_norm", "clipped"),
)


def plan_runs(
    plan: str, *, scale: str, seeds: int, device: str, progress: Progress
) -> list[Part]:
    """Scores of a figure's runs on MNIST (reduced: smaller networks, tens of minutes a run).

    The plan is "common" or a figure's; scale "small" takes the digits, 12 steps of tiny networks.
    """
    told: Any = {"device": device, "progress": progress}
    told |= {"records": RECORDS[scale], "images": SCORED[scale]}
    return [
        FidCurve.of(key, settings, seed, EVERY[scale], samples=not seed, **told).part
        for seed in range(seeds)
        for key, settings in settings_of(plan, scale=scale).items()
    ]


def plan_classifier(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """The classifier behind all scores, and scores of real images; small: of the digits.

    There is one of a data set, whatever the seeds.
    """
    learning = CLASSIFIERS[RECORDS[scale]]
    compute = partial(_real_scores, learning, device, progress)
    return [Part(learning.records, describe(learning), learning.seed, compute)]


PLANS = {
    "classifier": plan_classifier,
    "common": partial(plan_runs, "common"),
    **{figure: partial(plan_runs, figure) for figure in FIGURES},
}


class FidCurve(NamedTuple):
    """A run whose generator is scored on the way.

    every: steps from one point of the curve to the next; the last step is a point too.
    images: generated for each point's score.
    samples: keep some images of the last generator.
    """

    run: Run
    every: int
    images: int = IMAGES
    samples: bool = False

    @classmethod
    def of(
        cls,
        key: str,
        settings: SmallImagesSettings,
        seed: int,
        every: int,
        *,
        device: str = "auto",
        progress: Progress = silent,
        records: str = "mnist",
        images: int = IMAGES,
        samples: bool = False,
    ) -> "FidCurve":
        """The run that the figure calls `key`, on an image set of the kit, "mnist" or "digits"."""
        classifier, size = describe(CLASSIFIERS[records]), PUBLIC_SIZES[records]
        also = {"records": records, "every": every, "images": images, "classifier": classifier}
        run = Run("small_images", key, settings, seed, size, "", records, device, progress)
        run = run._replace(every=250, also=also)  # steps to a checkpoint
        return cls(run, every, images, samples)

    @property
    def part(self) -> Part:
        """The part that stores it."""
        return self.run.part(self.compute, prices=self.prices)

    def points(self) -> list[int]:
        """Steps after which the generator is judged."""
        steps = self.run.steps
        return sorted({*range(self.every, steps, self.every), steps})

    def compute(self) -> Result:
        """Train and judge, resume an interrupted run, and return the cost.

        Values: `curve`, a list for each of `COLUMNS`; the last point's epsilons, and in which sense
        they hold; `accuracy` of the classifier behind the scores. The curve describes private data:
        it is of the method, and not released with a model.
        """
        run, device = self.run, self.run.device
        classifier = judge(CLASSIFIERS[run.records], device=device, progress=run.progress)
        images = as_images(datasets.load(run.records, split="train"), device)
        data = Data(
            images, torch.zeros(len(images), dtype=torch.int64, device=device), run.size
        )
        gan = algorithm.new_gan(run.settings, seed=run.seed, device=device)

        path, points = run.checkpoint("curve.json"), self.points()
        curve = read_json(path) if path.exists() else {name: [] for name in COLUMNS}
        # What an interrupted run has measured; if complete, without its last point
        curve = {name: column[: len(points) - 1] for name, column in curve.items()}
        left = points[-1] - (curve["steps"] or [0])[-1]
        with closing(self._steps(gan, data, classifier, curve)) as steps:
            run.finish(steps, total=left)  # which is stored on an error too
        run.keep(gan.averaged_net)
        values = {"curve": curve, "accuracy": classifier.accuracy, **self._spent()}
        samples = None
        if self.samples:
            made = algorithm.generate(
                gan, SHOWN, settings=run.settings, rng=run.rng("samples")
            )
            samples = as_bytes(made[:, 0])
        run.forget()
        return run.result(values, classifier.checksums, samples)

    def _steps(
        self, gan: Gan, data: Data, classifier: Judge, curve: dict[str, list[Any]]
    ) -> Generator[Record, None, None]:
        """Take all steps that are left; each point reached extends the curve, on disk too.

        Each point ends one call of `train`, which stores the run: if the point's measurement is
        then interrupted, the next process restores the run and measures it without a step.
        """
        step = algorithm.step_of(self.run.settings)
        for point in self.points()[len(curve["steps"]) :]:
            yield from self.run.train(step, gan, data, steps=point)
            rng = self.run.rng(f"judged after {point}")
            measured = self._measured(gan, data.features[:WATCHED], classifier, rng)
            for name, value in {"steps": point, **measured}.items():
                curve[name].append(value)
            write_json(self.run.checkpoint("curve.json"), curve)

    def _measured(
        self, gan: Gan, private: Tensor, classifier: Judge, rng: torch.Generator
    ) -> Values:
        settings = self.run.settings
        made = algorithm.generate(gan, self.images, settings=settings, rng=rng)
        score = classifier.score(made)
        losses, norms = algorithm.watch(gan, private, settings=settings, rng=rng)
        cost = self._spent()
        bound = getattr(settings.clipping, "max_grad_norm", float("inf"))
        return {
            "epsilon_claimed": cost["epsilon_claimed"],
            "epsilon_proven": cost["epsilon_proven"],
            "inception": json_number(score.mean),
            "inception_spread": json_number(score.spread),
            "critic_loss": json_number(losses.mean().item()),
            "smallest_norm": json_number(norms.min().item()),
            "median_norm": json_number(norms.median().item()),
            "clipped": json_number((norms > bound).float().mean().item()),
        }

    def _spent(self) -> Values:
        """The cost of all steps that were run, including those charged again."""
        return self.prices({"steps": spent(self.run.checkpoint())})

    def prices(self, values: Values) -> Values:
        """Price a run's steps, by the paper's accounting and by proof.

        Where the values have a curve, each of its points is priced, too.

        Raises:
            ValueError: steps were charged again: which points they came before is not stored.
        """
        settings, steps, size = self.run.settings, values["steps"], self.run.size
        points = {}
        if "curve" in values:
            curve = values["curve"]
            if curve["steps"][-1] != steps:
                raise ValueError(
                    f"steps must be those of the curve's last point, {curve['steps'][-1]}, got "
                    f"{steps}: some were charged again; run {self.run.key} anew"
                )
            each = [self.prices({"steps": point}) for point in curve["steps"]]
            columns = ("epsilon_claimed", "epsilon_proven")
            points = {"curve": curve | {name: [one[name] for one in each] for name in columns}}
        delta, claimed = settings.target_delta, None
        if settings.noise_multiplier > 0:
            ledger = settings.claimed_ledger(public_size=size, steps=steps)
            claimed = rdp.epsilon(ledger, delta=delta, conversion="classic", orders=ORDERS)
        proven = pld.epsilon(settings.ledger(public_size=size, steps=steps), delta=delta)
        return points | {
            "steps": steps,
            "claimed_assumptions": [] if claimed is None else list(claimed.assumptions),
            **priced(proven, claimed=None if claimed is None else claimed.epsilon),
        }


def _real_scores(learning: Learning, device_name: str, progress: Progress) -> Result:
    device = device_named(device_name)
    classifier = judge(learning, device=device, progress=progress)
    values = {"accuracy": classifier.accuracy, "training_seconds": classifier.seconds}
    for split in ("train", "test"):
        images = as_images(datasets.load(learning.records, split=split), device)
        score = classifier.score(images)
        values[f"inception_{split}"] = score.mean
        values[f"inception_{split}_spread"] = score.spread
    return Result(values, classifier.checksums, device_label(device))
