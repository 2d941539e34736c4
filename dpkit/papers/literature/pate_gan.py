"""Findings on PATE-GAN in its authors' and others' code: its noise, its parts, its student."""

import math

import numpy as np
from scipy.special import bdtr, ndtr

from dpkit.papers.claims import Code, Source, finding
from dpkit.privacy import Gaussian, NoGuarantee, Release, pld

DELTA, DIGITS = 1e-5, 5  # delta is 10^-DIGITS
RIGHT = 4.844805  # sqrt(2 ln(1.25 / 1e-5)) / 1
NOISE = 2.421  # standard deviation; see the claim pate-gan-xor
RECORD, OTHER_RECORD = 1.0, 2.0
TEACHERS = 10  # by updated_api.py:77, and synthcity's default
GENERATED = np.array([[0.3, 0.1], [0.2, 0.4]])
REAL, OTHER = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])


def noise_scale(inverse: float) -> float:
    """The expression's value at epsilon 1 with `inverse` in the place of 1 / delta."""
    return math.sqrt(2 * math.log(1.25 * inverse))


def updates(record: float) -> dict[float, float]:
    """A critic's step on one record -> its probability; the critic is its weight times the input.

    The record's label is 1 before the noise and is compared with 1/2 afterwards.
    """
    kept = float(ndtr(0.5 / NOISE))
    return {record: kept, -record: 1 - kept}


def of_updates() -> float:
    """The largest log ratio of two neighbours' probabilities; inf where one cannot make a step."""
    one, other = updates(RECORD), updates(OTHER_RECORD)
    if one.keys() != other.keys():
        return math.inf
    return max(abs(math.log(one[step] / other[step])) for step in one)


def parts_as_released() -> list[int]:
    """The part each teacher gets: the loop over teachers uses the previous loop's last index."""
    made: list[int] = []
    index = -1
    for index in range(TEACHERS):
        made.append(index)
    return [made[index] for _ in range(TEACHERS)]


def most_votes(parts: list[int]) -> float:
    """The most teachers of these parts whose votes one record sways."""
    return float(max(map(parts.count, parts)))


