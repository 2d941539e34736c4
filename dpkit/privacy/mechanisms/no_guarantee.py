"""The price of a release whose noise protects nothing."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpkit.common import checks
from dpkit.privacy.mechanisms.base import ADJACENCIES, Adjacency, GaussianDp, as_epsilons, as_orders
from dpkit.privacy.mechanisms.privacy_loss import Floats, PrivacyLoss


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
        """Certainly above every finite loss."""

        def masses(edges: Floats) -> Floats:
            out = np.zeros((2, edges.size + 1))
            out[0, -1] = out[1, 0] = 1.0
            return out

        return PrivacyLoss(masses)

    def gaussian_dp(self) -> GaussianDp:
        return GaussianDp(float("inf"), exact=True)
