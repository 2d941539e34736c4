"""RDP-GAN: Ma, Li, Ding, Liu, Wei, Weng and Poor, "RDP-GAN: A Renyi-Differential Privacy based
Generative Adversarial Network", arXiv:2007.02056, 2020 (code: JJisbug/RDP-GAN).

Noise is added to the value of the discriminator's loss, instead of to clipped gradients; its scale
may be lowered while training when a test accuracy stops improving. The paper generates MNIST digits
and census records at a stated total epsilon of 0.5 and 5, delta 1e-5.
"""

from dpkit.common.lazy import of_paper
from dpkit.papers.rdp_gan.settings import (
    DP_GAN,
    MULTIPLICATIVE,
    NON_PRIVATE,
    OUTPUT_ERROR,
    SETTINGS,
    SMALL,
)

NAME = "rdp_gan"
TITLE = "RDP-GAN (Ma, Li, Ding, Liu, Wei, Weng, Poor 2020)"
NOTEBOOK = "12_rdp_gan"
__all__ = [
    "DP_GAN",
    "MULTIPLICATIVE",
    "NAME",
    "NON_PRIVATE",
    "NOTEBOOK",
    "OUTPUT_ERROR",
    "SETTINGS",
    "SMALL",
    "TITLE",
]
__getattr__, __dir__ = of_paper(__name__)
