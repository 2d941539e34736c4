"""Exercises of notebook 12: the cost of a loss value, its bound, and a score."""

from dpkit.course.exercises.sheet import Sheet
from dpkit.privacy import calibrate, pld

sheet = Sheet("12_rdp_gan")


@sheet.number(
    "The noise multiplier is noise over sensitivity, and the sensitivity is C / 64.",
    "calibrate.noise_multiplier with accountant=pld.epsilon, times 20 / 64.",
    because="Far less than the paper's 10, if only loss values were released.",
    mistakes={
        "that is noise over sensitivity; the sensitivity is 20 / 64.": lambda: _ratio(),
        "one record moves the mean by C / 64, not by C.": lambda: 20 * _ratio(),
    },
)
def loss_noise() -> float:
    """With which noise on a batch's mean loss would 5,000 noisy loss values really cost 0.5?

    Batches of 64 out of 20,000, C = 20, delta 1e-5, certified.
    """
    return _ratio() * 20 / 64


bound = sheet.choice(
    "C is set to the largest loss that was seen during training. What is wrong with it?",
    "It is read off the private records, and does not bound the next run.",
    {
        "Nothing: a largest value is a bound.": "Of these records. Another record may exceed it.",
        "It is read off the private records, and does not bound the next run.": (
            "A bound must hold before the data are seen: clip at a public one."
        ),
        "It is too large: the mean loss would do.": "A smaller number bounds even less.",
    },
    "Who knows C, and when?",
)

score = sheet.choice(
    "By the paper's score a run has 1.000, but a classifier trained on its records is right on "
    "0.746 of real ones, as by always answering 'low'. What has the generator learned?",
    "To make records of one income only.",
    {
        "To make records of one income only.": (
            "Asked about them, a classifier of real records has nothing to get wrong."
        ),
        "The census, better than its own records show it.": (
            "Then a classifier would learn from its records more than always answering 'low'."
        ),
        "Its training records by heart.": (
            "Then a classifier would learn from its records as much as from real ones, 0.835."
        ),
    },
    "The paper's score asks a classifier of real records about generated ones.",
)


def _ratio() -> float:
    return calibrate.noise_multiplier(
        0.5, sample_rate=64 / 20_000, steps=5_000, delta=1e-5, accountant=pld.epsilon
    )
