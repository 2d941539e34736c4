"""Exercises of notebook 01: orders, grids, limits, and what a budget allows."""

from collections.abc import Callable, Sequence
from math import floor

import numpy as np

from dpkit.exercises.sheet import Sheet
from dpkit.privacy import Guarantee, Release, SampledGaussian, calibrate, pld, rdp

sheet = Sheet("01_mechanisms_and_accountants")


@sheet.number(
    "In each step the loss moves up by half a spacing on average.",
    "steps x spacing / 2, with 14,062 steps.",
    because="The chords on the same grid stay within 0.02: they keep the mean under both measures.",
    mistakes={
        "that is a whole spacing a step; on average it is half of one.": lambda: 14_062 * 0.00125
    },
    tolerance=0.02,
)
def rounding_cost() -> float:
    """By how much does rounding every loss up, on a grid of 0.00125, raise the epsilon of the run?

    The run is that of the beginning, 14,062 steps.
    """
    return 14_062 * 0.00125 / 2


@sheet.number(
    "What remains of Theorem 1.4 when the cost is 0?",
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
    "Definition 1.7: a release with noise multiplier z has mu = 1 / z.",
    "Squares of mu add up.",
    examples=[([1.0],), ([2.0, 2.0],), ([0.5, 1.0, 4.0],)],
    because="So four releases cost as much as one with half the noise.",
)
def as_one_release(noises: Sequence[float]) -> float:
    """Write as_one_release(noises): the noise multiplier of the one Gaussian that costs as much.

    As all Gaussian releases with these noise multipliers together.
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
    "gdp.epsilon(run, delta=delta), beside certified.lower.",
)


@sheet.number(
    "calibrate.sample_rate takes accountant=; a batch is rate x patients.",
    "Round down: one patient more would cost more than epsilon 1.",
    because="RDP allows a quarter less.",
    mistakes={
        "that is what RDP allows; PLD proves that more is possible.": lambda: _batch(rdp.epsilon),
        "rounded up, it costs a little more than 1.": lambda: _batch(pld.epsilon) + 1.0,
    },
    tolerance=0.002,
)
def clinic_batch() -> float:
    """A clinic may spend epsilon 1 on 5,000 steps with noise 1 (delta 1e-5, add-remove).

    How large may its average batch of 60,000 patients be, by PLD?
    """
    return _batch(pld.epsilon)


def _batch(accountant: Callable[..., Guarantee]) -> float:
    rate = calibrate.sample_rate(
        1.0, noise_multiplier=1.0, steps=5_000, delta=1e-5, accountant=accountant
    )
    return floor(60_000 * rate)
