"""The Gaussian on Poisson batches, for a group of records that come or go together."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from dpkit.common import checks
from dpkit.privacy.mechanisms.base import (
    Adjacency,
    Floats,
    GaussianDp,
    PrivacyLoss,
    Unsupported,
    as_epsilons,
    as_orders,
    check_noise,
    normal_masses,
)
from dpkit.privacy.mechanisms.sampled_gaussian import SampledGaussian

LARGEST_GROUP = 128
MOST_NOISE = 1e6
AT_ONCE = 2**18  # terms of a sum over outputs and records


@dataclass(frozen=True)
class GroupSampledGaussian:
    """A Gaussian release of a Poisson batch's sum, where up to `group_size` records come or go.

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
            group_size not an integer in [1, 128].
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
                f"noise_multiplier must be at most {MOST_NOISE:g} for groups, got "
                f"{self.noise_multiplier}: beyond it rounding is not negligible; price less noise"
            )
        checks.in_range(0, 1, sample_rate=self.sample_rate)
        checks.whole(1, group_size=self.group_size)
        if not self.group_size <= LARGEST_GROUP:
            raise ValueError(
                f"group_size must be at most {LARGEST_GROUP}, got {self.group_size}; bound the "
                "records of a user, or price the group by `groups.epsilon`"
            )

    @property
    def adjacency(self) -> Adjacency:
        return "add-remove"

    @property
    def assumptions(self) -> tuple[str, ...]:
        plain = SampledGaussian(self.noise_multiplier, self.sample_rate).assumptions
        return (*plain, together(self.group_size))

    @property
    def _plain(self) -> SampledGaussian | None:
        """One record that costs the same, where the number of the group's in a batch is known."""
        if 0 < self.sample_rate < 1 and self.group_size > 1:
            return None
        return SampledGaussian(max(self.noise_multiplier / self.group_size, 1e-9), self.sample_rate)

    @cached_property
    def _weights(self) -> Floats:
        """Binomial(group_size, q) at 0, 1, ..., each rounded once."""
        k, q = self.group_size, Fraction(self.sample_rate)
        return np.array([float(comb(k, j) * q**j * (1 - q) ** (k - j)) for j in range(k + 1)])

    def rdp(self, orders: ArrayLike) -> Floats:
        as_orders(orders)
        raise Unsupported("groups of sampled records have no Renyi DP here; use the accountant pld")

    def gaussian_dp(self) -> GaussianDp:
        raise Unsupported("no mu of Gaussian DP is known for groups; use the accountant pld")

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
        """Of the mixture against N(0, s^2)."""
        if self._plain is not None:
            return self._plain.privacy_loss()

        def masses(edges: Floats) -> Floats:
            x = self._threshold(edges)
            return np.stack(
                [self._mixed(normal_masses, x), normal_masses(x / self.noise_multiplier)]
            )

        return PrivacyLoss(masses)

    def _mixed(self, of: Callable[[Floats], Floats], x: Floats) -> Floats:
        """The mean over j of what `of` gives for N(j, s^2) at outputs x, by a tree of sums."""
        parts = [
            weight * of((x - j) / self.noise_multiplier) for j, weight in enumerate(self._weights)
        ]
        while len(parts) > 1:
            pairs = [a + b for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + parts[2 * len(pairs) :]
        return parts[0]

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
        j = np.arange(1, k + 1)[:, None]
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
