"""DP-SGD run again and again, by the release of `dpkit.Private` with a plan that is made once."""

from collections.abc import Iterator, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from dpkit.private.plan import Plan
from dpkit.private.release import Released, itself, released
from dpkit.training import per_example, update
from dpkit.training.batches import batches


def dp_sgd(
    losses: nn.Module,
    rows: tuple[Tensor, ...],
    *,
    start: Mapping[str, Tensor],
    plan: Plan,
    learning_rate: float,
    rng: torch.Generator,
) -> Iterator[Released]:
    """Train once from `start`, as `Private` does: Poisson batches, one release each, plain SGD.

    Args:
        losses: a network from rows to their losses, (batch,); trained in place.
        rows: the records of this run's world, each tensor with the record first.
        start: initial weights, as `state_dict` gives them.
        plan: steps, sampling, clipping and noise.
        learning_rate: of SGD, along noised means.
        rng: of batches and noise.

    Yields:
        each step's release, when its update is made.
    """
    losses.load_state_dict(start)
    optimizer = torch.optim.SGD(losses.parameters(), lr=learning_rate)
    draws = batches(plan.sampling, size=len(rows[0]), public_size=plan.public_size, rng=rng)
    for _ in range(plan.steps):
        chosen = next(draws)
        batch = (part[chosen] for part in rows)
        found = released(partial(per_example, losses, itself), *batch, plan=plan, rng=rng)
        update(optimizer, found.parameters, found.means)
        yield found
