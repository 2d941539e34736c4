"""The generator of DP-MERF: trained on a noised mean embedding alone, and so post-processing.

It minimises the squared distance between the released embedding of each class and the mean
embedding of what it generates, an estimate of the maximum mean discrepancy by random features
(Harder, Adamczewski, Park 2021, eq. 7). Network and learning are those of the paper's experiment on
MNIST; here each batch holds as many of each class, so that each class's mean is matched by itself.
"""

from dataclasses import dataclass, field
from math import prod, sqrt

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from dpkit.common import checks
from dpkit.synthesizers.random_features import FeaturesSettings, Floats, release
from dpkit.synthesizers.records import checked_labels

LATENT, HIDDEN, CHANNELS, KERNEL = 5, 200, (16, 8), 5  # of the paper's generator of MNIST
AT_ONCE = 1000  # images generated together


@dataclass(frozen=True)
class Matching:
    """The generator's training: by Adam, its rate times `decay` after each `every` steps.

    Args:
        steps: on one batch each; the paper's 5 epochs of 60,000 records are 600.
        batch: images a step, rounded down to as many of each class.
        rate, decay, every: of Adam's learning.

    Raises:
        ValueError: a number is out of range.
    """

    steps: int = 600
    batch: int = 500
    rate: float = 0.01
    decay: float = 0.9
    every: int = 120

    def __post_init__(self) -> None:
        checks.whole(1, steps=self.steps, batch=self.batch, every=self.every)
        checks.positive(rate=self.rate)
        checks.in_range(0, 1, decay=checks.positive(decay=self.decay))


@dataclass(frozen=True, eq=False)
class FeaturesModel:
    """A generator made from a noised embedding, which saw no record.

    released: the noised sums, (features, classes).
    losses: of each step of the generator.
    """

    settings: FeaturesSettings
    released: Floats
    generator: "Generator"
    losses: tuple[float, ...] = field(repr=False)

    def sample(self, labels: ArrayLike, *, rng: np.random.Generator) -> NDArray[np.float32]:
        """An image of each label, (labels, channels, height, width) in [0, 1]."""
        codes = checked_labels(labels, classes=self.settings.classes)
        made = np.zeros((len(codes), *self.settings.shape), np.float32)
        self.generator.eval()
        with torch.no_grad():
            for start in range(0, len(codes), AT_ONCE):
                part = slice(start, start + AT_ONCE)
                made[part] = self.generator(_inputs(codes[part], self.settings, rng)).numpy()
        return made


class Generator(nn.Module):
    """Two linear layers, then two convolutions, each after doubling the size."""

    def __init__(self, classes: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        channels, *size = shape
        quarter, half = ([-(-side // by) for side in size] for by in (4, 2))
        first, second = CHANNELS
        self.layers = nn.Sequential(
            nn.Linear(LATENT + classes, HIDDEN),
            nn.BatchNorm1d(HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, first * prod(quarter)),
            nn.BatchNorm1d(first * prod(quarter)),
            nn.ReLU(),
            nn.Unflatten(1, (first, *quarter)),
            _enlarged(half),
            nn.Conv2d(first, second, KERNEL, padding=KERNEL // 2),
            nn.ReLU(),
            _enlarged(size),
            nn.Conv2d(second, channels, KERNEL, padding=KERNEL // 2),
            nn.Sigmoid(),
        )

    def forward(self, latents: Tensor) -> Tensor:
        """Images (batch, channels, height, width) in [0, 1]."""
        return self.layers(latents)


def fit(
    images: ArrayLike,
    labels: ArrayLike,
    *,
    settings: FeaturesSettings,
    public_size: int,
    rng: np.random.Generator,
    matching: Matching | None = None,
) -> FeaturesModel:
    """Release the classes' embeddings; train a generator on them, which costs nothing more.

    Arguments and errors as of `random_features.release` and `match`; what `rng` spawns draws
    weights and latents.
    """
    checks.whole(1, public_size=public_size)
    released = release(images, labels, settings=settings, rng=rng)
    (own,) = rng.spawn(1)  # published weights shall not lead to the noise
    return match(
        released, settings=settings, public_size=public_size, rng=own, matching=matching
    )


def match(
    released: Floats,
    *,
    settings: FeaturesSettings,
    public_size: int,
    rng: np.random.Generator,
    matching: Matching | None = None,
) -> FeaturesModel:
    """Train a generator on noised sums: post-processing.

    Args:
        released: (features, classes), as `random_features.release` makes them.
        public_size: declared number of records. Each class is taken to have an equal part of
            them, by which its sum is divided.
        rng: of initial weights and latents.
        matching: how it learns; the paper's settings by default.

    Raises:
        ValueError: released is of another shape or not finite, public_size is not an integer >= 1,
            or a batch has not an image for each class.
    """
    how = matching or Matching()
    checks.whole(1, public_size=public_size)
    each = checks.whole(1, images_of_a_class_in_a_batch=how.batch // settings.classes)
    shape = (settings.features, settings.classes)
    if released.shape != shape or not np.isfinite(released).all():
        raise ValueError(
            f"released must be finite numbers of shape {shape}, got shape {released.shape}"
        )
    with torch.random.fork_rng(devices=[]):  # torch draws weights of its own first
        generator = Generator(settings.classes, settings.shape).float()
    # initial weights are uniform within 1 / sqrt(inputs), torch's way
    for layer in generator.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d) and layer.bias is not None:
            bound = 1 / sqrt(layer.weight[0].numel())
            for part in (layer.weight, layer.bias):
                drawn = rng.uniform(-bound, bound, part.shape).astype(np.float32)
                part.data = torch.from_numpy(drawn)
    # mean embeddings, (classes, features): noised here, below of rows sorted by class
    wanted = torch.from_numpy(
        (released.T * (settings.classes / public_size)).astype(np.float32)
    )
    frequencies = torch.tensor(settings.frequencies(), dtype=torch.float32)
    codes = np.repeat(np.arange(settings.classes), each)
    adam = torch.optim.Adam(generator.parameters(), lr=how.rate)
    rates = torch.optim.lr_scheduler.StepLR(adam, how.every, how.decay)
    losses = []
    for _ in range(how.steps):
        made = generator(_inputs(codes, settings, rng)).flatten(1)
        angles = (made @ frequencies.T).unflatten(0, (settings.classes, -1))
        means = torch.cat([angles.cos().mean(1), angles.sin().mean(1)], 1)
        loss = (means / sqrt(len(frequencies)) - wanted).square().sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
        rates.step()
        losses.append(float(loss.detach()))
    return FeaturesModel(settings, released, generator.eval(), tuple(losses))


def _inputs(
    codes: NDArray[np.int64], settings: FeaturesSettings, rng: np.random.Generator
) -> Tensor:
    """Latents beside one-hot labels, (batch, latent + classes)."""
    parts = [
        rng.standard_normal((len(codes), LATENT), dtype=np.float32),
        np.eye(settings.classes, dtype=np.float32)[codes],
    ]
    return torch.from_numpy(np.concatenate(parts, axis=1))


def _enlarged(size: list[int]) -> nn.Module:
    return nn.Upsample(size=tuple(size), mode="bilinear", align_corners=True)
