"""A private GAN that starts from the class moments: one Gaussian release, then few quiet steps.

The generator is at first the moments' own sampler; what it learns from a critic is added to it.
Each name is loaded when it is asked for, and torch with it where it needs torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpkit.warm_gan.estimator import WarmGan
    from dpkit.warm_gan.settings import WarmGanSettings

_HOMES = {"WarmGan": "estimator", "WarmGanSettings": "settings"}
__all__ = ["WarmGan", "WarmGanSettings"]


def __getattr__(name: str) -> Any:
    """The class of that name; its home is imported when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"dpkit.warm_gan has no {name!r}; it has {', '.join(_HOMES)}")
    return getattr(import_module(f"dpkit.warm_gan.{_HOMES[name]}"), name)
