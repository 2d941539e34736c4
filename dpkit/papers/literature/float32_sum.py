"""One record in [0, 1] moves a float32 sum, taken one after the other, by 1,024."""

import numpy as np

from dpkit.papers.claims import Code, Source, finding

DOUBLINGS = 10  # the last at 2^23, where float32 begins to be whole numbers


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


CLAIM = finding(
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
