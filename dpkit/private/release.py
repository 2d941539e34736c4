"""One release: the batch on hand, losses of one row each, clipped and noised gradients.

All private training goes through `released`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dpkit.common import checks
from dpkit.private.plan import Plan
from dpkit.training import (
    Gradients,
    PerExample,
    clipped_sum,
    gradient_penalty,
    noised,
    paired,
    per_example,
)
from dpkit.training.gradients import MixesExamples, functional, independence, unsupported
from dpkit.training.gradients.independence import extents, meet

# Examples at a time: no Poisson batch is too large for the memory
MICROBATCH_SIZE = 1024
PerExampleOf = Callable[..., tuple[PerExample, Tensor]]
REMEDY = (
    "pass those that the loop yields, or views of their rows; change images by transform=, or "
    "within the loss"
)


class CurrentBatch:
    """The batch on hand, and the rows that a step may take of it.

    Amplification by sampling holds for one release a batch, each row of which comes from one
    record. So a step takes tensors of the batch as drawn, or views in which row i is of row i.
    """

    def __init__(self, data: tuple[Tensor, ...]) -> None:
        self._data = extents(*data)
        self.rows: tuple[Tensor, ...] = ()
        self.unused = False  # whether no step has used the rows
        self._kept: list[Tensor] = []  # copies of the rows
        self._process, self._lock = os.getpid(), Lock()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One draw or step at a time, in the process that made this (else RuntimeError)."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "a forked process would repeat the noise of its parent's Private; make a new one "
                "in each process"
            )
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "a step is running, in another thread or around this call: train in one thread, "
                "and call step outside of losses and hooks"
            )
        try:
            yield
        finally:
            self._lock.release()

    def next(self, rows: tuple[Tensor, ...]) -> None:
        """Take a batch that was just drawn."""
        self.rows, self.unused = rows, True
        self._kept = [row.clone() for row in rows]

    def take(self, given: Sequence[Any]) -> list[Tensor]:
        """Check the rows of a step.

        RuntimeError: no batch was drawn, or it was already used. TypeError, ValueError: a tensor is
        not of the batch.
        """
        if not self.rows:
            raise RuntimeError(
                "no batch was drawn yet: call step within `for x, y in private:`"
            )
        if not self.unused:
            raise RuntimeError(
                "this batch was already used for a step, and amplification by sampling holds for "
                "one release a batch: draw the next one, also for a second critic step"
            )
        if not given:
            raise ValueError("step takes the batch after the loss: private.step(loss, x, y)")
        batch = len(self.rows[0])
        for row in given:
            if not isinstance(row, Tensor):
                raise TypeError(f"step takes tensors of rows, got {type(row).__name__}")
            if not row.ndim or len(row) != batch:
                raise ValueError(
                    f"rows must come from the batch just drawn, of {batch} records, got a tensor "
                    f"of shape {tuple(row.shape)}; {REMEDY}"
                )
            if meet(extents(row), self._data):
                raise ValueError(
                    f"a slice of the data was given in place of the batch just drawn; {REMEDY}"
                )
        if not all(map(independence.equal, self.rows, self._kept)):
            with self.exchanged(self._kept):  # after which it is put back
                raise ValueError(
                    f"the batch was changed in place, and is now restored; {REMEDY}"
                )
        for row in given if batch else ():
            if not any(_is_row_by_row(row, of) for of in self.rows):
                raise ValueError(
                    "a tensor is not of the batch just drawn, or has its rows in another order; "
                    f"{REMEDY}"
                )
        return [row.detach() for row in given]

    @contextmanager
    def exchanged(self, records: Sequence[Tensor]) -> Iterator[None]:
        """Within the block, the batch's memory, with all its views, holds other records.

        Of fewer records the batch's own tensors, not views of them, are as short.
        """
        whole = [row.data for row in self.rows]  # of data no graph refuses a change
        try:
            for row, other in zip(self.rows, records, strict=True):
                row.data = row.data[: len(other)].copy_(other)
            yield
        finally:
            for row, own, kept in zip(self.rows, whole, self._kept, strict=True):
                row.data = own.copy_(kept)


def _is_row_by_row(view: Tensor, base: Tensor) -> bool:
    """Whether each row of the view lies within the same row of a contiguous base."""
    same = view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    if not same or (view.device, view.dtype) != (base.device, base.dtype):
        return False
    start = view.storage_offset() - base.storage_offset()
    sides = zip(view[0].shape, view[0].stride(), strict=True)
    reach = sum((n - 1) * step for n, step in sides)
    within = base[0].numel()
    apart = len(view) == 1 or view.stride(0) == within
    return apart and 0 <= start <= start + reach < within


class RowLoss(nn.Module):
    """loss(*rows) -> (batch,) as a network around `net`: labels are inputs, closures may use it."""

    def __init__(self, net: nn.Module, of_rows: Callable[..., Tensor]) -> None:
        super().__init__()
        self.net, self.of_rows = net, of_rows

    def forward(self, *rows: Tensor) -> Tensor:
        return self.of_rows(*rows)

    def tried(self, batch: CurrentBatch, *rows: Tensor) -> None:
        """Run on a batch's rows; refuse a loss that takes others, or of another network.

        Raises:
            TypeError: it takes other arguments.
            ValueError: it does not run on them, or does not depend on the network.
            MixesExamples: it mixes the batch's rows where it reads them from around it.
        """
        if unlike := unsupported.does_not_take(self.of_rows, len(rows)):
            raise TypeError(f"the loss must take the {len(rows)} tensors of rows: {unlike}")
        with functional.still(self):  # else its vectors would tell of an empty batch
            independence.set_up(self, *rows)
        with independence.undisturbed(self), torch.enable_grad():
            try:
                losses = self(*rows)
            except (RuntimeError, TypeError, IndexError) as error:
                shapes = ", ".join(f"{tuple(row.shape)} {row.dtype}" for row in rows)
                raise ValueError(
                    f"the loss does not run on rows of {shapes}: {error}; "
                    f"{_remedy(error, rows[0])}this step was not charged; {checks.TO_YOURSELF}"
                ) from None
        losses = unsupported.one_each(losses, len(rows[0]))
        own = [p for p in self.net.parameters() if p.requires_grad]
        found = losses.requires_grad and torch.autograd.grad(
            losses.sum(), own, allow_unused=True
        )
        if not found or all(gradient is None for gradient in found):
            raise ValueError(
                "the loss must depend on the parameters of net; does it call another network?"
            )
        with torch.no_grad():
            self._keeps_apart(batch, rows)

    def _keeps_apart(self, batch: CurrentBatch, rows: tuple[Tensor, ...]) -> None:
        """Another first record, or no last one, moves no other row's loss."""

        def run(*some: Tensor) -> Tensor:
            with (
                batch.exchanged([row[: len(some[0])] for row in batch.rows]),
                independence.undisturbed(self),
            ):
                return self(*some).clone()

        before, last = run(*rows), len(rows[0]) - 1
        if not independence.equal(before, run(*rows)):
            return  # `per_example` says why
        with batch.exchanged([torch.cat((row[-1:], row[1:])) for row in batch.rows]):
            after = run(*rows)
        same = independence.equal(before[1:], after[1:])
        if not same or (last and independence.moved_by(run, rows, before) is not None):
            raise MixesExamples(independence.MEETING.format(row=last if same else 0))


