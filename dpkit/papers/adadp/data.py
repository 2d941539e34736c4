"""The paper's inputs of networks: projected digits, and features of frozen convolutions.

The convolutions of the network for CIFAR-10 are pre-trained on public images, then frozen. The
paper's variant of AlexNet (IV-A) has twice 64 filters of 5x5 at stride 1, ReLU, 2x2 max pooling and
local response normalisation, which comes before the pooling the second time. Its numbers are not
printed; here they are those of TensorFlow's CIFAR-10 tutorial, whose filters are the same.

Two departures. The last 2x2 average pooling is ours: 1,024 features an image instead of 4,096, a
quarter of the next layer's weights and of the memory. And where the paper pre-trains on CIFAR-100,
`SPLIT` takes images of CIFAR-10 itself, which are declared public and no longer count as private.
"""

import io
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import repeat
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from dpkit import datasets
from dpkit.common import checks
from dpkit.common.files import alone, cache_dir
from dpkit.common.records import code_version, describe, write_bytes, write_json
from dpkit.datasets import Images
from dpkit.papers.adadp import pca
from dpkit.privacy.schedules import Linear
from dpkit.training import Data, generator_on, seeded, set_rate

FILTERS, FEATURES = 64, 1_024
TRAINING_IMAGES = 50_000  # of CIFAR-10, as anyone knows
SHIFT = 4  # pixels by which a training image is shifted at most
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Pretraining:
    """The convolutions' images and training: by Adam, its rate falling linearly to 0.

    Args:
        public: CIFAR-10's last images, declared public, to learn from.
        classes: of the images.
        steps, batch_size, rate: of Adam's training.
        seed: of the initial weights, batches, shifts and reflections.

    Raises:
        ValueError: a value outside its range.
    """

    public: int
    classes: int
    steps: int = 1_000
    batch_size: int = 128
    rate: float = 1e-3
    seed: int = 0

    def __post_init__(self) -> None:
        checks.whole(public=self.public)
        checks.in_range(1, TRAINING_IMAGES - 1, public=self.public)
        checks.whole(1, classes=self.classes, steps=self.steps, batch_size=self.batch_size)
        checks.positive(rate=self.rate)

    @property
    def private(self) -> int:
        """Number of CIFAR-10's training images, the first ones, that are private."""
        return TRAINING_IMAGES - self.public

    @property
    def words(self) -> str:
        """The public and private data in words, for a stored result."""
        return (
            f"convolutions pre-trained on CIFAR-10's last {self.public:,} training images, which "
            "are declared public, and frozen (the paper takes CIFAR-100); their output is averaged "
            f"over 2x2 places to {FEATURES:,} features; the first {self.private:,} are private"
        )


SPLIT = Pretraining(public=10_000, classes=10)


class Pretrained(NamedTuple):
    """Frozen convolutions, in evaluation mode."""

    net: nn.Module
    checksum: str  # sha256 of the stored weights
    checksums: dict[str, str]  # of the images that they learned from


def convolutions() -> nn.Module:
    """The convolutional part: images (batch, 3, 32, 32) in [-1, 1] to features (batch, 1024)."""
    # TensorFlow adds nine squares times 0.001 / 9; torch divides by their number itself
    normalised = partial(nn.LocalResponseNorm, 9, alpha=1e-3, beta=0.75, k=1.0)
    first, second = (
        nn.Conv2d(channels, FILTERS, 5, padding=2, dtype=torch.float32)
        for channels in (3, FILTERS)
    )
    return nn.Sequential(
        *(first, nn.ReLU(), nn.MaxPool2d(2), normalised()),
        *(second, nn.ReLU(), normalised(), nn.MaxPool2d(2)),
        *(nn.AvgPool2d(2), nn.Flatten()),
    )


def pretrained(pretraining: Pretraining) -> Pretrained:
    """Load the convolutions from the cache, or train them: eight minutes on one core."""
    train = datasets.load("cifar10", split="train")
    checksums = {f"{train.name} train": train.checksum}
    weights = kept(pretraining, checksums, "convolutions", "safetensors")
    with seeded(pretraining.seed):
        net = convolutions()
        head = nn.Linear(FEATURES, pretraining.classes, dtype=torch.float32)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if not weights.exists():
        start, public = perf_counter(), slice(-pretraining.public, None)
        images, labels = (torch.from_numpy(x[public]) for x in (train.pixels, train.labels))
        deque(
            learn(nn.Sequential(net, head), images, labels, pretraining=pretraining), maxlen=0
        )
        seconds = perf_counter() - start
        about = {"settings": describe(pretraining), "data": checksums, "code": code_version()}
        record = weights.with_suffix(".json")
        write_json(record, {**about, "seconds": seconds, "device": CPU.type})
        write_bytes(weights, save({k: v.contiguous() for k, v in net.state_dict().items()}))
    net.load_state_dict(load_file(weights))
    digest = sha256(weights.read_bytes()).hexdigest()
    return Pretrained(net.eval(), digest, checksums)


