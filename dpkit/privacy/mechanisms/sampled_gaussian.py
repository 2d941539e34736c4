"""The Gaussian on Poisson batches, the mechanism of DP-SGD, also for a group of records.

Between them stand releases with several noise levels, each one Gaussian of an `effective_noise`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from dpkit.common import checks
from dpkit.privacy.mechanisms import renyi_integrals
from dpkit.privacy.mechanisms.base import (
    ADJACENCIES,
    WHOLE_SUM,
    Adjacency,
    Floats,
    GaussianDp,
    PricedAsOne,
    PrivacyLoss,
    Unsupported,
    as_epsilons,
    as_orders,
    at_all,
    check_noise,
    excess,
    from_atoms,
    normal_masses,
    of_family,
    tree_sum,
    unknown,
)
from dpkit.privacy.mechanisms.gaussian import NODES, WEIGHTS, Gaussian
from dpkit.privacy.mechanisms.poisson_sampled import amplified, tilt

MUCH = 50.0  # noise from which on normals 1 / noise apart are too close to be subtracted
LARGEST_GROUP, VANISHED = 4096, 1e-250
MOST_NOISE = 1e6
AT_ONCE = 2**18  # terms of a sum over outputs and records


def _mass(start: Floats, width: float) -> Floats:
    """The mass of N(0, 1) on intervals below 1/2 wide, as an integral of its density."""
    at = start[:, None] + width / 2 * (NODES + 1)
    density = np.exp(-at * at / 2) / np.sqrt(2 * np.pi)
    return width / 2 * (density * WEIGHTS).sum(axis=1)


def _threshold(
    loss: Floats, noise: float | Floats, q: float | Floats, adjacency: Adjacency
) -> Floats:
    """The output x whose privacy loss is `loss`; -inf below the least loss."""
    variance, least = noise**2, np.log1p(-q)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if adjacency == "add-remove":
            return np.where(loss > least, variance * tilt(loss, q) + 0.5, -np.inf)
        # x / noise^2 - loss / 2 = arcsinh((1-q) / q * exp(1 / (2 noise^2)) * sinh(loss / 2))
        size = np.abs(loss)
        y = least - np.log(q) + 0.5 / variance + size / 2 + np.log(-np.expm1(-size) / 2)
        # a product keeps more digits than the sum of its logs
        factor = (1 - q) / q * np.exp(0.5 / variance) * np.sinh(np.minimum(size, 700.0) / 2)
        factor = np.where(np.isfinite(factor), factor, np.exp(np.minimum(y, 20.0)))
        arcsinh = np.where(y > 20, y + np.log(2), np.arcsinh(factor))
    return variance * (loss / 2 + np.sign(loss) * arcsinh)


def _masses(
    adjacency: Adjacency, noise: float | Floats, q: float | Floats, edges: Floats
) -> Floats:
    """Masses of the pair's P and Q between edges of the loss (`PrivacyLoss.masses`)."""
    x = _threshold(edges, noise, q, adjacency)
    base = other = normal_masses(x / noise)
    rest = (1 - q) * base
    if adjacency == "replace-one":
        other = rest + q * normal_masses((x + 1) / noise)
    return np.stack([rest + q * normal_masses((x - 1) / noise), other])


FAMILIES: dict[Adjacency, Callable[..., Floats]] = {
    "add-remove": partial(_masses, "add-remove"),
    "replace-one": partial(_masses, "replace-one"),
}


