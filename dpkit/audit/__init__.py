"""Attacks: measured lower bounds on epsilon, next to the proven ones; and `check`, for own code.

Bounds and mechanisms' attacks need numpy and scipy alone; attacks on training, and `check`, import
torch.
"""

from typing import TYPE_CHECKING

from dpkit.common.lazy import of_modules

if TYPE_CHECKING:
    from dpkit.audit.training.checker import Report, check

__all__ = ["Report", "check"]

CHECKER = "dpkit.audit.training.checker"
__getattr__, __dir__ = of_modules(__name__, check=CHECKER, Report=CHECKER)