def student_gradient(real: np.ndarray, generated: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """Of a linear student: mean output on what counts as fake, less that on what counts as real.

    Args:
        votes: 1 where the teachers took a generated row for real.
    """
    as_real = np.concatenate([real, generated[votes == 1]])
    return generated[votes == 0].mean(axis=0) - as_real.mean(axis=0)


def of_student() -> float:
    """Epsilon of one step given its noisy votes: none if a record still moves it."""
    votes = np.array([1, 0])
    one, other = (student_gradient(real, GENERATED, votes) for real in (REAL, OTHER))
    beside = NoGuarantee("the student's gradient holds records, without noise")
    mechanism = beside if np.any(one != other) else Gaussian(1e6)
    return pld.epsilon([Release(mechanism)], delta=DELTA).epsilon


def charged_share(probability_real: float = 0.5, batch: int = 200) -> float:
    """Share of batches of independent noisy votes with fewer than half "real".

    Args:
        probability_real: of one noisy vote; 1/2 where as many teachers say real as fake. With the
            plugin's defaults (lamda 1e-3) it is always within .0025 of that, for Laplace noise of
            scale 1000 is added to at most 10 votes.
        batch: by default the plugin's.
    """
    most = (batch - 1) // 2  # the largest number below half
    return float(bdtr(most, batch, probability_real))


POWER = finding(
    "pate-gan-power",
    Source(
        "reprosyn's PATE-GAN",
        "alan-turing-institute/reprosyn ec2a3ec, src/reprosyn/methods/gans/pate_gan.py:107; copy "
        "in spalabucr/pategan-audit 2d26d52, code/pate_gans/turing/turing.py:128",
    ),
    says="The noise is sqrt(2 ln(1.25 / delta)) / epsilon: 4.84 at epsilon 1 and delta 1e-5.",
    equals=RIGHT,
    tolerance=1e-6,
    compute=lambda: noise_scale(10**DELTA),
    explanation="10**delta is 1.00002 at delta 1e-5, where 1 / delta is 100,000: the noise is a "
    "seventh of what the formula asks for, and hardly depends on delta.",
    code=Code(
        was="noise = sqrt(2 * log(1.25 * 10**delta)) / eps",
        should="noise = sqrt(2 * log(1.25 / delta)) / eps",
        cause="formula",
    ),
)

RAW_BATCHES = finding(
    "pate-gan-raw-batches",
    Source(
        "PATE-GAN (Jordon, Yoon, van der Schaar 2019), code of the paper's experiments",
        "copy in spalabucr/pategan-audit 2d26d52, code/pate_gans/original/original.py:147-153,"
        "169-203, epsilon=1.0 by original_api.py:25",
    ),
    says="At epsilon 1, what the generator learns from is (1, 1e-5)-DP.",
    at_most=1.0,
    compute=of_updates,
    explanation="There are no parts and no votes: in each round one critic takes five steps on 128 "
    "records of all the data. Noise meets only the labels real and fake, so it decides the sign of "
    "a record's gradient, and the gradient itself, like the penalty's, goes in as it is.",
    code=Code(
        was="critic.fit(records, labels=noisy(real_or_fake))",
        should="student.fit(generated, labels=noisy(teachers_votes))",
        cause="uncharged",
    ),
)

SAME_PARTITION = finding(
    "pate-gan-same-partition",
    Source(
        "PATE-GAN (Jordon, Yoon, van der Schaar 2019), code of 2020",
        "copy in spalabucr/pategan-audit 2d26d52, code/pate_gans/updated/updated.py:109-118,"
        "197-203; vanderschaarlab/mlforhealthlabpub issue 29",
    ),
    says="The teachers' parts of the data are disjoint, so one record sways one teacher's vote.",
    at_most=1.0,
    compute=lambda: most_votes(parts_as_released()),
    explanation="The loop over teachers takes the part with the index that the loop before it "
    "left over, so all 10 teachers are trained on the last part: one of its records sways all 10 "
    "votes, and the noise is for one.",
    code=Code(
        was="for _ in teachers: fit(parts[left_over])",
        should="for t in teachers: fit(parts[t])",
        cause="sensitivity",
    ),
)

STUDENT = finding(
    "pate-gan-student-on-records",
    Source(
        "synthcity's PATE-GAN",
        "vanderschaarlab/synthcity 23f322f, src/synthcity/plugins/privacy/plugin_pategan.py:"
        "217-245,294-296, src/synthcity/plugins/core/models/gan.py:403-462",
    ),
    says="With epsilon 1, its default, the student learns of the records only by noisy votes.",
    at_most=1.0,
    compute=of_student,
    explanation="The student is the discriminator of a general GAN, which also takes a batch of "
    "records: their mean output, and the penalty between them and generated rows, enter its "
    "gradient without noise and are not charged. The votes replace the labels of generated rows.",
    code=Code(
        was="loss = fakes.mean() - cat(records, voted_real).mean()",
        should="loss = fakes.mean() - voted_real.mean()",
        cause="uncharged",
    ),
)

UNCHARGED = finding(
    "pate-gan-uncharged-branch",
    Source(
        "synthcity's PATE-GAN",
        "vanderschaarlab/synthcity 23f322f, src/synthcity/plugins/privacy/plugin_pategan.py:"
        "134-137,276-292,426-435",
    ),
    says="Every batch of fakes that the teachers vote on is charged.",
    at_least=1.0,
    compute=charged_share,
    explanation="Where at least half of a batch's noisy votes say real, zeros are handed out in "
    "their place, before the charge. Which of the two happens depends on the teachers, so it is "
    "an answer too. With the defaults the 200 votes of a full batch are close to coin tosses: .47 "
    "of the batches are charged where the teachers are divided, .44 to .50 whatever they say.",
    code=Code(
        was="if votes.mean() >= 0.5: return zeros\ncharge(votes)",
        should="charge(votes)\nif votes.mean() >= 0.5: return zeros",
        cause="uncharged",
    ),
)

XOR = finding(
    "pate-gan-xor",
    Source(
        "PATE-GAN (Jordon, Yoon, van der Schaar 2019), code of the paper's experiments",
        "copy in spalabucr/pategan-audit 2d26d52, code/pate_gans/original/original.py:46, "
        "delta=5 by original_api.py:25",
    ),
    says="The noise is sqrt(2 ln(1.25 / delta)) / epsilon: 4.84 at epsilon 1 and delta 1e-5.",
    equals=RIGHT,
    tolerance=1e-6,
    compute=lambda: noise_scale(10 ^ DIGITS),
    explanation="In Python ^ is exclusive or: 10 ^ 5 is 15 and not 100,000, so the noise is half "
    "of what the formula asks for. The line is marked in the copy that was read.",
    code=Code(
        was="noise = sqrt(2 * log(1.25 * (10 ^ 5))) / eps",
        should="noise = sqrt(2 * log(1.25 * 10**5)) / eps",
        cause="formula",
    ),
)
