"""dpGAN: Zhang, Ji and Wang, "Differentially Private Releasing via Deep Generative Model", 2018
(arXiv 1801.01594; code: alps-lab/dpgan).

A WGAN with gradient penalty whose critic is trained privately: its tensors are clipped in groups,
at bounds that follow a small public part of the data, after a warm start on that part. Grouping is
what lets the budget last longer: Table 7 counts the iterations that it allows on MNIST, CelebA and
LSUN at epsilon 4 and 10, delta 1e-5.
"""

from dpkit.common.lazy import of_paper
from dpkit.papers.dpgan.settings import MNIST, NON_PRIVATE, REPAIRED, SETTINGS, SMALL

NAME = "dpgan"
TITLE = "dpGAN (Zhang, Ji, Wang 2018)"
NOTEBOOK = "11_dpgan"
__all__ = [
    "MNIST",
    "NAME",
    "NON_PRIVATE",
    "NOTEBOOK",
    "REPAIRED",
    "SETTINGS",
    "SMALL",
    "TITLE",
]
__getattr__, __dir__ = of_paper(__name__)
