"""How far a run may go: the steps that its budget allows, beside those already charged."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any


def steps_to_run(steps: int | None, *, allowed: int, done: int = 0, charged: int = 0) -> int:
    """How many steps the run is to have in all.

    Args:
        steps: as many as are asked for; None for all.
        allowed: as many as the budget allows this run, beside what else is charged.
        done: steps of it that are done.
        charged: steps charged to what was lost, for the error.
    """
    if steps is None:
        steps = allowed
    if not 0 <= steps <= allowed:
        beside = f" beside the {charged} charged to what was lost" if charged else ""
        raise ValueError(
            f"steps must be between 0 and the {allowed} that the settings' budget allows{beside}, "
            f"got {steps}; raise the target epsilon or the noise"
        )
    if steps < done:
        raise ValueError(
            f"steps must be at least the {done} that the checkpoint has done, got {steps}; "
            "give another path for a shorter run"
        )
    return steps


def allowed_after(
    settings: Any, *, charged: Sequence[range], start: int, allowed: int, public_size: int
) -> int:
    """How many steps a run from step `start` may have in all, with those in `charged` on top.

    Where every step costs the same, the steps need only be counted. Else the settings must price
    them, by a method `steps_allowed_after(charged, *, start, public_size)` that answers this.

    Args:
        settings: a paper's.
        charged: indices of the steps that were charged to earlier runs, a range for each.
        start: first step of this run.
        allowed: what `steps_allowed` says of one run from step 0.
        public_size: declared size of the data.

    Raises:
        ValueError: the cost differs by step, or cannot be told, and there is no such method.
    """
    charged = [indices for indices in charged if indices]
    if not charged:
        return allowed
    price = getattr(settings, "steps_allowed_after", None)
    if price is not None:
        return price(charged, start=start, public_size=public_size)
    if not _costs_the_same(settings, allowed, public_size):
        raise ValueError(
            "the cost of a step must be the same for all to count steps that are charged again: "
            "settings.ledger(public_size=..., steps=...) does not say so of "
            f"{type(settings).__name__}; give it a method steps_allowed_after(charged, *, start, "
            "public_size) that prices ranges of steps, or begin anew at another path"
        )
    return max(allowed - sum(map(len, charged)) + start, 0)


def _costs_the_same(settings: Any, steps: int, public_size: int) -> bool:
    """Whether the ledger of n steps is n times what one step adds."""
    ledger = getattr(settings, "ledger", None)
    if ledger is None:
        return False
    none, one, every = (Counter() for _ in range(3))
    for count, found in ((0, none), (1, one), (steps, every)):
        for mechanism, times in ledger(public_size=public_size, steps=count):
            if not isinstance(mechanism, Hashable):
                return False
            found[mechanism] += times
    kinds = none.keys() | one.keys() | every.keys()
    return all(every[kind] - none[kind] == steps * (one[kind] - none[kind]) for kind in kinds)
