"""Networks that several papers share, and losses of one example each from their logits."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

SLOPE = 0.2  # of a critic's leaky ReLUs


class Conditional(nn.Module):
    """A network fed with its input and a label, joined: the CGAN of Mirza and Osindero 2014.

    Args:
        body: takes inputs with `classes` more features or channels, of which one is not 0.
        classes: number of labels.
        label_scale: what stands for 1 in the one-hot label. Beside hundreds of pixels a label of 1
            is a small part of an example's gradient, which noise on a clipped sum drowns.
    """

    piecewise_linear = True  # beside its body: what a gradient penalty wants to know

    def __init__(self, body: nn.Module, *, classes: int, label_scale: float = 1.0) -> None:
        super().__init__()
        self.body = body
        self.classes = classes
        self.label_scale = label_scale

    def extra_repr(self) -> str:
        """The numbers that no parameter holds: a checkpoint compares networks by their repr."""
        return f"classes={self.classes}, label_scale={self.label_scale}"

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Args: inputs (batch, features or channels, ...), labels (batch,) int64."""
        # not functional.one_hot, which looks at the labels' values and so fails under vmap
        classes = torch.arange(self.classes, device=labels.device)
        one_hot = self.label_scale * (labels.unsqueeze(1) == classes).to(inputs)
        maps = one_hot.reshape(*one_hot.shape, *(1 for _ in inputs.shape[2:]))
        return self.body(torch.cat((inputs, maps.expand(-1, -1, *inputs.shape[2:])), 1))


def mlp(
    widths: Sequence[int], *, last: nn.Module | None, rng: torch.Generator
) -> nn.Sequential:
    """Linear layers with ReLU between; weights N(0, 2 / fan_in), biases 0.

    Args:
        widths: input, hidden and output features.
        last: what follows the last layer, or None.
        rng: CPU generator of the initial weights.
    """
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        linear = nn.Linear(fan_in, fan_out)
        with torch.no_grad():
            linear.weight.normal_(std=(2 / fan_in) ** 0.5, generator=rng)
            linear.bias.zero_()
        layers += [linear, nn.ReLU()]
    layers.pop()
    return nn.Sequential(*layers, *([last] if last is not None else []))


def halving_critic(
    shape: Sequence[int], filters: Sequence[int], *, bias: bool = True
) -> nn.Sequential:
    """Images of `shape` to scores (batch, 1): 5x5 convolutions of stride 2, one linear layer.

    Nothing is normalised, so that each example has its own gradient.

    Args:
        shape: channels, height, width; each convolution halves both sides, rounded up.
        filters: of each convolution.
        bias: whether the linear layer has one, as each convolution has.
    """
    layers, numbers = halvings(shape, filters)
    return nn.Sequential(*layers, nn.Linear(numbers, 1, bias=bias))


def halvings(shape: Sequence[int], filters: Sequence[int]) -> tuple[list[nn.Module], int]:
    """The layers of `halving_critic` but the last, and how many numbers they make an image."""
    channels, *sides = shape
    layers: list[nn.Module] = []
    for inputs, out in pairwise((channels, *filters)):
        layers += [nn.Conv2d(inputs, out, 5, 2, 2), nn.LeakyReLU(SLOPE)]
    cells = prod(_halved(side, len(filters))[-1] for side in sides)
    return [*layers, nn.Flatten()], filters[-1] * cells


def doubling_generator(
    inputs: int, filters: Sequence[int], shape: Sequence[int]
) -> nn.Sequential:
    """Latents (batch, inputs) to images of `shape` in [-1, 1]: the critic's structure transposed.

    Examples meet in a batch normalisation, which is harmless where they hold no records and their
    number is public.

    Args:
        inputs: numbers in a latent.
        filters: of the linear layer's maps, and after each transposed convolution but the last.
        shape: channels, height, width.
    """
    channels, *size = shape
    heights, widths = (_halved(side, len(filters))[::-1] for side in size)
    features = filters[0] * heights[0] * widths[0]
    layers: list[nn.Module] = [
        nn.Linear(inputs, features),
        nn.BatchNorm1d(features),
        nn.ReLU(),
        nn.Unflatten(1, (filters[0], heights[0], widths[0])),
    ]
    for i, (before, after) in enumerate(pairwise((*filters, channels)), start=1):
        extra = (1 - heights[i] % 2, 1 - widths[i] % 2)  # 4 to 7, 7 to 14
        layers += [nn.ConvTranspose2d(before, after, 5, 2, 2, extra), nn.ReLU()]
    layers[-1] = nn.Tanh()
    return nn.Sequential(*layers)


def _halved(side: int, times: int) -> list[int]:
    """A side before and after each halving."""
    return [-(-side // 2**i) for i in range(times + 1)]


def called_real(logits: Tensor) -> Tensor:
    """Cross-entropy of the answer "real", shape (batch,): -log sigmoid(logit)."""
    return softplus(-logits).squeeze(-1)


def called_fake(logits: Tensor) -> Tensor:
    """Cross-entropy of the answer "fake", shape (batch,): -log(1 - sigmoid(logit))."""
    return softplus(logits).squeeze(-1)
