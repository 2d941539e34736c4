"""What a training run is made of: two networks, the data, a step and the record it yields."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from dpkit.privacy.sampling import Sampling


class Gan(NamedTuple):
    """Two networks and what updates them; `averaged_net` follows the generator and is released."""

    generator_net: nn.Module
    averaged_net: nn.Module
    discriminator: nn.Module
    generator_optimizer: torch.optim.Optimizer
    discriminator_optimizer: torch.optim.Optimizer


class Data(NamedTuple):
    """The private training set, on one device."""

    features: Tensor  # (records, features)
    labels: Tensor  # (records,) int64
    public_size: int  # the size that is declared; sample rates follow from it alone


class Record(NamedTuple):
    """What one step measured. It describes private data and is not private: do not release it."""

    step: int
    batch_size: int
    discriminator_loss: float
    generator_loss: float | None  # None where this step did not train the generator
    clipped: float  # share of the batch whose gradient was scaled down


class Settings(Protocol):
    """What the loop asks of a paper's settings."""

    @property
    def sampling(self) -> Sampling: ...

    def steps_allowed(self, *, public_size: int) -> int:
        """Number of steps that the budget, or the settings' own limit, allows."""
        ...


Step = Callable[..., Record]
