"""Exercises of notebook 14: the cost of a shape of noise, and a history that feeds on itself."""

from collections.abc import Sequence
from math import ceil

import numpy as np

from dpkit.course.exercises.sheet import Sheet
from dpkit.papers.adadp import example

sheet = Sheet("14_adadp")


@sheet.function(
    "Lemma 1 has the sum.",
    "np.square works on lists.",
    examples=[([12.0, 6.0], [12.0, 6.0]), ([1.0, 2.0, 3.0], [4.0, 4.0, 4.0])],
    because="Two shapes of noise with the same H cost the same.",
)
def privacy_used(sensitivities: Sequence[float], noise: Sequence[float]) -> float:
    """Write privacy_used(sensitivities, noise): the paper's H, the sum of s^2 / sigma^2."""
    return float(np.sum(np.square(sensitivities) / np.square(noise)))


@sheet.number(
    "At H = 1 one number is left to choose: try powers between 0 and 1.",
    "example.shaped((12, 6), power=p, noise_multiplier=1.0), then example.exact_mean_cosine.",
    because="Its cosine is 0.4908; the square root has 0.4905, and the paper's shape less.",
    mistakes={
        "the square root has the least variance, which is not quite the same.": lambda: 0.5
    },
    tolerance=0.03,
)
def best_power() -> float:
    """A query with s = (12, 6) has the value (10, 5).

    Of all noise s^p with H = 1, which power p keeps the direction best? (To two digits.)
    """
    powers = np.linspace(0, 1, 101).tolist()
    shapes = [example.shaped((12, 6), power=p, noise_multiplier=1.0) for p in powers]
    return powers[int(np.argmax([example.exact_mean_cosine((10, 5), one) for one in shapes]))]


steering = sheet.choice(
    "Which of these may steer the next step's noise at no further cost?",
    "The squares of the noised gradients.",
    {
        "The squares of the lot's true gradients.": "They read the records: section 5's leak.",
        "The squares of the noised gradients.": (
            "They were released already; what is computed from them is post-processing."
        ),
        "The share of gradients that were clipped.": "A count of records, and it has no noise.",
        "The largest gradient of the lot.": "One record decides it.",
    },
    "Which of them was published anyway?",
)


@sheet.number(
    "Section 6's factor is 1 where the fraction in it is 1.",
    "beta x sigma_* x the root of m.",
    because="More than four times the paper's lots of 600.",
    tolerance=0.0005,
)
def lot() -> float:
    """With how large a lot, at least, does the obvious repair stop growing at sigma_* = 8?

    All else as in the paper: m = 71,010 and beta = 1.2.
    """
    return ceil(1.2 * 8 * 71_010**0.5)
