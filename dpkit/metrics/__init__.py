"""Utility of synthetic data, and scores of generated images: is the output any good?"""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)
