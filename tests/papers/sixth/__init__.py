"""A made-up paper, kept to see that a sixth one needs no more than its package and its name.

A GAN of two small networks on scikit-learn's digits, trained with DP-SGD on its discriminator.
"""

from dpkit.papers.sixth.settings import SETTINGS, SMALL

from dpkit.common.lazy import of_paper

NAME = "sixth"
TITLE = "A sixth paper (made up)"
__all__ = ["NAME", "SETTINGS", "SMALL", "TITLE"]
__getattr__, __dir__ = of_paper(__name__)
