"""Exercises of notebook 04: one record's reach through six lines of code, and the noise left."""

from collections.abc import Callable

from dpkit.course.exercises.sheet import Sheet
from dpkit.papers.dpgan.settings import NoiseOverSqrtBatch
from dpkit.papers.small_images.prior_work import ClippedAfterMean, Xie
from dpkit.privacy import Guarantee, calibrate, pld, rdp
from dpkit.privacy.clipping import PerTensorClipping

sheet = Sheet("04_six_lines_of_code")


@sheet.number(
    "A single gradient may be as long as you like.",
    "A long one decides where the mean points. How far apart are two ends of a ball of radius C?",
    because="From C one way to C the other way, however large the batch.",
    mistakes={
        "that is for clipping first, whose bound shrinks as the batch grows.": lambda: 2 / 64,
        "that is from the middle to the edge. From one edge to the other it is more.": lambda: (
            1.0
        ),
    },
)
def mean_moved() -> float:
    """64 gradients are averaged, then the mean is clipped to length C.

    By how many C can one of the 64 records move the result, at most?
    """
    return ClippedAfterMean(1.0, 64).sensitivity("add-remove")


@sheet.number(
    "Each of the nine is at most C long, and they are orthogonal.",
    "Lengths of orthogonal parts add as squares.",
    because="The noise is too small by 3, not by 9.",
    mistakes={"lengths add up only in one direction; these are orthogonal.": lambda: 9.0},
)
def nine_groups() -> float:
    """Nine groups of parameters are clipped at C each. How many C long is the longest gradient?"""
    return PerTensorClipping(1.0, tensors=9).sensitivity("add-remove")


@sheet.number(
    "The root of the batch size is what the noise was divided by.",
    "sqrt(256)",
    because="A sixteenth of the noise that is charged.",
    mistakes={
        "the code divides by the root of the batch size, not by the batch.": lambda: 1 / 256
    },
)
def noise_left() -> float:
    """The noise is divided by the root of the batch size, and noise multiplier 1 is charged.

    Which noise multiplier is left at batches of 256, on one device?
    """
    return NoiseOverSqrtBatch(1.0, 256).noise_std(1.0)  # on a sum that a record moves by 1


@sheet.number(
    "from dpkit.privacy import calibrate, pld",
    "calibrate.noise_multiplier takes accountant=pld.epsilon; its target is 9.564.",
    "sample_rate=64 / 60_000, steps=5, delta=1e-5; then the noise is that multiplier times 13,449.",
    because="More than 200 times 15; the formula is for noise larger than the bound.",
    mistakes={
        "that is the noise multiplier; the noise is so many bounds.": lambda: (
            noise_at_the_bound.right / Xie(15).gradient_bound
        ),
        "that is by RDP; the certified accountant asks for less.": lambda: _at_the_bound(
            rdp.epsilon
        ),
    },
)
def noise_at_the_bound() -> float:
    """Gradients up to 13,449.216 long, Poisson batches of 64 of 60,000, five steps, delta 1e-5.

    A script gives epsilon 9.564 for noise of standard deviation 15. How much noise does the
    certified accountant ask for at that epsilon?
    """
    return _at_the_bound(pld.epsilon)


@sheet.number(
    "How far does one record move the release, and how far does the accountant assume?",
    "The batch always holds somebody: from -C to +C.",
    because="One record moves the release by 2C, but C was charged.",
    mistakes={"that is what they took; a record moves it by 2C.": lambda: 1.0},
)
def beaulieu_noise() -> float:
    """Beaulieu-Jones et al. charged 1.89 for noise 1 at batches of one.

    Which noise multiplier would have made that true, for batches of one?
    """
    return ClippedAfterMean(1.0, 1).sensitivity("add-remove")  # where 1 was charged


loader = sheet.choice(
    "Shuffled batches are charged as Poisson batches. Which change makes the charge true?",
    "Draw each batch anew: every record enters with its own chance of batch / records.",
    {
        "Shuffle again before each pass.": (
            "The loader does. In each pass a record is still in exactly one batch."
        ),
        "Draw each batch anew: every record enters with its own chance of batch / records.": (
            "These are the Poisson batches that the accountant's formula is about."
        ),
        "Charge each pass as one release.": (
            "That is a valid price, without any discount for sampling; but a much higher one."
        ),
    },
    "Which batches is the accountant's formula about?",
)


def _at_the_bound(accountant: Callable[..., Guarantee]) -> float:
    script = Xie(15)
    multiplier = calibrate.noise_multiplier(
        script.published_epsilon(),
        sample_rate=64 / 60_000,
        steps=5,
        delta=1e-5,
        accountant=accountant,
    )
    return multiplier * script.gradient_bound
