"""How a GAN is trained for the comparison, kept, and sampled."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dpkit.papers.comparison.task import SHAPE, Made, Task
from dpkit.papers.experiments.run import Run
from dpkit.privacy.ledger import Release
from dpkit.synthesizers.jitter import Jitter
from dpkit.training.types import Data, Gan


class Recipe(NamedTuple):
    """A GAN that is trained by private steps.

    name: of its runs' files.
    new_gan: of (settings, images, labels, task, device): networks before the first step.
    step: a private one, as `dpkit.training.train` takes it.
    generate: of (gan, labels, settings, rng): images in [0, 1].
    shape: in which its step takes an image.
    """

    name: str
    new_gan: Callable[..., Gan]
    step: Callable[..., Any]
    generate: Callable[[Gan, Tensor, Any, torch.Generator], Any]
    shape: tuple[int, ...]


def ledger(task: Task, settings: Any) -> list[Release]:
    """All that a run releases."""
    return settings.ledger(public_size=task.size)


def fit(task: Task, settings: Any, *, recipe: Recipe, jitter: Jitter | None = None) -> Made:
    """Train it, or take what is kept of the same run."""
    run = _run(task, settings, recipe)
    images, labels = task.pixels(), task.records().labels
    gan = recipe.new_gan(settings, images, labels, task, run.device)
    if not run.weights.exists():
        features = torch.from_numpy(images.reshape(-1, *recipe.shape))
        data = Data(features.to(run.device), torch.from_numpy(labels).to(run.device), task.size)
        run.finish(run.train(recipe.step, gan, data), total=run.steps)
        run.keep(gan.averaged_net)
    run.load(gan.averaged_net)

    def sample(wanted: np.ndarray) -> np.ndarray:
        on_device = torch.from_numpy(wanted).to(run.device)
        made = recipe.generate(gan, on_device, settings, run.rng("synthesis"))
        found = np.asarray(torch.as_tensor(made).cpu()).reshape(-1, *SHAPE)
        return found if jitter is None else jitter(found, rng=task.rng("jitter"))

    return Made(sample)


def _run(task: Task, settings: Any, recipe: Recipe) -> Run:
    return Run(
        "comparison",
        f"{recipe.name}-{task.key}",
        settings,
        task.seed,
        task.size,
        device_name=task.device_name,
        progress=task.progress,
    )
