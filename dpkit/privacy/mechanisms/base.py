"""The interface of mechanisms: frozen values, each of which prices one release.

Also the distribution of the privacy loss, as cell masses for a PLD accountant, and the price of a
release whose noise protects nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from dpkit.common import checks

Adjacency = Literal["add-remove", "replace-one"]
ADJACENCIES: tuple[str, ...] = ("add-remove", "replace-one")
# What the price of a batch's sum assumes beside how the batch is drawn.
WHOLE_SUM = (
    "a batch's noisy sum is released whole or over a public number; the size of the batch is not "
    "released"
)
LARGEST_ORDER = 2**20  # of Renyi divergences; nothing cheaper than 1e-5 needs more
Floats = NDArray[np.float64]
UNIT = 2.0**-53
UNKNOWN = np.inf, 0.0  # epsilon and delta of what is not known to be pure or approximate DP
LEAST_MASS = 1e-200  # below it a mass may have lost its digits
ROUNDING = 6.3e-13  # relative, of any mass above it: what `rounding` is there, at most


def rounding(masses: Floats) -> Floats:
    """The relative error, at most, of masses beyond an edge: it grows with the tail's exponent.

    A normal tail at z has the relative error of z times z^2, which is about 2 |log mass|.
    """
    exponents = np.frexp(np.maximum(masses, LEAST_MASS))[
        1
    ]  # -log(mass) <= log(2) (1 - exponent)
    return UNIT * (24.0 + 8.4 * (1 - exponents))


class PrivacyLoss(NamedTuple):
    """The loss log(dP/dQ) of a pair (P, Q) that dominates every pair of neighbours.

    The pair is for one direction, "a record removed"; the other direction is (Q, P), whose loss
    has the opposite sign (Zhu, Dong, Wang 2022, Def. 7).

    masses: increasing finite edges (n,) -> (2, n + 1): the mass under P (row 0) and Q (row 1) of
        the losses in (-inf, e_0], (e_0, e_1], ..., (e_{n-1}, inf). The mass beyond an edge, summed
        from either side, is off by a relative `rounding` at most, beside what moving the edge by a
        relative 16 UNIT would do; below LEAST_MASS only its size is right.
    lattice: (offset, spacing) where all of the loss's atoms lie at offset + k * spacing, or None.
    blur: by how much further an edge may be off.
    attained: the loss of a pair that two neighbours have, where none have the dominating one: lower
        bounds are of this. None where the dominating pair is itself attained.
    family, parameters: masses is family(*parameters, edges), where parameters may be columns (m, 1)
        and edges (m, n): the masses are then (2, m, n + 1), m losses side by side (`stacked`).
    """

    masses: Callable[[Floats], Floats]
    lattice: tuple[float, float] | None = None
    attained: "PrivacyLoss | None" = None
    blur: float = 0.0
    family: Callable[..., Floats] | None = None
    parameters: tuple[float | Floats, ...] = ()


def of_family(family: Callable[..., Floats], *parameters: float | Floats) -> PrivacyLoss:
    """The loss of a family without atoms, or losses, one for each row of the parameters."""
    return PrivacyLoss(partial(family, *parameters), family=family, parameters=parameters)


def stacked(losses: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """Losses of one family as one, edges with a row for each; or the only loss as it is."""
    first = losses[0]
    if len(losses) == 1:
        return first
    if first.family is None or any(loss.family is not first.family for loss in losses):
        raise ValueError("losses side by side must be of one family")
    columns = np.array([loss.parameters for loss in losses], dtype=np.float64).T[..., None]
    return of_family(first.family, *columns)


def from_atoms(
    losses: Floats, p: Floats, lattice: tuple[float, float] | None, q: Floats | None = None
) -> PrivacyLoss:
    """Finitely many losses (increasing), of mass p under P and q, or p * exp(-loss), under Q."""
    q = p * np.exp(-losses) if q is None else q

    def masses(edges: Floats) -> Floats:
        cells = np.searchsorted(edges, losses, side="left")
        size = edges.size + 1
        return np.stack([np.bincount(cells, w, minlength=size).astype(float) for w in (p, q)])

    return PrivacyLoss(masses, lattice)


def tree_sum(parts: Sequence[Any]) -> Any:
    """The sum of arrays, each of which meets few roundings."""
    while len(parts) > 1:
        pairs = [a + b for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, *parts[2 * len(pairs) :]]
    return parts[0]


def normal_masses(z: Floats) -> Floats:
    """Mass of N(0, 1) below z_0, between neighbours and above z_{n-1}: (..., n + 1), z (..., n)."""
    return between(ndtr(-np.abs(z)), z > 0)


def between(tails: Floats, upper: NDArray[np.bool_]) -> Floats:
    """Masses (..., n + 1) by the mass beyond each of n edges: above it where `upper`, or below."""
    beyond = np.zeros((*tails.shape[:-1], tails.shape[-1] + 2))
    beyond[..., 1:-1] = tails
    sides = np.ones(beyond.shape, dtype=bool)
    sides[..., 0], sides[..., 1:-1] = False, upper
    left, right = beyond[..., :-1], beyond[..., 1:]
    straddling = ~sides[..., :-1] & sides[..., 1:]
    one_side = np.where(sides[..., 1:], left - right, right - left)
    return np.where(straddling, 1.0 - left - right, one_side)


class Unsupported(ValueError):
    """A price that is not known for this mechanism."""


class GaussianDp(NamedTuple):
    """mu of Gaussian DP for one release: a bound, or (not `exact`) the limit of many (CLT)."""

    mu: float
    exact: bool


class Mechanism(Protocol):
    """One release, priced by itself; a price that is not known raises Unsupported.

    `hides_participation = True` says that the price also covers a record that leaves, or comes, and
    not only changes. What needs the number of records to be public (batches drawn without
    replacement, an answer from each) does not hide it; without the attribute it counts as not
    hidden (see `parallel`). `profile_error = 1e-9` bounds the relative error of `profile`'s larger
    direction where it is above 1e-200; without it no certified pair is read from the profile.
    `known_dp` is an (epsilon, delta) by definition; without it there is no pure DP.
    """

    @property
    def adjacency(self) -> Adjacency: ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Conditions on the run under which the price holds."""
        ...

    def rdp(self, orders: ArrayLike) -> Floats:
        """Renyi divergence in nats, larger direction, at each order > 1, shape (len(orders),)."""
        ...

    def profile(self, epsilons: ArrayLike) -> Floats:
        """delta(epsilon) in both directions, shape (2, len(epsilons))."""
        ...

    def privacy_loss(self) -> PrivacyLoss:
        """The privacy loss of a dominating pair, for a PLD accountant."""
        ...

    def gaussian_dp(self) -> GaussianDp:
        """mu of Gaussian DP, for the GDP accountant."""
        ...


