"""The critic and the generator of section 2.6, and the classifier behind the inception score."""

from itertools import pairwise

from torch import nn

from dpkit import checks
from dpkit.papers.small_images.settings import Settings

SLOPE = 0.2  # of the critic's leaky ReLUs
CLASSES = 10


def sides(settings: Settings) -> list[int]:
    """Sides of the critic's feature maps, from the image's on: each convolution halves them."""
    found = [settings.side]
    for _ in range(3):
        found.append(-(-found[-1] // 2))
    return found


def critic(settings: Settings) -> nn.Module:
    """Images (batch, 1, side, side) to scores (batch, 1), without normalisation.

    Convolutions of 5x5 with stride 2, of `capacity`, twice and four times as many filters.
    """
    wide = settings.capacity
    layers: list[nn.Module] = []
    for channels, out in pairwise((1, wide, 2 * wide, 4 * wide)):
        layers += [nn.Conv2d(channels, out, 5, 2, 2), nn.LeakyReLU(SLOPE)]
    last = sides(settings)[-1]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * wide * last**2, 1))


def generator(settings: Settings) -> nn.Module:
    """Latents (batch, latent_size) to images (batch, 1, side, side) in [-1, 1].

    The critic's structure transposed. It sees latents alone, so that its examples may meet in a
    batch normalisation, as published.
    """
    wide = settings.capacity
    *up_to, side = sides(settings)
    features = 4 * wide * side**2
    layers: list[nn.Module] = [
        nn.Linear(settings.latent_size, features), nn.BatchNorm1d(features), nn.ReLU(),
        nn.Unflatten(1, (4 * wide, side, side)),
    ]  # fmt: skip
    channels = pairwise((4 * wide, 2 * wide, wide, 1))
    for (inputs, out), to in zip(channels, reversed(up_to), strict=True):
        odd = to % 2  # 2 side - 1, or one more
        layers += [nn.ConvTranspose2d(inputs, out, 5, 2, 2, output_padding=1 - odd), nn.ReLU()]
    layers[-1] = nn.Tanh()
    return nn.Sequential(*layers)


def classifier(*, width: int, hidden: int, side: int = 28) -> nn.Module:
    """Images in [-1, 1] (batch, 1, side, side) to logits (batch, 10), as in the public code.

    Args:
        width: filters of the first convolution; the code has 32, then twice and four times.
        hidden: units before the last layer; the code has 1024.
        side: of an image, in pixels; at least 15, or nothing is left after three poolings.
    """
    checks.whole(1, width=width, hidden=hidden)
    checks.whole(15, side=side)
    layers: list[nn.Module] = []
    for channels, out in pairwise((1, width, 2 * width, 4 * width)):
        layers += [
            nn.Conv2d(channels, out, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.BatchNorm2d(out),
        ]  # fmt: skip
        side = (side - 1) // 2
    return nn.Sequential(
        *layers, nn.Flatten(),
        nn.Linear(4 * width * side**2, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(hidden, CLASSES),
    )  # fmt: skip
