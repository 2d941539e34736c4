"""Exercises of notebook 12: the place of the noise, and the cost of a loss value."""

import numpy as np

from dpkit.course.exercises.sheet import Sheet
from dpkit.privacy import calibrate, pld

sheet = Sheet("12_rdp_gan")


@sheet.guess(because="The noise has no gradient. Nothing of it arrives in the weights.")
def apart() -> float:
    """Two trainings, same seeds: one with noise of deviation 10 on the loss, one with none.

    By how much do their weights differ at the end, at most?
    """
    return 0.0


@sheet.function(
    "Differentiate with respect to w; the noise does not depend on it.",
    examples=[(np.array([1.0, -2.0, 3.0]), 10.0), (np.array([0.5]), -300.0)],
    because="The same whatever the noise: that is the whole story of section 1.",
)
def slope(w: np.ndarray, noise: float) -> np.ndarray:
    """Write slope(w, noise): the gradient with respect to w of sum(w^2) + noise."""
    return 2 * w


bound = sheet.choice(
    "C is set to the largest loss that was seen during training. What is wrong with it?",
    "It is read off the private records, and does not bound the next run.",
    {
        "Nothing: a largest value is a bound.": "Of these records. Another record may exceed it.",
        "It is read off the private records, and does not bound the next run.": (
            "A bound must hold before the data are seen: clip at a public one."
        ),
        "It is too large: the mean loss would do.": "A smaller number bounds even less.",
    },
    "Who knows C, and when?",
)


@sheet.number(
    "The noise multiplier is noise over sensitivity, and the sensitivity is C / 64.",
    "calibrate.noise_multiplier with accountant=pld.epsilon, times 20 / 64.",
    because="Far less than the paper's 10, if only loss values were released.",
    mistakes={
        "that is noise over sensitivity; the sensitivity is 20 / 64.": lambda: _ratio(),
        "one record moves the mean by C / 64, not by C.": lambda: 20 * _ratio(),
    },
)
def loss_noise() -> float:
    """With which noise on a batch's mean loss would 5,000 noisy loss values really cost 0.5?

    Batches of 64 out of 20,000, C = 20, delta 1e-5, certified.
    """
    return _ratio() * 20 / 64


def _ratio() -> float:
    return calibrate.noise_multiplier(
        0.5, sample_rate=64 / 20_000, steps=5_000, delta=1e-5, accountant=pld.epsilon
    )
