"""A run's place in a budget file: reserved before it begins, known again when it is resumed."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from torch import Tensor

from dpkit.privacy.ledger import Release
from dpkit.private.budget import Budget
from dpkit.private.data import checksum
from dpkit.training import Checkpoints, ranks
from dpkit.training.checkpoint.ledger import read_charged
from dpkit.training.types import Record


class Reservation:
    """One run's charge to a budget, if there is one.

    A run with a checkpoint is recognised by the identity of its ledger of steps, which exists from
    its first moments: one that crashes before is charged again, and none is charged too little.
    """

    def __init__(
        self,
        budget: Budget | None,
        ledger: list[Release],
        data: tuple[Tensor, ...],
        place: Checkpoints | None,
        seed: int | None = None,
    ) -> None:
        """Reserve the ledger, unless the run at `place` has done so; of several ranks, once.

        Raises: as `Budget.reserve`.
        """
        self._budget, self._place = None if ranks.here().rank else budget, place
        if self._budget is not None:
            run, of = self._identity(), checksum(data)
            self._id = self._budget.reserve(ledger, data=of, run=run, seed=seed)

    def _identity(self) -> str | None:
        charged = None if self._place is None else read_charged(Path(self._place.path))
        return None if charged is None else charged.identity

    def named(self, records: Iterable[Record]) -> Iterator[Record]:
        """The same records; at the first, the reservation takes the run's identity."""
        for i, record in enumerate(records):
            if i == 0 and self._budget is not None and self._place is not None:
                self._budget.name(self._id, self._identity() or "")
            yield record
