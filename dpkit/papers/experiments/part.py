"""One part of a table or figure: what is computed, stored, priced and timed by itself."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpkit.common.progress import Progress
from dpkit.common.records import json_number
from dpkit.privacy.ledger import Guarantee


class Result(NamedTuple):
    """What one part of a table measured."""

    values: dict[str, Any]  # JSON values
    data: dict[str, str]  # data set -> sha256 of what was read
    device: str
    images: np.ndarray | None = None  # samples worth looking at, uint8


class Part(NamedTuple):
    """One part of a table or figure, computed and stored by itself: a run can be resumed.

    prices: what a run of stored values costs by today's accountants; None where it has no price.
    after: name of the part of the same table whose by-product this one reuses, such as a trained
        network: what computes parts side by side begins this one when that one is done.
    """

    name: str
    settings: dict[str, Any]
    seed: int | None
    compute: Callable[[], Result]
    prices: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    after: str | None = None


class Plan(Protocol):
    """Lists the parts of a table or figure; its docstring is what the command line shows of it."""

    def __call__(
        self, *, scale: str, seeds: int, device: str, progress: Progress
    ) -> list[Part]: ...


def priced(
    proven: Guarantee, *, claimed: float | None, assumptions: Iterable[str] = ()
) -> dict[str, Any]:
    """What a run costs, as JSON values: the claimed epsilon, and the proven one with its terms.

    Args:
        proven: what an accountant says of the run's ledger; its epsilon may be infinite.
        claimed: the epsilon that was stated for the run, None where none was.
        assumptions: what the price rests on beside what the accountant assumes.
    """
    return {
        "epsilon_claimed": json_number(claimed),
        "epsilon_proven": json_number(proven.epsilon),
        "delta": proven.delta,
        "adjacency": proven.adjacency,
        "method": proven.method,
        "assumptions": [*proven.assumptions, *assumptions],
    }
