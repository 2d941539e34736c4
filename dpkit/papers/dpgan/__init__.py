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
    LSUN_L,
    LSUN_U,
    MNIST,
    NON_PRIVATE,
    REPAIRED,
    SETTINGS,
    SMALL,
)

if TYPE_CHECKING:
    from dpkit.papers.dpgan import algorithm, scores, semi_supervised, tables
    from dpkit.papers.dpgan.algorithm import (
        advanced_step,
        basic_step,
        generate,
        new_gan,
        plain_step,
        step_of,
        warm_start,
    )
    from dpkit.papers.dpgan.claims import CLAIMS

NAME = "dpgan"
TITLE = "dpGAN (Zhang, Ji, Wang 2018)"
_MODULES = ("algorithm", "scores", "semi_supervised", "tables")
_STEPS = (
    "advanced_step", "basic_step", "generate", "new_gan", "plain_step", "step_of", "warm_start",
)  # fmt: skip
__all__ = [
    "CELEBA",
    "CLAIMS",
    "LSUN_L",
    "LSUN_U",
    "MNIST",
    "NAME",
    "NON_PRIVATE",
    "REPAIRED",
    "SETTINGS",
    "SMALL",
    "TITLE",
    "advanced_step",
    "algorithm",
    "basic_step",
    "generate",
    "new_gan",
    "plain_step",
    "scores",
    "semi_supervised",
    "step_of",
    "tables",
    "warm_start",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Claims on first use; what needs torch only when it is asked for."""
    if name == "CLAIMS":
        return import_module(f"{__name__}.claims").CLAIMS
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _STEPS:
        return getattr(import_module(f"{__name__}.algorithm"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
