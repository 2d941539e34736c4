"""What is tried before a step is charged: all that it will run, and what that reads."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from dpkit import checks
from dpkit.private.batch import REMEDY, Drawn
from dpkit.private.data import extreme_places
from dpkit.private.losses import PerExampleOf, RowLoss
from dpkit.private.networks import try_step
from dpkit.private.plan import Plan
from dpkit.training.gradients import clipped_sum  # of this rank alone: others may not look now
from dpkit.training.gradients.self_check import undisturbed
from dpkit.training.reads import Extent, Watched, extents, now_and_then


class Trial:
    """Tries each loss before its first step, and now and then watches what a later one reads.

    Args:
        net, optimizer: what is trained.
        data: of all records.
        memory: where they lie: no loss, network or optimiser may read there.
        drawn: the batch on hand.
        rows_of: a batch's tensors, from the places of its records.
        plan: how gradients are clipped.
        at_most: examples at a time.
    """

    def __init__(
        self,
        net: nn.Module,
        optimizer: torch.optim.Optimizer,
        data: tuple[Tensor, ...],
        memory: Sequence[Extent],
        drawn: Drawn,
        *,
        rows_of: Callable[[Tensor], tuple[Tensor, ...]],
        plan: Plan,
        at_most: int,
    ) -> None:
        self._net, self._optimizer, self._data = net, optimizer, data
        self._memory, self._drawn, self._rows_of = memory, drawn, rows_of
        self._rule, self._at_most = plan.clipping, at_most
        self._seen: set[Any] = set()

    def look(
        self, name: Any, of: PerExampleOf, *rows: Tensor, loss: RowLoss | None = None
    ) -> AbstractContextManager[Any]:
        """Try a loss that was not seen yet, or watch it now and then; nothing is charged.

        Args:
            name: of the loss: its code.
            of: gradients of it, example by example.
            rows: of the batch on hand, and what was made beside them.
            loss: of the user's own.

        Returns:
            what the optimiser's step is watched by, where this one is.
        """
        first = name not in self._seen and len(rows[0]) > 0
        if not (first or now_and_then()):
            return nullcontext()
        few = [row[: self._at_most] for row in rows]
        if first and loss is not None:
            with self._watched():
                loss.tried(*few)
        self._run(of, few)
        if first:
            self._on_extreme_labels(of, few)
        if first and not self._seen:
            with self._optimizer_watched():
                try_step(self._optimizer)
        self._seen |= {name} if first else set()
        return self._optimizer_watched()

    def _run(self, of: PerExampleOf, rows: Sequence[Tensor]) -> None:
        with self._watched(), undisturbed(self._net):
            clipped_sum(of, *rows, rule=self._rule, at_most=self._at_most)

    def _on_extreme_labels(self, of: PerExampleOf, rows: Sequence[Tensor]) -> None:
        """As many rows, of these records: a label out of range is found before the run begins."""
        for part in extreme_places(self._data).split(len(rows[0])):
            several = part[torch.arange(len(rows[0])) % len(part)]
            others = self._drawn.exchanged(rows, self._rows_of(several))
            try:
                self._run(of, others)
            except (RuntimeError, IndexError, ValueError) as error:
                raise ValueError(
                    f"the loss does not run on the records with the smallest and largest labels: "
                    f"{error}; {checks.TO_YOURSELF}; this step was not charged"
                ) from error

    def _watched(self) -> Watched:
        return Watched("the loss", self._memory, remedy=REMEDY)

    def _optimizer_watched(self) -> Watched:
        places = [*self._memory, *extents(*self._drawn.rows)]
        remedy = "it goes along the noised gradients that it is given, and computes none itself"
        return Watched("the optimizer", places, remedy=remedy)
