"""The commands of `python -m dpkit`, one file per kind of question."""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)
