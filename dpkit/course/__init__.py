"""What the notebooks let a reader move and try: explorers, exercises, diagrams."""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)
