"""A step of DP-SGD in which two blocks of the gradient got the same noise."""

from itertools import combinations
from math import inf

from dpkit.papers.claims import Code, Source, finding
from dpkit.privacy import Gaussian, Release, gdp

SHAPES = {  # of the example's network: two convolutions and two dense layers on 28 x 28 images
    "first kernel": (8, 8, 1, 16),
    "first bias": (16,),
    "second kernel": (4, 4, 16, 32),
    "second bias": (32,),
    "third weights": (512, 32),
    "third bias": (32,),
    "fourth weights": (32, 10),
    "fourth bias": (10,),
}
NOISE, DELTA = 1.1, 1e-5
CHARGED = 3.9213  # one Gaussian of noise 1.1 over all blocks, rounded up


def same_noise() -> list[tuple[str, str]]:
    """Blocks of the gradient with one key and one shape."""
    return [
        (one, other) for one, other in combinations(SHAPES, 2) if SHAPES[one] == SHAPES[other]
    ]


def epsilon() -> float:
    """Epsilon of one step: none if two blocks share noise, as their difference has none."""
    return (
        inf if same_noise() else gdp.epsilon([Release(Gaussian(NOISE))], delta=DELTA).epsilon
    )


CLAIM = finding(
    "jax-prng-reuse",
    Source(
        "JAX's example of DP-SGD (until July 2020)",
        "google/jax 166e795, examples/differentially_private_sgd.py:109-120,153-159, "
        "jax/experimental/stax.py:48-54,76-79, jax/random.py:294-307; pull request 3646",
    ),
    says="Noise 1.1 on every block of a batch's gradient is one Gaussian of noise 1.1, which (our "
    "number, before sampling) costs epsilon 3.92 at delta 1e-5.",
    at_most=CHARGED,
    compute=epsilon,
    explanation="All blocks of a step are drawn from one key, and two biases have 32 entries each: "
    "their noise is the same, number by number, so the difference of the two goes out without any; "
    "batches of .4 % of the records do not hide that at delta 1e-5. JAX's developers repaired it: "
    "one key a block.",
    code=Code(
        was="noise = [normal(key, b) for b in shapes]",
        should="keys = split(key, len(shapes))\n"
        "noise = [normal(k, b) for k, b in zip(keys, shapes)]",
        cause="noise",
    ),
)
