"""Generator and critic of any image size, and the two classifiers of Algorithm 4.

Convolutions have 5 x 5 kernels and stride 2, so each halves a side, rounded up, and each transposed
one undoes that: 28, 14, 7, 4 and back for MNIST. (In the code, models/gans/mnist.py, the first
transposed convolution makes 8 x 8, cropped to 7, and no ReLU follows it; here it makes 7, and one
does. The code's generators for CelebA and LSUN are residual networks; here they are as MNIST's.)
"""

from itertools import pairwise

import torch
from torch import Tensor, nn

from dpkit.papers.dpgan.settings import Settings

SLOPE = 0.2  # of the leaky ReLUs
KERNEL = 5


def sides(side: int, *, halvings: int) -> tuple[int, ...]:
    """A side before and after each of `halvings` convolutions of stride 2."""
    found = [side]
    for _ in range(halvings):
        found.append(-(-found[-1] // 2))
    return tuple(found)


def critic(settings: Settings) -> nn.Sequential:
    """Convolutions with biases, leaky ReLU, and a layer without bias: images to (batch, 1).

    Two tensors each convolution and one more: seven for MNIST. Nothing is normalised, so that each
    example has its own gradient.
    """
    channels, *size = settings.image_shape
    layers: list[nn.Module] = []
    for before, after in pairwise((channels, *settings.critic_channels)):
        layers += [nn.Conv2d(before, after, KERNEL, 2, KERNEL // 2), nn.LeakyReLU(SLOPE)]
    cells = 1
    for side in size:
        cells *= sides(side, halvings=len(settings.critic_channels))[-1]
    last = nn.Linear(settings.critic_channels[-1] * cells, 1, bias=False)
    return nn.Sequential(*layers, nn.Flatten(), last)


def generator(settings: Settings) -> nn.Sequential:
    """Codes (batch, latent_size) to images in [-1, 1]: a linear layer and transposed convolutions.

    Batch normalisation as in the code: the examples of a batch meet, which is harmless where the
    batch is of codes alone and its size is public (`algorithm` sees to both).
    """
    channels, *size = settings.image_shape
    first = settings.generator_channels[0]
    steps = len(settings.generator_channels)
    height, width = (sides(side, halvings=steps)[::-1] for side in size)
    cells = first * height[0] * width[0]
    layers: list[nn.Module] = [
        nn.Linear(settings.latent_size, cells),
        nn.BatchNorm1d(cells),
        nn.ReLU(),
        nn.Unflatten(1, (first, height[0], width[0])),
    ]
    for i, (before, after) in enumerate(pairwise((*settings.generator_channels, channels))):
        extra = (1 - height[i + 1] % 2, 1 - width[i + 1] % 2)  # 4 to 7, 7 to 14
        layers.append(nn.ConvTranspose2d(before, after, KERNEL, 2, KERNEL // 2, extra))
        layers.append(nn.ReLU() if i + 1 < steps else nn.Tanh())
    return nn.Sequential(*layers)


class Classifier(nn.Module):
    """Two convolutions and two linear layers: images, and with `code_size` their codes, to logits.

    "The same structure as a regular image classifier" is all that the text says of it.

    Args:
        image_shape: channels, height, width.
        classes: logits.
        width: channels of the first convolution; the second has twice as many.
        code_size: numbers of a code, which enter beside the convolutions' features; 0 for none.
    """

    def __init__(
        self, image_shape: tuple[int, int, int], *, classes: int, width: int, code_size: int = 0
    ) -> None:
        super().__init__()
        channels, *size = image_shape
        self.seen = nn.Sequential(
            nn.Conv2d(channels, width, KERNEL, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, KERNEL, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        cells = 2 * width * (size[0] // 4) * (size[1] // 4)
        self.judged = nn.Sequential(
            nn.Linear(cells + code_size, 4 * width), nn.ReLU(), nn.Linear(4 * width, classes)
        )

    def forward(self, images: Tensor, codes: Tensor | None = None) -> Tensor:
        """Args: images (batch, channels, height, width), codes (batch, code_size)."""
        seen = self.seen(images)
        return self.judged(seen if codes is None else torch.cat((seen, codes), 1))
