"""A made-up paper, kept to see that a sixth one needs no more than its package and its name.

A GAN of two small networks on scikit-learn's digits, trained with DP-SGD on its discriminator.
"""

from importlib import import_module
from typing import Any

from dpkit.papers.sixth.settings import SETTINGS, SMALL

NAME = "sixth"
TITLE = "A sixth paper (made up)"
__all__ = ["NAME", "SETTINGS", "SMALL", "TITLE"]


def __getattr__(name: str) -> Any:
    """Claims on first use."""
    if name == "CLAIMS":
        return import_module(f"{__name__}.claims").CLAIMS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