@dataclass(frozen=True)
class SampledGaussian:
    """A Gaussian release of a Poisson sample: each record enters with chance sample_rate.

    add-remove: the pair (1-q) N(0, s^2) + q N(1, s^2) against N(0, s^2), s the noise multiplier.
    replace-one: (1-q) N(0, s^2) + q N(1, s^2) against (1-q) N(0, s^2) + q N(-1, s^2).

    Raises:
        ValueError: noise_multiplier is not in [1e-9, 1e13], sample_rate is not in [0, 1], or
            adjacency is unknown.
    """

    noise_multiplier: float
    sample_rate: float
    adjacency: Adjacency = "add-remove"
    hides_participation: ClassVar[bool] = True
    profile_error: ClassVar[float] = 1e-9
    known_dp = property(lambda self: (np.inf if self.sample_rate else 0.0, 0.0))
    assumptions = (
        "Poisson sampling: every record enters each batch independently with the sample rate",
        WHOLE_SUM,
    )

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        check_noise(self.noise_multiplier)
        checks.in_range(0, 1, sample_rate=self.sample_rate)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)

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
            renyi_integrals.add_remove
            if self.adjacency == "add-remove"
            else renyi_integrals.replace_one
        )
        return price(array, q=self.sample_rate, noise=self.noise_multiplier)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """delta(epsilon) exactly: row 0 mixture against the other, row 1 the reverse.

        Each direction is q times an excess that does not shrink with q, so a tiny sample rate
        costs no digits.
        """
        eps, q = as_epsilons(epsilons), self.sample_rate
        if q == 0:
            return np.broadcast_to(np.maximum(0.0, -np.expm1(eps)), (2, eps.size)).copy()
        if q == 1:
            return Gaussian(self.noise_multiplier, self.adjacency).profile(eps)
        if self.adjacency == "replace-one":
            return at_all(eps, self._mirrored)
        return at_all(eps, lambda size: amplified(Gaussian(self.noise_multiplier), size, q))

    def _mirrored(self, eps: Floats) -> Floats:
        """Under replace-one, at epsilons >= 0; both directions are equal.

        P - e^eps Q = q (N(1) - (e^eps - 1) (1 - q) / q N(0) - e^eps N(-1)), on x > threshold. With
        much noise the three are close: then q (N(1) - N(0)) + e^eps q (N(0) - N(-1))
        - (e^eps - 1) N(0), whose differences are integrals of one density.
        """
        q = self.sample_rate
        x = _threshold(eps, self.noise_multiplier, q, self.adjacency)
        if self.noise_multiplier > MUCH:
            z, step = x / self.noise_multiplier, 1 / self.noise_multiplier
            with np.errstate(over="ignore", invalid="ignore"):
                gained = q * _mass(z - step, step) + np.exp(eps) * q * _mass(z, step)
                one = np.maximum(gained - np.expm1(eps) * ndtr(-z), 0.0)
            return np.where(eps < 300, one, 0.0)  # no loss that large has a mass above 1e-300
        moved, base, away = (log_ndtr((at - x) / self.noise_multiplier) for at in (1, 0, -1))
        with np.errstate(divide="ignore"):
            grown = eps + np.log(-np.expm1(-eps))  # log(e^eps - 1)
        taken = np.logaddexp(grown + np.log1p(-q) - np.log(q) + base, eps + away)
        return q * excess(moved, taken, np.zeros_like(eps))

    def privacy_loss(self) -> PrivacyLoss:
        """The loss of the mixture against N(0), or its mirror image under replace-one."""
        if self.sample_rate == 0:
            return from_atoms(np.zeros(1), np.ones(1), lattice=(0.0, 1.0))
        if self.sample_rate == 1:
            return Gaussian(self.noise_multiplier, self.adjacency).privacy_loss()

        return of_family(FAMILIES[self.adjacency], self.noise_multiplier, self.sample_rate)

    def gaussian_dp(self) -> GaussianDp:
        """The CLT's mu of one of many steps: the standard deviation of P/Q - 1 to leading order.

        add-remove: q sqrt(exp(1 / s^2) - 1) (Bu, Dong, Long, Su 2020, Thm 5); replace-one, from the
        class's pair: q sqrt(2 (exp(1 / s^2) - exp(-1 / s^2))).
        """
        if self.sample_rate == 1:
            return Gaussian(self.noise_multiplier, self.adjacency).gaussian_dp()
        with np.errstate(over="ignore"):
            power = 1 / np.float64(self.noise_multiplier) ** 2
            one = np.expm1(power) if self.adjacency == "add-remove" else 4 * np.sinh(power)
        return GaussianDp(
            float(self.sample_rate * np.sqrt(one)) if self.sample_rate else 0.0, False
        )


