"""Several releases of the same records, or of disjoint parts, with the best attack."""

from dpkit.papers.targets.target import Target
from dpkit.privacy.accountants import rdp
from dpkit.privacy.ledger import Ledger, Parallel, Release, Releases, parallel
from dpkit.privacy.mechanisms import (
    Adjacency,
    DiagonalGaussian,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    RandomizedResponse,
    SampledGaussian,
)
from own_mechanisms.priced import CODE, target
from own_mechanisms.worst_pairs import between_parts

REPLACE: Adjacency = "replace-one"

IN_PARTS: Releases = parallel(
    [Release(Gaussian(1.0))], [Release(Gaussian(1.5), 2)], [Release(Laplace(1.0))]
)
TWO_PARTS = Parallel((Ledger.of([Release(Gaussian(2.0, REPLACE))]),) * 2)
STEPS: Releases = [Release(SampledGaussian(1.0, 0.1), 100)]
MIXED: Releases = [
    Release(Gaussian(2.0)),
    Release(SampledGaussian(1.0, 0.1), 20),
    Release(Laplace(2.0)),
    Release(DiscreteGaussian(3.0, 2), 3),
]
MIXED_REPLACED: Releases = [
    Release(RandomizedResponse(0.5, 3), 2),
    Release(SampledGaussian(2.0, 0.2, REPLACE), 10),
    Release(DiagonalGaussian((6.0, 8.0), REPLACE)),
]


COMPOSED: tuple[Target, ...] = (
    target(
        "sampled-gaussian-100-steps",
        "a hundred steps of DP-SGD whose every noised gradient is seen",
        STEPS,
        where=f"{CODE}/sampled_gaussian.py, dpkit/privacy/accountants/pld",
    ),
    target(
        "laplace-10-times",
        "ten sums with Laplace noise of the same records",
        [Release(Laplace(3.0), 10)],
        where=f"{CODE}/pure.py, dpkit/privacy/accountants/pld",
    ),
    target(
        "mixed-ledger",
        "a sum, twenty steps of DP-SGD, a sum with Laplace noise and three counts",
        MIXED,
        where="dpkit/privacy/accountants/pld",
    ),
    target(
        "mixed-ledger-replace-one",
        "two randomised answers, ten steps of DP-SGD and a sum with two noises",
        MIXED_REPLACED,
        where="dpkit/privacy/accountants/pld",
    ),
    target(
        "parallel",
        "three models, each of its own part of the data; the record lies in the dearest part",
        IN_PARTS,
        where="dpkit/privacy/ledger.py",
        price=rdp.epsilon,
    ),
    target(
        "parallel-replace-one",
        "two models, each of its own part; a record of one part is replaced by its opposite",
        [Release(TWO_PARTS)],
        where="dpkit/privacy/ledger.py",
        price=rdp.epsilon,
    ),
    target(
        "parallel-moved",
        "two models, each of its own part; a record leaves one part, and another enters the other",
        [Release(TWO_PARTS)],
        where="dpkit/privacy/ledger.py",
        worlds=lambda: between_parts(TWO_PARTS, leaves=0, enters=1),
        price=rdp.epsilon,
    ),
)
