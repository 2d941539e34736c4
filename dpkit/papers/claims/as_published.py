"""Epsilon as papers' own code computes it: RDP at fixed orders, by the classic conversion."""

from dataclasses import dataclass

from dpkit.privacy import rdp
from dpkit.privacy.ledger import Release, Releases
from dpkit.privacy.mechanisms import Mechanism

# Opacus' default (1.5, accountants/rdp.py), and that of DP-CGAN's code (compute_epsilon in
# DP_CGAN_RdpAcc.py)
OPACUS_ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(12, 64))


@dataclass(frozen=True)
class AsPublished:
    """A paper's own accountant: valid, but looser than those of `dpkit.privacy`.

    Args:
        orders: each > 1; no other is tried.
        delta: in (0, 1).
    """

    orders: tuple[float, ...]
    delta: float

    def epsilon(self, ledger: Releases) -> float:
        """Epsilon of a ledger (Mironov 2017, Prop. 3, at the best of the orders)."""
        return rdp.epsilon(
            ledger, delta=self.delta, conversion="classic", orders=self.orders
        ).epsilon

    def of_steps(self, mechanism: Mechanism, steps: int) -> float:
        """Epsilon of `steps` releases of one mechanism."""
        return self.epsilon([Release(mechanism, steps)])
