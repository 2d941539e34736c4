"""PATE-GAN's noise scale in the code of its experiments: a power written with ^."""

import math

from dpkit.papers.claims import Code, Source, finding

EPSILON, DIGITS = 1.0, 5  # delta is 10^-DIGITS
RIGHT = 4.844805  # sqrt(2 ln(1.25 / 1e-5)) / 1


def noise_scale() -> float:
    """The expression's value: in Python `10 ^ 5` is exclusive or, which is 15."""
    return math.sqrt(2 * math.log(1.25 * (10 ^ DIGITS))) / EPSILON


CLAIM = finding(
    "pate-gan-xor",
    Source(
        "PATE-GAN (Jordon, Yoon, van der Schaar 2019), code of the paper's experiments",
        "copy in spalabucr/pategan-audit 2d26d52, code/pate_gans/original/original.py:46, "
        "delta=5 by original_api.py:25",
    ),
    says="The noise is sqrt(2 ln(1.25 / delta)) / epsilon: 4.84 at epsilon 1 and delta 1e-5.",
    equals=RIGHT,
    tolerance=1e-6,
    compute=noise_scale,
    explanation="In Python ^ is exclusive or: 10 ^ 5 is 15 and not 100,000, so the noise is half "
    "of what the formula asks for. The line is marked in the copy that was read.",
    code=Code(
        was="noise = sqrt(2 * log(1.25 * (10 ^ 5))) / eps",
        should="noise = sqrt(2 * log(1.25 * 10**5)) / eps",
        cause="formula",
    ),
)
