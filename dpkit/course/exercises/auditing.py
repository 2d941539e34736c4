"""Exercises of notebook 05: bounds from errors, how many draws, and too many looks."""

from itertools import count
from math import exp, log

from dpkit.course.exercises.sheet import Sheet

sheet = Sheet("05_auditing")


@sheet.function(
    "Each direction gives a bound: log((1 - one rate - delta) / the other).",
    "Take the larger one; epsilon is never below 0.",
    examples=[(0.01, 0.6, 1e-5), (0.6, 0.01, 1e-5), (0.5, 0.5, 1e-5), (0.2, 0.9, 0.0)],
    because="With true rates. Of an experiment they are only known within intervals.",
)
def bound(fpr: float, fnr: float, delta: float) -> float:
    """Write bound(fpr, fnr, delta): the epsilon that an attacker with these error rates proves.

    The larger of the two directions, and at least 0.
    """
    return max(0.0, log((1 - fnr - delta) / fpr), log((1 - fpr - delta) / fnr))


@sheet.number(
    "The promise: true positives <= exp(epsilon) x false positives + delta.",
    "log((0.4 - 1e-5) / 0.01)",
    because="Whoever claims less is wrong, if the rates are true.",
    mistakes={"take the logarithm.": lambda: 40.0},
)
def forty_of_a_hundred() -> float:
    """An attacker accuses 1 % of the others and finds 40 % of the members, at delta 1e-5.

    What is epsilon at least?
    """
    return log((0.4 - 1e-5) / 0.01)


@sheet.number(
    "With 0 errors of n, the limit of Clopper and Pearson is about 3.7 / n.",
    "log(n / 3.7) must exceed 5.",
    because="And a tenth more to choose a threshold.",
    mistakes={"that would do if 0 errors meant a probability of 1 / n.": lambda: exp(5)},
    tolerance=0.03,
)
def draws() -> float:
    """You want to refute a claimed epsilon of 5 at delta 1e-5 by Clopper and Pearson.

    How many draws a world do you need, even if the two worlds never overlap? (At 95 %.)
    """
    limits = ((n, 1 - 0.025 ** (1 / n)) for n in count(1))  # after 0 errors of n
    return next(n for n, limit in limits if log((1 - limit - 1e-5) / limit) > 5)


looks = sheet.choice(
    "A colleague tries 20 thresholds and reports the largest bound. Each holds with 95 %. Well?",
    "The largest of 20 may err up to 20 times as often.",
    {
        "It holds with 95 %, like each of them.": "For one that was fixed beforehand.",
        "The largest of 20 may err up to 20 times as often.": (
            "Take each at 1 - 0.05/20, or choose the threshold on other scores."
        ),
        "It is too small: 20 bounds should be added up.": "All are bounds on the same epsilon.",
    },
    "With what probability do all 20 hold?",
)
