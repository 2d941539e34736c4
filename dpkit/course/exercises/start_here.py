"""Exercises of notebook 00: neighbours, the loss of an output, many releases."""

from collections.abc import Callable
from math import exp

from dpkit.course.exercises.sheet import Sheet
from dpkit.privacy import Guarantee, calibrate, pld, rdp

sheet = Sheet("00_start_here")


@sheet.number(
    "Two bell curves of one width, around 36 and around 37: where are they equally high?",
    "They are mirror images of each other.",
    because="Halfway: at 37 the output already speaks for the person.",
    mistakes={
        "that output is likelier with the person than without.": lambda: 37.0,
        "that output is likelier without the person than with.": lambda: 36.0,
    },
    tolerance=0.005,
)
def zero_loss() -> float:
    """The count is 37 with the person and 36 without. For which published y is the loss zero?"""
    return (37 + 36) / 2


@sheet.function(
    "Laplace noise of scale b has the density exp(-|y - mean| / b) / (2 b).",
    "The factor 1 / (2 b) is the same in both worlds, so it cancels.",
    examples=[(30.0, 2.0), (36.4, 2.0), (45.0, 0.5)],
    because="It never exceeds 1 / scale: with Laplace noise no output is worse than that.",
)
def laplace_loss(y: float, scale: float) -> float:
    """Write laplace_loss(y, scale): the privacy loss of y if the noise on 37 or 36 is Laplace."""
    return (abs(y - 36) - abs(y - 37)) / scale


@sheet.number(
    "Put the false-positive rate into the promise at the beginning of 'Attack it'.",
    "At most exp(epsilon) x 0.01 + delta.",
    because="Privacy at epsilon 1 lets an attacker do 2.7 times better than guessing, no more.",
    mistakes={
        "that is what guessing finds; the promise allows exp(epsilon) times as much.": lambda: (
            0.01
        ),
        "the factor is exp(epsilon), not 1 + epsilon.": lambda: 0.02001,
        "that is in per cent; a share lies between 0 and 1.": lambda: (
            100 * (exp(1.0) * 0.01 + 1e-5)
        ),
        "exp(epsilon) multiplies the 0.01, which stays outside the exponent.": lambda: exp(
            0.01
        ),
    },
)
def found_at_most() -> float:
    """An attacker wrongly accuses 1 % of those who are not in the data.

    Which share of those who are can they find, at most, at epsilon 1 and delta 1e-5?
    """
    return exp(1.0) * 0.01 + 1e-5


@sheet.number(
    "Everyone is in every release: the sample rate is 1.",
    "calibrate.noise_multiplier(1.0, sample_rate=1.0, steps=..., delta=1e-5)",
    because="Noise grows with the square root of the number of releases: about seven times.",
    mistakes={
        "that is the noise of a single release.": lambda: _noise(1),
        "costs add up as squares here: 52 times the noise of one release is too much.": (
            lambda: 52 * _noise(1)
        ),
        "that is enough, by PLD, another accountant. RDP, which calibrate asks, needs more.": (
            lambda: _noise(52, pld.epsilon)
        ),
    },
)
def weekly_noise() -> float:
    """A count is published every week for a year, with fresh noise each time.

    Which is the smallest noise multiplier that keeps all 52 releases within epsilon 1 at delta
    1e-5, by RDP, the accountant that `calibrate` asks?
    """
    return calibrate.noise_multiplier(1.0, sample_rate=1.0, steps=52, delta=1e-5)


free = sheet.choice(
    "The noisy count is out. Which of these costs no more privacy?",
    "Rounding it to a whole number.",
    {
        "Publishing it again with fresh noise.": "Two releases: their average has less noise.",
        "Drawing three noisy counts and publishing the one nearest to 37.": (
            "The choice looks at the true count, and nothing hides that."
        ),
        "Rounding it to a whole number.": (
            "Whatever is computed from a release alone is post-processing, and free."
        ),
        "Publishing the noise too, so that others can check it.": (
            "Then every reader can subtract the noise."
        ),
    },
    "Which of them reads the 200 answers once more?",
)


def _noise(steps: int, accountant: Callable[..., Guarantee] = rdp.epsilon) -> float:
    return calibrate.noise_multiplier(
        1.0, sample_rate=1.0, steps=steps, delta=1e-5, accountant=accountant
    )