def effective_noise(noise_multipliers: tuple[float, ...]) -> float:
    """The one multiplier that protects as much as all together: 1 / sqrt(sum 1 / z_i^2).

    Dividing every coordinate by its own noise turns N(0, diag(sigma_i^2)) into N(0, 1), and the
    distance a record moves by into sqrt(sum s_i^2 / sigma_i^2) (Xu et al. 2019, AdaDP, Lemma 1).
    """
    least = min(noise_multipliers)  # taken out, so that no square overflows
    return least / math.sqrt(math.fsum((least / z) ** 2 for z in noise_multipliers))


@dataclass(frozen=True)
class DiagonalGaussian(PricedAsOne):
    """A sum whose coordinate i is clipped to [-s_i, s_i], plus noise of deviation sigma_i on it.

    It costs what one Gaussian of multiplier 1 / sqrt(sum s_i^2 / sigma_i^2) does (Xu et al. 2019,
    Lemma 1). A record added or removed moves coordinate i by s_i; a record replaced, by 2 s_i,
    which `adjacency` accounts for: the ratios stay those of s_i. Prices are exact, as Gaussian's.

    Args:
        noise_multipliers: sigma_i / s_i of each coordinate, each > 0.

    Raises:
        ValueError: noise_multipliers is not a non-empty tuple of numbers in [1e-9, 1e13],
            its effective multiplier is below 1e-9, or adjacency is unknown.
    """

    noise_multipliers: tuple[float, ...]
    adjacency: Adjacency = "add-remove"
    hides_participation: ClassVar[bool] = True
    assumptions = (
        "each coordinate's clipping bound and noise are fixed without the private data",
    )

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        _check_tuple("noise_multipliers", self.noise_multipliers)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)
        check_noise(self.noise_multiplier)

    @property
    def noise_multiplier(self) -> float:
        """sigma_*: noise / clip norm of the one Gaussian that costs the same."""
        return effective_noise(self.noise_multipliers)

    @property
    def one(self) -> Gaussian:
        """The Gaussian that costs the same."""
        return Gaussian(self.noise_multiplier, self.adjacency)


@dataclass(frozen=True)
class GroupedGaussian(PricedAsOne):
    """One batch whose gradient is clipped in k groups (layers), each at its own bound C_i.

    Noise of deviation z_i C_i lies on group i. All groups read the same batch, so a record moves
    them together: with one multiplier z, as one Gaussian with noise z C on a sum that moves by
    C sqrt(k), of multiplier z / sqrt(k). Pricing one group alone is k times too cheap in RDP.
    Its prices are SampledGaussian's: mu is exact without sampling, else the limit of many steps.

    Args:
        noise_multiplier: z, for every group, or a tuple with each group's own.
        groups: k >= 1.
        sample_rate: chance of each record to enter the batch (Poisson); 1 for all records.

    Raises:
        ValueError: a multiplier is not in [1e-9, 1e13], a tuple does not hold one for each group,
            groups is not an integer >= 1, sample_rate not in [0, 1], or adjacency is unknown.
    """

    noise_multiplier: float | tuple[float, ...]
    groups: int
    sample_rate: float = 1.0
    adjacency: Adjacency = "add-remove"
    hides_participation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        checks.whole(1, groups=self.groups)
        if isinstance(self.noise_multiplier, tuple):
            _check_tuple("noise_multiplier", self.noise_multiplier)
            if len(self.noise_multiplier) != self.groups:
                raise ValueError(
                    f"noise_multiplier must hold one number for each of the {self.groups} groups, "
                    f"got {len(self.noise_multiplier)}"
                )
        else:
            check_noise(self.noise_multiplier)
        checks.in_range(0, 1, sample_rate=self.sample_rate)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)
        check_noise(self.one.noise_multiplier)

    @property
    def one(self) -> SampledGaussian:
        """The sampled Gaussian that costs the same."""
        own = self.noise_multiplier
        noise = (
            effective_noise(own) if isinstance(own, tuple) else own / math.sqrt(self.groups)
        )
        return SampledGaussian(noise, self.sample_rate, self.adjacency)

    @property
    def assumptions(self) -> tuple[str, ...]:
        fixed = "each group's clipping bound and noise are fixed without the private data"
        return (fixed,) if self.sample_rate == 1 else (fixed, *self.one.assumptions)


