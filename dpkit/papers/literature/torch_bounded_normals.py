"""The largest normal number that torch draws on a CPU in single precision."""

from math import inf, log, sqrt

from dpkit.papers.claims import Code, Source, finding

BITS = 24  # of a uniform float32 in [0, 1)


def largest() -> float:
    """The radius of Box and Muller's transform at the smallest uniform number, 2^-24."""
    return sqrt(-2 * log(2.0**-BITS))


CLAIM = finding(
    "torch-bounded-normals",
    Source(
        "torch.randn",
        "pytorch/pytorch cf30153 (torch 2.13.0), aten/src/ATen/core/TransformationHelper.h:85-90, "
        "aten/src/ATen/native/cpu/DistributionTemplates.h:100-138,223-228",
    ),
    says="16 or more float32 numbers drawn at a time on a CPU are standard normal: any value can "
    "occur.",
    believed=lambda value: value == inf,
    compute=largest,
    explanation="The radius comes from 24 uniform bits, so no draw is beyond 5.768; a normal "
    "number is so with probability 8.0e-9. An output beyond the end for one data set and not for "
    "its neighbour gives the record away, and in each of n coordinates there is such a chance.",
    code=Code(
        was="u = uniform(bits=24)\nz = sqrt(-2 * log(1 - u)) * cos(2 * pi * v)",
        should="noise = grid * discrete_gaussian(std / grid)",
        cause="floating point",
    ),
)
