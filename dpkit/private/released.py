"""One release: the noised sum of a batch's clipped gradients. All private training goes here."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dpkit.private.plan import Plan
from dpkit.training import Gradients, clipped_sum, gradient_penalty, noised, paired, per_example
from dpkit.training.gradients.factored import PerExample

AT_MOST = 1024  # examples at a time, so that no Poisson batch is too large for the memory

PerExampleOf = Callable[..., tuple[PerExample, Tensor]]


class Released(NamedTuple):
    """A release, and what was measured on the way, which is private: only `means` is released."""

    parameters: list[Tensor]
    means: list[Tensor]  # noised sums over the expected batch size, one for each parameter
    loss: Tensor  # (), mean over the batch, 0 where it is empty
    clipped: Tensor  # (), share of the batch whose gradient was scaled down


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
    sums = found.sums  # processes that share a batch add their sums up here, before the noise
    noisy = noised(sums, noise_std=plan.noise_std, rng=rng)
    batch = max(len(found.losses), 1)
    return Released(
        found.parameters,
        [total / plan.batch_size for total in noisy],
        found.losses.sum() / batch,
        (found.weights < 1).sum() / batch,
    )


def penalised(critic: nn.Module, weight: float) -> PerExampleOf:
    """WGAN-GP's loss of (real, fake, mixing, *conditions), to be given to `released`."""

    def of(real: Tensor, fake: Tensor, mixing: Tensor, *conditions: Tensor):
        return gradient_penalty.per_example(
            critic, real, fake, *conditions, mixing=mixing, weight=weight
        )

    return of


def two_sided(
    critic: nn.Module, real_loss: Callable[[Tensor], Tensor], fake_loss: Callable[[Tensor], Tensor]
) -> PerExampleOf:
    """real_loss(critic(real)) + fake_loss(critic(fake)) of (real, fake, *conditions)."""

    def of(real: Tensor, fake: Tensor, *conditions: Tensor) -> tuple[PerExample, Tensor]:
        first, of_real = per_example(critic, real_loss, real, *conditions)
        second, of_fake = per_example(critic, fake_loss, fake, *conditions)
        if isinstance(first, Gradients) and isinstance(second, Gradients):
            return paired(first, second), of_real + of_fake
        both = _Both(critic, real_loss, fake_loss)
        return per_example(both, _itself, real, fake, *conditions)

    return of


class _Both(nn.Module):
    """The two losses as one network, for critics whose gradients are not products."""

    def __init__(self, critic: nn.Module, *losses: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.critic, self.losses = critic, losses

    def forward(self, real: Tensor, fake: Tensor, *conditions: Tensor) -> Tensor:
        of_real, of_fake = (self.critic(x, *conditions) for x in (real, fake))
        return self.losses[0](of_real) + self.losses[1](of_fake)


def _itself(losses: Tensor) -> Tensor:
    return losses
