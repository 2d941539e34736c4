"""A history of releases, and the guarantee an accountant gives for it.

Files hold it as rows of numbers (`rows`), which `dpkit epsilon --ledger` reads.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpkit.common import checks
from dpkit.privacy.mechanisms import (
    ADJACENCIES,
    Adjacency,
    Floats,
    Gaussian,
    Mechanism,
    SampledGaussian,
    Unsupported,
    WithoutReplacementGaussian,
    as_orders,
    unknown,
)


class Release(NamedTuple):
    """`count` releases by the same mechanism."""

    mechanism: Mechanism
    count: int = 1


class Guarantee(NamedTuple):
    """An accountant's result for a ledger.

    epsilon: an upper bound in nats, `inf` where nothing finite is proven.
    delta: the delta it holds at.
    lower: a proven lower bound on the ledger's epsilon, 0 where the accountant proves none.
    adjacency: "add-remove" or "replace-one".
    method: accountant, conversion and the order that decided.
    assumptions: what must be true of the run for the bound to hold.
    """

    epsilon: float
    delta: float
    lower: float
    adjacency: Adjacency
    method: str
    assumptions: tuple[str, ...]


MOST_RELEASES = 10**15
# Of a ledger that was chosen from what it released sums prove nothing: that needs `filters`.
FIXED = (
    "noise, sampling and number of releases were fixed beforehand, not by what was released"
)


@dataclass(frozen=True)
class Ledger:
    """A history of releases, read and checked once for every accountant.

    releases: equal mechanisms merged, in order of first appearance, each with a count > 0.
    adjacency: that of all entries, also of those with count 0; "add-remove" for an empty ledger.
    """

    releases: tuple[Release, ...]
    adjacency: Adjacency

    def __post_init__(self) -> None:
        """Refuse what `of` would not have made (ValueError): a count that is no integer > 0, ..."""
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)
        if not isinstance(self.releases, tuple):
            raise ValueError("releases must be a tuple; call Ledger.of(releases)")
        entries = [_checked(entry) for entry in self.releases]
        if not all(one.count and one.mechanism.adjacency == self.adjacency for one in entries):
            raise ValueError(
                f"releases must have counts > 0 under {self.adjacency}; call Ledger.of(releases)"
            )
        object.__setattr__(self, "releases", tuple(entries))

    @classmethod
    def of(cls, entries: "Releases") -> "Ledger":
        """Check a list of releases, and merge equal mechanisms.

        Raises:
            ValueError: it is not a list or tuple (a generator can be read only once, and costs
                nothing when it was read before), an entry is not a Release, a count is not an
                integer in [0, 10^15], or adjacencies are mixed, whose costs do not add up.
        """
        if isinstance(entries, Ledger):
            return entries
        listed: Any = [entries] if isinstance(entries, Release) else entries
        if not isinstance(listed, list | tuple):
            once = isinstance(listed, Iterable)
            remedy = "pass list(...) of it" if once else "pass [Release(...), ...]"
            raise ValueError(
                "ledger must be a list of Release(mechanism, count), got "
                f"{type(listed).__name__}; {remedy}"
            )
        counts: dict[Mechanism, int] = {}
        for mechanism, count in map(_checked, listed):
            counts[mechanism] = counts.get(mechanism, 0) + count
        adjacencies: set[Adjacency] = {mechanism.adjacency for mechanism in counts}
        if len(adjacencies) > 1:
            raise ValueError(
                f"a ledger must keep to one adjacency, got {' and '.join(sorted(adjacencies))}; "
                "price every release under the same one"
            )
        releases = tuple(Release(mechanism, n) for mechanism, n in counts.items() if n)
        return cls(releases, adjacencies.pop() if adjacencies else "add-remove")

    @property
    def total(self) -> int:
        """The number of releases."""
        return sum(release.count for release in self.releases)

    def rdp(self, orders: ArrayLike) -> Floats:
        """RDP in nats at each order: costs add up (Mironov 2017, Prop. 1).

        Raises:
            ArithmeticError: a price came out as NaN or negative.
        """
        total = np.zeros_like(as_orders(orders))
        for mechanism, count in self.releases:
            total = total + count * mechanism.rdp(orders)
        if not (total >= 0).all():
            raise ArithmeticError(
                f"the ledger's RDP is not a number >= 0 at every order: {total}"
            )
        return total

    def guarantee(
        self,
        *,
        epsilon: float,
        delta: float,
        method: str,
        lower: float = 0.0,
        assume: str = "",
    ) -> Guarantee:
        """The accountant's result with what it assumes: `assume`, after the releases' own."""
        own = [one for mechanism, _ in self.releases for one in mechanism.assumptions]
        if self.releases:
            own.append(FIXED)
        assumed = dict.fromkeys([*own, assume] if assume else own)
        return Guarantee(epsilon, delta, lower, self.adjacency, method, tuple(assumed))


Releases = Sequence[Release] | Release | Ledger


def _checked(entry: Any) -> Release:
    if not (isinstance(entry, tuple) and len(entry) == 2 and hasattr(entry[0], "rdp")):
        raise ValueError(f"ledger must hold Release(mechanism, count) entries, got {entry!r}")
    count = checks.whole(count=entry[1])
    if not count <= MOST_RELEASES:
        raise ValueError(f"count must be at most 10^15 releases, got {count}")
    return Release(entry[0], count)


@dataclass(frozen=True)
class Parallel:
    """One ledger per disjoint part of the data, as one release (see `parallel`)."""

    parts: tuple[Ledger, ...]

    def __post_init__(self) -> None:
        if self.adjacency == "add-remove":
            return
        for mechanism, _ in self._releases:
            if not getattr(mechanism, "hides_participation", False):
                raise Unsupported(
                    "under replace-one a record may change its part, and "
                    f"{type(mechanism).__name__} does not hide how many records take part: "
                    "no finite epsilon covers that"
                )

    @property
    def _releases(self) -> Iterable[Release]:
        return chain.from_iterable(part.releases for part in self.parts)

    @property
    def adjacency(self) -> Adjacency:
        return self.parts[0].adjacency

    @property
    def hides_participation(self) -> bool:
        return all(
            getattr(one.mechanism, "hides_participation", False) for one in self._releases
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (
            "the parts are disjoint, and a record's part does not depend on other records",
            *(one for release in self._releases for one in release.mechanism.assumptions),
        )

    def rdp(self, orders: ArrayLike) -> Floats:
        costs = np.sort(np.stack([part.rdp(orders) for part in self.parts]), axis=0)
        return costs[-1] if self.adjacency == "add-remove" else costs[-2:].sum(axis=0)

    profile = privacy_loss = gaussian_dp = unknown(
        "of parallel parts only Renyi DP is known here; use accountant rdp"
    )


def parallel(*ledgers: Releases) -> list[Release]:
    """The ledger of models trained each on its own disjoint part of the data (one per digit, say).

    A record lies in one part, so under add-remove the most expensive part is the price; under
    replace-one a record may move from one part to another, and the price is the sum of the two
    most expensive parts. Each mechanism must then hide that a record takes part at all.

    Raises:
        ValueError: no ledger given, or they mix adjacencies.
        Unsupported: replace-one, and a mechanism does not hide who takes part.
    """
    if not ledgers:
        raise ValueError("parallel needs at least one ledger")
    parts = [Ledger.of(ledger) for ledger in ledgers]
    together = Ledger.of([release for part in parts for release in part.releases])
    parts = [part if part.releases else Ledger((), together.adjacency) for part in parts]
    return [Release(Parallel(tuple(parts)))]


def rows(ledger: Releases) -> list[dict[str, Any]]:
    """One {noise_multiplier, sample_rate, count, adjacency} for all equal steps.

    For batches drawn without replacement noise_over_sensitivity stands for noise_multiplier. A sum
    over all records has sample_rate 1.

    Raises:
        Unsupported: a release is not the noisy sum of a Poisson batch, nor of one drawn without
            replacement, or its price holds on further assumptions: a row does not say that.
    """
    found = []
    for mechanism, count in Ledger.of(ledger).releases:
        if type(mechanism) is Gaussian:
            mechanism = SampledGaussian(mechanism.noise_multiplier, 1.0, mechanism.adjacency)
        if type(mechanism) not in (SampledGaussian, WithoutReplacementGaussian):
            raise Unsupported(
                f"no row can describe {type(mechanism).__name__}; store it yourself"
            )
        found.append(vars(mechanism) | {"count": count, "adjacency": mechanism.adjacency})
    return found
