"""What the paper's networks learn from: projected digits, and features of frozen convolutions."""

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dpkit import datasets
from dpkit.common import checks
from dpkit.common.files import alone, write_bytes
from dpkit.common.progress import Progress, silent
from dpkit.datasets import Images
from dpkit.papers.adadp import pca
from dpkit.papers.adadp.convolutions import (
    FEATURES,
    Pretrained,
    Pretraining,
    as_network_input,
    kept,
    pretrained,
)
from dpkit.training.types import Data

PUBLIC_SIZES = {"mnist": 60_000, "digits": 1_437}  # declared, as anyone knows them
DIMENSIONS, AT_ONCE = 60, 500  # of the projection (IV-A); images whose features come together


class Task(NamedTuple):
    """Private records to train on, and others to test on: on the CPU, of torch's default type.

    data: private: features (records, features), labels, and the declared size.
    test: features (records, features) of the test set.
    test_labels: int64 (records,).
    checksums: sha256 of what was read.
    words: where features come from and which records are private, for a stored result.
    """

    data: Data
    test: Tensor
    test_labels: Tensor
    checksums: dict[str, str]
    words: str


def images_of_digits(records: str) -> Task:
    """Images as rows of pixels in [0, 1]: "mnist", or "digits", scikit-learn's 1,437.

    Raises:
        ValueError: records is neither.
        DataNotFound: MNIST is not here.
    """
    checks.one_of(tuple(PUBLIC_SIZES), records=records)
    train, test = (datasets.load(records, split=split) for split in ("train", "test"))
    size = PUBLIC_SIZES[records]
    return Task(
        Data(_tensor(train.flat()), torch.from_numpy(train.labels), size),
        _tensor(test.flat()),
        torch.from_numpy(test.labels),
        _checksums(train, test),
        f"pixels in [0, 1]; all {size:,} training images are private",
    )


def projected(
    task: Task, *, noise_multiplier: float, rng: np.random.Generator, dimensions: int = DIMENSIONS
) -> Task:
    """The task in the coordinates of private principal components of its training part alone.

    It costs `pca.release(noise_multiplier)`, beside what training costs.

    Args:
        task: `images_of_digits`.
        noise_multiplier, rng: as `pca.components`.
        dimensions: number of components.

    Raises:
        TypeError, ValueError: as `pca.components`.
    """
    rows = task.data.features.numpy()
    components = pca.components(rows, k=dimensions, noise_multiplier=noise_multiplier, rng=rng)
    own, test = (
        _tensor(pca.projected(x.numpy(), components)) for x in (task.data.features, task.test)
    )
    words = (
        f"{dimensions} private principal components (noise {noise_multiplier:g}) of {task.words}"
    )
    return task._replace(data=task.data._replace(features=own), test=test, words=words)


def cifar10(pretraining: Pretraining, *, progress: Progress = silent) -> Task:
    """CIFAR-10 as 1,024 features of frozen convolutions, computed once and kept in the cache.

    What is kept is as private as the images. After `SPLIT` a logistic regression that learns from
    the private features without privacy answers 65 % of the test images right.

    Args:
        pretraining: `convolutions.SPLIT`, where 40,000 images are private, or
            `convolutions.AS_PUBLISHED`, which needs CIFAR-100.
        progress: wraps the steps of pre-training, and then the parts of the images.

    Raises:
        DataNotFound: CIFAR-10, or CIFAR-100 where that is learned from, is not here.
    """
    with alone(kept(pretraining, {}, "convolutions", "safetensors")):
        net = pretrained(pretraining, progress=progress)
    train, test = (datasets.load("cifar10", split=split) for split in ("train", "test"))
    private = pretraining.private
    own, held_out = (
        _features(net, images, pretraining, progress=progress)
        for images in (train._replace(pixels=train.pixels[:private]), test)
    )
    return Task(
        Data(own, torch.from_numpy(train.labels[:private]), private),
        held_out,
        torch.from_numpy(test.labels),
        {**net.checksums, **_checksums(train, test), "convolutions": net.checksum},
        pretraining.words,
    )


def _features(
    net: Pretrained, images: Images, pretraining: Pretraining, *, progress: Progress
) -> Tensor:
    """Features of images, kept as float16, which moves each number by less than a thousandth."""
    also = {"images": images.checksum, "convolutions": net.checksum}
    path = kept(pretraining, also, f"features-{len(images.pixels)}", "npy")
    with alone(path):
        if not path.exists():
            _store(path, net, images.pixels, progress)
    return _tensor(np.load(path))


def _store(path: Path, net: Pretrained, pixels: np.ndarray, progress: Progress) -> None:
    features = np.empty((len(pixels), FEATURES), np.float16)
    starts = range(0, len(pixels), AT_ONCE)
    with torch.no_grad():
        for start in progress(starts, total=len(starts), desc="features of CIFAR-10"):
            part = torch.from_numpy(pixels[start : start + AT_ONCE])
            features[start : start + AT_ONCE] = net.net(as_network_input(part)).numpy()
    buffer = io.BytesIO()
    np.save(buffer, features)
    write_bytes(path, buffer.getvalue())


def _tensor(rows: np.ndarray) -> Tensor:
    return torch.from_numpy(rows).to(torch.get_default_dtype())


def _checksums(train: Images, test: Images) -> dict[str, str]:
    return {f"{one.name} {what}": one.checksum for one, what in ((train, "train"), (test, "test"))}
