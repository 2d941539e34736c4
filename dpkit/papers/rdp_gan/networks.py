"""The paper's two pairs of networks: the code's (fully connected) and the text's (convolutions)."""

import math

import torch
from torch import Tensor, nn

from dpkit.papers.rdp_gan.settings import Dcgan, Mlp, Settings
from dpkit.training.networks import Conditional

SLOPE = 0.2  # of the leaky ReLUs
TEMPERATURE = 0.5  # of the softened one-hot parts of a generated record (Jang et al. 2017)


def discriminator(settings: Settings) -> nn.Module:
    """Takes (inputs, labels), gives a logit each; initialised as torch does, from its global state.

    The sigmoid of text and code is part of the loss.
    """
    match settings.network:
        case Mlp(hidden):
            body = nn.Sequential(
                nn.Linear(settings.features + settings.classes, hidden),
                nn.LeakyReLU(SLOPE),
                nn.Linear(hidden, hidden),
                nn.LeakyReLU(SLOPE),
                nn.Linear(hidden, 1),
            )
            return Conditional(
                body,
                classes=settings.classes,
                label_scale=1.0 if settings.label_scale is None else settings.label_scale,
            )
        case Dcgan(width):
            return Convolutions(settings, width)


def generator(settings: Settings) -> nn.Module:
    """Takes (latents, labels), gives `features` numbers each, before `shaped`."""
    wide = settings.latent_size + settings.classes
    match settings.network:
        case Mlp(hidden):
            body: nn.Module = nn.Sequential(
                nn.Linear(wide, hidden),
                nn.ReLU(),
                nn.Linear(hidden, hidden),
                nn.ReLU(),
                nn.Linear(hidden, settings.features),
            )
        case Dcgan(width):
            body = Deconvolutions(settings, wide, width)
    return Conditional(body, classes=settings.classes)


def shaped(outputs: Tensor, parts: tuple[int, ...], *, rng: torch.Generator) -> Tensor:
    """A generator's outputs as records: tanh, or each one-hot part softened after Gumbel noise.

    Args:
        outputs: (batch, features).
        parts: sizes of the one-hot parts, which sum to features; empty for images.
        rng: of the Gumbel noise (none is drawn for images).
    """
    if not parts:
        return torch.tanh(outputs)
    logits = (outputs + _gumbel(outputs, rng)) / TEMPERATURE
    return torch.cat([part.softmax(1) for part in logits.split(parts, 1)], 1)


def drawn(outputs: Tensor, parts: tuple[int, ...], *, rng: torch.Generator) -> Tensor:
    """Records as released: images, or codes int64 (batch, parts) drawn from each softmax."""
    if not parts:
        return torch.tanh(outputs)
    logits = outputs + _gumbel(outputs, rng)
    return torch.stack([part.argmax(1) for part in logits.split(parts, 1)], 1)


def _gumbel(like: Tensor, rng: torch.Generator) -> Tensor:
    uniform = torch.rand(like.shape, generator=rng, device=like.device).clamp_(1e-20, 1 - 1e-7)
    return -torch.log(-torch.log(uniform))


def _side(features: int) -> int:
    return math.ceil(math.sqrt(features))


class Convolutions(nn.Module):
    """Three convolutions over the record as a square; its label as planes beside it."""

    piecewise_linear = True

    def __init__(self, settings: Settings, width: int) -> None:
        super().__init__()
        self.side, self.classes = _side(settings.features), settings.classes
        self.label_scale = 1.0 if settings.label_scale is None else settings.label_scale
        kernel = 4 if self.side % 4 == 0 else 3
        last = -(-self.side // 4)
        self.body = nn.Sequential(
            nn.Conv2d(1 + self.classes, width, kernel, 2, 1),
            nn.LeakyReLU(SLOPE),
            nn.Conv2d(width, 2 * width, kernel, 2, 1),
            nn.LeakyReLU(SLOPE),
            nn.Conv2d(2 * width, 1, last),
            nn.Flatten(),
        )

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Args: inputs (batch, features), labels (batch,)."""
        padding = self.side**2 - inputs.shape[1]
        square = nn.functional.pad(inputs, (0, padding)).unflatten(1, (1, self.side, self.side))
        classes = torch.arange(self.classes, device=labels.device)
        one_hot = self.label_scale * (labels.unsqueeze(1) == classes).to(inputs)
        planes = one_hot[:, :, None, None].expand(-1, -1, self.side, self.side)
        return self.body(torch.cat((square, planes), 1))


class Deconvolutions(nn.Module):
    """Three transposed convolutions from a vector to a square; `features` of its cells are used."""

    def __init__(self, settings: Settings, wide: int, width: int) -> None:
        super().__init__()
        self.features = settings.features
        side = _side(self.features)
        kernel, self.side = 3 if side % 4 == 1 else 4, side
        self.body = nn.Sequential(
            nn.Unflatten(1, (wide, 1, 1)),
            nn.ConvTranspose2d(wide, 2 * width, -(-side // 4)),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, kernel, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 1, kernel, 2, 1),
        )

    def forward(self, latents: Tensor) -> Tensor:
        """Args: latents (batch, latent_size + classes)."""
        square = self.body(latents)[:, :, : self.side, : self.side]
        return square.flatten(1)[:, : self.features]
