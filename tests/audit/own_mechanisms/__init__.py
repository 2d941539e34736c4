"""Attacks on mechanisms by sampling: two worlds of outputs, and scores that tell them apart."""

from dpkit.common.lazy import of_modules

__getattr__, __dir__ = of_modules(__name__)
