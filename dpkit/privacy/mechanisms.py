"""What one release costs. Each mechanism is a frozen value that prices itself.

Units: the noise multiplier is noise standard deviation / clip norm C, so a sum of vectors clipped
at C moves by 1 under add-remove and by 2 under replace-one. RDP is in nats.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from dpkit import checks
from dpkit.privacy import sampled_gaussian

Adjacency = Literal["add-remove", "replace-one"]
ADJACENCIES: tuple[str, ...] = ("add-remove", "replace-one")
Floats = NDArray[np.float64]
LARGEST_ORDER = 2**20  # of Renyi divergences; nothing cheaper than 1e-5 needs more


class Unsupported(ValueError):
    """This mechanism has no known price of the kind that was asked for."""


class Mechanism(Protocol):
    """One release, priced by itself."""

    @property
    def adjacency(self) -> Adjacency: ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must hold of the run for the price to be true."""
        ...

    def rdp(self, orders: ArrayLike) -> Floats:
        """Renyi divergence in nats at each order > 1, shape (len(orders),)."""
        ...

    def profile(self, epsilons: ArrayLike) -> Floats:
        """delta(epsilon) in both directions, shape (2, len(epsilons))."""
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


def _as_epsilons(epsilons: ArrayLike) -> Floats:
    array = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    if np.isnan(array).any():
        raise ValueError("epsilons must be numbers, got nan")
    return array


def _check_noise(noise_multiplier: float) -> None:
    """Finite, > 0, and where prices neither overflow nor vanish.

    Raises:
        ValueError: it is not.
    """
    checks.positive(noise_multiplier=noise_multiplier)
    if not 1e-9 <= noise_multiplier <= 1e13:
        raise ValueError(f"noise_multiplier must lie in [1e-9, 1e13], got {noise_multiplier}")


def _sensitivity(adjacency: Adjacency) -> float:
    """How far a sum of vectors clipped at 1 moves."""
    return 1.0 if adjacency == "add-remove" else 2.0


@dataclass(frozen=True)
class Gaussian:
    """A clipped sum plus Gaussian noise of standard deviation noise_multiplier * C.

    Shift C under add-remove, 2C under replace-one.

    Raises:
        ValueError: noise_multiplier is not in [1e-9, 1e13], or adjacency is unknown.
    """

    noise_multiplier: float
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        _check_noise(self.noise_multiplier)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ()

    def rdp(self, orders: ArrayLike) -> Floats:
        """alpha s^2 / 2, s = shift / noise standard deviation (Mironov 2017, Prop. 7)."""
        shift = _sensitivity(self.adjacency) / self.noise_multiplier
        return as_orders(orders) * (shift * shift / 2)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """The exact delta(epsilon), the same in both directions (Balle, Wang 2018, Thm 5)."""
        eps = _as_epsilons(epsilons)
        shift = _sensitivity(self.adjacency) / self.noise_multiplier
        upper, lower = log_ndtr(shift / 2 - eps / shift), eps + log_ndtr(-shift / 2 - eps / shift)
        one = np.exp(upper) * -np.expm1(np.minimum(lower - upper, 0.0))
        return np.stack([one, one])


@dataclass(frozen=True)
class SampledGaussian:
    """A Gaussian release of a Poisson sample: every record enters with probability sample_rate.

    add-remove: the pair (1-q) N(0, s^2) + q N(1, s^2) against N(0, s^2), s the noise multiplier.
    replace-one: (1-q) N(0, s^2) + q N(1, s^2) against (1-q) N(0, s^2) + q N(-1, s^2).

    Raises:
        ValueError: noise_multiplier is not in [1e-9, 1e13], sample_rate is not in [0, 1], or
            adjacency is unknown.
    """

    noise_multiplier: float
    sample_rate: float
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        _check_noise(self.noise_multiplier)
        checks.in_range(0, 1, sample_rate=self.sample_rate)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (
            "Poisson sampling: every record enters each batch independently with the sample rate",
        )

    def rdp(self, orders: ArrayLike) -> Floats:
        """The larger direction, exact at integer and fractional orders.

        Under add-remove it is mixture against N(0) (Mironov, Talwar, Zhang 2019, Thm 5); under
        replace-one the directions are mirror images and equal.
        """
        array = as_orders(orders)
        if self.sample_rate == 0:
            return np.zeros_like(array)
        if self.sample_rate == 1:
            return Gaussian(self.noise_multiplier, self.adjacency).rdp(array)
        price = (
            sampled_gaussian.add_remove
            if self.adjacency == "add-remove"
            else sampled_gaussian.replace_one
        )
        return price(array, q=self.sample_rate, noise=self.noise_multiplier)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """delta(epsilon) exactly: row 0 mixture against N(0), row 1 the reverse; add-remove only.

        Raises:
            Unsupported: under replace-one.
        """
        eps, q, noise = _as_epsilons(epsilons), self.sample_rate, self.noise_multiplier
        if q == 0:
            return np.broadcast_to(np.maximum(0.0, -np.expm1(eps)), (2, eps.size)).copy()
        if q == 1:
            return Gaussian(noise, self.adjacency).profile(eps)
        if self.adjacency != "add-remove":
            raise Unsupported("the sampled Gaussian's profile is known here for add-remove only")
        return np.stack([self._direction(eps, +1), self._direction(eps, -1)])

    def _direction(self, eps: Floats, sign: int) -> Floats:
        """The likelihood ratio grows with x, so the best test is x beyond one threshold."""
        q, noise = self.sample_rate, self.noise_multiplier
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # (1-q) + q exp((2x - 1) / (2 noise^2)) = exp(sign * eps)
            tilt = np.log((np.expm1(sign * eps) + q) / q)
            at = np.where(np.isnan(tilt), -np.inf, noise**2 * tilt + 0.5)
        base, moved = ndtr(-sign * at / noise), ndtr(-sign * (at - 1) / noise)
        mixed = base + q * (moved - base)
        with np.errstate(over="ignore", invalid="ignore"):
            delta = mixed - np.exp(eps) * base if sign > 0 else base - np.exp(eps) * mixed
        return np.clip(np.nan_to_num(delta, nan=0.0, neginf=0.0), 0.0, 1.0)


@dataclass(frozen=True)
class NoGuarantee:
    """A release that no finite epsilon covers: it prices as infinity everywhere.

    Args:
        reason: one sentence that says why, shown wherever the price is.
    """

    reason: str
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (f"no guarantee: {self.reason}",)

    def rdp(self, orders: ArrayLike) -> Floats:
        return np.full_like(as_orders(orders), np.inf)

    def profile(self, epsilons: ArrayLike) -> Any:
        return np.ones((2, _as_epsilons(epsilons).size))
