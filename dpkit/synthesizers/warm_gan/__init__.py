"""A private GAN that starts from the class moments: one release, then few quiet steps.

The generator is at first the moments' own sampler; what it learns from a critic is added to it.
Each name is loaded on demand, and torch only where it needs torch.
"""

from typing import TYPE_CHECKING

from dpkit.common.lazy import on_demand

if TYPE_CHECKING:
    from dpkit.synthesizers.warm_gan.estimator import WarmGan
    from dpkit.synthesizers.warm_gan.settings import WarmGanSettings

__all__ = ["WarmGan", "WarmGanSettings"]
__getattr__, __dir__ = on_demand(__name__)
