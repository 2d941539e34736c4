"""A stored run on the other ranks: they take rank 0's state and steps, and write nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from dpkit.training.checkpoint.guards import global_draws_follow


class Follower:
    """One rank of a run that rank 0 keeps (see `Keeper`, whose use it shares)."""

    def __init__(
        self, rng: torch.Generator, *, step: int, steps: int, drawn_from: Tensor, drawn: int
    ) -> None:
        self.step, self.steps = step, steps
        self._rng, self._drawn_from, self._drawn = rng, drawn_from, drawn

    def replayed(self, draws: Iterator[Tensor]) -> Iterator[Tensor]:
        """As the keeper's."""
        return replayed(draws, self._rng, self._drawn_from, self._drawn)

    def draw(self, draws: Iterator[Tensor]) -> Tensor:
        """The next batch."""
        return next(draws)

    @contextmanager
    def one_step(self) -> Iterator[None]:
        """A step, for which rank 0 has charged before it takes part in adding up its sums."""
        with global_draws_follow(self._rng, self.step):
            yield
        self.step += 1


def replayed(
    draws: Iterator[Tensor], rng: torch.Generator, drawn_from: Tensor, drawn: int
) -> Iterator[Tensor]:
    """Bring a new drawer of batches to where the stored one was; the rng stays in place."""
    now = rng.get_state()
    rng.set_state(drawn_from)
    for _ in range(drawn):
        next(draws)
    rng.set_state(now)
    return draws
