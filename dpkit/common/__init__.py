"""Shared parts of the kit: checks of numbers, records, files and locks, text, pictures."""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)

__version__ = "0.1.0"
