"""Steps of a run on made-up records, and how many it has left: how long it will take."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpkit.training.batches import batches
from dpkit.training.checkpoint import CannotRestore, read_saved
from dpkit.training.device import generator_on, precision, seeded
from dpkit.training.types import Model, R, Settings


def steps(
    step: Callable[..., R],
    new_gan: Callable[..., Model],
    settings: Any,
    *,
    shape: tuple[int, ...],
    size: int,
    device: torch.device,
) -> Iterator[R]:
    """Train without end on fake records of this shape and number, to time the steps.

    Whatever is drawn for it, a run's own draws stay as they are.
    """
    with seeded(0):
        gan = new_gan(settings, seed=0, device=device)
    return _steps(step, gan, made_up(size, shape, device=device), settings)


def made_up(size: int, shape: tuple[int, ...], *, device: torch.device) -> Tensor:
    """Noise in the place of `size` records, (size, *shape): one record that looks like many."""
    rng = generator_on(device, reproducible_seed=0, stream="made up")
    one = torch.rand((1, *shape), generator=rng, device=device)
    return one.expand(size, *shape)


@cache
def steps_allowed(settings: Settings, *, public_size: int) -> int:
    """The settings' own, computed once: an accountant may take seconds for it."""
    return settings.steps_allowed(public_size=public_size)


def steps_done(path: Path | str) -> int:
    """Steps done by the checkpoint at `path`; 0 where there is none.

    What they cost is another number: see `dpkit.training.checkpoint.spent`.
    """
    try:
        return read_saved(Path(path)).step
    except CannotRestore:
        return 0


def _steps(step: Callable[..., R], gan: Model, features: Tensor, settings: Any) -> Iterator[R]:
    device, size = features.device, len(features)
    rng = generator_on(device, reproducible_seed=0, stream="trial")
    labels = torch.zeros(size, dtype=torch.int64, device=device)
    draws = batches(settings.sampling, size=size, public_size=size, rng=rng)
    for index in count():
        chosen = next(draws)
        with precision(tf32=False):
            record = step(
                gan, features[chosen], labels[chosen], settings=settings, index=index, rng=rng
            )
        yield record
