"""Exercises of notebook 03: clipping by example and by tensor, and labels without noise."""

import numpy as np

from dpkit.course.exercises.sheet import Sheet

sheet = Sheet("03_dp_cgan")


@sheet.guess(because="Four parts of length C each: C times the root of 4. C was charged.")
def per_tensor() -> float:
    """Each of the four tensors is clipped to C. How many C long can the whole gradient be?"""
    return 4**0.5


@sheet.function(
    "Scale each row by min(1, bound / its norm).",
    "A factor for each row, never above 1; then the sum over rows, .sum(axis=0).",
    examples=[
        (np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0),
        (np.array([[0.6, 0.0], [0.0, -7.0]]), 2.0),
        (np.array([[1.0, 2.0, 2.0]]), 3.0),
    ],
    because="Whatever the records are, removing one moves this sum by at most the bound.",
)
def clipped_sum(gradients: np.ndarray, bound: float) -> np.ndarray:
    """Write clipped_sum(gradients, bound): the sum of the rows, each clipped to norm bound.

    `gradients` is a NumPy array with one example's gradient in each row; the sum has a
    number for each column.
    """
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return (gradients * np.minimum(1, bound / np.maximum(norms, 1e-300))).sum(axis=0)


labels = sheet.choice(
    "The generator is trained on the labels of the private batch. Which noise covers that?",
    "None: its update reads the labels without noise.",
    {
        "The discriminator's: the generator only sees its output.": (
            "It also sees the labels themselves, as its own input."
        ),
        "None: its update reads the labels without noise.": (
            "So no finite epsilon holds. Public labels repair it at no cost."
        ),
        "Four times the noise on the discriminator.": (
            "More noise elsewhere does not reach the generator's update."
        ),
    },
    "Follow the labels: where do they enter the generator, and is there noise on the way?",
)
