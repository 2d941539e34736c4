"""synthcity's PATE-GAN: its student's training data."""

import numpy as np

from dpkit.papers.claims import Code, Source, finding
from dpkit.privacy import Gaussian, NoGuarantee, Release, pld

GENERATED = np.array([[0.3, 0.1], [0.2, 0.4]])
REAL, OTHER = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])


def student_gradient(real: np.ndarray, generated: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """Of a linear student: mean output on what counts as fake, less that on what counts as real.

    Args:
        votes: 1 where the teachers took a generated row for real.
    """
    as_real = np.concatenate([real, generated[votes == 1]])
    return generated[votes == 0].mean(axis=0) - as_real.mean(axis=0)


def epsilon() -> float:
    """Epsilon of one step given its noisy votes: none if a record still moves it."""
    votes = np.array([1, 0])
    moved = student_gradient(REAL, GENERATED, votes) - student_gradient(
        OTHER, GENERATED, votes
    )
    beside = NoGuarantee("the student's gradient holds records, without noise")
    mechanism = beside if np.any(moved) else Gaussian(1e6)
    return pld.epsilon([Release(mechanism)], delta=1e-5).epsilon


CLAIM = finding(
    "pate-gan-student-on-records",
    Source(
        "synthcity's PATE-GAN",
        "vanderschaarlab/synthcity 23f322f, src/synthcity/plugins/privacy/plugin_pategan.py:"
        "217-245,294-296, src/synthcity/plugins/core/models/gan.py:403-462",
    ),
    says="With epsilon 1, its default, the student learns of the records only by noisy votes.",
    at_most=1.0,
    compute=epsilon,
    explanation="The student is the discriminator of a general GAN, which also takes a batch of "
    "records: their mean output, and the penalty between them and generated rows, enter its "
    "gradient without noise and are not charged. The votes replace the labels of generated rows.",
    code=Code(
        was="loss = fakes.mean() - cat(records, voted_real).mean()",
        should="loss = fakes.mean() - voted_real.mean()",
        cause="uncharged",
    ),
)
