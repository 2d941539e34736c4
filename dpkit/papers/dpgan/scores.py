"""Scores of generated images: the inception score, and the JS score, which needs no labels.

Both are measured with networks that learned from real images without privacy: they describe the
method, and are not released with a model.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from dpkit.common import checks
from dpkit.metrics.inception import inception_score
from dpkit.metrics.judge import CLASSIFIERS, Judge, judge
from dpkit.papers.dpgan.js_score import js_score
from dpkit.papers.dpgan.material import material
from dpkit.papers.dpgan.networks import Classifier
from dpkit.papers.dpgan.semi_supervised import RATE
from dpkit.privacy.schedules import Constant
from dpkit.training.device import generator_on, seeded
from dpkit.training.optimizers import Adam, update

SPLITS = 10  # of the images of an inception score


@dataclass(frozen=True)
class Discriminating:
    """The training of eq. 5's "another discriminator", which tells real images from generated ones.

    Raises:
        ValueError: a number is out of range.
    """

    iterations: int = 1_000
    batch_size: int = 64  # real images, and generated ones
    width: int = 16
    optimizer: Adam = RATE

    def __post_init__(self) -> None:
        checks.whole(1, iterations=self.iterations, batch_size=self.batch_size, width=self.width)


DISCRIMINATING = {
    "mnist": Discriminating(),
    "digits": Discriminating(iterations=20, width=4, optimizer=Adam(Constant(2e-3))),
}


@cache
def classifier(records: str) -> Judge:
    """The classifier behind the inception score, in the cache: one for all papers of these images.

    It learned from all training images, as in the text, whose own is right for 99.06 % of MNIST's.
    """
    return judge(CLASSIFIERS[records], device=torch.device("cpu"))


def told_apart(
    real: Tensor, made: Tensor, *, settings: Discriminating, seed: int
) -> tuple[Tensor, Tensor]:
    """Train a discriminator on half of each set; return its answers on the held-out halves.

    Args:
        real, made: (images, channels, height, width), at least two of each.
        settings: how it learns.
        seed: its weights and batches.

    Returns:
        its chance to be real for each held-out real image, and for each held-out generated one.

    Raises:
        ValueError: there are fewer than two images of a kind.
    """
    checks.whole(2, real=len(real), made=len(made))
    device = real.device
    with seeded(seed):
        shape = (real.shape[1], real.shape[2], real.shape[3])
        net = Classifier(shape, classes=1, width=settings.width).to(device)
    rng = generator_on(device, reproducible_seed=seed, stream="discriminating")
    halves = [_halves(images, rng) for images in (real, made)]
    optimizer = settings.optimizer.build(net.parameters())
    answers = torch.cat((torch.ones(settings.batch_size), torch.zeros(settings.batch_size)))
    for _ in range(settings.iterations):
        batch = torch.cat([_some(seen, settings.batch_size, rng) for seen, _ in halves])
        logits = net(batch).squeeze(1)
        loss = binary_cross_entropy_with_logits(logits, answers.to(logits))
        parameters = list(net.parameters())
        update(optimizer, parameters, torch.autograd.grad(loss, parameters))
    with torch.no_grad():
        said = [
            torch.cat([net(part).sigmoid().squeeze(1) for part in unseen.split(1_000)])
            for _, unseen in halves
        ]
    return said[0], said[1]


def judged(images: Tensor, *, records: str, seed: int) -> dict[str, Any]:
    """Compute all scores of a set of generated images, as JSON values.

    Args:
        images: (images, 1, 28, 28) in [-1, 1], on the CPU.
        records: what they were generated after: "mnist" or "digits".
        seed: of the discriminator behind the JS score.
    """
    known = classifier(records)
    inception = inception_score(known.probabilities(images), splits=SPLITS)
    said_of_real, said_of_made = (
        said.double().numpy()
        for said in told_apart(
            material(records).private, images, settings=DISCRIMINATING[records], seed=seed
        )
    )
    made, real = js_score(said_of_made), js_score(said_of_real)
    right = ((said_of_real > 0.5).mean() + (said_of_made <= 0.5).mean()) / 2
    return {
        "images": len(images),
        "inception": inception.mean,
        "inception_spread": inception.spread,
        "classifier_accuracy": known.accuracy,
        "js": made.mean,  # of generated images, as in the text
        "js_error": made.error,
        "js_real": real.mean,  # of real ones, by the same discriminator
        "told_apart": float(right),  # share of its right answers, real and generated alike
    }


def _halves(images: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    order = torch.randperm(len(images), generator=rng, device=rng.device)
    middle = len(images) // 2
    return images[order[:middle]], images[order[middle:]]


def _some(images: Tensor, count: int, rng: torch.Generator) -> Tensor:
    return images[torch.randint(len(images), (count,), generator=rng, device=rng.device)]
