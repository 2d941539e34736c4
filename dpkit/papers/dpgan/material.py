"""The images of a run: private and public ones for training, real ones for judging."""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from dpkit import datasets
from dpkit.common import checks

# The code reads the last 55,000 training images of MNIST. Which of them were private it leaves to
# a shuffle; here they are the first 49,000, and the next 1,000 are taken to be public.
SKIPPED, PRIVATE, PUBLIC = 5_000, 49_000, 1_000
RECORDS = ("mnist", "digits")


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

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, channels, height, width = self.train.shape
        return channels, height, width


@cache
def material(records: str) -> Material:
    """The images called "mnist", or "digits": scikit-learn's, 1,337 private and 100 public.

    Raises:
        ValueError: records is neither.
        DataNotFound: MNIST is not here.
    """
    checks.one_of(RECORDS, records=records)
    load = datasets.mnist if records == "mnist" else datasets.digits
    train, test = load(split="train"), load(split="test")
    first, private, public = (SKIPPED, PRIVATE, PUBLIC) if records == "mnist" else (0, 1_337, 100)
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
        {f"{one.name} {what}": one.checksum for one, what in ((train, "train"), (test, "test"))},
    )


def _tensor(images: datasets.Images) -> Tensor:
    return torch.from_numpy(images.pixels).to(torch.get_default_dtype()) / 127.5 - 1
