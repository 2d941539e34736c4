"""DP-CGAN: Torkzadehmahani, Kairouz and Paten, "DP-CGAN: Differentially Private Synthetic Data and
Label Generation", CVPR Workshops 2019 (code: reihaneh-torkzadehmahani/DP-CGAN).

A conditional GAN of two small networks, trained on MNIST. The discriminator's gradients on real and
on fake examples are clipped apart, added and noised; images and labels are generated together. The
paper reports classifiers trained on the generated data at epsilon 9.6, delta 1e-5.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpkit.papers.dp_cgan.settings import BASIC, NON_PRIVATE, REPAIRED, SETTINGS, SMALL

if TYPE_CHECKING:
    from dpkit.papers.dp_cgan import algorithm, tables
    from dpkit.papers.dp_cgan.algorithm import basic_step, generate, new_gan, step
    from dpkit.papers.dp_cgan.claims import CLAIMS

NAME = "dp_cgan"
TITLE = "DP-CGAN (Torkzadehmahani, Kairouz, Paten 2019)"
__all__ = [
    "BASIC",
    "CLAIMS",
    "NAME",
    "NON_PRIVATE",
    "REPAIRED",
    "SETTINGS",
    "SMALL",
    "TITLE",
    "algorithm",
    "basic_step",
    "generate",
    "new_gan",
    "step",
    "tables",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Claims on first use; what needs torch only when it is asked for."""
    if name == "CLAIMS":
        return import_module(f"{__name__}.claims").CLAIMS
    if name in ("algorithm", "tables"):
        return import_module(f"{__name__}.{name}")
    if name in ("basic_step", "generate", "new_gan", "step"):
        return getattr(import_module(f"{__name__}.algorithm"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
