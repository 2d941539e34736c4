"""What is tried before a step is charged: all that it will run, and what that reads."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dpkit.common import checks
from dpkit.private.batch import Drawn
from dpkit.private.data import extreme_places
from dpkit.private.losses import PerExampleOf, RowLoss
from dpkit.private.networks import own_step, try_step
from dpkit.private.plan import Plan
from dpkit.training.batches import PUBLIC
from dpkit.training.gradients import clipped_sum  # of this rank alone: others may not look now
from dpkit.training.gradients.self_check import Extent, Watched, extents, now_and_then, undisturbed


@dataclass
class Trial:
    """Tries each loss before its first step, and now and then watches what a later one reads."""

    net: nn.Module  # what is trained
    optimizer: torch.optim.Optimizer
    data: tuple[Tensor, ...]  # of all records
    memory: Sequence[Extent]  # where they lie: no loss, network or optimiser may read there
    drawn: Drawn  # the batch on hand
    rows_of: Callable[[Tensor], tuple[Tensor, ...]]  # a batch, from the places of its records
    plan: Plan  # how gradients are clipped
    at_most: int  # examples at a time
    seen: set[Any] = field(default_factory=set)  # names of losses that were tried

    def look(
        self, name: Any, of: PerExampleOf, *rows: Tensor, loss: RowLoss | None = None
    ) -> AbstractContextManager[Any]:
        """Try a loss that was not seen yet, or watch it now and then; nothing is charged.

        Its name is its code, `of` gives its gradients, `loss` is the user's own; rows are of the
        batch on hand, or were made beside them. Returns the watch over the optimiser's step.
        """
        first = name not in self.seen
        if not len(rows[0]) or not (first or now_and_then()):
            return nullcontext()
        few = [row[: self.at_most] for row in rows]
        places = [*self.memory, *extents(*self.drawn.rows)]
        stepping = Watched("the optimizer", places, remedy="let it compute no gradient itself")
        if first and loss is not None:
            with Watched("the loss", self.memory, remedy=PUBLIC):
                loss.tried(self.drawn, *few)
        self._run(of, *few)
        if first:
            self._on_extreme_labels(loss or partial(self._run, of), few)
            if not self.seen:
                with stepping, own_step(self.optimizer):  # a subclass may call its parent's
                    try_step(self.optimizer)
            self.seen.add(name)
        return stepping

    def _run(self, of: PerExampleOf, *rows: Tensor) -> None:
        with Watched("the loss", self.memory, remedy=PUBLIC), undisturbed(self.net):
            clipped_sum(of, *rows, rule=self.plan.clipping, at_most=self.at_most)

    def _on_extreme_labels(self, run: Callable[..., Any], rows: Sequence[Tensor]) -> None:
        """The same rows, of these records: a label out of range is found before the run begins."""
        for part in extreme_places(self.data).split(len(rows[0])):
            several = part[torch.arange(len(self.drawn.rows[0])) % len(part)]
            try:
                with self.drawn.exchanged(self.rows_of(several)), undisturbed(self.net):
                    run(*rows)
            except (RuntimeError, IndexError, ValueError) as error:
                raise ValueError(
                    f"the loss does not run on the records with the smallest and largest labels: "
                    f"{error}; {checks.TO_YOURSELF}; this step was not charged"
                ) from error
