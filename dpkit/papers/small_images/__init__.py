"""Schwabedal, Michel and Riontino, "Differentially Private Generation of Small Images", 2020
(arXiv 2005.00783; code: jusjusjus/noise-in-dpsgd-2020).

A WGAN with gradient penalty, trained on MNIST with DP-Adam on its critic, and measured by the
inception score against epsilon, by clip norm, noise multiplier and capacity. The paper also reviews
three earlier private GANs (Beaulieu-Jones et al. 2017, Xie et al. 2018, Zhang et al. 2018).
"""

from dpkit.common.lazy import of_paper
from dpkit.papers.small_images.settings import (
    FIGURE_1,
    FIGURE_2,
    FIGURE_3,
    NON_PRIVATE,
    REPAIRED,
    SETTINGS,
    SMALL,
    reduced,
)

NAME = "small_images"
TITLE = "Small images (Schwabedal, Michel, Riontino 2020)"
NOTEBOOK = "13_small_images"
__all__ = [
    "FIGURE_1",
    "FIGURE_2",
    "FIGURE_3",
    "NAME",
    "NON_PRIVATE",
    "NOTEBOOK",
    "REPAIRED",
    "SETTINGS",
    "SMALL",
    "TITLE",
    "reduced",
]
__getattr__, __dir__ = of_paper(__name__)
