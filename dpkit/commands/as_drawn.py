"""epsilon --sampling: the same run's cost under each way of drawing its batches, side by side."""

from collections.abc import Mapping
from typing import Any

from dpkit import __version__
from dpkit.commands.output import print_json
from dpkit.common import checks
from dpkit.common.show import Table, at_most, interval
from dpkit.privacy import as_drawn
from dpkit.privacy.ledger import Guarantee


def leave_out(options: Mapping[str, Any], reason: str) -> None:
    """Refuse options (ValueError) that are given, and not None, where they mean nothing."""
    for option, value in options.items():
        if value is not None:
            raise ValueError(f"{option} is given, and {reason}; leave it out")


def show(sampling: str, run: Mapping[str, Any], delta: float, *, as_json: bool) -> None:
    """Print a line for each way of drawing batches, the one asked for first.

    Args:
        sampling: a name of as_drawn.WAYS.
        run: the options --noise-multiplier, --steps, --batch-size, --data-size, --largest-batch.
        delta: in (0, 1).
        as_json: one JSON value instead.

    Raises:
        ValueError: an option is missing, of another name, or out of range.
    """
    checks.one_of(tuple(as_drawn.WAYS), sampling=sampling)
    missing = [name for name, value in run.items() if value is None and name != "--largest-batch"]
    if missing:
        raise ValueError(f"--sampling needs {' and '.join(missing)} as well")
    noise, steps, batch_size, data_size, largest = run.values()
    if not 1 <= batch_size <= data_size:
        raise ValueError(
            f"--batch-size must lie between 1 and --data-size, got {batch_size} and {data_size}"
        )
    checks.whole(**{"--steps": steps})
    if largest is not None:
        checks.whole(batch_size, **{"--largest-batch": largest})
    priced = as_drawn.Run(noise, batch_size, data_size, steps)
    if largest is None:
        largest = as_drawn.largest_batch(priced, delta=delta)
    found = as_drawn.every_way(priced, delta=delta, largest=largest)
    found = {sampling: found.pop(sampling), **found}
    if as_json:
        settings = {name[2:].replace("-", "_"): value for name, value in run.items()}
        ways = {name: one._asdict() for name, one in found.items()}
        print_json({**settings, "largest_batch": largest, "version": __version__, "ways": ways})
        return
    rows = [
        (name, _epsilon(one), one.adjacency, as_drawn.WAYS[name]) for name, one in found.items()
    ]
    notes = (
        f"At delta {delta:g}, certified; truncated batches hold {largest} records at most.",
        "To replace a record is to remove one and to add one: compare lines of one adjacency.",
    )
    print(Table(("batches", "epsilon", "adjacency", "drawn"), rows, notes))


def _epsilon(found: Guarantee) -> str:
    return interval(found.lower, found.epsilon) if found.lower else at_most(found.epsilon)
