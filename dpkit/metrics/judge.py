"""The classifier that scores generated digits, trained once and kept, and its inception score.

Network and number of splits are those of the public code of Schwabedal, Michel and Riontino 2020.
The classifier sees the private training set without noise, as there: scores describe a method and
are not released with a model (their section 4 says that it would need privacy too).
"""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from math import pi
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from dpkit import datasets
from dpkit.common import checks
from dpkit.common.files import alone, cache_dir, write_bytes
from dpkit.common.progress import Progress, silent
from dpkit.common.records import code_version, describe, read_json, write_json
from dpkit.metrics.inception import InceptionScore, inception_score
from dpkit.privacy.schedules import Linear
from dpkit.training.device import device_label, generator_on, seeded
from dpkit.training.optimizers import set_rate

SPLITS = 10  # of the images of a score
CLASSES = 10
# Training images, as anyone knows.
SIZES = {"mnist": 60_000, "fashion_mnist": 60_000, "digits": 1_437}
AT_ONCE = 512  # images classified together


@dataclass(frozen=True)
class Learning:
    """A classifier of `records`, and how it learns: Adam, its rate falling to 0 along a line.

    Args:
        records: an image set of the kit with images of 28x28: "mnist", "fashion_mnist", "digits".
        width, hidden: of `classifier`.
        epochs, batch_size, rate: of Adam's training.
        degrees, shift, zoom: largest rotation, shift (share of the image's side) and change of size
            of each training image, drawn uniformly anew in each epoch.
        seed: of the initial weights, batches, dropout and augmentation.
    """

    records: str
    width: int = 32
    hidden: int = 1024
    epochs: int = 16
    batch_size: int = 128
    rate: float = 1e-3
    degrees: float = 10.0
    shift: float = 0.07
    zoom: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        checks.one_of(tuple(SIZES), records=self.records)
        checks.whole(1, width=self.width, hidden=self.hidden, epochs=self.epochs)
        checks.whole(2, batch_size=self.batch_size)  # the batch normalisation needs two
        checks.positive(rate=self.rate)
        checks.in_range(0, 180, degrees=self.degrees)
        checks.in_range(0, 0.5, shift=self.shift, zoom=self.zoom)


CLASSIFIERS = {
    "mnist": Learning("mnist"),
    "digits": Learning("digits", width=8, hidden=64, epochs=6, batch_size=64, rate=3e-3),
}


class Judge(NamedTuple):
    """A trained classifier, in evaluation mode."""

    net: nn.Module
    learning: Learning
    accuracy: float  # on the test images, between 0 and 1
    checksums: dict[str, str]  # of the images that it was trained and tested on
    seconds: float  # that its training took

    def probabilities(self, images: Tensor) -> np.ndarray:
        """Class probabilities, float64 (images, 10), of images in [-1, 1] on the net's device."""
        return _outputs(self.net, images).softmax(1).cpu().numpy()

    def features(self, images: Tensor) -> np.ndarray:
        """The last layer's input for images in [-1, 1], float64 (images, hidden)."""
        *body, _, _ = self.net.children()  # dropout, which does nothing, and linear
        return _outputs(nn.Sequential(*body), images).cpu().numpy()

    def score(self, images: Tensor, *, splits: int = SPLITS) -> InceptionScore:
        """The inception score of images in [-1, 1], (images, 1, side, side)."""
        return inception_score(self.probabilities(images), splits=splits)