def _remedy(error: Exception, rows: Tensor) -> str:
    """The remedy for rows of such a type or shape, as part of a sentence, or ""."""
    if "type" in str(error) and not rows.is_floating_point():
        return (
            "whole numbers stay so, as tokens for nn.Embedding, and as features need "
            "transform=lambda x: x.float(); "
        )
    last = "channels" in str(error) and rows.shape[3:] in ((1,), (3,), (4,))
    return "channels come first: give x.permute(0, 3, 1, 2); " if last else ""


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
    critic: nn.Module,
    real_loss: Callable[[Tensor], Tensor],
    fake_loss: Callable[[Tensor], Tensor],
) -> PerExampleOf:
    """real_loss(critic(real)) + fake_loss(critic(fake)) of (real, fake, *conditions)."""

    def of(real: Tensor, fake: Tensor, *conditions: Tensor) -> tuple[PerExample, Tensor]:
        first, of_real = per_example(critic, real_loss, real, *conditions)
        second, of_fake = per_example(critic, fake_loss, fake, *conditions)
        if isinstance(first, Gradients) and isinstance(second, Gradients):
            return paired(first, second), of_real + of_fake
        return per_example(
            _both(critic, real_loss, fake_loss), itself, real, fake, *conditions
        )

    return of


@lru_cache(maxsize=1)  # its checks are remembered
def _both(critic: nn.Module, *losses: Callable[[Tensor], Tensor]) -> RowLoss:
    """The two losses as one network, for critics whose gradients are not products."""

    def both(real: Tensor, fake: Tensor, *conditions: Tensor) -> Tensor:
        of_real, of_fake = (critic(x, *conditions) for x in (real, fake))
        return losses[0](of_real) + losses[1](of_fake)

    return RowLoss(critic, both)


class Released(NamedTuple):
    """A release, and private measurements: only `means` is released."""

    parameters: list[Tensor]
    means: list[Tensor]  # noised sums over the expected batch size, one for each parameter
    loss: Tensor  # (), mean over the batch, 0 where it is empty
    clipped: Tensor  # (), share of the batch whose gradient was scaled down
    not_finite: Tensor  # (), share that counted as zero, its gradient not being finite


def released(
    of: PerExampleOf,
    *rows: Tensor,
    plan: Plan,
    rng: torch.Generator,
    microbatch_size: int = MICROBATCH_SIZE,
) -> Released:
    """A batch's gradients, clipped example by example, summed, and noised once.

    Args:
        of: per-example gradients and losses of rows (see `dpkit.training.clipped_sum`).
        rows: tensors whose first dimension is the example's; the batch may be empty.
        plan: clipping, noise and divisor.
        rng: generator of the noise, on the rows' device.
        microbatch_size: examples at a time.
    """
    found = clipped_sum(of, *rows, rule=plan.clipping, microbatch_size=microbatch_size)
    noisy = noised(found.sums, noise_std=plan.noise_std, rng=rng)
    batch = max(len(found.losses), 1)
    return Released(
        found.parameters,
        [total / plan.batch_size for total in noisy],
        found.losses.sum() / batch,
        ((found.weights > 0) & (found.weights < 1)).sum() / batch,
        (found.weights == 0).sum() / batch,
    )
