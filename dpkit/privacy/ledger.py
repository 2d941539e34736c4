"""A history of releases, and the guarantee an accountant gives for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpkit import checks
from dpkit.privacy.mechanisms import (
    Adjacency,
    Floats,
    GaussianDp,
    Mechanism,
    Unsupported,
    as_orders,
)
from dpkit.privacy.privacy_loss import PrivacyLoss


class Release(NamedTuple):
    """`count` releases by the same mechanism."""

    mechanism: Mechanism
    count: int = 1


Ledger = Sequence[Release]
MOST_RELEASES = 10**15


class Guarantee(NamedTuple):
    """What an accountant proves of a ledger.

    epsilon: an upper bound in nats, `inf` where nothing finite is proven.
    lower: a proven lower bound on the ledger's epsilon, 0 where the accountant proves none.
    delta: the delta it holds at.
    adjacency: "add-remove" or "replace-one".
    method: accountant, conversion and the order that decided.
    assumptions: what must be true of the run for the bound to hold.
    """

    epsilon: float
    lower: float
    delta: float
    adjacency: Adjacency
    method: str
    assumptions: tuple[str, ...]


def checked(ledger: Ledger) -> list[Release]:
    """The ledger as a list of releases.

    Raises:
        ValueError: an entry is not a Release, or a count is not an integer >= 0.
    """
    releases = []
    for entry in [ledger] if isinstance(ledger, Release) else ledger:
        if not (isinstance(entry, tuple) and len(entry) == 2 and hasattr(entry[0], "rdp")):
            raise ValueError(f"a ledger holds Release(mechanism, count) entries, got {entry!r}")
        checks.whole(count=entry[1])
        if not entry[1] <= MOST_RELEASES:
            raise ValueError("count must be at most 10^15 releases; more cost more than any budget")
        releases.append(Release(*entry))
    return releases


def adjacency_of(ledger: Ledger) -> Adjacency:
    """The one adjacency of all its releases; "add-remove" for an empty ledger.

    Raises:
        ValueError: the ledger mixes adjacencies, whose costs do not add up.
    """
    found: set[Adjacency] = {release.mechanism.adjacency for release in checked(ledger)}
    if len(found) > 1:
        raise ValueError(
            f"a ledger must keep to one adjacency, got {' and '.join(sorted(found))}; "
            "price every release under the same one"
        )
    return found.pop() if found else "add-remove"


def assumptions_of(ledger: Ledger) -> tuple[str, ...]:
    """What the prices of its releases assume, each once, in order."""
    return tuple(dict.fromkeys(a for r in checked(ledger) for a in r.mechanism.assumptions))


def rdp_of(ledger: Ledger, orders: ArrayLike) -> Floats:
    """The ledger's RDP in nats at each order: costs add up (Mironov 2017, Prop. 1)."""
    total = np.zeros_like(as_orders(orders))
    for mechanism, count in checked(ledger):
        if count:  # 0 * inf is not a number
            total = total + count * mechanism.rdp(orders)
    return total


@dataclass(frozen=True)
class Parallel:
    """One ledger per disjoint part of the data, as one release (see `parallel`)."""

    parts: tuple[tuple[Release, ...], ...]

    @property
    def adjacency(self) -> Adjacency:
        return adjacency_of([release for part in self.parts for release in part])

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (
            "the parts are disjoint, and a record's part does not depend on other records",
            *assumptions_of([release for part in self.parts for release in part]),
        )

    def rdp(self, orders: ArrayLike) -> Floats:
        costs = np.sort(np.stack([rdp_of(part, orders) for part in self.parts]), axis=0)
        # A replaced record may leave one part and enter another.
        return costs[-1] if self.adjacency == "add-remove" else costs[-2:].sum(axis=0)

    def profile(self, epsilons: ArrayLike) -> Floats:
        raise Unsupported("parallel parts are priced by RDP; their profile is not known here")

    def privacy_loss(self) -> PrivacyLoss:
        raise Unsupported("parallel parts are priced by RDP; their privacy loss is not known here")

    def gaussian_dp(self) -> GaussianDp:
        raise Unsupported("parallel parts are priced by RDP; their mu is not known here")


def parallel(*ledgers: Ledger) -> list[Release]:
    """The ledger of models trained each on its own disjoint part of the data (one per digit, say).

    A record lies in one part, so under add-remove the dearest part is the price; under replace-one
    a record may move from one part to another, and the price is the two dearest parts in sum.

    Raises:
        ValueError: no ledger given, or they mix adjacencies.
    """
    if not ledgers:
        raise ValueError("parallel needs at least one ledger")
    parts = tuple(tuple(checked(ledger)) for ledger in ledgers)
    adjacency_of([release for part in parts for release in part])
    return [Release(Parallel(parts))]
