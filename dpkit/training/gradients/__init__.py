"""Per-example gradients: their norms and clipped sums, without storing a gradient an example."""

from dpkit.training.gradients import penalty as gradient_penalty
from dpkit.training.gradients.by_products import (
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
from dpkit.training.gradients.refused import HalfPrecision, MixesExamples, UnsupportedLayer

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
