"""A private GAN of one-hot rows: the other method of `PrivateTable`, which needs torch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpkit.private.budget import Budget
from dpkit.private.gan import PrivateGan
from dpkit.private.plan import Plan
from dpkit.training.device import generator_on, seeded

LATENT, HIDDEN, SLOPE = 64, 256, 0.2


class Shares(nn.Module):
    """Numbers (batch, width) as probabilities: a softmax over each column's categories."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = sizes

    def forward(self, numbers: Tensor) -> Tensor:
        """Probabilities, (batch, width)."""
        return torch.cat([part.softmax(1) for part in numbers.split(self.sizes, 1)], 1)


@dataclass(frozen=True, eq=False)
class TableGan:
    """A released generator, and what its training released; neither critic nor curves."""

    generator: nn.Module
    sizes: tuple[int, ...]
    plan: Plan

    def sample(self, n: int, *, rng: np.random.Generator) -> np.ndarray:
        """`n` rows of codes, int64 (n, columns), each category drawn by its probability."""
        latents = rng.standard_normal((n, LATENT), dtype=np.float32)
        with torch.no_grad():
            shares = self.generator(torch.from_numpy(latents)).double().numpy()
        parts = np.split(shares, np.cumsum(self.sizes)[:-1], axis=1)
        below = [np.cumsum(part, axis=1)[:, :-1] for part in parts]
        return np.stack([(rng.random((n, 1)) >= limits).sum(1) for limits in below], axis=1)


def fit(
    rows: np.ndarray,
    *,
    sizes: tuple[int, ...],
    steps: int,
    budget: Budget | None = None,
    **settings: Any,
) -> TableGan:
    """Train a generator of such rows privately.

    Args:
        rows: one-hot, float32 (records, sum of sizes).
        sizes: categories of each column.
        steps: of the critic.
        budget: adds up the runs on these data.
        settings: further arguments of `PrivateGan`.

    Raises:
        ValueError: as `PrivateGan.fit`.
    """
    width = sum(sizes)
    rng = generator_on(
        torch.device("cpu"), reproducible_seed=settings.get("reproducible_seed"), stream="weights"
    )
    with seeded(int(torch.randint(2**63 - 1, (), generator=rng))):
        generator = nn.Sequential(
            nn.Linear(LATENT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, width), Shares(sizes)
        )
        critic = nn.Sequential(
            nn.Linear(width, HIDDEN),
            nn.LeakyReLU(SLOPE),
            nn.Linear(HIDDEN, HIDDEN),
            nn.LeakyReLU(SLOPE),
            nn.Linear(HIDDEN, 1),
        )
    gan = PrivateGan(generator, critic, latent_size=LATENT, **settings)
    gan.fit(torch.from_numpy(rows), steps=steps, budget=budget)
    return TableGan(gan.generator_.cpu(), sizes, gan.plan_)
