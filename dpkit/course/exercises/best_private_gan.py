"""Exercises of notebook 21: one release's sensitivity, and the worth of many records."""

from dpkit.course.exercises.sheet import Sheet
from dpkit.papers.comparison import tables
from dpkit.papers.experiments import store
from dpkit.privacy import calibrate, pld

sheet = Sheet("21_best_private_gan")


@sheet.guess(
    because="One noisy mean and spread for each class, and no network trained on records."
)
def at_epsilon_1() -> float:
    """A classifier saw only samples of noisy class moments of MNIST, at epsilon 1.

    How many per cent of MNIST's test digits does it get right?
    """
    rows = {row["method"]: row for row in tables.shown(store.load("comparison", "mnist"))}
    return rows["class moments"]["epsilon 1"]


@sheet.number(
    "z has norm 1 at most, and so has z z'.",
    "The root of the sum of squares of the weights.",
    because="The count needs so little weight because its noise hardly matters among thousands.",
    mistakes={"the parts of one vector add up as squares.": lambda: 3.0},
)
def sensitivity() -> float:
    """With the weights (1, 1, 1), what is the largest norm of what one record adds?"""
    return sum(weight**2 for weight in (1, 1, 1)) ** 0.5


@sheet.number(
    "The edge is proportional to 1 / (mu n).",
    "mu is 1 / noise multiplier; calibrate.noise_multiplier with sample_rate=1.0, steps=1.",
    because="Privacy costs little where there are many records.",
    mistakes={"mu does not grow in proportion to epsilon.": lambda: 200_000.0},
    tolerance=0.02,
)
def records_at_epsilon_1() -> float:
    """How many records leave the same edge of noise at epsilon 1 as 20,000 do at epsilon 10?

    One Gaussian release, delta 1e-5, certified.
    """
    noise = {
        epsilon: calibrate.noise_multiplier(
            epsilon, sample_rate=1.0, steps=1, delta=1e-5, accountant=pld.epsilon
        )
        for epsilon in (1.0, 10.0)
    }
    return 20_000 * noise[1.0] / noise[10.0]


jitter = sheet.choice(
    "Samples are turned and shifted a little before the classifier learns. What does that cost?",
    "Nothing: it is computed from the release alone.",
    {
        "As much as the samples did.": "The records are not read again.",
        "Nothing: it is computed from the release alone.": (
            "Post-processing. That handwriting leans was known without looking."
        ),
        "A little: the angles depend on the digits.": "They are drawn, not read off records.",
    },
    "Are the records read again?",
)
