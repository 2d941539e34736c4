"""dpkit: the epsilon claimed, proven and measured, for differentially private GANs.

`import dpkit` and everything under `dpkit.privacy` work without torch; `Private` and `PrivateGan`,
loaded when they are first used, need it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Budget",
    "Private",
    "PrivateGan",
    "PrivateImages",
    "PrivateTable",
    "claims",
    "datasets",
    "experiments",
    "marginals",
    "metrics",
    "papers",
    "privacy",
    "private",
    "training",
]
_FRONT = {"Budget", "Private", "PrivateGan", "PrivateImages", "PrivateTable"}  # of dpkit.private

if TYPE_CHECKING:
    from dpkit import (
        claims,
        datasets,
        experiments,
        marginals,
        metrics,
        papers,
        privacy,
        private,
        training,
    )
    from dpkit.private import Budget, Private, PrivateGan, PrivateImages, PrivateTable


def __getattr__(name: str) -> Any:
    if name in _FRONT:
        return getattr(import_module("dpkit.private"), name)
    if name in __all__:
        return import_module(f"dpkit.{name}")
    raise AttributeError(f"module 'dpkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
