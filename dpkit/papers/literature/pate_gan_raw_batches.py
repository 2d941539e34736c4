"""PATE-GAN's code of its experiments: the place of its noise."""

import math

from scipy.special import ndtr

from dpkit.papers.claims import Code, Source, finding

NOISE = 2.421  # standard deviation; see the claim pate-gan-xor
RECORD, OTHER = 1.0, 2.0


def updates(record: float, noise: float = NOISE) -> dict[float, float]:
    """A critic's step on one record -> its probability; the critic is its weight times the input.

    Args:
        noise: of the record's label, which is 1 before and is compared with 1/2 afterwards.
    """
    kept = float(ndtr(0.5 / noise))
    return {record: kept, -record: 1 - kept}


def epsilon() -> float:
    """The largest log ratio of two neighbours' probabilities; inf where one cannot make a step."""
    one, other = updates(RECORD), updates(OTHER)
    if one.keys() != other.keys():
        return math.inf
    return max(abs(math.log(one[step] / other[step])) for step in one)


CLAIM = finding(
    "pate-gan-raw-batches",
    Source(
        "PATE-GAN (Jordon, Yoon, van der Schaar 2019), code of the paper's experiments",
        "copy in spalabucr/pategan-audit 2d26d52, code/pate_gans/original/original.py:147-153,"
        "169-203, epsilon=1.0 by original_api.py:25",
    ),
    says="At epsilon 1, what the generator learns from is (1, 1e-5)-DP.",
    at_most=1.0,
    compute=epsilon,
    explanation="There are no parts and no votes: in each round one critic takes five steps on 128 "
    "records of all the data. Noise meets only the labels real and fake, so it decides the sign of "
    "a record's gradient, and the gradient itself, like the penalty's, goes in as it is.",
    code=Code(
        was="critic.fit(records, labels=noisy(real_or_fake))",
        should="student.fit(generated, labels=noisy(teachers_votes))",
        cause="uncharged",
    ),
)
