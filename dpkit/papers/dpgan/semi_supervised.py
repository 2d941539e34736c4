"""Algorithm 4: a few labelled images, and any number of generated ones.

The first classifier sees images. The second sees an image and its code, learns the first one's
answers about generated images, and then labels generated images for the first. All of it works on
what is public or released: it costs no privacy.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpkit.common import checks
from dpkit.privacy.schedules import Constant
from dpkit.training.device import floats, seeded
from dpkit.training.optimizers import Adam, Sgd, descend

RATE = Adam(Constant(1e-3))


@dataclass(frozen=True)
class SemiSupervisedLearning:
    """Both classifiers' training; the text gives `share` and `joins`, the rest is ours.

    Raises:
        ValueError: a number is out of range.
    """

    iterations: int = 1_500
    batch_size: int = 64  # labelled images, and generated ones
    # p of Tables 5 and 6: the generated images' part of the first one's loss
    share: float = 0.2
    joins: float = 1 / 3  # part of the iterations after which the second joins
    optimizer: Adam | Sgd = RATE
    width: int = 32  # of both networks
    classes: int = 10

    def __post_init__(self) -> None:
        checks.whole(
            1, iterations=self.iterations, batch_size=self.batch_size, width=self.width
        )
        checks.whole(2, classes=self.classes)
        checks.in_range(0, 1, share=self.share, joins=self.joins)

    @property
    def joined_at(self) -> int:
        """The second classifier's first iteration."""
        return round(self.joins * self.iterations)

    def share_at(self, iteration: int) -> float:
        """Part of generated images in the first one's loss: 0, then rising evenly to `share`.

        The text says "gradually", not how fast: here it reaches `share` at the last iteration.
        """
        if iteration < self.joined_at or self.iterations - 1 <= self.joined_at:
            return 0.0 if iteration < self.joined_at else self.share
        passed = (iteration - self.joined_at) / (self.iterations - 1 - self.joined_at)
        return self.share * min(passed, 1.0)


class SemiSupervisedLosses(NamedTuple):
    """Mean losses of one iteration; None where the second classifier has not joined."""

    iteration: int
    labelled: float  # first classifier, labelled images
    share: float  # of the generated images in what the first one went along
    generated: float | None  # first one, generated images by the second one's labels
    second: float | None  # second one, generated images by the first one's labels


class SemiSupervisedClassifier(nn.Module):
    """Two convolutions and two linear layers: images, and with `code_size` their codes, to logits.

    "The same structure as a regular image classifier" is all that the text says of it.

    Args:
        image_shape: channels, height, width.
        classes: logits.
        width: channels of the first convolution; the second has twice as many.
        code_size: numbers of a code, which enter beside the convolutions' features; 0 for none.
    """

    def __init__(
        self, image_shape: Sequence[int], *, classes: int, width: int, code_size: int = 0
    ) -> None:
        super().__init__()
        channels, *size = image_shape
        self.seen = nn.Sequential(
            nn.Conv2d(channels, width, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        cells = 2 * width * (size[0] // 4) * (size[1] // 4)
        self.judged = nn.Sequential(
            nn.Linear(cells + code_size, 4 * width), nn.ReLU(), nn.Linear(4 * width, classes)
        )

    def forward(self, images: Tensor, codes: Tensor | None = None) -> Tensor:
        """Args: images (batch, channels, height, width), codes (batch, code_size)."""
        seen = self.seen(images)
        return self.judged(seen if codes is None else torch.cat((seen, codes), 1))


class Pair(NamedTuple):
    """Both classifiers and what updates them."""

    first: SemiSupervisedClassifier
    second: SemiSupervisedClassifier
    first_optimizer: torch.optim.Optimizer
    second_optimizer: torch.optim.Optimizer


def new_pair(
    image_shape: Sequence[int],
    *,
    code_size: int,
    settings: SemiSupervisedLearning,
    seed: int,
    device: torch.device,
) -> Pair:
    """Both classifiers; the first has the same weights whatever the size of a code."""
    sizes = {"classes": settings.classes, "width": settings.width}
    with seeded(seed):
        first = SemiSupervisedClassifier(image_shape, **sizes).to(device)
        second = SemiSupervisedClassifier(image_shape, **sizes, code_size=code_size).to(device)
    built = (settings.optimizer.build(net.parameters()) for net in (first, second))
    return Pair(first, second, *built)


def semi_supervised(
    pair: Pair,
    images: Tensor,
    labels: Tensor,
    generate: Callable[[Tensor], Tensor] | None,
    *,
    code_size: int,
    settings: SemiSupervisedLearning,
    rng: torch.Generator,
    codes_rng: torch.Generator,
) -> Iterator[SemiSupervisedLosses]:
    """Algorithm 4; or the baseline, the first classifier on labelled images alone.

    Args:
        pair: both are updated in place; the baseline updates the first alone.
        images: labelled, (images, channels, height, width).
        labels: (images,) int64.
        generate: a released generator: codes (images, code_size) to images; None for the baseline.
        code_size: numbers of a code, standard normal.
        settings: iterations and batch size; batches are drawn with replacement.
        rng: batches.
        codes_rng: codes. Apart from rng: the baseline sees the same labelled batches.

    Yields:
        an iteration's losses.

    Raises:
        ValueError: there is no image, or not a label for each.
    """
    _check(images, labels)

    def drawn() -> tuple[Tensor, Tensor]:
        shape = (settings.batch_size, code_size)
        codes = torch.randn(shape, generator=codes_rng, device=codes_rng.device)
        assert generate is not None
        return generate(codes), codes

    for iteration in range(settings.iterations):
        second, generated, share = None, None, 0.0
        joined = generate is not None and iteration >= settings.joined_at
        if joined:  # lines 2-5: the second learns what the first says of generated images
            made, codes = drawn()
            answers = pair.first(made).detach().argmax(1)
            second = cross_entropy(pair.second(made, codes), answers)
            descend(pair.second_optimizer, second)
        size = (settings.batch_size,)  # lines 6-9
        chosen = torch.randint(len(images), size, generator=rng, device=rng.device)
        total = labelled = cross_entropy(pair.first(images[chosen]), labels[chosen])
        if joined:
            made, codes = drawn()
            answers = pair.second(made, codes).detach().argmax(1)
            generated = cross_entropy(pair.first(made), answers)
            share = settings.share_at(iteration)
            total = (1 - share) * labelled + share * generated
        descend(pair.first_optimizer, total)
        labelled, generated, second = floats(labelled, generated, second)
        yield SemiSupervisedLosses(iteration, labelled, share, generated, second)


def accuracy(classifier: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Share of images whose most probable class is their label, in [0, 1]."""
    _check(images, labels)
    with torch.no_grad():
        said = torch.cat([classifier(part).argmax(1) for part in images.split(1_000)])
    return (said == labels).float().mean().item()


def _check(images: Tensor, labels: Tensor) -> None:
    if not len(images) >= 1 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"labels must hold one for each of at least one image, got {tuple(labels.shape)} "
            f"for images {tuple(images.shape)}"
        )
