"""Interactive parts of the notebooks: explorers, exercises, diagrams."""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)
