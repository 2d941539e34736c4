"""Exercises of notebook 02: the place where noise protects."""

import numpy as np

from dpkit.course.exercises.sheet import Sheet

sheet = Sheet("02_train_twice")


@sheet.guess(because="The noise has no gradient. Nothing of it arrives in the weights.")
def apart() -> float:
    """Two trainings, same seeds: one with noise of deviation 10 on the loss, one with none.

    By how much do their weights differ at the end, at most?
    """
    return 0.0


@sheet.function(
    "Differentiate with respect to w; the noise does not depend on it.",
    examples=[(np.array([1.0, -2.0, 3.0]), 10.0), (np.array([0.5]), -300.0)],
    because="The same whatever the noise: that is the whole story of section 2.",
)
def slope(w: np.ndarray, noise: float) -> np.ndarray:
    """Write slope(w, noise): the gradient with respect to w of sum(w^2) + noise."""
    return 2 * w


place = sheet.choice(
    "Noise at which place protects the records?",
    "On every coordinate of the sum of clipped gradients.",
    {
        "On the learning rate, drawn anew in each step.": (
            "A random length again: the step still points along the true gradient."
        ),
        "On the printed loss, while training goes on as before.": (
            "That protects the printed number. The weights still hold the records."
        ),
        "On every coordinate of the sum of clipped gradients.": (
            "Clipping bounds what one record changes, and the noise reaches every direction."
        ),
        "On every coordinate of the gradient, as it is.": (
            "Without a clip nothing bounds a record's gradient, so no noise is surely enough."
        ),
    },
    "Which of them reaches every direction, and bounds what one record changes?",
)


@sheet.number(
    "A gradient with 256 rows spans at most 256 directions.",
    "Every image of the batch, real or generated, needs a direction of its own: 2 m <= 256.",
    because="The paper's batches of 64 are well within.",
    mistakes={
        "the generated images take directions, too.": lambda: 256.0,
        "that is section 3's batch. How many more could there be?": lambda: 16.0,
    },
    tolerance=0.003,  # it is a count
)
def members() -> float:
    """With noise by eq. 9, how many real images can a batch have, and the attack still find each?

    As many generated images are with them (not always 64), and the first layer has 256 units.
    """
    return 256 / 2
