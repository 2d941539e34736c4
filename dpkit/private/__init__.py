"""Private training of networks of one's own: clipped, noised, charged and stated by one object.

Each name is loaded when it is asked for, and torch with it where it needs torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpkit.private.budget import Budget
    from dpkit.private.gan import PrivateGan
    from dpkit.private.images import PrivateImages
    from dpkit.private.model import BudgetSpent, Private
    from dpkit.private.table import PrivateTable

_HOMES = {  # of each name its module
    "Budget": "budget",
    "BudgetSpent": "model",
    "Private": "model",
    "PrivateGan": "gan",
    "PrivateImages": "images",
    "PrivateTable": "table",
}
__all__ = ["Budget", "BudgetSpent", "Private", "PrivateGan", "PrivateImages", "PrivateTable"]


def __getattr__(name: str) -> Any:
    """The class of that name; its home is imported when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"dpkit.private has no {name!r}; it has {', '.join(_HOMES)}")
    return getattr(import_module(f"dpkit.private.{_HOMES[name]}"), name)
