"""dpGAN: Zhang, Ji and Wang, "Differentially Private Releasing via Deep Generative Model", 2018
(arXiv 1801.01594; code: alps-lab/dpgan).

A WGAN with gradient penalty whose critic is trained privately: its tensors are clipped in groups,
at bounds that follow a small public part of the data, after a warm start on that part. Grouping is
what lets the budget last longer: Table 7 counts the iterations that it allows on MNIST, CelebA and
LSUN at epsilon 4 and 10, delta 1e-5.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpkit.papers.dpgan.settings import (
    CELEBA,
    HONEST,
    LSUN_L,
    LSUN_U,
    MNIST,
    NON_PRIVATE,
    SETTINGS,
    SMALL,
)

if TYPE_CHECKING:
    from dpkit.papers.dpgan.claims import CLAIMS

NAME = "dpgan"
TITLE = "dpGAN (Zhang, Ji, Wang 2018)"
__all__ = [
    "CELEBA", "CLAIMS", "HONEST", "LSUN_L", "LSUN_U", "MNIST", "NAME", "NON_PRIVATE", "SETTINGS",
    "SMALL", "TITLE",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Claims on first use."""
    if name == "CLAIMS":
        return import_module(f"{__name__}.claims").CLAIMS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
