"""Exercises of notebook 11: groups that move together, a stray factor, steps within a budget."""

from dpkit.course.exercises.sheet import Sheet
from dpkit.papers import dpgan as paper
from dpkit.papers.dpgan.claims import groups_of
from dpkit.privacy import calibrate, pld

sheet = Sheet("11_dpgan")

parallel = sheet.choice(
    "Why are five groups of a gradient not covered by parallel composition?",
    "Every record has a gradient in each of them.",
    {
        "Their bounds differ.": "Bounds may differ; each group has noise of its own size.",
        "Every record has a gradient in each of them.": (
            "Parallel composition needs parts of the data: a record in one part only."
        ),
        "There are too few of them.": "It is not a question of how many.",
    },
    "Disjoint in what: records or parameters?",
)


@sheet.number(
    "The noise on one device with 64 examples is 8 times too small.",
    "And five groups move together: the root of 5.",
    because="That little noise is what one record really meets.",
    mistakes={
        "the groups count, too: they move together.": lambda: paper.MNIST.noise_multiplier / 8,
        "five groups cost the root of 5, not 5.": lambda: paper.MNIST.noise_multiplier / 40,
    },
)
def effective_noise() -> float:
    """Table 1's noise multiplier for MNIST is 1.0859. It is divided by the root of 64 in the code,
    and five groups are clipped apart. What is the noise multiplier of the step, all in all?
    """
    return paper.MNIST.noise_multiplier / 64**0.5 / 5**0.5


@sheet.number(
    "calibrate.noise_multiplier assumes a single group; here five move together.",
    "An iteration has 4 critic steps: 4 x 780.",
    because="The noise of a single group, times the root of 5.",
    mistakes={
        "that is for a single group.": lambda: _one_group(4 * 780),
        "an iteration has four critic steps.": lambda: 5**0.5 * _one_group(780),
    },
)
def noise_for_table_7() -> float:
    """With which noise multiplier would Table 7's 780 iterations on MNIST really cost (4, 1e-5)?

    Five groups, Poisson batches of 256 out of 49,000, the kit's default accountant.
    """
    single = calibrate.noise_multiplier(4, sample_rate=256 / 49_000, steps=4 * 780, delta=1e-5)
    return single * 5**0.5


@sheet.number(
    "calibrate.steps takes a mechanism, which section 6.2 has, and an accountant.",
    "calibrate.steps(4, mechanism=groups_of(paper.MNIST), ...)",
    because="Four iterations. RDP allows none: for few releases it is a coarse bound.",
    mistakes={"that is RDP's answer; PLD proves that some are possible.": lambda: 0.0},
)
def steps_within_4() -> float:
    """And with the printed noise, how many critic steps of five groups cost at most 4, by PLD?"""
    return calibrate.steps(
        4, mechanism=groups_of(paper.MNIST), delta=1e-5, accountant=pld.epsilon
    )


def _one_group(steps: int) -> float:
    return calibrate.noise_multiplier(4, sample_rate=256 / 49_000, steps=steps, delta=1e-5)
