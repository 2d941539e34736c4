"""AdaDP: Xu, Shi, Liu, Zhao and Chen, "An Adaptive and Fast Convergent Approach to Differentially
Private Deep Learning", INFOCOM 2020 (no public code).

Classifiers, not a GAN: noise that follows the past of each coordinate of the gradient, with a
learning rate that does so, too. It stands here because the optimiser of a private discriminator is
the same question. The paper reports MNIST and CIFAR-10 at three privacy levels.
"""

from typing import Any

from dpkit.lazy import lazy
from dpkit.papers.adadp.settings import SETTINGS  # noqa: F401

NAME = "adadp"
TITLE = "AdaDP (Xu, Shi, Liu, Zhao, Chen 2019)"
NOTEBOOK = "04_adadp"


def __getattr__(name: str) -> Any:
    """Claims, modules and the algorithm's functions on first use: what needs torch only then."""
    return lazy(__name__, name)
