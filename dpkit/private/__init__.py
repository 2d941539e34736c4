"""Private training of your own networks: clipped, noised, charged and stated by one object.

Each name is loaded on demand, and torch only where it needs torch.
"""

from typing import TYPE_CHECKING

from dpkit.common.lazy import on_demand

if TYPE_CHECKING:
    from dpkit.private.budget import Budget
    from dpkit.private.data import NoisyStandardised, Standardised
    from dpkit.private.gan import PrivateGan
    from dpkit.private.images import PrivateImages
    from dpkit.private.model import BudgetSpent, Private
    from dpkit.private.table import PrivateTable

__all__ = [
    "Budget",
    "BudgetSpent",
    "NoisyStandardised",
    "Private",
    "PrivateGan",
    "PrivateImages",
    "PrivateTable",
    "Standardised",
]
__getattr__, __dir__ = on_demand(__name__)
