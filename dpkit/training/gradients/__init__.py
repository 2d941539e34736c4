"""Per-example gradients: their norms and clipped sums, without storing a gradient an example."""

from dpkit.training.gradients import penalty as gradient_penalty
from dpkit.training.gradients.by_products import Capture, capture, per_example
from dpkit.training.gradients.clipped import Clipped, clipped_sum
from dpkit.training.gradients.factored import Gradients, LayerPasses, PerExample, paired
from dpkit.training.gradients.layers import HalfPrecision, MixesExamples, UnsupportedLayer

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
