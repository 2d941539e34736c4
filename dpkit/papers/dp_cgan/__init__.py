"""DP-CGAN: Torkzadehmahani, Kairouz and Paten, "DP-CGAN: Differentially Private Synthetic Data and
Label Generation", CVPR Workshops 2019 (code: reihaneh-torkzadehmahani/DP-CGAN).

A conditional GAN of two small networks, trained on MNIST. The discriminator's gradients on real and
on fake examples are clipped apart, added and noised; images and labels are generated together. The
paper reports classifiers trained on the generated data at epsilon 9.6, delta 1e-5.
"""

from dpkit.common.lazy import of_paper
from dpkit.papers.dp_cgan.settings import BASIC, NON_PRIVATE, REPAIRED, SETTINGS, SMALL

NAME = "dp_cgan"
TITLE = "DP-CGAN (Torkzadehmahani, Kairouz, Paten 2019)"
NOTEBOOK = "10_dp_cgan_tables"
__all__ = [
    "BASIC",
    "NAME",
    "NON_PRIVATE",
    "NOTEBOOK",
    "REPAIRED",
    "SETTINGS",
    "SMALL",
    "TITLE",
]
__getattr__, __dir__ = of_paper(__name__)
