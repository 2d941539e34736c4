"""DP-CGAN: Torkzadehmahani, Kairouz and Paten, "DP-CGAN: Differentially Private Synthetic Data and
Label Generation", CVPR Workshops 2019 (code: reihaneh-torkzadehmahani/DP-CGAN).

A conditional GAN of two small networks, trained on MNIST. The discriminator's gradients on real and
on fake examples are clipped apart, added and noised; images and labels are generated together. The
paper reports classifiers trained on the generated data at epsilon 9.6, delta 1e-5.
"""

from typing import Any

from dpkit.lazy import lazy
from dpkit.papers.dp_cgan.settings import BASIC, NON_PRIVATE, REPAIRED, SETTINGS, SMALL  # noqa: F401

NAME = "dp_cgan"
TITLE = "DP-CGAN (Torkzadehmahani, Kairouz, Paten 2019)"
NOTEBOOK = "02_dp_cgan"


def __getattr__(name: str) -> Any:
    """Claims, modules and the algorithm's functions on first use: what needs torch only then."""
    return lazy(__name__, name)
