"""One release: the noised sum of a batch's clipped gradients. All private training goes here."""

from typing import NamedTuple

import torch
from torch import Tensor

from dpkit.private.losses import PerExampleOf
from dpkit.private.plan import Plan
from dpkit.training import clipped_sum, noised

AT_MOST = 1024  # examples at a time, so that no Poisson batch is too large for the memory


class Released(NamedTuple):
    """A release, and what was measured on the way, which is private: only `means` is released."""

    parameters: list[Tensor]
    means: list[Tensor]  # noised sums over the expected batch size, one for each parameter
    loss: Tensor  # (), mean over the batch, 0 where it is empty
    clipped: Tensor  # (), share of the batch whose gradient was scaled down
    not_finite: Tensor  # (), share that counted as zero, its gradient not being finite


def released(
    of: PerExampleOf, *rows: Tensor, plan: Plan, rng: torch.Generator, at_most: int = AT_MOST
) -> Released:
    """The gradients of a batch, clipped example by example, summed, and noised once.

    Args:
        of: per-example gradients and losses of rows (see `dpkit.training.clipped_sum`).
        rows: tensors whose first dimension is the example's; the batch may be empty.
        plan: clipping, noise and divisor.
        rng: generator of the noise, on the rows' device.
        at_most: examples at a time.
    """
    found = clipped_sum(of, *rows, rule=plan.clipping, at_most=at_most)
    noisy = noised(found.sums, noise_std=plan.noise_std, rng=rng)
    batch = max(len(found.losses), 1)
    return Released(
        found.parameters,
        [total / plan.batch_size for total in noisy],
        found.losses.sum() / batch,
        ((found.weights > 0) & (found.weights < 1)).sum() / batch,
        (found.weights == 0).sum() / batch,
    )
