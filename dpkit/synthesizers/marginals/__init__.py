"""Private tables of categories without training: noisy two-way counts, and rows drawn from them."""

from dpkit.synthesizers.marginals.synthesizer import (
    Conditional,
    MarginalsModel,
    MarginalsSettings,
    fit,
    model_from,
    pair_counts,
    settings_for,
)

__all__ = [
    "Conditional",
    "MarginalsModel",
    "MarginalsSettings",
    "fit",
    "model_from",
    "pair_counts",
    "settings_for",
]
