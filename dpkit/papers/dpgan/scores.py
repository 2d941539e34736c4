"""The images of a run, and scores of generated ones: the inception score, and the JS score.

The JS score (Zhang, Ji, Wang 2018, eq. 5) needs no labels: the distance of a discriminator's
answers on generated images from those of one that only guesses. Both scores are measured with
networks that learned from real images without privacy: they describe the method, and are not
released with a model.
"""

from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import rel_entr
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from dpkit import datasets
from dpkit.common import checks
from dpkit.metrics.inception import inception_score
from dpkit.metrics.judge import CLASSIFIERS, Judge, judge
from dpkit.papers.dpgan.semi_supervised import RATE, SemiSupervisedClassifier
from dpkit.privacy.schedules import Constant
from dpkit.training.device import generator_on, seeded
from dpkit.training.optimizers import Adam, descend


def js_score(probabilities: ArrayLike) -> tuple[float, float]:
    """Return the score in bits, from 0, where nothing is distinguished, to `tables.MOST`.

    And its standard error over the images. Of an image it is the JS divergence of Bernoulli(p) and
    Bernoulli(1/2): half the sum of the two's relative entropies to their mean. Smaller is better
    generated data: it describes a set of images, not its privacy.

    Args:
        probabilities: a discriminator's answers, such as chances to be real, (images,).

    Raises:
        ValueError: a probability is not in [0, 1], or there is no image.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 1 or not p.size >= 1:
        raise ValueError(
            f"probabilities must have shape (images,), images >= 1, got {p.shape}"
        )
    if not ((p >= 0) & (p <= 1)).all():  # NaN fails
        raise ValueError(
            "probabilities must lie in [0, 1]; pass a discriminator's sigmoid, not its logits"
        )
    total = np.zeros_like(p)
    for own in (p, 1 - p):
        middle = (own + 0.5) / 2
        total = total + rel_entr(own, middle) + rel_entr(0.5, middle)
    found = np.maximum(total, 0.0) / (2 * np.log(2))  # rounding may leave -1e-17 at 1/2
    return float(found.mean()), float(found.std()) / sqrt(len(found))


# The code reads the last 55,000 training images of MNIST. Which of them were private it leaves to
# a shuffle; here they are the first 49,000, and the next 1,000 are taken to be public.
SKIPPED, PRIVATE, PUBLIC = 5_000, 49_000, 1_000


class Material(NamedTuple):
    """Images (n, 1, 28, 28) in [-1, 1] of torch's default type, labels (n,) int64, on the CPU."""

    private: Tensor
    public: Tensor
    public_labels: Tensor
    train: Tensor  # all training images, which the classifier that scores learns from
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor
    checksums: dict[str, str]


@cache
def material(records: str) -> Material:
    """The images called "mnist", or "digits": scikit-learn's, 1,337 private and 100 public.

    Raises:
        ValueError: records is neither.
        DataNotFound: MNIST is not here.
    """
    checks.one_of(("mnist", "digits"), records=records)
    load = datasets.mnist if records == "mnist" else datasets.digits
    train, test = load(split="train"), load(split="test")
    first, private, public = (
        (SKIPPED, PRIVATE, PUBLIC) if records == "mnist" else (0, 1_337, 100)
    )
    images, labels = _tensor(train), torch.from_numpy(train.labels)
    middle, end = first + private, first + private + public
    return Material(
        images[first:middle],
        images[middle:end],
        labels[middle:end],
        images,
        labels,
        _tensor(test),
        torch.from_numpy(test.labels),
        {f"{s.name} {w}": s.checksum for s, w in ((train, "train"), (test, "test"))},
    )


def _tensor(images: datasets.Images) -> Tensor:
    return torch.from_numpy(images.pixels).to(torch.get_default_dtype()) / 127.5 - 1


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
        checks.whole(
            1, iterations=self.iterations, batch_size=self.batch_size, width=self.width
        )


DISCRIMINATING = {
    "mnist": Discriminating(),
    "digits": Discriminating(iterations=20, width=4, optimizer=Adam(Constant(2e-3))),
}


@cache
def classifier(records: str, device: torch.device) -> Judge:
    """The classifier behind the inception score, of all training images, in the cache.

    There is one for all papers of these images.
    """
    return judge(CLASSIFIERS[records], device=device)


def told_apart(
    real: Tensor, made: Tensor, *, settings: Discriminating, seed: int
) -> tuple[Tensor, Tensor]:
    """Train a discriminator on half of each set; return its answers on the held-out halves.

    These are an image's chances to be real. Images are (images, channels, height, width); the seed
    is of weights and batches.

    Raises:
        ValueError: there are fewer than two images of a kind.
    """
    checks.whole(2, real=len(real), made=len(made))
    device = real.device
    with seeded(seed):
        net = SemiSupervisedClassifier(real.shape[1:], classes=1, width=settings.width).to(
            device
        )
    rng = generator_on(device, reproducible_seed=seed, stream="discriminating")
    halves = []
    for images in (real, made):
        order = torch.randperm(len(images), generator=rng, device=device)
        halves.append(images[order].tensor_split((len(images) // 2,)))
    optimizer = settings.optimizer.build(net.parameters())
    answers = torch.tensor((1.0, 0.0)).repeat_interleave(settings.batch_size).to(real)
    for _ in range(settings.iterations):
        batch = []
        for seen, _ in halves:
            size = (settings.batch_size,)
            batch.append(seen[torch.randint(len(seen), size, generator=rng, device=device)])
        logits = net(torch.cat(batch)).squeeze(1)
        loss = binary_cross_entropy_with_logits(logits, answers)
        descend(optimizer, loss)
    with torch.no_grad():
        said = [
            torch.cat([net(part).sigmoid().squeeze(1) for part in unseen.split(1_000)])
            for _, unseen in halves
        ]
    return said[0], said[1]


def judged(images: Tensor, *, records: str, seed: int) -> dict[str, Any]:
    """Compute all scores of a set of generated images, as JSON values.

    Args:
        images: (images, 1, 28, 28) in [-1, 1]; their device computes the scores.
        records: what they were generated after: "mnist" or "digits".
        seed: of the discriminator behind the JS score.
    """
    known, real = classifier(records, images.device), material(records).private
    inception = inception_score(known.probabilities(images), splits=SPLITS)
    said_of_real, said_of_made = (
        said.double().numpy(force=True)
        for said in told_apart(
            real.to(images.device), images, settings=DISCRIMINATING[records], seed=seed
        )
    )
    js, error = js_score(said_of_made)
    right = ((said_of_real > 0.5).mean() + (said_of_made <= 0.5).mean()) / 2
    return {
        "images": len(images),
        "inception": inception.mean,
        "inception_spread": inception.spread,
        "classifier_accuracy": known.accuracy,
        "js": js,  # of generated images, as in the text
        "js_error": error,
        "js_real": js_score(said_of_real)[0],  # of real ones, by the same discriminator
        "told_apart": float(right),  # share of its right answers, real and generated alike
    }
