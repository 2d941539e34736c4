"""Exercises of notebook 23: rare events, steps, rules, and the most that a budget allows."""

from collections.abc import Callable
from math import floor

from dpkit.course.exercises.sheet import Sheet
from dpkit.privacy import Guarantee, Release, SampledGaussian, calibrate, composition, pld, rdp

sheet = Sheet("23_more_on_accountants")


@sheet.number(
    "A share p of n trials has the standard error sqrt(p (1 - p) / n).",
    "It is a tenth of p where n = 100 (1 - p) / p.",
    because="Ten million runs of 14,062 steps each. Importance sampling needs 12,000.",
    mistakes={
        "so many trials see the event once on average, give or take one.": lambda: 1e5,
        "that is for a relative error of 1 %.": lambda: 1e9,
    },
)
def plain_trials() -> float:
    """An event has probability 1e-5.

    How many plain trials estimate that probability with a standard error of a tenth of it?
    """
    return 100 * (1 - 1e-5) / 1e-5


@sheet.guess(because="A little more than the root of 2, by which the sum's width grows.")
def twice_as_long() -> float:
    """The run of the beginning goes on for another 14,062 steps.

    How many times as large is its certified epsilon?
    """
    step = SampledGaussian(noise_multiplier=1.1, sample_rate=256 / 60_000)
    once, twice = (
        pld.epsilon([Release(step, k)], delta=1e-5).epsilon for k in (14_062, 28_124)
    )
    return twice / once


@sheet.number(
    "composition.basic and composition.advanced, on [Release(step, k)] for k from 10 to 100.",
    "The first k at which advanced answers with less than basic.",
    because="From there on, the square root of the steps outweighs the larger factor.",
    mistakes={"there, advanced still answers with basic.": lambda: 26},
    tolerance=1e-6,
)
def advanced_pays() -> float:
    """A step has rate 0.01 and noise 2; delta is 1e-5.

    From how many steps on is `composition.advanced` smaller than `composition.basic`?
    """
    step = SampledGaussian(noise_multiplier=2.0, sample_rate=0.01)
    rules = composition.basic, composition.advanced
    for k in range(20, 100):
        basic, advanced = (rule([Release(step, k)], delta=1e-5).epsilon for rule in rules)
        if advanced < basic:
            return k
    raise AssertionError


@sheet.number(
    "calibrate.sample_rate takes accountant=; a batch is rate x patients.",
    "Round down: one patient more would cost more than epsilon 1.",
    because="RDP allows a quarter less.",
    mistakes={
        "that is what RDP allows; PLD proves that more is possible.": lambda: _batch(
            rdp.epsilon
        ),
        "rounded up, it costs a little more than 1.": lambda: _batch(pld.epsilon) + 1.0,
    },
    tolerance=0.002,
)
def clinic_batch() -> float:
    """A clinic may spend epsilon 1 on 5,000 steps with noise 1 (delta 1e-5, add-remove).

    How large may its average batch of 60,000 patients be, by PLD?
    """
    return _batch(pld.epsilon)


def _batch(accountant: Callable[..., Guarantee]) -> float:
    rate = calibrate.sample_rate(
        1.0, noise_multiplier=1.0, steps=5_000, delta=1e-5, accountant=accountant
    )
    return floor(60_000 * rate)
