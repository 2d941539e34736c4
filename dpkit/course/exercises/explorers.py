"""Exercises of notebook 24: read an epsilon off an explorer, and doubt one."""

from dpkit.course.exercises.sheet import Sheet
from dpkit.privacy import Release, SampledGaussian, pld

sheet = Sheet("24_explorers")


@sheet.number(
    "The Accountant: note its certified epsilon, then type 0.55 as the noise multiplier.",
    because="Little noise costs more than in proportion: sampling hides a record less.",
    tolerance=0.05,
)
def half_the_noise() -> float:
    """Noise multiplier 1.1, sample rate 0.01, 10,000 steps, delta 1e-5; then half the noise.

    How many times as large is the certified epsilon?
    """
    return _certified(0.55) / _certified(1.1)


@sheet.number(
    "100 epochs at sample rate 0.01 are 10,000 steps.",
    "The first explorer: the row of PLD, which is certified.",
    because="So the reply is: no, more than that, whoever computes it.",
    mistakes={
        "100 epochs are 10,000 steps, not 100.": (
            lambda: pld.epsilon([Release(SampledGaussian(0.7, 0.01), 100)], delta=1e-5).epsilon
        )
    },
)
def colleague() -> float:
    """'Noise multiplier 0.7, batch 600 of 60,000, 100 epochs, and epsilon is 6.'

    What is the certified epsilon at delta 1e-5, for Poisson batches and add-remove?
    """
    return _certified(0.7)


shuffled = sheet.choice(
    "The same batches, but shuffled, not drawn by coins. The epsilon above is then",
    "no upper bound any more.",
    {
        "still right: every record is used equally often.": (
            "The accountant's formula needs each record to enter by a coin of its own."
        ),
        "no upper bound any more.": "One shuffled pass can cost more than a Poisson pass.",
        "infinite.": "Whole passes have a price: finite, but larger.",
    },
    "ShuffledOrPoisson: compare the two epsilons.",
)


def _certified(noise: float) -> float:
    return pld.epsilon([Release(SampledGaussian(noise, 0.01), 10_000)], delta=1e-5).epsilon
