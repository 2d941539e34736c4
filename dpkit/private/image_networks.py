"""A generator and a critic for square images, small enough to be trained with noise."""

from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn

WIDTH, HIDDEN, SLOPE = (
    32,
    256,
    0.2,
)  # filters of the first convolution; units of a small network
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
        raise ValueError(
            f"images must be square, got {side} x {other} pixels; cut or pad them"
        )
    sides = [side]
    while sides[-1] > FLAT:
        sides.append(-(-sides[-1] // 2))
    more = classes or 0
    if len(sides) == 1:
        widths = (
            nn.Linear(latent_size + more, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, prod(shape)),
        )
        generator = nn.Sequential(*widths, nn.Tanh(), nn.Unflatten(1, shape))
        first = nn.Linear((channels + more) * side**2, HIDDEN)
        last = nn.Linear(HIDDEN, 1)
        critic = nn.Sequential(nn.Flatten(), first, nn.LeakyReLU(SLOPE), last)
    else:
        filters = [WIDTH * 2**level for level in range(len(sides) - 1)]
        generator = _generator(channels, sides, filters, latent_size + more)
        layers: list[nn.Module] = []
        for inputs, out in pairwise([channels + more, *filters]):
            layers += [nn.Conv2d(inputs, out, 5, 2, 2), nn.LeakyReLU(SLOPE)]
        last = nn.Linear(filters[-1] * sides[-1] ** 2, 1)
        critic = nn.Sequential(*layers, nn.Flatten(), last)
    if classes is None:
        return generator, critic
    return WithLabels(generator, classes), WithLabels(critic, classes)


def _generator(channels: int, sides: list[int], filters: list[int], inputs: int) -> nn.Module:
    *filters, first = filters
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
