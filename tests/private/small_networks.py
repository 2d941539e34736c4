"""Small networks and data for these tests, and a run of `Private` on them."""

from collections.abc import Callable
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpkit import Private, PrivateGan
from dpkit.training import seeded


class Generator(nn.Module):
    """Digits of 8 x 8 pixels from a latent and a label; it holds batch normalisation."""

    def __init__(self, latent_size: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.label = nn.Embedding(classes, latent_size)
        self.body = nn.Sequential(
            nn.Linear(latent_size, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 64), nn.Tanh()
        )

    def forward(self, latents: Tensor, labels: Tensor | None = None) -> Tensor:
        if labels is not None:
            latents = latents * self.label(labels)
        return self.body(latents).view(-1, 1, 8, 8)


class Critic(nn.Module):
    """One number for an image and a label."""

    piecewise_linear = True

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.classes = classes
        self.body = nn.Sequential(nn.Linear(64 + classes, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        rows = images.flatten(1)
        if labels is None:
            hot = rows.new_zeros(len(rows), self.classes)
        else:
            hot = (labels[:, None] == torch.arange(self.classes, device=labels.device)).to(rows)
        return self.body(torch.cat((rows, hot), 1))


def digits() -> tuple[Tensor, Tensor]:
    """1,797 images (1, 8, 8) in [-1, 1], and their labels."""
    held = load_digits()
    images = torch.tensor(held.images / 8 - 1, dtype=torch.float32)[:, None]
    return images, torch.tensor(held.target)


def classifier(seed: int = 0) -> nn.Sequential:
    """Ten logits of 64 numbers."""
    with seeded(seed):
        return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def pair(seed: int = 0) -> tuple[Generator, Critic]:
    """A generator and its critic, with the same weights for the same seed."""
    with seeded(seed):
        return Generator(), Critic()


X, Y = digits()
FLAT = X.flatten(1)
PLAN: dict[str, Any] = {"epsilon": 8, "delta": 1e-5, "steps": 4, "batch_size": 40}


def each(net: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """The cross-entropy of each row."""
    return lambda x, y: cross_entropy(net(x), y, reduction="none")


def private_of(
    net: Any = None, *data: Any, rate: float = 0.5, optimizer: Any = None, **others: Any
):
    """A Private of a network (a classifier) on data (the digits as rows)."""
    net = classifier() if net is None else net
    optimizer = optimizer or torch.optim.SGD(net.parameters(), rate)
    return Private(net, optimizer, *(data or (FLAT, Y)), **{**PLAN, **others})


def gan_of(generator: Any = None, critic: Any = None, **others: Any) -> PrivateGan:
    """A PrivateGan of these networks, by default those of `pair`."""
    own = {"epsilon": 8, "delta": 1e-5, "classes": 10, "latent_size": 16, **others}
    return PrivateGan(generator or pair()[0], critic or pair()[1], **own)


def begun(*data: Any, net: Any = None, **others: Any) -> tuple[Any, ...]:
    """A network, its Private, and the first batch."""
    private = private_of(net, *data, **others)
    return (private.net, private, *next(iter(private)))


def run(private: Private, loss: Any = None, steps: int | None = None) -> Private:
    """Steps along a loss (the cross-entropy): all of them, or so many."""
    for done, rows in enumerate(private, 1):
        private.step(loss or each(private.net), *rows)
        if done == steps:
            break
    return private
