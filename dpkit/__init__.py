"""dpkit: the epsilon claimed and the epsilon proven, for differentially private GANs.

`import dpkit` and everything under `dpkit.privacy` work without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "claims",
    "datasets",
    "experiments",
    "marginals",
    "metrics",
    "papers",
    "privacy",
    "training",
]

if TYPE_CHECKING:
    from dpkit import claims, datasets, experiments, marginals, metrics, papers, privacy, training


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"dpkit.{name}")
    raise AttributeError(f"module 'dpkit' has no attribute {name!r}")
