"""Attacks: measured lower bounds on epsilon, next to the proven ones.

Bounds and mechanisms' attacks need numpy and scipy alone; attacks on training import torch.
"""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)
