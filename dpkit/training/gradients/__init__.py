"""Per-example gradients: norms and clipped sums, without storing the gradients."""

from dpkit.training.gradients import penalty as gradient_penalty
from dpkit.training.gradients.ghost_clipping import (
    Capture,
    Clipped,
    Gradients,
    LayerPasses,
    PerExample,
    capture,
    clipped_sum,
    paired,
    per_example,
)
from dpkit.training.gradients.unsupported import HalfPrecision, MixesExamples, UnsupportedLayer

__all__ = [
    "Capture",
    "Clipped",
    "Gradients",
    "HalfPrecision",
    "LayerPasses",
    "MixesExamples",
    "PerExample",
    "UnsupportedLayer",
    "capture",
    "clipped_sum",
    "gradient_penalty",
    "paired",
    "per_example",
]
