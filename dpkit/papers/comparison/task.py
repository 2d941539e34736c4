"""What every method is given: a data set, a budget and a seed; and what it gives back."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from dpkit import datasets
from dpkit.common.progress import Progress
from dpkit.privacy.ledger import Release

CLASSES = 10
SHAPE = (1, 28, 28)
SIZES = {"mnist": 60_000, "fashion_mnist": 60_000, "digits": 1_437}  # declared, not counted
BRIEF = 5  # steps of a training that only shows that it runs


class Task(NamedTuple):
    """A data set, a budget and a seed.

    data: name of an image set of 28x28 images in ten classes.
    size: declared number of its training images that are private records: where it is below all of
        them, so many of them, drawn by a public seed.
    epsilon, delta: of all that a method releases, under add-remove adjacency, certified.
    seed: of everything that a method draws.
    device_name: auto, cpu or cuda: where networks are trained.
    brief: whether networks are trained for a few steps only.
    progress: wraps the steps of a training.
    """

    data: str
    size: int
    epsilon: float
    delta: float
    seed: int
    device_name: str
    progress: Progress
    brief: bool = False

    @property
    def key(self) -> str:
        """What files of its runs are named after."""
        return f"{self.data}-{self.size}-eps{self.epsilon:g}"

    def steps(self, steps: int) -> int:
        """So many steps of a training, or a few if it is brief."""
        return min(steps, BRIEF) if self.brief else steps

    def records(self) -> datasets.Images:
        """The private records."""
        return _records(self.data, self.size)

    def pixels(self) -> np.ndarray:
        """The records' images in [0, 1], float32 (size, 1, 28, 28)."""
        return self.records().pixels / np.float32(255)

    def rng(self, purpose: str) -> np.random.Generator:
        """A source of randomness for one purpose; another, or at another epsilon, shares none."""
        return np.random.default_rng([self.seed, crc32(f"{purpose} {self.epsilon:g}".encode())])


class Made(NamedTuple):
    """A synthesizer that was fitted.

    sample: images of labels, float32 (labels, 1, 28, 28) in [0, 1].
    """

    sample: Callable[[np.ndarray], np.ndarray]


class Method(NamedTuple):
    """One line of the figure.

    post_processing: what is done to its samples, in words.
    settings: what is fitted for a task; `describe` makes JSON values of it.
    ledger: all that a fit of these settings releases.
    make: fits it.
    """

    post_processing: str
    settings: Callable[[Task], Any]
    ledger: Callable[[Task, Any], list[Release]]
    make: Callable[[Task, Any], Made]


@cache
def _records(data: str, size: int) -> datasets.Images:
    every = datasets.load(data, split="train")
    if size == every.n:
        return every
    if not size <= every.n:
        raise ValueError(f"size must be at most the {every.n} images of {data}, got {size}")
    chosen = np.sort(np.random.default_rng(0).permutation(every.n)[:size])
    return datasets.make_images(data, every.pixels[chosen], every.labels[chosen])
