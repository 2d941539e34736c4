"""Releases of which nothing is known but what is stated of them."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from dpkit.common import checks
from dpkit.privacy.mechanisms.base import (
    ADJACENCIES,
    Adjacency,
    Floats,
    PrivacyLoss,
    Unsupported,
    as_epsilons,
    as_orders,
    unknown,
)
from dpkit.privacy.mechanisms.pure import ExponentialMechanism, RandomizedResponse
from dpkit.privacy.mechanisms.sampled_gaussian import SampledGaussian


@dataclass(frozen=True)
class ApproximateDP:
    """A release by any (epsilon, delta)-DP algorithm, delta = 0 for pure DP.

    It costs at most what showing everything with chance delta, and else an answer by randomized
    response, does (Kairouz, Oh, Viswanath 2015, "The composition theorem for differential
    privacy", Thm 3.1 and its proof).

    Raises:
        ValueError: epsilon is neither 0 nor in [1e-9, 1e9], delta not in [0, 1], or adjacency is
            unknown.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = "add-remove"
    assumptions = ("a release is as private as is stated of it",)
    known_dp = property(lambda self: (self.epsilon, self.delta))

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        if self.epsilon != 0:
            checks.in_range(1e-9, 1e9, epsilon=self.epsilon)
        checks.in_range(0, 1, delta=self.delta)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)

    hides_participation = ExponentialMechanism.hides_participation

    @property
    def _answer(self) -> RandomizedResponse:
        return RandomizedResponse(self.epsilon or 1e-9)  # at 0 rounded up

    def rdp(self, orders: ArrayLike) -> Floats:
        """That of randomized response; Unsupported with a delta > 0."""
        if self.delta > 0:
            raise Unsupported(
                "no Renyi DP follows from a delta > 0; use pld, which takes no zCDP"
            )
        return self._answer.rdp(orders)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """delta, and 1 - delta times that of randomized response, the same in both directions."""
        return self.delta + (1 - self.delta) * self._answer.profile(as_epsilons(epsilons))

    def privacy_loss(self) -> PrivacyLoss:
        """Randomized response's, and delta at an infinite loss in either direction."""
        answer = (self._answer if self.epsilon else SampledGaussian(1, 0)).privacy_loss()

        def masses(edges: Floats) -> Floats:
            found = (1 - self.delta) * answer.masses(edges)
            found[0, -1] += self.delta
            found[1, 0] += self.delta
            return found

        return PrivacyLoss(masses, lattice=answer.lattice)

    gaussian_dp = unknown("no mu follows from (epsilon, delta) alone; use accountant pld")


@dataclass(frozen=True)
class ZeroConcentratedDP:
    """A release by any rho-zCDP algorithm (Bun, Steinke 2016, Def. 1.1).

    Raises:
        ValueError: rho is not in [0, 1e9], or adjacency is unknown.
    """

    rho: float
    adjacency: Adjacency = "add-remove"
    assumptions = ApproximateDP.assumptions

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        checks.in_range(0, 1e9, rho=self.rho)
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)

    hides_participation = ExponentialMechanism.hides_participation

    def rdp(self, orders: ArrayLike) -> Floats:
        """rho times the order."""
        return self.rho * as_orders(orders)

    profile = privacy_loss = gaussian_dp = unknown(
        "of zCDP only Renyi DP is known; use accountant rdp, which takes no stated delta > 0"
    )
