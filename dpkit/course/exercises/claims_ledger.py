"""Exercises of notebook 20: a claim of your own, verdicts, and the least cost of shuffling."""

from dpkit.course.exercises.sheet import Sheet
from dpkit.papers import small_images
from dpkit.papers.claims import check
from dpkit.privacy import Release, SampledGaussian, rdp

sheet = Sheet("20_claims_ledger")


@sheet.number(
    "Which rate does the run have?",
    "256/45,000: the 5,000 are never drawn.",
    because="The stated 3.62 is right for the stated rate, and fails for the run.",
    mistakes={"that is the epsilon of the stated rate.": lambda: _at(50_000)},
    tolerance=0.002,
)
def true_rate() -> float:
    """A script charges the rate 256/50,000 (noise 1, 10,000 steps, delta 1e-5): epsilon 3.62.

    It drops 5,000 of the 50,000 images for validation. What does the run cost, by RDP with the
    classic conversion, as they did?
    """
    return _at(45_000)


@sheet.number(
    "On the wall, filter by the word 'shuffled'.",
    "small_images/shuffled-against-poisson",
    because="40 passes were charged less than one pass costs at least.",
    mistakes={"that is what forty passes were charged.": lambda: 2.01},
)
def shuffled_at_least() -> float:
    """Small Images shuffles, and charges as if batches were Poisson.

    Which epsilon does one pass cost at least, where 40 passes were charged 2.01?
    """
    (claim,) = (c for c in small_images.CLAIMS if c.id.endswith("/shuffled-against-poisson"))
    return check(claim).computed


verdict = sheet.choice(
    "A claim says 'epsilon at most 9.6'. No finite epsilon covers the run. The verdict?",
    "Fails: an epsilon that does not exist is infinite.",
    {
        "Cannot be checked: there is no number to compare.": (
            "There is one: infinity, and it is above 9.6."
        ),
        "Fails: an epsilon that does not exist is infinite.": "So 'at most 9.6' is false.",
        "Computed: nothing was stated.": "9.6 was stated.",
    },
    "The table of section 3.",
)


def _at(records: int) -> float:
    release = Release(SampledGaussian(1.0, 256 / records), 10_000)
    return rdp.epsilon([release], delta=1e-5, conversion="classic").epsilon
