"""A training step seen white box: a record's moves of noised sums, and of all else.

Steps on neighbouring batches have the same weights and draws, and where asked the same noised sums.
"""

from collections.abc import Callable, Iterator, Sequence
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from dpkit.privacy.mechanisms import Floats
from dpkit.training.device import seeded
from dpkit.training.gradients.independence import SameDraws
from dpkit.training.noise import watched

SEEDS = 2**31


class Batch(NamedTuple):
    """One world's private batch: features (batch, ...) and labels (batch,)."""

    features: Tensor
    labels: Tensor


class Noised(NamedTuple):
    """One call of `noised`: what went in, and what came out."""

    sums: list[Tensor]
    stds: list[Tensor]  # of each coordinate
    noisy: list[Tensor]


class StepTrace(NamedTuple):
    """One step, or several on the same batch; before and after it, every tensor by its name."""

    releases: list[list[Noised]]  # of each step
    before: dict[str, Tensor]
    after: dict[str, Tensor]


def once(
    step: Callable[..., Any],
    new_gan: Callable[[], Any],
    batch: Sequence[Tensor],
    *,
    settings: Any,
    indices: Sequence[int] = (0,),
    seed: int = 0,
    rows: int | None = None,
    like: StepTrace | None = None,
) -> StepTrace:
    """Run `step` on a batch from fresh weights: its noised sums, tensors before and after.

    Args:
        step: called as `train` calls it: (gan, features, labels, settings=, index=, rng=).
        new_gan: makes the networks, the same ones at every call; initial weights are public.
        batch: features and labels of one world.
        settings: given to step.
        indices: of the steps, all on this batch.
        seed: of everything that is drawn in the steps.
        rows: records of the batch of these draws, its own by default.
        like: a run whose noised sums the step gets in place of its own.
    """
    features, labels = batch
    rng = torch.Generator(features.device).manual_seed(seed)
    releases: list[list[Noised]] = []
    earlier = like.releases if like else [[]] * len(indices)

    @torch.no_grad()
    def instead(
        sums: Sequence[Tensor], stds: Sequence[Any], noisy: list[Tensor]
    ) -> list[Tensor]:
        """Keep the sums to be noised; return those given before where shapes agree."""
        each = [torch.as_tensor(std, dtype=torch.float64).cpu() for std in stds]
        each = [std.expand(total.shape) for std, total in zip(each, sums, strict=True)]
        releases[-1].append(tree_map(torch.clone, Noised([*sums], each, noisy)))
        same = next(given, releases[-1][-1]).noisy
        alike = [one.shape for one in same] == [one.shape for one in noisy]
        return tree_map(torch.clone, same) if alike else noisy

    with seeded(seed), SameDraws(rows=rows or len(features)):
        gan = new_gan()
        before = dict(_tensors(gan, "", set()))
        for index, calls in zip(indices, earlier, strict=True):
            releases.append([])
            given = iter(calls)
            with watched(instead):
                step(
                    gan,
                    features.clone(),
                    labels.clone(),
                    settings=settings,
                    index=index,
                    rng=rng,
                )
        after = dict(_tensors(gan, "", set()))
    return StepTrace(releases, before, after)


def shift(absent: StepTrace, present: StepTrace) -> float:
    """The record's shift of the noised sums, in deviations of the noise; inf without noise.

    Over all tensors and all calls together: the L2 norm of (present - absent) / deviation. Both
    runs must have drawn the same (one seed, batches of one size, or draws that do not depend on
    it).

    Raises:
        ValueError: the runs did not noise the same tensors, so that they cannot be compared.
    """
    calls = ([call for step in run.releases for call in step] for run in (absent, present))
    pairs = [
        (a, b, std)
        for one, other in zip(*calls, strict=True)
        for a, b, std in zip(one.sums, other.sums, one.stds, strict=True)
    ]
    if any(a.shape != b.shape for a, b, _ in pairs) or not pairs:
        raise ValueError(
            "absent and present must be runs of one step with noise on the same tensors"
        )
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
    of: Callable[[StepTrace], float],
    rng: np.random.Generator,
    trials: int,
    indices: Sequence[int] = (0,),
) -> Floats:
    """A statistic of runs from the same weights with other draws and noise, (trials,)."""
    runs = (
        once(step, new_gan, batch, settings=settings, indices=indices, seed=seed)
        for seed in rng.integers(1, SEEDS, size=trials).tolist()
    )
    return np.array([of(one) for one in runs])


def _tensors(thing: Any, name: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    """Copies of tensors in networks, optimisers, containers, attributes."""
    if not isinstance(thing, type) and id(thing) not in seen:
        seen.add(id(thing))
        parts = getattr(thing, "__dict__", {})
        if isinstance(thing, Tensor):
            yield name, thing.detach().clone()
            parts = {"grad": thing.grad} if thing.is_leaf else {}
        elif isinstance(thing, dict):
            parts = {k if isinstance(k, str) else i: thing[k] for i, k in enumerate(thing)}
        elif isinstance(thing, list | tuple | set):
            parts = dict(zip(getattr(thing, "_fields", range(len(thing))), thing, strict=True))
        for key, part in parts.items():
            hidden = key in ("_parameters", "_buffers", "_modules")
            yield from _tensors(part, name if hidden else f"{name}.{key}".lstrip("."), seen)
