"""The terminal's commands on papers: claims, reproduce, results, audit."""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)
