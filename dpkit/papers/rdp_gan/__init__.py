"""RDP-GAN: Ma, Li, Ding, Liu, Wei, Weng and Poor, "RDP-GAN: A Renyi-Differential Privacy based
Generative Adversarial Network", arXiv:2007.02056, 2020 (code: JJisbug/RDP-GAN).

Noise is added to the value of the discriminator's loss, instead of to clipped gradients; its scale
may be lowered while training when a test accuracy stops improving. The paper generates MNIST digits
and census records at a stated total epsilon of 0.5 and 5, delta 1e-5.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpkit.papers.rdp_gan.settings import (
    DP_GAN,
    MULTIPLICATIVE,
    NON_PRIVATE,
    OUTPUT_ERROR,
    SETTINGS,
    SMALL,
)

if TYPE_CHECKING:
    from dpkit.papers.rdp_gan import accounting, adaptive, algorithm, tables
    from dpkit.papers.rdp_gan.algorithm import (
        generate,
        loss_value_step,
        multiplicative_step,
        new_gan,
        output_error_step,
        repaired_step,
    )
    from dpkit.papers.rdp_gan.claims import CLAIMS

NAME = "rdp_gan"
TITLE = "RDP-GAN (Ma, Li, Ding, Liu, Wei, Weng, Poor 2020)"
_STEPS = (
    "generate", "repaired_step", "loss_value_step", "multiplicative_step", "new_gan",
    "output_error_step",
)  # fmt: skip
__all__ = [
    "CLAIMS",
    "DP_GAN",
    "MULTIPLICATIVE",
    "NAME",
    "NON_PRIVATE",
    "OUTPUT_ERROR",
    "SETTINGS",
    "SMALL",
    "TITLE",
    "accounting",
    "adaptive",
    "algorithm",
    "generate",
    "loss_value_step",
    "multiplicative_step",
    "new_gan",
    "output_error_step",
    "repaired_step",
    "tables",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Claims on first use; what needs torch only when it is asked for."""
    if name == "CLAIMS":
        return import_module(f"{__name__}.claims").CLAIMS
    if name in ("accounting", "adaptive", "algorithm", "tables"):
        return import_module(f"{__name__}.{name}")
    if name in _STEPS:
        return getattr(import_module(f"{__name__}.algorithm"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
