"""Exercises of notebook 07: noise for your own run, costs that add up, results to publish."""

from dpkit.course.exercises.sheet import Sheet
from dpkit.privacy import Release, SampledGaussian, calibrate, pld

sheet = Sheet("07_your_own_gan")


@sheet.guess(
    because="Half as much again as the clip norm, on every coordinate of the sum. (By PLD, as "
    "PrivateGan does; by Renyi DP, the default of calibrate, it is 1.6.)"
)
def noise() -> float:
    """600 steps, each looking at 128 of 1,437 pictures on average, at epsilon 8, delta 1e-5.

    A picture's gradient is clipped to length 1. How large is the noise on each coordinate?
    """
    return _noise()


@sheet.number(
    "Two ledgers, one after the other.",
    "2 * gan.plan_.ledger(), priced by pld.epsilon.",
    because="Less than twice 8, and much more than 8.",
    mistakes={
        "that is one of them.": lambda: _together(1),
        "a safe answer, but costs add up to less than that.": lambda: 16.0,
    },
)
def two_generators() -> float:
    """You train it twice on the same pictures, at epsilon 8 each, and publish both.

    What do both cost together? (600 steps at rate 128/1437 each, delta 1e-5, certified.)
    """
    return _together(2)


centred = sheet.choice(
    "`scores - scores.mean()` in a critic is refused. What is wrong with it?",
    "Each picture's loss depends on all others in the batch.",
    {
        "It changes the order of the scores.": "It shifts them all alike.",
        "Each picture's loss depends on all others in the batch.": (
            "So clipping one example's gradient does not bound what one record moves."
        ),
        "The mean of an empty batch is NaN.": "Also true, and a smaller worry.",
    },
    "What does one picture more change?",
)

published = sheet.choice(
    "Which of these may be published with the guarantee of the run?",
    "The generator and the sentence.",
    {
        "The critic's loss, step by step.": "It is computed from pictures, without noise.",
        "The generator and the sentence.": "What the file holds; the ledger is public, too.",
        "The test accuracy on private pictures.": "One more release, which nobody has charged.",
    },
    "Section 6 says what the file holds.",
)


def _noise() -> float:
    return calibrate.noise_multiplier(
        8.0, sample_rate=128 / 1437, steps=600, delta=1e-5, accountant=pld.epsilon
    )


def _together(runs: int) -> float:
    step = SampledGaussian(_noise(), 128 / 1437)
    return pld.epsilon([Release(step, 600 * runs)], delta=1e-5).epsilon
