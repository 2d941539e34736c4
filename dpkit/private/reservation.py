"""A run's place in a budget file: reserved when it begins, known again when it is resumed."""

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from dpkit.privacy.ledger import Release
from dpkit.private.budget import Budget
from dpkit.private.data import checksum
from dpkit.training import Checkpoints, ranks
from dpkit.training.checkpoint.ledger import read_charged


def reservation(
    budget: Budget | None,
    ledger: list[Release],
    data: tuple[Tensor, ...],
    place: Checkpoints | None,
    seed: int | None = None,
) -> Callable[[], None]:
    """What charges one run to a budget, if there is one; of several ranks, once.

    It is to be called when `train` is sure to take its first step. A run with a checkpoint is
    known by the identity of its ledger of steps, which lies there by then, and is charged once.

    Raises: now and when it is called, as `Budget.reserve`.
    """
    if budget is None or ranks.here().rank:
        return lambda: None
    of = checksum(data)

    def run() -> str | None:
        charged = None if place is None else read_charged(Path(place.path))
        return None if charged is None else charged.identity

    budget.check(ledger, data=of, run=run(), seed=seed)
    return lambda: budget.reserve(ledger, data=of, run=run(), seed=seed)
