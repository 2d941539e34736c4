"""Networks that give each canary a direction of its own."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

STRENGTH = 1e6  # norm of a canary's gradient before it is clipped


class OwnWeights(nn.Module):
    """A linear classifier, and beside it one weight for each canary."""

    def __init__(self, pixels: int, classes: int, canaries: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(pixels, classes)
        self.own = nn.Embedding(canaries + 1, 1)  # the last one stands for no canary
        nn.init.zeros_(self.own.weight)

    def forward(self, pixels: Tensor, labels: Tensor, slots: Tensor) -> Tensor:
        linear = STRENGTH * self.own(slots).squeeze(1)
        ordinary = cross_entropy(self.classifier(pixels), labels, reduction="none")
        return torch.where(slots < self.own.num_embeddings - 1, linear, ordinary)

    @property
    def layer(self) -> Tensor:
        """Where the canaries' directions lie."""
        return self.own.weight

    def along(self, total: Tensor) -> Tensor:
        """A tensor of the layer's shape along each canary's direction, (canaries,)."""
        return total.detach()[:-1, 0].double()


class OwnDirections(nn.Module):
    """A network of two layers, and the canaries' directions in the first one's weights."""

    def __init__(self, classes: int, features: Tensor, units: Tensor) -> None:
        super().__init__()
        self.first = nn.Linear(features.shape[1], units.shape[1], bias=False)
        self.second = nn.Linear(units.shape[1], classes)
        self.features, self.units = features, units  # plain: no part of the network

    def forward(self, pixels: Tensor, labels: Tensor, units: Tensor) -> Tensor:
        hidden = self.first(pixels)
        linear = STRENGTH * (hidden * units).sum(1)
        ordinary = cross_entropy(self.second(hidden.relu()), labels, reduction="none")
        return torch.where(units.any(1), linear, ordinary)

    @property
    def layer(self) -> Tensor:
        """Where the canaries' directions lie."""
        return self.first.weight

    def along(self, total: Tensor) -> Tensor:
        """A tensor of the layer's shape along each canary's direction, (canaries,)."""
        return ((self.units @ total.detach()) * self.features).sum(1, dtype=torch.float64)


def place(net: OwnWeights | OwnDirections, parameters: list[Tensor]) -> int:
    """Of the layer in which canaries lie, among the parameters."""
    return next(i for i, parameter in enumerate(parameters) if parameter is net.layer)