def learn(
    net: nn.Module, images: Tensor, labels: Tensor, *, pretraining: Pretraining
) -> Iterator[float]:
    """Train on uint8 images (n, 3, 32, 32); yield each batch's cross-entropy."""
    optimizer = torch.optim.Adam(net.parameters(), lr=pretraining.rate)
    rate = Linear(pretraining.rate, 0.0, pretraining.steps)
    rng = generator_on(CPU, reproducible_seed=pretraining.seed, stream="pre-training")
    batches = (  # all images in a new order, again and again
        chosen
        for _ in repeat(None)
        for chosen in torch.randperm(len(images), generator=rng).split(pretraining.batch_size)
    )
    for step, chosen in zip(range(pretraining.steps), batches, strict=False):
        set_rate(optimizer, rate(step))
        seen = shifted(as_network_input(images[chosen]), rng=rng)
        loss = nn.functional.cross_entropy(net(seen), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def as_network_input(images: Tensor) -> Tensor:
    """uint8 (batch, 3, 32, 32) in [-1, 1], channels side by side in memory: faster."""
    return (images.float() / 127.5 - 1).contiguous(memory_format=torch.channels_last)


def shifted(images: Tensor, *, rng: torch.Generator) -> Tensor:
    """Images shifted by up to four pixels each way, 0 outside, half of them reflected."""
    n, _, height, width = images.shape
    down, across = torch.randint(2 * SHIFT + 1, (2, n, 1), generator=rng)
    columns = torch.arange(width).expand(n, -1)
    reflected = torch.randint(2, (n, 1), generator=rng).bool()
    columns = torch.where(reflected, columns.flip(1), columns) + across
    rows = torch.arange(height) + down
    padded = nn.functional.pad(images, (SHIFT,) * 4).permute(0, 2, 3, 1)
    chosen = padded[torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return chosen.permute(0, 3, 1, 2)


def kept(pretraining: Pretraining, also: dict[str, str], what: str, suffix: str) -> Path:
    """A path in the cache for these settings and data alone."""
    known = {"pretraining": describe(pretraining), "data": also}
    digest = sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:12]
    return cache_dir() / "runs" / "adadp" / f"{what}-{digest}.{suffix}"


# Declared, as anyone knows them
PUBLIC_SIZES = {"mnist": 60_000, "digits": 1_437}
# Of the projection (IV-A); images whose features come together
DIMENSIONS, AT_ONCE = 60, 500


class AdadpTask(NamedTuple):
    """Private training records, and a test set: on the CPU, of torch's default type.

    data: private: features (records, features), labels, and the declared size.
    test: features (records, features) of the test set.
    test_labels: int64 (records,).
    checksums: sha256 of the files read.
    words: source of the features and the private records, for a stored result.
    """

    data: Data
    test: Tensor
    test_labels: Tensor
    checksums: dict[str, str]
    words: str


def images_of_digits(records: str) -> AdadpTask:
    """Images as rows of pixels in [0, 1]: "mnist", or "digits", scikit-learn's 1,437.

    Raises:
        ValueError: records is neither.
        DataNotFound: MNIST is missing.
    """
    checks.one_of(tuple(PUBLIC_SIZES), records=records)
    train, test = (datasets.load(records, split=split) for split in ("train", "test"))
    size = PUBLIC_SIZES[records]
    return AdadpTask(
        Data(_tensor(train.flat()), torch.from_numpy(train.labels), size),
        _tensor(test.flat()),
        torch.from_numpy(test.labels),
        _checksums(train, test),
        f"pixels in [0, 1]; all {size:,} training images are private",
    )


def projected(
    task: AdadpTask,
    *,
    noise_multiplier: float,
    rng: np.random.Generator,
    dimensions: int = DIMENSIONS,
) -> AdadpTask:
    """The task in the coordinates of private principal components of its training part alone.

    It costs `pca.release(noise_multiplier)` in addition to training.

    The task is that of `images_of_digits`; noise_multiplier and rng as `pca.components` has them,
    dimensions is the number of components.
    """
    rows = task.data.features.numpy()
    components = pca.components(rows, k=dimensions, noise_multiplier=noise_multiplier, rng=rng)
    own, test = (_tensor(x.numpy() @ components) for x in (task.data.features, task.test))
    words = f"{dimensions} private principal components (noise {noise_multiplier:g}) of "
    words += task.words
    return task._replace(data=task.data._replace(features=own), test=test, words=words)


def cifar10(pretraining: Pretraining) -> AdadpTask:
    """CIFAR-10 as 1,024 features of frozen convolutions, computed once and kept in the cache.

    The features are as private as the images. After `SPLIT`, where 40,000 images are private, a
    logistic regression that learns from the private features without privacy answers 65 % of the
    test images right.

    Raises:
        DataNotFound: CIFAR-10 is missing.
    """
    with alone(kept(pretraining, {}, "convolutions", "safetensors")):
        net = pretrained(pretraining)
    train, test = (datasets.load("cifar10", split=split) for split in ("train", "test"))
    private = pretraining.private
    own, held_out = (
        _features(net, images, pretraining)
        for images in (train._replace(pixels=train.pixels[:private]), test)
    )
    return AdadpTask(
        Data(own, torch.from_numpy(train.labels[:private]), private),
        held_out,
        torch.from_numpy(test.labels),
        {**net.checksums, **_checksums(train, test), "convolutions": net.checksum},
        pretraining.words,
    )


def _features(net: Pretrained, images: Images, pretraining: Pretraining) -> Tensor:
    """Features of images, kept as float16, which moves each number by less than a thousandth."""
    also, pixels = {"images": images.checksum, "convolutions": net.checksum}, images.pixels
    path = kept(pretraining, also, f"features-{len(pixels)}", "npy")
    with alone(path):
        if not path.exists():
            features, buffer = np.empty((len(pixels), FEATURES), np.float16), io.BytesIO()
            with torch.no_grad():
                for start in range(0, len(pixels), AT_ONCE):
                    part = as_network_input(torch.from_numpy(pixels[start : start + AT_ONCE]))
                    features[start : start + AT_ONCE] = net.net(part).numpy()
            np.save(buffer, features)
            write_bytes(path, buffer.getvalue())
    return _tensor(np.load(path))


def _tensor(rows: np.ndarray) -> Tensor:
    return torch.from_numpy(rows).to(torch.get_default_dtype())


def _checksums(train: Images, test: Images) -> dict[str, str]:
    return {f"{s.name} {w}": s.checksum for s, w in ((train, "train"), (test, "test"))}
