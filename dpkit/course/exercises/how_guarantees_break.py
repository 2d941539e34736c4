"""Exercises of notebook 12: one for each way in which a guarantee breaks."""

from math import inf, log, sqrt

from dpkit.course.exercises.sheet import Sheet
from dpkit.privacy import Gaussian

sheet = Sheet("12_how_guarantees_break")


@sheet.number(
    "How far does one record move the whole?",
    "0.1 times the root of 9.",
    because="One record moves the whole by 0.3, as much as the noise.",
    mistakes={
        "that is for one tensor; a record moves all nine.": lambda: 3.0,
        "lengths of orthogonal parts add as squares.": lambda: 1 / 3,
    },
)
def nine_tensors() -> float:
    """A critic has nine tensors, each clipped to C = 0.1; each number gets noise of deviation 0.3.

    Which noise multiplier do you charge?
    """
    return 0.3 / (0.1 * sqrt(9))


@sheet.number(
    "Does the penalty bear noise?",
    "Its gradient depends on real images.",
    because="No finite epsilon: ledger/ctab-gan-penalty-after-noise.",
)
def penalty_after_noise() -> float:
    """A gradient penalty is added after clipping and noise. What is the epsilon?

    (It keeps the critic's slope near 1, at mixtures of a real and a generated image.)
    """
    return inf


@sheet.number(
    "from dpkit.privacy import Gaussian; then Gaussian(noise).profile([8.0]).max()",
    "The noise is sqrt(2 ln(1.25 / delta)) / 8.",
    because="Still enough, though its proof ends at epsilon 1; a little further it no longer is.",
    mistakes={"that is what was asked for, not what the noise gives.": lambda: 1e-5},
    tolerance=0.02,
)
def recipe_at_8() -> float:
    """The classic formula for the noise, at epsilon 8 and delta 1e-5: which delta does it give?"""
    noise = sqrt(2 * log(1.25 / 1e-5)) / 8
    return float(Gaussian(noise).profile([8.0]).max())


without_replacement = sheet.choice(
    "Batches of a fixed size are drawn without replacement, each anew. May you charge Poisson's "
    "epsilon?",
    "No: adjacency is replace-one, and a record moves the sum by 2C.",
    {
        "Yes: every record is in a batch with the same probability.": "Look at the adjacency.",
        "No: adjacency is replace-one, and a record moves the sum by 2C.": (
            "With one record fewer it is another size. WithoutReplacementGaussian prices it."
        ),
        "No: such batches have no price.": "They have: WithoutReplacementGaussian.",
    },
    "Take one record away. How large is the batch?",
)

early_stop = sheet.choice(
    "Training stops when accuracy on private validation data reaches 96 %. Epsilon is that of the "
    "steps made. Right?",
    "No: the number of steps depends on records without any noise.",
    {
        "Yes: fewer steps cost less.": "The number of steps is a release itself.",
        "No: the number of steps depends on records without any noise.": (
            "adadp/selected-on-test-accuracy is of that kind."
        ),
        "Yes, if validation records are not trained on.": "They are private all the same.",
    },
    "Which lines read private records?",
)

ten_rates = sheet.choice(
    "You try ten learning rates, each at epsilon 1, and publish the best run. What do you charge?",
    "All ten runs, or a proven price of choosing.",
    {
        "Epsilon 1: only one run is published.": "Which one it is depends on the other nine.",
        "All ten runs, or a proven price of choosing.": (
            "Papernot and Steinke (2022) price a random number of runs: `epsilon --best-of`."
        ),
        "A little more than 1, for the choice.": (
            "A choice by true scores is not a little; a random number of runs costs about thrice."
        ),
    },
    "Who chose, and by looking at what?",
)
