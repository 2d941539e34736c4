"""Exercises of notebook 22: orders, limits, noise over sensitivity, and the last bits."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from dpkit.course.exercises.sheet import Sheet
from dpkit.privacy import Release, SampledGaussian, rdp

sheet = Sheet("22_theorems_that_mislead")


@sheet.guess(because="Two in three of the noisy counts between -0.5 and 0.5 have such a bit.")
def given_away() -> float:
    """The true count is 0, the noise has deviation 2, and the sum is a 64-bit number.

    In which share of all releases does it reveal, with certainty, that the count was not 1?
    """
    near = 2 * ndtr(0.5 / 2) - 1  # between -0.5 and 0.5
    # half of those in [0.25, 0.5) have a bit below 2**-53, 3/4 of those in [0.125, 0.25), ...
    return float(near * sum((1 - 0.5**k) * 0.5**k for k in range(1, 60)))


@sheet.number(
    "What remains of section 1's formula when the cost D is 0?",
    "rdp.epsilon(..., orders=np.arange(2, 64))",
    because="With a capped list no amount of noise brings epsilon below that. The truth is 0.",
    mistakes={"that is the truth, which the capped list cannot show.": lambda: 0.0},
)
def capped() -> float:
    """One step at rate 0.01 with noise 1,000: which epsilon do the orders 2 to 63 give?

    At delta 1e-5.
    """
    silent = [Release(SampledGaussian(noise_multiplier=1000.0, sample_rate=0.01))]
    return rdp.epsilon(silent, delta=1e-5, orders=np.arange(2, 64)).epsilon


@sheet.function(
    "Definition 22.1: a release with noise multiplier z has mu = 1 / z.",
    "Squares of mu add up.",
    examples=[([1.0],), ([2.0, 2.0],), ([0.5, 1.0, 4.0],)],
    because="So four releases cost as much as one with half the noise.",
)
def as_one_release(noises: Sequence[float]) -> float:
    """Write as_one_release(noises): the noise multiplier of one Gaussian release.

    It costs as much as Gaussian releases with all these noise multipliers together.
    """
    return float(np.sum(1 / np.square(noises)) ** -0.5)


limit = sheet.choice(
    "Someone prices the run at the top by Gaussian DP and reports epsilon 2.32. Is that right?",
    "No: it is below the certified lower bound.",
    {
        "Yes: a record is drawn about 60 times, so the limit theorem is good.": (
            "Good, but not a guarantee. Compare it with certified.lower."
        ),
        "No: it is below the certified lower bound.": (
            "It is close, and refuted. An approximation can be good and still promise too little."
        ),
        "Nobody knows: no accountant is exact.": "A certified pair is two proven numbers.",
    },
    "Compare gdp.epsilon(run, delta=delta) with certified.lower.",
)


@sheet.number(
    "What is the largest distance between two vectors of length 2?",
    "Noise of deviation 6, over 2C = 4.",
    because="An accountant that is given 3 charges as if a record could only come or go.",
    mistakes={
        "a record that is replaced moves the sum by 2C, not by C.": lambda: 3.0,
        "that is the noise itself; divide it by how far a record moves the sum.": lambda: 6.0,
    },
)
def noise_over_sensitivity() -> float:
    """Gradients are clipped to C = 2, and noise of deviation 6 is added to the sum of a batch.

    The batch has a fixed size. What is noise over sensitivity under replace-one?
    """
    return 6 / (2 * 2.0)
