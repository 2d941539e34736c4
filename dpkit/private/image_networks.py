"""A generator and a critic for square images, small enough to be trained with noise."""

from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn

WIDTH, HIDDEN, SLOPE = 32, 256, 0.2  # filters of the first convolution; units of a small network
FLAT = 8  # pixels a side at which convolutions end


class WithLabels(nn.Module):
    """A network that sees a label as more features or channels, one of them 1 all over."""

    piecewise_linear = True  # beside its body: what a gradient penalty wants to know

    def __init__(self, body: nn.Module, classes: int) -> None:
        super().__init__()
        self.body, self.classes = body, classes

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Args: inputs (batch, features or channels, ...), labels (batch,) int64."""
        classes = torch.arange(self.classes, device=labels.device)
        one_hot = (labels.unsqueeze(1) == classes).to(inputs)
        maps = one_hot.reshape(*one_hot.shape, *(1 for _ in inputs.shape[2:]))
        return self.body(torch.cat((inputs, maps.expand(-1, -1, *inputs.shape[2:])), 1))


def image_networks(
    shape: tuple[int, int, int], *, classes: int | None, latent_size: int
) -> tuple[nn.Module, nn.Module]:
    """(generator, critic) for images of `shape` with values in [-1, 1]; initial weights as torch's.

    Convolutions of 5x5 with stride 2 until 8 pixels a side are left; none for smaller images.

    Args:
        shape: (channels, side, side).
        classes: number of labels that both see, or None.
        latent_size: numbers in a latent.

    Raises:
        ValueError: the images are not square.
    """
    channels, side, other = shape
    if side != other:
        raise ValueError(f"images must be square, got {side} x {other} pixels; cut or pad them")
    sides = [side]
    while sides[-1] > FLAT:
        sides.append(-(-sides[-1] // 2))
    more = classes or 0
    if len(sides) == 1:
        generator, critic = _flat(shape, latent_size + more), _flat_critic(shape, more)
    else:
        generator = _generator(channels, sides, latent_size + more)
        critic = _critic(channels + more, sides)
    if classes is None:
        return generator, critic
    return WithLabels(generator, classes), WithLabels(critic, classes)


def _filters(sides: list[int]) -> list[int]:
    return [WIDTH * 2**level for level in range(len(sides) - 1)]


def _critic(channels: int, sides: list[int]) -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, out in pairwise([channels, *_filters(sides)]):
        layers += [nn.Conv2d(inputs, out, 5, 2, 2), nn.LeakyReLU(SLOPE)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(out * sides[-1] ** 2, 1))


def _generator(channels: int, sides: list[int], inputs: int) -> nn.Module:
    *filters, first = _filters(sides)
    features = first * sides[-1] ** 2
    layers: list[nn.Module] = [
        nn.Linear(inputs, features),
        nn.BatchNorm1d(features),
        nn.ReLU(),
        nn.Unflatten(1, (first, sides[-1], sides[-1])),
    ]
    widths = pairwise([first, *reversed(filters), channels])
    for (inputs, out), to in zip(widths, reversed(sides[:-1]), strict=True):
        odd = to % 2  # from side / 2, rounded up, to 2 side - 1, or one more
        layers += [nn.ConvTranspose2d(inputs, out, 5, 2, 2, output_padding=1 - odd), nn.ReLU()]
    layers[-1] = nn.Tanh()
    return nn.Sequential(*layers)


def _flat(shape: tuple[int, ...], inputs: int) -> nn.Module:
    widths = nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, prod(shape))
    return nn.Sequential(*widths, nn.Tanh(), nn.Unflatten(1, shape))


def _flat_critic(shape: tuple[int, int, int], more: int) -> nn.Module:
    pixels = (shape[0] + more) * shape[1] * shape[2]
    layers = nn.Linear(pixels, HIDDEN), nn.LeakyReLU(SLOPE), nn.Linear(HIDDEN, 1)
    return nn.Sequential(nn.Flatten(), *layers)
