"""The critic and the generator of section 2.6, and the classifier that judges their images."""

from itertools import pairwise

from torch import nn

from dpkit.metrics.judge import classifier
from dpkit.papers.small_images.settings import Settings

__all__ = ["classifier", "critic", "generator", "sides"]
SLOPE = 0.2  # of the critic's leaky ReLUs


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
        nn.Linear(settings.latent_size, features),
        nn.BatchNorm1d(features),
        nn.ReLU(),
        nn.Unflatten(1, (4 * wide, side, side)),
    ]
    channels = pairwise((4 * wide, 2 * wide, wide, 1))
    for (inputs, out), to in zip(channels, reversed(up_to), strict=True):
        odd = to % 2  # 2 side - 1, or one more
        layers += [nn.ConvTranspose2d(inputs, out, 5, 2, 2, output_padding=1 - odd), nn.ReLU()]
    layers[-1] = nn.Tanh()
    return nn.Sequential(*layers)
