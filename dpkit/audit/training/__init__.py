"""Attacks on training itself; they need torch."""

from dpkit.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)
