"""A training step seen white box: how far a record moves what is noised, and what else it moves."""

from collections.abc import Callable, Sequence
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from dpkit.audit.training.step_runs import Run, run
from dpkit.privacy.mechanisms import Floats

SEEDS = 2**31


class Batch(NamedTuple):
    """One world's private batch: features (batch, ...) and labels (batch,)."""

    features: Tensor
    labels: Tensor


def once(
    step: Callable[..., Any],
    new_gan: Callable[[], Any],
    batch: Batch,
    *,
    settings: Any,
    indices: Sequence[int] = (0,),
    seed: int = 0,
) -> Run:
    """Run `step` on a batch from fresh weights: what it noised, every tensor before and after.

    Args:
        step: called as `train` calls it: (gan, features, labels, settings=, index=, rng=).
        new_gan: makes the networks, the same ones at every call; initial weights are public.
        batch: of one world.
        settings: given to step.
        indices: of the steps, all on this batch.
        seed: of everything that is drawn in the steps.
    """
    of = {"indices": indices, "seed": seed, "rows": len(batch.features)}
    return run(step, new_gan, settings, *batch, **of)


def shift(absent: Run, present: Run) -> float:
    """How far the record moves what was noised, in deviations of the noise; inf where none is.

    Over all tensors and all calls together: the L2 norm of (present - absent) / deviation. Both
    runs must have drawn the same (one seed, batches of one size, or draws that do not depend on
    it).

    Raises:
        ValueError: the runs did not noise the same tensors, so that they cannot be compared.
    """
    pairs = [
        (a, b, std)
        for one, other in zip(_noised(absent), _noised(present), strict=True)
        for a, b, std in zip(one.sums, other.sums, one.stds, strict=True)
    ]
    if any(a.shape != b.shape for a, b, _ in pairs) or not pairs:
        raise ValueError("absent and present must be runs of one step that noised the same tensors")
    total = 0.0
    for a, b, std in pairs:
        moved = (b.double() - a.double()).cpu()
        if bool(((std == 0) & (moved != 0)).any()):
            return inf
        total += float((moved / std.where(std > 0, 1.0)).square().sum())
    return sqrt(total)


def statistics(
    step: Callable[..., Any],
    new_gan: Callable[[], Any],
    batch: Batch,
    *,
    settings: Any,
    of: Callable[[Run], float],
    rng: np.random.Generator,
    trials: int,
    indices: Sequence[int] = (0,),
) -> Floats:
    """A statistic of runs from the same weights, each with other draws and noise, (trials,)."""
    seeds = rng.integers(1, SEEDS, size=trials).tolist()
    runs = (
        once(step, new_gan, batch, settings=settings, indices=indices, seed=seed) for seed in seeds
    )
    return np.array([of(one) for one in runs])


def _noised(one: Run) -> list[Any]:
    return [call for step in one.releases for call in step]
