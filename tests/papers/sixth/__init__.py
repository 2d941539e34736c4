"""A made-up paper, kept to see that a sixth one needs no more than its package and its name.

A GAN of two small networks on scikit-learn's digits, trained with DP-SGD on its discriminator.
"""

from typing import Any

from dpkit.papers.sixth.settings import SETTINGS, SMALL  # noqa: F401

from dpkit.lazy import lazy

NAME = "sixth"
TITLE = "A sixth paper (made up)"


def __getattr__(name: str) -> Any:
    """Claims and modules on first use."""
    return lazy(__name__, name)
