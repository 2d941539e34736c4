"""RDP-GAN: Ma, Li, Ding, Liu, Wei, Weng and Poor, "RDP-GAN: A Renyi-Differential Privacy based
Generative Adversarial Network", arXiv:2007.02056, 2020 (code: JJisbug/RDP-GAN).

Noise is added to the value of the discriminator's loss, instead of to clipped gradients; its scale
may be lowered while training when a test accuracy stops improving. The paper generates MNIST digits
and census records at a stated total epsilon of 0.5 and 5, delta 1e-5.
"""

from typing import Any

from dpkit.lazy import lazy
from dpkit.papers.rdp_gan.settings import (  # noqa: F401
    DP_GAN,
    MULTIPLICATIVE,
    NON_PRIVATE,
    OUTPUT_ERROR,
    SETTINGS,
    SMALL,
)

NAME = "rdp_gan"
TITLE = "RDP-GAN (Ma, Li, Ding, Liu, Wei, Weng, Poor 2020)"
NOTEBOOK = "06_rdp_gan"


def __getattr__(name: str) -> Any:
    """Claims, modules and the algorithm's functions on first use: what needs torch only then."""
    return lazy(__name__, name)
