"""Losses of one row each, as `clipped_sum` takes them."""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn

from dpkit.common import checks
from dpkit.private.batch import Drawn
from dpkit.training import Gradients, gradient_penalty, paired, per_example
from dpkit.training.gradients import MixesExamples, functional, refused, self_check
from dpkit.training.gradients.by_products import PerExample

PerExampleOf = Callable[..., tuple[PerExample, Tensor]]


class RowLoss(nn.Module):
    """loss(*rows) -> (batch,) as a network around `net`: labels are inputs, closures may use it."""

    def __init__(self, net: nn.Module, of_rows: Callable[..., Tensor]) -> None:
        super().__init__()
        self.net, self.of_rows = net, of_rows

    def forward(self, *rows: Tensor) -> Tensor:
        return self.of_rows(*rows)

    def tried(self, batch: Drawn, *rows: Tensor) -> None:
        """Run on rows of a batch; refuse a loss that takes others, or is of another network.

        Raises:
            TypeError: it takes other arguments.
            ValueError: it does not run on them, or does not depend on the network.
            MixesExamples: it mixes the batch's rows where it reads them from around it.
        """
        if unlike := refused.does_not_take(self.of_rows, len(rows)):
            raise TypeError(f"the loss must take the {len(rows)} tensors of rows: {unlike}")
        with functional.still(self):  # else its vectors would tell an empty batch from another
            self_check.set_up(self, *rows)
        with self_check.undisturbed(self), torch.enable_grad():
            try:
                losses = self(*rows)
            except (RuntimeError, TypeError, IndexError) as error:
                shapes = ", ".join(f"{tuple(row.shape)} {row.dtype}" for row in rows)
                raise ValueError(
                    f"the loss does not run on rows of {shapes}: {error}; this step was not "
                    f"charged; {checks.TO_YOURSELF}"
                ) from None
        losses = refused.one_each(losses, len(rows[0]))
        own = [p for p in self.net.parameters() if p.requires_grad]
        found = losses.requires_grad and torch.autograd.grad(losses.sum(), own, allow_unused=True)
        if not found or all(gradient is None for gradient in found):
            raise ValueError("the loss does not depend on the parameters of net: is it another's?")
        with torch.no_grad():
            self._keeps_apart(batch, rows)

    def _keeps_apart(self, batch: Drawn, rows: tuple[Tensor, ...]) -> None:
        """Another record in the first place, or none in the last, moves no other row's loss."""

        def run(*some: Tensor) -> Tensor:
            with (
                batch.exchanged([row[: len(some[0])] for row in batch.rows]),
                self_check.undisturbed(self),
            ):
                return self(*some).clone()

        before, last = run(*rows), len(rows[0]) - 1
        if not self_check.equal(before, run(*rows)):
            return  # `per_example` says why
        others = [torch.cat((row[-1:], row[1:])) for row in batch.rows]
        with batch.exchanged(others):
            after = run(*rows)
        same = self_check.equal(before[1:], after[1:])
        if not same or (last and self_check.moved_by(run, rows, before) is not None):
            raise MixesExamples(self_check.MEETING.format(row=last if same else 0))


def itself(losses: Tensor) -> Tensor:
    """The loss of what is a loss already."""
    return losses


def penalised(critic: nn.Module, weight: float) -> PerExampleOf:
    """WGAN-GP's loss of (real, fake, mixing, *conditions)."""

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
        both = _both(critic, real_loss, fake_loss)
        return per_example(both, itself, real, fake, *conditions)

    return of


@lru_cache(maxsize=1)  # so that what is checked of it is remembered
def _both(critic: nn.Module, *losses: Callable[[Tensor], Tensor]) -> RowLoss:
    """The two losses as one network, for critics whose gradients are not products."""

    def both(real: Tensor, fake: Tensor, *conditions: Tensor) -> Tensor:
        of_real, of_fake = (critic(x, *conditions) for x in (real, fake))
        return losses[0](of_real) + losses[1](of_fake)

    return RowLoss(critic, both)
