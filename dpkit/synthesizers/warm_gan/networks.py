"""The generator, which starts as the class moments' sampler, and the critic."""

from math import prod

import torch
from torch import Tensor, nn

from dpkit.private.image_networks import WithLabels
from dpkit.synthesizers.class_moments import MomentsModel
from dpkit.synthesizers.warm_gan.settings import WarmGanSettings

SLOPE, OUTSIDE = 0.2, 0.1  # of LeakyReLU; of the gradient of a pixel that was cut off


class Fixed(nn.Module):
    """A product with a public matrix, which nothing trains."""

    matrix: Tensor  # (features in, features out)

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix.contiguous())

    def forward(self, inputs: Tensor) -> Tensor:
        """Args: inputs (batch, features in)."""
        return inputs @ self.matrix


class WarmGenerator(nn.Module):
    """A Gaussian image of the label's moments, plus a correction that is 0 at first, cut to [0, 1].

    The correction is made of the cosines that the moments are measured in: free pixels would take
    the noise of the critic's gradient for detail.
    Its latent is standard normal: one number that picks the component, those of the component's
    directions, and those that only the correction sees.
    """

    means: Tensor  # (classes, components, pixels)
    factors: Tensor  # (classes, components, directions, pixels), 0 where a component has fewer
    edges: Tensor  # (classes, components) cumulative chances

    def __init__(self, model: MomentsModel, settings: WarmGanSettings) -> None:
        super().__init__()
        own, pixels = model.components, len(model.components[0][0].mean)
        directions = max(one.factors.shape[1] for parts in own for one in parts)
        factors = torch.zeros(len(own), len(own[0]), directions, pixels)
        for label, parts in enumerate(own):
            for index, one in enumerate(parts):
                factors[label, index, : one.factors.shape[1]] = torch.as_tensor(one.factors.T)
        means = [[torch.as_tensor(one.mean) for one in parts] for parts in own]
        counts = torch.tensor([[one.count for one in parts] for parts in own])
        self.register_buffer("means", torch.stack([torch.stack(p) for p in means]).float())
        self.register_buffer("factors", factors)
        self.register_buffer("edges", (counts / counts.sum(1, keepdim=True)).cumsum(1).float())
        self.shape = settings.moments.shape
        self.latent_size = 1 + directions + settings.latent_size
        seen = pixels + settings.latent_size
        body = nn.Sequential(
            nn.Linear(seen + settings.classes, settings.hidden),
            nn.LeakyReLU(SLOPE),
            nn.Linear(settings.hidden, settings.moments.features),
            Fixed(_basis(settings)),
        )
        for parameter in body[2].parameters():
            nn.init.zeros_(parameter)
        self.correction = WithLabels(body, settings.classes)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """Args: z (batch, latent_size), labels (batch,) int64."""
        start, rest = self.start(z, labels)
        images = start + self.correction(torch.cat((start, rest), 1), labels)
        return _cut_off(images).unflatten(1, self.shape)

    def start(self, z: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The moments' images (batch, pixels), not cut off yet, and what is left of the latents."""
        directions = self.factors.shape[2]
        chance = torch.special.ndtr(z[:, :1])
        which = (chance > self.edges[labels]).sum(1).clamp(max=self.edges.shape[1] - 1)
        group = labels * self.edges.shape[1] + which
        images = self.means.flatten(0, 1)[group]
        factors = self.factors.flatten(0, 1)
        for one in range(len(factors)):
            rows = (group == one).nonzero().squeeze(1)
            images[rows] += z[rows, 1 : 1 + directions] @ factors[one]
        return images, z[:, 1 + directions :]


def _cut_off(images: Tensor) -> Tensor:
    """Values cut to [0, 1]; outside, a little of the gradient still passes."""
    inside = images.clamp(0, 1)
    little = OUTSIDE * (images - inside)
    return inside + (little - little.detach())


def _basis(settings: WarmGanSettings) -> Tensor:
    """The moments' orthonormal cosines, (features, pixels); all pixels where they have none."""
    basis = settings.moments.basis
    return torch.eye(prod(settings.moments.shape)) if basis is None else torch.tensor(basis).float()


def new_critic(settings: WarmGanSettings) -> nn.Module:
    """Two linear layers: of the moments' cosines, or of convolutions where there are `filters`."""
    if settings.filters:
        return WithLabels(_convolutions(settings), settings.classes)
    head = _head(settings.moments.features + settings.classes, settings.features)
    return _OfCosines(_basis(settings).T, WithLabels(head, settings.classes))


class _OfCosines(nn.Module):
    def __init__(self, matrix: Tensor, body: nn.Module) -> None:
        super().__init__()
        self.cosines, self.body = nn.Sequential(nn.Flatten(), Fixed(matrix)), body

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return self.body(self.cosines(images), labels)


def _convolutions(settings: WarmGanSettings) -> nn.Module:
    """Of 5x5 with stride 2, as in the critic of Bie, Kamath, Zhang 2023, without labels' layers."""
    channels, *sides = settings.moments.shape
    layers: list[nn.Module] = []
    inputs = channels + settings.classes
    for out in settings.filters:
        layers += [nn.Conv2d(inputs, out, 5, 2, 2), nn.LeakyReLU(SLOPE)]
        inputs, sides = out, [-(-side // 2) for side in sides]
    return nn.Sequential(*layers, nn.Flatten(), _head(inputs * prod(sides), settings.features))


def _head(inputs: int, features: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, features), nn.LeakyReLU(SLOPE), nn.Linear(features, 1))