def unknown(words: str) -> Callable[..., Any]:
    """A mechanism's method that is not known: it raises `Unsupported` with these words."""

    def method(self: Mechanism, *_: ArrayLike) -> Any:
        raise Unsupported(words)

    return method


class PricedAsOne:
    """A release that costs exactly what another does, `one`."""

    one: Any

    def rdp(self, orders: ArrayLike) -> Floats:
        return self.one.rdp(orders)

    def profile(self, epsilons: ArrayLike) -> Floats:
        return self.one.profile(epsilons)

    def privacy_loss(self) -> PrivacyLoss:
        return self.one.privacy_loss()

    def gaussian_dp(self) -> GaussianDp:
        return self.one.gaussian_dp()


def as_orders(orders: ArrayLike) -> Floats:
    """Orders as a 1-D float array.

    Raises:
        ValueError: an order is not in (1, 2^20], or there is none.
    """
    array = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    if array.ndim != 1 or array.size == 0:
        raise ValueError("orders must be a non-empty list of numbers > 1")
    for order in array:
        if not 1 < order <= LARGEST_ORDER:
            raise ValueError(f"orders must be numbers in (1, {LARGEST_ORDER}], got {order:g}")
    return array


def as_epsilons(epsilons: ArrayLike) -> Floats:
    """Epsilons as a 1-D float array (ValueError where one is NaN)."""
    array = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    if np.isnan(array).any():
        raise ValueError("epsilons must be numbers, got nan")
    # infinite ones become large
    return np.clip(array, -1e100, 1e100)


def at_all(eps: Floats, above: Callable[[Floats], Floats]) -> Floats:
    """A profile (2, n) by what it is at epsilons >= 0, (n,) where both directions are equal.

    H(-e) = 1 - e^-e (1 - H'(e)), H' being the other direction.
    """
    size = np.abs(eps)
    found = np.broadcast_to(above(size), (2, size.size))
    return np.where(eps >= 0, found, -np.expm1(-size) + np.exp(-size) * found[::-1])


def excess(log_p: Floats, log_q: Floats, eps: Floats) -> Floats:
    """(p - exp(eps) q)+ from logs, 0 where p is 0."""
    with np.errstate(invalid="ignore"):
        less = np.where(log_p > -np.inf, np.minimum(eps + log_q - log_p, 0.0), 0.0)
    return np.exp(log_p) * np.abs(np.expm1(less))


def check_noise(value: float, name: str = "noise_multiplier") -> None:
    """Require a noise that is finite, > 0, and whose prices neither overflow nor vanish.

    Raises:
        ValueError: it is not.
    """
    checks.positive(**{name: value})
    if not 1e-9 <= value <= 1e13:
        raise ValueError(f"{name} must lie in [1e-9, 1e13], got {value}")


def moved_by(adjacency: Adjacency) -> float:
    """L2 sensitivity of a sum of vectors clipped at 1."""
    return 1.0 if adjacency == "add-remove" else 2.0


@dataclass(frozen=True)
class NoGuarantee:
    """A release that no finite epsilon covers: it prices as infinity everywhere.

    Args:
        reason: one sentence that says why, shown wherever the price is.
    """

    reason: str
    adjacency: Adjacency = "add-remove"
    hides_participation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (f"no guarantee: {self.reason}",)

    def rdp(self, orders: ArrayLike) -> Floats:
        return np.full_like(as_orders(orders), np.inf)

    def profile(self, epsilons: ArrayLike) -> Any:
        return np.ones((2, as_epsilons(epsilons).size))

    def privacy_loss(self) -> PrivacyLoss:
        """A loss that is certainly infinite."""
        ends = np.array([-np.inf, np.inf])
        return from_atoms(ends, np.array([0.0, 1.0]), None, q=np.array([1.0, 0.0]))

    def gaussian_dp(self) -> GaussianDp:
        return GaussianDp(float("inf"), exact=True)
