"""Exercises of notebook 01: orders, grids, and reported epsilons."""

from math import log

from dpkit.course.exercises.sheet import Sheet
from dpkit.privacy import SampledGaussian

sheet = Sheet("01_accountants")

STEPS = 14_062


@sheet.number(
    "The run's cost at order 2 is 14,062 times that of a step, 0.329.",
    "Theorem 1.4, improved: 0.329 + (log(1/delta) - log 2) / (2 - 1) + log(1 - 1/2).",
    because="A low order pays for delta: log(1 / delta) is divided by 1 only.",
    mistakes={
        "that is the classic conversion.": lambda: _cost(2) + log(1e5),
        "that is the cost of the order, not yet an epsilon: convert it.": lambda: _cost(2),
        "that is order 8.": lambda: _improved(8),
    },
)
def one_order() -> float:
    """Take order 2 alone.

    Which epsilon does the improved conversion give for the run, at delta 1e-5?
    """
    return _improved(2)


@sheet.number(
    "In each step the loss moves up by half a spacing on average.",
    "steps x spacing / 2, with 14,062 steps.",
    because="The chords on the same grid stay within 0.02: each cell keeps its mass of P and of Q.",
    mistakes={
        "that is a whole spacing a step; on average it is half of one.": lambda: (
            STEPS * 0.00125
        )
    },
    tolerance=0.02,
)
def rounding_cost() -> float:
    """By how much does rounding every loss up, on a grid of 0.00125, raise the epsilon of the run?

    The run is that of the beginning, 14,062 steps.
    """
    return STEPS * 0.00125 / 2


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


def _cost(order: int) -> float:
    step = SampledGaussian(noise_multiplier=1.1, sample_rate=256 / 60_000)
    return STEPS * float(step.rdp([order])[0])


def _improved(order: int) -> float:
    return _cost(order) + (log(1e5) - log(order)) / (order - 1) + log(1 - 1 / order)
