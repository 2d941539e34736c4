"""What is tried before a step is charged: all that it will run, and what that reads."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from dpkit import checks
from dpkit.privacy.clipping import FlatClipping
from dpkit.private.batch import REMEDY, Drawn
from dpkit.private.data import extreme_places
from dpkit.private.losses import PerExampleOf, RowLoss
from dpkit.private.networks import try_step
from dpkit.training import clipped_sum
from dpkit.training.gradients.self_check import undisturbed
from dpkit.training.reads import Extent, Watched, extents, now_and_then


class Trial:
    """Tries each loss before its first step, and now and then watches what a later one reads.

    Args:
        optimizer: is tried beside the first loss.
        data: of all records.
        memory: where they lie: no loss, network or optimiser may read there.
        drawn: the batch on hand.
        rows_of: a batch's tensors, from the places of its records.
        rule: of the clipping.
        at_most: examples at a time.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        data: tuple[Tensor, ...],
        memory: Sequence[Extent],
        drawn: Drawn,
        *,
        rows_of: Callable[[Tensor], tuple[Tensor, ...]],
        rule: FlatClipping,
        at_most: int,
    ) -> None:
        self._optimizer, self._data, self._memory, self._drawn = optimizer, data, memory, drawn
        self._rows_of, self._rule, self._at_most = rows_of, rule, at_most
        self._seen: set[Any] = set()

    def look(
        self, name: Any, forward: nn.Module, of: PerExampleOf, *rows: Tensor
    ) -> AbstractContextManager[Any]:
        """Try a loss that was not seen yet, or watch it now and then; nothing is charged.

        Args:
            name: of the loss: its code.
            forward: the loss, or the network, of the rows.
            of: gradients of it, example by example.
            rows: of the batch on hand, and what was made beside them.

        Returns:
            what the optimiser's step is watched by, where this one is.
        """
        first = name not in self._seen and len(rows[0]) > 0
        if not (first or now_and_then()):
            return nullcontext()
        few = [row[: self._at_most] for row in rows]
        with Watched("the loss", self._memory, remedy=REMEDY):
            if first and isinstance(forward, RowLoss):
                forward.tried(*few)
            else:
                with torch.no_grad(), undisturbed(forward):
                    forward(*few)
        if first:
            self._try(forward, of, few)
            self._seen.add(name)
        return self._optimizer_watched()

    def _try(self, network: nn.Module, of: PerExampleOf, rows: Sequence[Tensor]) -> None:
        for others in (rows, *self._with_extreme_labels(rows)):
            try:
                with undisturbed(network):
                    clipped_sum(of, *others, rule=self._rule, at_most=self._at_most)
            except (RuntimeError, IndexError, ValueError) as error:
                if others is rows:
                    raise
                raise ValueError(
                    f"the loss does not run on the records with the smallest and largest labels: "
                    f"{error}; {checks.TO_YOURSELF}; this step was not charged"
                ) from error
        if not self._seen:
            with self._optimizer_watched():
                try_step(self._optimizer)

    def _with_extreme_labels(self, rows: Sequence[Tensor]) -> Iterator[list[Tensor]]:
        """As many rows, of these records: a label out of range is found before the run begins."""
        places = extreme_places(self._data)
        for part in places.split(len(rows[0])):
            several = part[torch.arange(len(rows[0])) % len(part)]
            yield self._drawn.exchanged(rows, self._rows_of(several))

    def _optimizer_watched(self) -> Watched:
        places = [*self._memory, *extents(*self._drawn.rows)]
        remedy = "it goes along the noised gradients that it is given, and computes none itself"
        return Watched("the optimizer", places, remedy=remedy)
