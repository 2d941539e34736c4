"""dpkit: the epsilon claimed, proven and measured, for differentially private GANs.

`import dpkit` and everything under `dpkit.privacy` work without torch; `Private` and `PrivateGan`,
loaded when they are first used, need it.
"""

from typing import TYPE_CHECKING

from dpkit.common import __version__ as __version__
from dpkit.common.lazy import on_demand

__all__ = [
    "Budget",
    "Private",
    "PrivateGan",
    "PrivateImages",
    "PrivateTable",
    "audit",
    "datasets",
    "metrics",
    "privacy",
    "private",
    "synthesizers",
    "training",
]

if TYPE_CHECKING:
    from dpkit import audit, datasets, metrics, privacy, private, synthesizers, training
    from dpkit.private import Budget, Private, PrivateGan, PrivateImages, PrivateTable

__getattr__, __dir__ = on_demand(__name__)
