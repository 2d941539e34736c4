"""Exercises of notebook 10: a protocol's score, noise for the true sensitivity, three seeds."""

from dpkit.course.exercises.sheet import Sheet
from dpkit.papers.experiments import store
from dpkit.privacy import calibrate

sheet = Sheet("10_dp_cgan_tables")


@sheet.guess(because="Its intercepts no longer count, and its scores saturate at 0 and 1.")
def right_in_255() -> float:
    """A logistic regression on real MNIST is right for 92.1 % of test images in [0, 1].

    How many per cent are right if the same images are in 0..255?
    """
    return 100 * store.load("dp_cgan", "table_1")["real-seed0-lr"]["values"]["accuracy_255"]


@sheet.number(
    "calibrate.noise_multiplier assumes a sensitivity of C.",
    "Four times what 30,303 steps need.",
    because="Noise multipliers are relative to what one record can move.",
    mistakes={
        "that is for a sensitivity of C; here a record moves 4C.": lambda: _needed(),
        "that is for 2C: the fakes move as well.": lambda: 2 * _needed(),
    },
)
def noise_for_4c() -> float:
    """The published noise covers a sensitivity of C, the published code has one of 4C.

    With which noise multiplier (noise / C) would the discriminator's 30,303 steps have cost 9.6?
    (Sample rate 600/55000, delta 1e-5, the kit's default accountant.)
    """
    return 4 * calibrate.noise_multiplier(
        9.6, sample_rate=600 / 55_000, steps=30_303, delta=1e-5
    )


@sheet.number(
    "Releases on the same records add up: count the steps of all three runs.",
    "calibrate.noise_multiplier(9.6, sample_rate=0.04, steps=..., delta=1e-5)",
    because="One run at noise 1.401 costs 9.6, three together 18.67.",
    mistakes={
        "that is enough for one of the three.": lambda: _at(3_000),
        "three times the noise is more than three times the steps need.": lambda: (
            3 * _at(3_000)
        ),
    },
)
def three_seeds() -> float:
    """Three seeds of the repaired run are to be published, for 9.6 in all.

    Which noise multiplier does each need? (3,000 steps a run at sample rate 0.04, delta 1e-5, the
    kit's default accountant.)
    """
    return _at(9_000)


def _at(steps: int) -> float:
    return calibrate.noise_multiplier(9.6, sample_rate=0.04, steps=steps, delta=1e-5)


def _needed() -> float:
    return calibrate.noise_multiplier(9.6, sample_rate=600 / 55_000, steps=30_303, delta=1e-5)
