"""The runs behind each figure, at the paper's scale and at a reduced one; both on MNIST.

`common` holds what all three figures show: the run that they share, the non-private level, and an
honest run. At reduced scale networks are smaller (capacity 16, in Figure 3 as it says) and runs
end after `settings.REDUCED_STEPS` steps, Figure 3's after `REDUCED_STEPS_BY_CAPACITY`; data,
batches, noise and scores are the same.
"""

from functools import partial

from dpkit import datasets
from dpkit.experiments.part import Part, Progress, Result, Work
from dpkit.metrics.judge import (
    CLASSIFIERS,
    Learning,
    as_images,
    judge,
    scoring_work,
    training_work,
)
from dpkit.papers.small_images.runs import Run
from dpkit.papers.small_images.settings import EVERY, FIGURES, PUBLIC_SIZES, settings_of
from dpkit.records import describe
from dpkit.training.device import device_label, device_named


def plan_runs(plan: str, *, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Plan the runs of "common" or of a figure: one part for each run and seed.

    Args:
        plan: "common", "figure_1", "figure_2" or "figure_3".
        scale: "paper" or "reduced".
        seeds: runs of each.
        device: auto, cpu or cuda.
        progress: wraps a run's records, as tqdm does.
    """
    return [
        Run(
            key, settings, seed, EVERY[scale], device=device, progress=progress,
            samples=not seed,
        ).part
        for seed in range(seeds)
        for key, settings in settings_of(plan, scale=scale).items()
    ]  # fmt: skip


def plan_classifier(*, scale: str, seeds: int, device: str, progress: Progress) -> list[Part]:
    """Plan the classifier behind the scores, the same at both scales.

    It gives its accuracy and the scores of real images. Arguments as for `plan_runs`; there is one,
    whatever the seeds.
    """
    learning = CLASSIFIERS["mnist"]
    compute = partial(_real_scores, learning, device, progress)
    work = partial(_classifier_work, learning, device)
    return [Part("mnist", describe(learning), learning.seed, compute, work)]


def _classifier_work(learning: Learning, device_name: str) -> list[Work]:
    device, tested = device_named(device_name), 10_000
    images = PUBLIC_SIZES[learning.records] + tested
    left = training_work(learning, device=device)
    return [*left, scoring_work(learning, images=images, device=device)]


def _real_scores(learning: Learning, device_name: str, progress: Progress) -> Result:
    device = device_named(device_name)
    classifier = judge(learning, device=device, progress=progress)
    values = {"accuracy": classifier.accuracy, "training_seconds": classifier.seconds}
    for split in ("train", "test"):
        images = as_images(datasets.load(learning.records, split=split), device)
        found = classifier.score(images)
        values[f"inception_{split}"] = found.mean
        values[f"inception_{split}_spread"] = found.spread
    return Result(values, classifier.checksums, device_label(device))


PLANS = {
    "classifier": plan_classifier,
    "common": partial(plan_runs, "common"),
    **{figure: partial(plan_runs, figure) for figure in FIGURES},
}
