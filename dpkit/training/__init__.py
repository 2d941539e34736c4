"""Private training: clipped sums, noise, batches, the loop.

Each name is loaded on demand, and torch only where it needs torch. `gradient_penalty`
is a module: `gradient_penalty.per_example(...)`.
"""

from typing import TYPE_CHECKING

from dpkit.common.lazy import on_demand

if TYPE_CHECKING:
    from dpkit.training.checkpoint import Checkpoints, spent
    from dpkit.training.device import device_named, generator_on, seeded
    from dpkit.training.gradients import (
        Gradients,
        PerExample,
        UnsupportedLayer,
        capture,
        clipped_sum,
        gradient_penalty,
        paired,
        per_example,
    )
    from dpkit.training.loop import train
    from dpkit.training.networks import Conditional, called_fake, called_real, mlp
    from dpkit.training.noise import noised, noised_each
    from dpkit.training.optimizers import Adam, RmsProp, Sgd, average, set_rate, update
    from dpkit.training.types import Data, Gan, Record, Step, TrainingSettings

__all__ = [
    "Adam",
    "Checkpoints",
    "Conditional",
    "Data",
    "Gan",
    "Gradients",
    "PerExample",
    "Record",
    "RmsProp",
    "Sgd",
    "Step",
    "TrainingSettings",
    "UnsupportedLayer",
    "average",
    "called_fake",
    "called_real",
    "capture",
    "clipped_sum",
    "device_named",
    "generator_on",
    "gradient_penalty",
    "mlp",
    "noised",
    "noised_each",
    "paired",
    "per_example",
    "seeded",
    "set_rate",
    "spent",
    "train",
    "update",
]
__getattr__, __dir__ = on_demand(__name__)