def judge(learning: Learning, *, device: torch.device, progress: Progress = silent) -> Judge:
    """Load the classifier from the cache, or train it, resuming after the last stored epoch.

    Beside its weights lies a record of its accuracy on the test images, which choose nothing.

    Raises:
        DataNotFound: the images are not here.
    """
    train, test = (datasets.load(learning.records, split=split) for split in ("train", "test"))
    checksums = {f"{s.name} {w}": s.checksum for s, w in ((train, "train"), (test, "test"))}
    known = {"learning": describe(learning), "data": checksums}
    digest = sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:12]
    # named after the classifier's paper; what lies there stays of use
    folder = cache_dir() / "runs" / "small_images"
    weights = folder / f"classifier-{learning.records}-{digest}.safetensors"
    record, kept = weights.with_suffix(".json"), weights.with_suffix(".epoch")
    net = initial(learning, device)
    with alone(weights):
        if not (weights.exists() and record.exists()):
            start = perf_counter()
            of = as_images(train, device), torch.from_numpy(train.labels).to(device)
            for _ in progress(
                learn(net, *of, learning=learning, kept=kept),
                total=learning.epochs * -(-train.n // learning.batch_size),
                desc=f"classifier of {learning.records}",
            ):
                pass
            seconds = perf_counter() - start
            found = _outputs(net.eval(), as_images(test, device)).argmax(1).cpu().numpy()
            write_bytes(
                weights, save({k: v.contiguous() for k, v in net.state_dict().items()})
            )
            write_json(
                record,
                {
                    "accuracy": float((found == test.labels).mean()),
                    "seconds": seconds,
                    "settings": describe(learning),
                    "data": checksums,
                    "code": code_version(),
                    "device": device_label(device),
                },
            )
            kept.unlink(missing_ok=True)
    net.load_state_dict(load_file(weights))
    said = read_json(record)
    return Judge(net.eval(), learning, said["accuracy"], checksums, said["seconds"])


def as_images(images: datasets.Images, device: torch.device) -> Tensor:
    """Pixels in [-1, 1], the form that networks take, float32 (n, 1, 28, 28)."""
    return torch.from_numpy(images.pixels).to(device).float().div_(127.5).sub_(1)


def learn(
    net: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    learning: Learning,
    kept: Path | None = None,
) -> Iterator[float]:
    """Train a classifier on images in [-1, 1], yielding each batch's cross-entropy.

    Args:
        net: updated in place.
        images, labels: on one device; labels int64.
        learning: how.
        kept: where to store it after each epoch, to go on from there if it is stored already.
    """
    device, steps = images.device, -(-len(images) // learning.batch_size)
    optimizer = torch.optim.Adam(net.parameters(), lr=learning.rate)
    rate = Linear(learning.rate, 0.0, learning.epochs * steps)
    done = 0
    if kept is not None and kept.exists():
        stored = torch.load(kept, map_location=device, weights_only=True)
        net.load_state_dict(stored["net"])
        optimizer.load_state_dict(stored["optimizer"])
        done = stored["done"]
    for epoch in range(done, learning.epochs):
        rng = generator_on(
            device, reproducible_seed=learning.seed, stream=f"classifier, epoch {epoch}"
        )
        order = torch.randperm(len(images), generator=rng, device=device)
        for i, chosen in enumerate(order.split(learning.batch_size)):
            set_rate(optimizer, rate(epoch * steps + i))
            turned = augmented(images[chosen], learning=learning, rng=rng)
            net.train(len(chosen) > 1)  # a last batch of one has no variance
            with seeded(learning.seed + epoch * steps + i):  # dropout takes no rng
                loss = nn.functional.cross_entropy(net(_planes_last(turned)), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
        if kept is not None:
            states = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
            buffer = io.BytesIO()
            torch.save({**states, "done": epoch + 1}, buffer)
            write_bytes(kept, buffer.getvalue())


def augmented(images: Tensor, *, learning: Learning, rng: torch.Generator) -> Tensor:
    """Turn, enlarge and shift each image a little; what comes in from outside is black (-1).

    Args:
        images: in [-1, 1], (batch, 1, side, side).
        learning: the largest changes.
        rng: on the images' device.
    """
    draws = 2 * torch.rand(4, len(images), generator=rng, device=rng.device) - 1
    angle = draws[0] * (learning.degrees * pi / 180)
    scale = 1 / (1 + learning.zoom * draws[1])
    across, down = 2 * learning.shift * draws[2:]  # an image is 2 wide
    cos, sin = scale * angle.cos(), scale * angle.sin()
    rows = torch.stack((cos, -sin, across, sin, cos, down), 1).view(-1, 2, 3)
    grid = nn.functional.affine_grid(rows, list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images + 1, grid, align_corners=False) - 1


def classifier(*, width: int, hidden: int, side: int = 28) -> nn.Module:
    """The public code's network: images (batch, 1, side, side) in [-1, 1] to logits (batch, 10).

    Args:
        width: filters of the first convolution; the code has 32, then twice and four times.
        hidden: units before the last layer; the code has 1024.
        side: of an image, in pixels; at least 15, or nothing is left after three poolings.
    """
    checks.whole(1, width=width, hidden=hidden)
    checks.whole(15, side=side)
    layers: list[nn.Module] = []
    for channels, out in pairwise((1, width, 2 * width, 4 * width)):
        convolution = nn.Conv2d(channels, out, 5, padding=2)
        layers += [convolution, nn.ReLU(), nn.MaxPool2d(3, 2), nn.BatchNorm2d(out)]
        side = (side - 1) // 2
    return nn.Sequential(
        *layers,
        nn.Flatten(),
        nn.Linear(4 * width * side**2, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(hidden, CLASSES),
    )


def _planes_last(images: Tensor) -> Tensor:
    """Lay channels side by side in memory, for convolutions three times as fast on a CPU."""
    return images.contiguous(memory_format=torch.channels_last)


def _outputs(net: nn.Module, images: Tensor) -> Tensor:
    """The net's outputs for images, a part at a time: float64 (images, outputs)."""
    with torch.no_grad():
        return torch.cat([net(_planes_last(part)).double() for part in images.split(AT_ONCE)])


def initial(learning: Learning, device: torch.device) -> nn.Module:
    """A classifier with the initial weights of its seed."""
    with seeded(learning.seed):
        net = classifier(width=learning.width, hidden=learning.hidden)
    return net.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
