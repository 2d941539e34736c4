"""The cost of one release: each mechanism is a frozen value that prices itself.

Units: the noise multiplier is noise standard deviation / clip norm C, so a sum of vectors clipped
at C moves by 1 under add-remove and by 2 under replace-one. RDP is in nats.
"""

from dpkit.privacy.mechanisms.balls_and_bins import BallsAndBinsGaussian
from dpkit.privacy.mechanisms.base import (
    ADJACENCIES,
    LARGEST_ORDER,
    Adjacency,
    Floats,
    GaussianDp,
    Mechanism,
    NoGuarantee,
    PrivacyLoss,
    Unsupported,
    as_epsilons,
    as_orders,
    moved_by,
    unknown,
)
from dpkit.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dpkit.privacy.mechanisms.gaussian import Gaussian
from dpkit.privacy.mechanisms.poisson_sampled import PoissonSampled
from dpkit.privacy.mechanisms.pure import ExponentialMechanism, Laplace, RandomizedResponse
from dpkit.privacy.mechanisms.sampled_gaussian import (
    DiagonalGaussian,
    GroupedGaussian,
    SampledGaussian,
    effective_noise,
)
from dpkit.privacy.mechanisms.stated import ApproximateDP, ZeroConcentratedDP
from dpkit.privacy.mechanisms.truncated_poisson import TruncatedPoissonGaussian
from dpkit.privacy.mechanisms.with_replacement import WithReplacementGaussian
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian

__all__ = [
    "ADJACENCIES",
    "LARGEST_ORDER",
    "Adjacency",
    "ApproximateDP",
    "BallsAndBinsGaussian",
    "DiagonalGaussian",
    "DiscreteGaussian",
    "ExponentialMechanism",
    "Floats",
    "Gaussian",
    "GaussianDp",
    "GroupedGaussian",
    "Laplace",
    "Mechanism",
    "NoGuarantee",
    "PoissonSampled",
    "PrivacyLoss",
    "RandomizedResponse",
    "SampledGaussian",
    "TruncatedPoissonGaussian",
    "Unsupported",
    "WithReplacementGaussian",
    "WithoutReplacementGaussian",
    "ZeroConcentratedDP",
    "as_epsilons",
    "as_orders",
    "effective_noise",
    "moved_by",
    "unknown",
]
