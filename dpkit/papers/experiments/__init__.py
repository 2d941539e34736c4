"""Runs: settings, seed and data in, one stored record out."""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)
