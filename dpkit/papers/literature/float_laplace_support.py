"""A floating-point Laplace mechanism, whose last bits reveal its input."""

from math import inf

import numpy as np
from numpy.typing import NDArray

from dpkit.papers.claims import Code, Source, finding

EPSILON, DELTA, DRAWS = 1.0, 1e-5, 4_000


def noise(draws: int, *, rng: np.random.Generator) -> NDArray[np.float64]:
    """Laplace numbers of scale 1 from four uniform ones each (Holohan, Braghin 2021), (draws,)."""
    first, second = (
        np.log1p(-rng.random(draws)) * np.cos(np.pi * rng.random(draws)) for _ in range(2)
    )
    return first + second


def impossible_from_1(outputs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark the outputs of input 0 that no noise gives from input 1, (draws,).

    Within 1/2 of 0 they are 1 minus a noise in [1/2, 3/2], and that difference is exact (Sterbenz):
    a multiple of 2^-53 as such a noise is, of 2^-52 beyond 1. Numbers near 0 have finer bits.
    """
    multiples = outputs * np.where(outputs > 0, 2.0**53, 2.0**52)  # exact
    return (np.abs(outputs) < 0.5) & (multiples != np.floor(multiples))


def epsilon() -> float:
    """No epsilon where more than delta of the outputs of 0 are impossible for 1."""
    outputs = 0.0 - noise(DRAWS, rng=np.random.default_rng(0)) / EPSILON
    return inf if impossible_from_1(outputs).mean() > DELTA else EPSILON


CLAIM = finding(
    "float-laplace-support",
    Source(
        "diffprivlib",
        "IBM/differential-privacy-library 5d9c9d8, diffprivlib/mechanisms/laplace.py:36-37, "
        "125-149; issues 19 (closed) and 94 (open)",
    ),
    says="Laplace noise of scale 1 from four uniform numbers keeps inputs 0 and 1 within "
    "epsilon 1.",
    at_most=EPSILON,
    compute=epsilon,
    explanation="Near 0 floating-point numbers lie closer together than near 1. A quarter of the "
    "outputs for input 0 have last bits that no noise can give to input 1: no epsilon covers that, "
    "at any useful delta, however well the noise is drawn.",
    code=Code(
        was="return value - scale * laplace()",
        should="noise = grid * discrete_laplace(scale / grid)\n"
        "return grid * round(value / grid) + noise",
        cause="floating point",
    ),
)