def _check_tuple(name: str, values: object) -> None:
    """A non-empty tuple of numbers in [1e-9, 1e13]; errors name the place within it."""
    if not isinstance(values, tuple) or not values:
        raise ValueError(f"{name} must be a non-empty tuple of numbers > 0, got {values!r}")
    for i, value in enumerate(values):
        check_noise(value, f"{name}[{i}]")


@dataclass(frozen=True)
class GroupSampledGaussian:
    """A Gaussian release of a Poisson batch, where up to `group_size` records come or go.

    The dominating pair is the mean over j of N(j, s^2), j of the group's records in the batch with
    the chance Binomial(group_size, q), against N(0, s^2): all gradients alike and of norm C
    (Ganesh 2024, "Tight group-level DP guarantees for DP-SGD with sampling via mixture of Gaussians
    mechanisms"; why it dominates: proof.md, K). Some neighbours have it.

    Args:
        noise_multiplier: s, noise standard deviation / C.
        sample_rate: q, chance that a record is drawn.
        group_size: records of the group, at most; 1 is `SampledGaussian`.

    Raises:
        ValueError: noise_multiplier is not in [1e-9, 1e6], sample_rate not in [0, 1], or
            group_size not an integer in [1, 4096].
    """

    noise_multiplier: float
    sample_rate: float
    group_size: int
    hides_participation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        check_noise(self.noise_multiplier)
        if not self.noise_multiplier <= MOST_NOISE:
            raise ValueError(
                f"noise_multiplier must be at most {checks.short(MOST_NOISE)} for groups, got "
                f"{self.noise_multiplier}: beyond it rounding matters; give a smaller multiplier"
            )
        checks.in_range(0, 1, sample_rate=self.sample_rate)
        checks.whole(1, group_size=self.group_size)
        if not self.group_size <= LARGEST_GROUP:
            raise ValueError(
                f"group_size must be at most {LARGEST_GROUP}, got {self.group_size}; limit each "
                "user's records, or call groups.epsilon"
            )
        check_noise(self.noise_multiplier / self.group_size, "noise_multiplier / group_size")

    @property
    def adjacency(self) -> Adjacency:
        return "add-remove"

    @property
    def assumptions(self) -> tuple[str, ...]:
        plain = SampledGaussian(self.noise_multiplier, self.sample_rate).assumptions
        return (*plain, together(self.group_size))

    @property
    def _plain(self) -> SampledGaussian | None:
        """One record that costs the same, the number of the group's in a batch known."""
        if 0 < self.sample_rate < 1 and self.group_size > 1:
            return None
        return SampledGaussian(self.noise_multiplier / self.group_size, self.sample_rate)

    @cached_property
    def _weights(self) -> Floats:
        """Binomial(group_size, q) at 0, 1, ..., each rounded once, until they vanish."""
        k, q, found = self.group_size, Fraction(self.sample_rate), []
        for j in range(k + 1):
            found.append(float(comb(k, j) * q**j * (1 - q) ** (k - j)))
            if j > k * q and found[-1] < VANISHED:
                break
        return np.array(found)

    def rdp(self, orders: ArrayLike) -> Floats:
        as_orders(orders)
        raise Unsupported(
            "groups of sampled records have no Renyi DP here; use the accountant pld"
        )

    gaussian_dp = unknown("no mu of Gaussian DP is known for groups; use the accountant pld")

    def profile(self, epsilons: ArrayLike) -> Floats:
        """delta(epsilon) in both directions, shape (2, len(epsilons))."""
        eps = as_epsilons(epsilons)
        if self._plain is not None:
            return self._plain.profile(eps)
        there, back = self._threshold(eps), self._threshold(-eps)
        with np.errstate(over="ignore", invalid="ignore"):
            removed = self._mixed(lambda z: ndtr(-z), there) - np.exp(
                np.minimum(eps + log_ndtr(-there / self.noise_multiplier), 0.0)
            )
            grown = np.exp(np.minimum(eps, 700.0))  # beyond it nothing is left to take away
            added = ndtr(back / self.noise_multiplier) - grown * self._mixed(ndtr, back)
        return np.clip(np.stack([removed, added]), 0.0, 1.0)

    def privacy_loss(self) -> PrivacyLoss:
        """The loss of the mixture against N(0, s^2)."""
        if self._plain is not None:
            return self._plain.privacy_loss()

        def masses(edges: Floats) -> Floats:
            x = self._threshold(edges)
            return np.stack(
                [self._mixed(normal_masses, x), normal_masses(x / self.noise_multiplier)]
            )

        return PrivacyLoss(masses)

    def _mixed(self, of: Callable[[Floats], Floats], x: Floats) -> Floats:
        """The mean over j of what `of` gives for N(j, s^2) at outputs x."""
        shifted = ((j, (x - j) / self.noise_multiplier) for j in range(self._weights.size))
        return tree_sum([self._weights[j] * of(at) for j, at in shifted])

    def _threshold(self, loss: Floats) -> Floats:
        """The output x whose privacy loss is `loss`; -inf below the least loss."""
        each = max(AT_ONCE // (self.group_size + 1), 1)
        parts = [self._root(loss[at : at + each]) for at in range(0, max(loss.size, 1), each)]
        return np.concatenate(parts)

    def _root(self, loss: Floats) -> Floats:
        """log sum_{j > 0} B_j e^(j x / s^2 - j^2 / (2 s^2)) = log(e^loss - B_0), by Newton's rule.

        The left side is convex and grows; where one term alone reaches the right side is a start
        from above, and the steps fall to the root. An error in x moves delta by its square.
        """
        k, variance = self.group_size, self.noise_multiplier**2
        least = k * np.log1p(-self.sample_rate)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            drawn = -np.expm1(least)  # 1 - B_0
            near = np.log(np.expm1(np.minimum(loss, 30.0)) + drawn)
            low = least + np.log(np.expm1(np.minimum(loss - least, 700.0)))
            goal = np.where(loss > 30, loss, np.where(loss > np.log1p(-drawn / 2), near, low))
            logs = np.log(self._weights[1:])[:, None]
        j = np.arange(1, self._weights.size)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            x = ((goal - logs) * variance / j + j / 2).min(axis=0)
        for _ in range(64):
            terms = logs + j * (x - j / 2) / variance
            top = terms.max(axis=0)
            shares = np.exp(terms - top)
            total = shares.sum(axis=0)
            slope = (j * shares).sum(axis=0) / (total * variance)
            step = (top + np.log(total) - goal) / slope
            x = np.where(np.isfinite(step), x - step, x)
            if not (np.abs(np.nan_to_num(step)) > 1e-9 * self.noise_multiplier).any():
                break
        return np.where(loss > least, x, -np.inf)


def together(group_size: int) -> str:
    """The assumption that says for how many records a price holds."""
    return f"neighbours differ in up to {group_size} records, all added or all removed"
