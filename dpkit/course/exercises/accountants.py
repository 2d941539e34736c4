"""Exercises of notebook 01: grids, steps, certified pairs, and the most that a budget allows."""

from collections.abc import Callable
from math import floor

from dpkit.course.exercises.sheet import Sheet
from dpkit.privacy import Guarantee, Release, SampledGaussian, calibrate, pld, rdp

sheet = Sheet("01_accountants")


@sheet.number(
    "In each step the loss moves up by half a spacing on average.",
    "steps x spacing / 2, with 14,062 steps.",
    because="The chords on the same grid stay within 0.02: they keep the mean under both measures.",
    mistakes={
        "that is a whole spacing a step; on average it is half of one.": lambda: (
            14_062 * 0.00125
        )
    },
    tolerance=0.02,
)
def rounding_cost() -> float:
    """By how much does rounding every loss up, on a grid of 0.00125, raise the epsilon of the run?

    The run is that of the beginning, 14,062 steps.
    """
    return 14_062 * 0.00125 / 2


@sheet.guess(because="A little more than the root of 2, by which the sum's width grows.")
def twice_as_long() -> float:
    """The run of the beginning goes on for another 14,062 steps.

    How many times as large is its certified epsilon?
    """
    step = SampledGaussian(noise_multiplier=1.1, sample_rate=256 / 60_000)
    once, twice = (
        pld.epsilon([Release(step, k)], delta=1e-5).epsilon for k in (14_062, 28_124)
    )
    return twice / once


reported = sheet.choice(
    "Someone reports epsilon 2.50 for the run at the top (delta 1e-5, add-remove) and names no "
    "accountant. What can you say?",
    "It holds: it is above the certified upper bound.",
    {
        "It fails: RDP gives 2.60.": (
            "2.60 is an upper bound, and a smaller upper bound may hold as well. Only a lower "
            "bound can refute a number."
        ),
        "It holds: it is above the certified upper bound.": (
            "Every number from the true epsilon upwards holds, whoever computed it."
        ),
        "Nothing: an epsilon without its method cannot be judged.": (
            "It cannot be compared with another epsilon, but a certified pair of the run judges it."
        ),
    },
    "Section 4: which end of a certified pair refutes a number, and which confirms it?",
)


@sheet.number(
    "calibrate.sample_rate takes accountant=; a batch is rate x patients.",
    "Round down: one patient more would cost more than epsilon 1.",
    because="RDP allows a quarter less.",
    mistakes={
        "that is what RDP allows; PLD proves that more is possible.": lambda: _batch(
            rdp.epsilon
        ),
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
