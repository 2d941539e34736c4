"""Utility of synthetic data, and scores of generated images."""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)
