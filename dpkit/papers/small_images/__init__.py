"""Schwabedal, Michel and Riontino, "Differentially Private Generation of Small Images", 2020
(arXiv 2005.00783; code: jusjusjus/noise-in-dpsgd-2020).

A WGAN with gradient penalty, trained on MNIST with DP-Adam on its critic, and measured by the
inception score against epsilon, by clip norm, noise multiplier and capacity. The paper also reviews
three earlier private GANs (Beaulieu-Jones et al. 2017, Xie et al. 2018, Zhang et al. 2018).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from dpkit.papers.small_images import adam, algorithm, findings, prior_work, scores, tables
    from dpkit.papers.small_images.algorithm import generate, new_gan, plain_step, step, step_of
    from dpkit.papers.small_images.claims import CLAIMS

NAME = "small_images"
TITLE = "Small images (Schwabedal, Michel, Riontino 2020)"
_STEPS = ("generate", "new_gan", "plain_step", "step", "step_of")
_MODULES = ("adam", "algorithm", "findings", "prior_work", "scores", "tables")
__all__ = [
    "CLAIMS",
    "FIGURE_1",
    "FIGURE_2",
    "FIGURE_3",
    "NAME",
    "NON_PRIVATE",
    "REPAIRED",
    "SETTINGS",
    "SMALL",
    "TITLE",
    "adam",
    "algorithm",
    "findings",
    "generate",
    "new_gan",
    "plain_step",
    "prior_work",
    "reduced",
    "scores",
    "step",
    "step_of",
    "tables",
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
