"""Findings on numbers of 24 and 53 bits: sums, Laplace noise and normal numbers."""

from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from dpkit.papers.claims import Code, Source, finding

DOUBLINGS = 10  # the last at 2^23, where float32 begins to be whole numbers
EPSILON, DELTA, DRAWS = 1.0, 1e-5, 4_000
BITS = 24  # of a uniform float32 in [0, 1)


def running_sum(start: float, value: float, times: int) -> float:
    """`start` and `times` records of `value`, added one after the other in float32."""
    records = np.full(times + 1, value, np.float32)
    records[0] = start
    return float(np.add.accumulate(records, dtype=np.float32)[-1])


def doubled(moved: float, boundary: float) -> tuple[float, float, int]:
    """The distance of two sums after both passed a power of two, where roundings double.

    The one starts at the boundary, where 0.6 of a step of float32 is rounded up to one; the other
    `moved` before it, where steps are half as long and the same record is rounded to half.

    Returns:
        distance, the records' value in [0, 1], and how many there are.
    """
    step = boundary * 2.0**-23
    value, times = 0.6 * step, int(2 * moved / step)
    above, below = (running_sum(start, value, times) for start in (boundary, boundary - moved))
    return above - below, value, times


def moved() -> float:
    """Distance of the sums with and without one record of 1, after ten doublings.

    Between them lie records of 1, which neither sum rounds: they are left out here.
    """
    distance = 1.0
    for power in range(24 - DOUBLINGS, 24):
        distance, _, _ = doubled(distance, 2.0**power)
    return distance


def laplace(draws: int, *, rng: np.random.Generator) -> NDArray[np.float64]:
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


def of_laplace() -> float:
    """No epsilon where more than delta of the outputs of 0 are impossible for 1."""
    outputs = 0.0 - laplace(DRAWS, rng=np.random.default_rng(0)) / EPSILON
    return inf if impossible_from_1(outputs).mean() > DELTA else EPSILON


def largest_normal() -> float:
    """The radius of Box and Muller's transform at the smallest uniform number, 2^-24."""
    return sqrt(-2 * log(2.0**-BITS))


SUM = finding(
    "float32-sum",
    Source(
        "The usual sensitivity of sums, questioned by Casacuberta et al. (2022, Widespread "
        "underestimation of sensitivity in differentially private libraries)",
        "arXiv 2207.10635, abstract; so taken in IBM/differential-privacy-library 5d9c9d8, "
        "diffprivlib/tools/utils.py:735-739",
    ),
    says="A record in [0, 1] moves a sum by at most 1.",
    at_most=1.0,
    compute=moved,
    explanation="In float32, added one after the other, equal records are rounded up beyond a "
    "power of two and down before it. A record that brings the sum there sooner doubles its effect "
    "each time: with 8.4 million records it is 1,024. diffprivlib takes "
    "this sensitivity, but adds in pairs and in double precision, where the effect is far smaller.",
    code=Code(
        was="total = cumsum(float32(records))[-1]\nrelease(total, sensitivity=1)",
        should="total = sum(round(records * 2**20))  # integers\n"
        "release(total / 2**20, sensitivity=1)",
        cause="floating point",
    ),
)

LAPLACE = finding(
    "float-laplace-support",
    Source(
        "diffprivlib",
        "IBM/differential-privacy-library 5d9c9d8, diffprivlib/mechanisms/laplace.py:36-37, "
        "125-149; issues 19 (closed) and 94 (open)",
    ),
    says="Laplace noise of scale 1 from four uniform numbers keeps inputs 0 and 1 within "
    "epsilon 1.",
    at_most=EPSILON,
    compute=of_laplace,
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

NORMALS = finding(
    "torch-bounded-normals",
    Source(
        "torch.randn",
        "pytorch/pytorch cf30153 (torch 2.13.0), aten/src/ATen/core/TransformationHelper.h:85-90, "
        "aten/src/ATen/native/cpu/DistributionTemplates.h:100-138,223-228",
    ),
    says="16 or more float32 numbers drawn at a time on a CPU are standard normal: any value can "
    "occur.",
    believed=lambda value: value == inf,
    compute=largest_normal,
    explanation="The radius comes from 24 uniform bits, so no draw is beyond 5.768; a normal "
    "number is so with probability 8.0e-9. An output beyond the end for one data set and not for "
    "its neighbour gives the record away, and in each of n coordinates there is such a chance.",
    code=Code(
        was="u = uniform(bits=24)\nz = sqrt(-2 * log(1 - u)) * cos(2 * pi * v)",
        should="noise = grid * discrete_gaussian(std / grid)",
        cause="floating point",
    ),
)
