"""Exercises of notebook 13: clip norms, Adam's constant, the noise for a target epsilon."""

from dpkit.course.exercises.sheet import Sheet
from dpkit.papers.small_images import adam
from dpkit.papers.small_images.claims import comparison
from dpkit.privacy import calibrate, pld

sheet = Sheet("13_small_images")

terms = sheet.choice(
    "The loss of an example is D(fake) - D(x) + 10 (slope at a point between - 1)^2. "
    "Which of the three terms needs protection?",
    "The second and the third.",
    {
        "The second: only it contains the record.": (
            "The point between is a mixture of the fake and the record."
        ),
        "The second and the third.": (
            "Both contain the record, so their gradients must be clipped together, as a whole."
        ),
        "None: the critic is not published.": (
            "The generator learns from the critic, and it is published."
        ),
    },
    "What is the point between made of?",
)


@sheet.number(
    "claims.comparison().updates(C, eps=...) and adam.difference.",
    "By the rule, C should be well above eps x batch / noise = 0.0026.",
    because="By the rule both weigh the same at 0.0026, so 0.05 might do; but gradients differ.",
    mistakes={"nearly, but those updates are still more than 5 % apart.": lambda: 0.1},
)
def adam_norm() -> float:
    """Your Adam has eps = 1e-5. Which is the smallest clip norm of 1, 0.1, 0.01 and 0.001
    whose updates are within 5 % of those without any eps? (Batch 128, noise multiplier 0.5.)
    """
    found = comparison()
    near = [
        norm
        for norm in (1.0, 0.1, 0.01, 0.001)
        if adam.difference(found.updates(norm, eps=0.0), found.updates(norm, eps=1e-5)) <= 0.05
    ]
    return min(near)


@sheet.number(
    "calibrate.noise_multiplier takes accountant=pld.epsilon.",
    "sample_rate=128 / 60_000, steps=40 * 469",
    because="Between 0.8 and 0.9, as the table of section 5 suggests.",
)
def noise_for_2() -> float:
    """Poisson batches of 128 out of 60,000, 40 epochs of 469 steps, delta 1e-5.

    Which noise multiplier keeps the certified epsilon within 2?
    """
    return calibrate.noise_multiplier(
        2.0, sample_rate=128 / 60_000, steps=40 * 469, delta=1e-5, accountant=pld.epsilon
    )
