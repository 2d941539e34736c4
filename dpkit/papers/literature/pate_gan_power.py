"""PATE-GAN's noise scale in reprosyn: ten to the power of delta."""

import math

from dpkit.papers.claims import Code, Source, finding

EPSILON, DELTA = 1.0, 1e-5
RIGHT = 4.844805  # sqrt(2 ln(1.25 / 1e-5)) / 1


def noise_scale() -> float:
    """The expression's value at delta 1e-5 in place of its number of digits."""
    return math.sqrt(2 * math.log(1.25 * 10**DELTA)) / EPSILON


CLAIM = finding(
    "pate-gan-power",
    Source(
        "reprosyn's PATE-GAN",
        "alan-turing-institute/reprosyn ec2a3ec, src/reprosyn/methods/gans/pate_gan.py:107; copy "
        "in spalabucr/pategan-audit 2d26d52, code/pate_gans/turing/turing.py:128",
    ),
    says="The noise is sqrt(2 ln(1.25 / delta)) / epsilon: 4.84 at epsilon 1 and delta 1e-5.",
    equals=RIGHT,
    tolerance=1e-6,
    compute=noise_scale,
    explanation="10**delta is 1.00002 at delta 1e-5, where 1 / delta is 100,000: the noise is a "
    "seventh of what the formula asks for, and hardly depends on delta.",
    code=Code(
        was="noise = sqrt(2 * log(1.25 * 10**delta)) / eps",
        should="noise = sqrt(2 * log(1.25 / delta)) / eps",
        cause="formula",
    ),
)
