"""Accuracy on real images of a network trained on synthetic ones, by a fixed protocol.

The protocol is that of Bie, Kamath, Zhang 2023 ("Private GANs, revisited"; their public code):
60,000 generated images, of which 5,000 choose the epoch; the real images are tested on, once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dpkit.common import checks
from dpkit.common.progress import Progress, silent
from dpkit.synthesizers import records
from dpkit.training.device import generator_on, seeded

AT_ONCE = 1000  # images classified together
Network = Callable[[tuple[int, ...], int], nn.Module]


@dataclass(frozen=True)
class Protocol:
    """Training on synthetic images: Adam, and the epoch that some of them choose.

    Args:
        epochs, batch_size, rate: of Adam's training.
        held_out: synthetic images not trained on; the epoch with the highest accuracy on them (the
            first, if several) is tested.
        bfloat16: compute products of matrices in bfloat16 (autocast), which some processors do
            twice as fast. What is tested is computed in float32.

    Raises:
        ValueError: a number is out of range.
    """

    epochs: int = 10
    batch_size: int = 64
    rate: float = 1e-3
    held_out: int = 5_000
    bfloat16: bool = False

    def __post_init__(self) -> None:
        checks.whole(1, epochs=self.epochs, batch_size=self.batch_size, held_out=self.held_out)
        checks.positive(rate=self.rate)


class Accuracy(NamedTuple):
    """Shares of images that are classified rightly, between 0 and 1."""

    chosen: float  # of the real test images, at the epoch that synthetic images chose
    epoch: int  # that epoch, from 1
    held_out: tuple[float, ...]  # of the held-out synthetic images, epoch by epoch


def cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The protocol's network: two convolutions of 3x3, a pooling, dropout, 128 units.

    Args:
        shape: of an image, (channels, height, width).
        classes: number of labels.
    """
    channels, *sides = shape
    checks.whole(6, height=sides[0], width=sides[1])  # smaller ones leave nothing to pool
    height, width = ((side - 4) // 2 for side in sides)
    return nn.Sequential(
        *(nn.Conv2d(channels, 32, 3), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25)),
        *(nn.Flatten(), nn.Linear(64 * height * width, 128), nn.ReLU(), nn.Dropout(0.5)),
        nn.Linear(128, classes),
    )


def mlp(shape: tuple[int, ...], classes: int) -> nn.Module:
    """One hidden layer of 100 units (arguments as `cnn`)."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(int(np.prod(shape)), 100), nn.ReLU(), nn.Linear(100, classes)
    )


def logistic(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Multinomial logistic regression (arguments as `cnn`)."""
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), classes))


def accuracy(
    network: Network,
    synthetic: tuple[np.ndarray, np.ndarray],
    real: tuple[np.ndarray, np.ndarray],
    *,
    classes: int = 10,
    protocol: Protocol,
    seed: int,
    device: torch.device,
    progress: Progress = silent,
) -> Accuracy:
    """Train on synthetic images, let some of them choose the epoch, test on real images.

    Args:
        network: makes one for a shape and a number of classes: `cnn`, `mlp` or `logistic`.
        synthetic: images and labels, as `PrivateImages.fit` takes arrays; they are put into an
            order of their own, so that those held out have all classes.
        real: the test images and labels, in the same form.
        seed: of weights, order, batches and dropout.
        progress: wraps the batches.

    Raises:
        ValueError: images or labels of another form, with values outside, or too few.
    """
    images, labels = _tensors(*synthetic, classes=classes, device=device)
    test, answers = _tensors(*real, classes=classes, device=device)
    missing = sorted(set(range(classes)) - set(labels.tolist()))
    if missing:
        raise ValueError(f"synthetic labels must hold every class, got none of {missing}")
    if not len(images) > protocol.held_out:
        raise ValueError(
            f"held_out must be below the {len(images)} synthetic images, got {protocol.held_out}"
        )
    rng = generator_on(device, reproducible_seed=seed, stream="order of synthetic images")
    order = torch.randperm(len(images), generator=rng, device=device)
    kept, held = order.split([len(images) - protocol.held_out, protocol.held_out])
    with seeded(seed):
        net = network(tuple(images.shape[1:]), classes).to(device)
    found, best = [], {}
    for epoch in progress(
        train(net, images[kept], labels[kept], protocol=protocol, seed=seed),
        total=protocol.epochs * -(-len(kept) // protocol.batch_size),
        desc="classifier",
    ):
        if epoch is not None:
            found.append(_right(net, images[held], labels[held]))
            if found.index(max(found)) == epoch:
                best = {name: value.clone() for name, value in net.state_dict().items()}
    net.load_state_dict(best)
    return Accuracy(_right(net, test, answers), found.index(max(found)) + 1, tuple(found))


def train(
    net: nn.Module, images: Tensor, labels: Tensor, *, protocol: Protocol, seed: int
) -> Iterator[int | None]:
    """Train in place; yields None after each batch, but the epoch's number after its last one."""
    device = images.device
    optimizer = torch.optim.Adam(net.parameters(), lr=protocol.rate, fused=True)
    lower = partial(torch.autocast, device.type, torch.bfloat16, protocol.bfloat16)
    rng = generator_on(device, reproducible_seed=seed, stream="batches of synthetic images")
    for epoch in range(protocol.epochs):
        order = torch.randperm(len(images), generator=rng, device=device)
        batches = order.split(protocol.batch_size)
        for index, chosen in enumerate(batches):
            net.train()
            # dropout takes no rng
            with seeded((seed << 24) + epoch * len(batches) + index), lower():
                loss = nn.functional.cross_entropy(net(images[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield epoch if index == len(batches) - 1 else None


def _right(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    net.eval()
    with torch.no_grad():
        found = torch.cat([net(part).argmax(1) for part in images.split(AT_ONCE)])
    return float((found == labels).double().mean())


def _tensors(
    images: np.ndarray, labels: np.ndarray, *, classes: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    pixels, answers = records.arrays(images, labels, classes=classes)
    checks.whole(1, number_of_images=len(pixels))
    rows = torch.from_numpy(records.in_unit(pixels).astype(np.float32))
    return rows.to(device), torch.from_numpy(answers).to(device)
