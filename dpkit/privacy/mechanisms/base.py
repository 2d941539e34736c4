"""What every mechanism has in common: it is a frozen value that prices one release by itself."""

from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dpkit.common import checks
from dpkit.privacy.mechanisms.privacy_loss import Floats, PrivacyLoss

Adjacency = Literal["add-remove", "replace-one"]
ADJACENCIES: tuple[str, ...] = ("add-remove", "replace-one")
LARGEST_ORDER = 2**20  # of Renyi divergences; nothing cheaper than 1e-5 needs more


class Unsupported(ValueError):
    """This mechanism has no known price of the kind that was asked for."""


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
    """

    @property
    def adjacency(self) -> Adjacency: ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must hold of the run for the price to be true."""
        ...

    def rdp(self, orders: ArrayLike) -> Floats:
        """Renyi divergence in nats, larger direction, at each order > 1, shape (len(orders),)."""
        ...

    def profile(self, epsilons: ArrayLike) -> Floats:
        """delta(epsilon) in both directions, shape (2, len(epsilons))."""
        ...

    def privacy_loss(self) -> PrivacyLoss:
        """The privacy loss of a dominating pair: what a PLD accountant adds up."""
        ...

    def gaussian_dp(self) -> GaussianDp:
        """mu of Gaussian DP: what the GDP accountant adds up."""
        ...


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
    return array


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
    """How far a sum of vectors clipped at 1 moves."""
    return 1.0 if adjacency == "add-remove" else 2.0
