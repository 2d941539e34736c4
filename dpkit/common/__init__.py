"""What every part of the kit uses: checks of numbers, records and paths, text, pictures, locks."""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)
