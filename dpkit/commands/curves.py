"""epsilon --curve: epsilon over delta and delta over epsilon, as CSV."""

import csv
import io
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpkit import __version__
from dpkit.commands.pricing import Pricing
from dpkit.common import files
from dpkit.privacy.ledger import Guarantee, Releases

DELTAS = np.logspace(-12, -1, 23)
EPSILONS = 24  # from 0 to the epsilon of the smallest delta
# Of every (epsilon, delta) one was given; at that delta no epsilon below the last is possible
COLUMNS = ("given", "epsilon", "delta", "epsilon_at_least", "adjacency", "method", "version")


class Point(NamedTuple):
    """A price, of which delta or epsilon was given."""

    given: str
    found: Guarantee


def write(path: str, pricing: Pricing, ledger: Releases, delta: float) -> None:
    """Write the run's curves to this file, whole or not at all.

    Raises:
        ValueError: the file's name does not end in .csv.
        OSError: it cannot be written.
    """
    if Path(path).suffix.lower() != ".csv":
        raise ValueError(f"--curve must end in .csv, got {path!r}")
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for given, one in points(pricing, ledger, delta):
        numbers = map(repr, (one.epsilon, one.delta, one.lower))
        rows.writerow((given, *numbers, one.adjacency, one.method, __version__))
    files.write_bytes(Path(path), text.getvalue().encode())


def points(pricing: Pricing, ledger: Releases, delta: float) -> list[Point]:
    """Epsilon at 24 deltas, the one given among them, then delta at 24 epsilons from 0 on."""
    over_delta = [pricing.epsilon(ledger, one) for one in sorted({*DELTAS.tolist(), delta})]
    most = next((one.epsilon for one in over_delta if math.isfinite(one.epsilon)), 1.0)
    over_epsilon = [
        pricing.delta(ledger, one) for one in np.linspace(0, most or 1.0, EPSILONS)
    ]
    return [
        *(Point("delta", one) for one in over_delta),
        *(Point("epsilon", one) for one in over_epsilon),
    ]
