"""Privacy costs: mechanisms that price themselves, and accountants that compose them.

Works with numpy and scipy alone; only reading a torch file of an Opacus history imports torch.
"""

from dpkit.privacy import as_drawn, calibrate, divergence, groups, ledger, mechanisms, tradeoff
from dpkit.privacy.accountants import composition, conversions, filters, gdp, moments, pld, rdp
from dpkit.privacy.accountants.filters import RenyiFilter
from dpkit.privacy.best_of import best_of
from dpkit.privacy.ledger import Guarantee, Ledger, Release, Releases, parallel
from dpkit.privacy.mechanisms import (
    ADJACENCIES,
    Adjacency,
    ApproximateDP,
    BallsAndBinsGaussian,
    DiagonalGaussian,
    DiscreteGaussian,
    ExponentialMechanism,
    Floats,
    Gaussian,
    GroupedGaussian,
    Laplace,
    Mechanism,
    NoGuarantee,
    PoissonSampled,
    RandomizedResponse,
    SampledGaussian,
    TruncatedPoissonGaussian,
    Unsupported,
    WithoutReplacementGaussian,
    WithReplacementGaussian,
    ZeroConcentratedDP,
)
from dpkit.privacy.mechanisms.sampled_gaussian import GroupSampledGaussian
from dpkit.privacy.risk import Risk, risk
from dpkit.privacy.statement import statement

__all__ = [
    "ADJACENCIES",
    "Adjacency",
    "ApproximateDP",
    "BallsAndBinsGaussian",
    "DiagonalGaussian",
    "DiscreteGaussian",
    "ExponentialMechanism",
    "Floats",
    "Gaussian",
    "GroupSampledGaussian",
    "GroupedGaussian",
    "Guarantee",
    "Laplace",
    "Ledger",
    "Mechanism",
    "NoGuarantee",
    "PoissonSampled",
    "RandomizedResponse",
    "Release",
    "Releases",
    "RenyiFilter",
    "Risk",
    "SampledGaussian",
    "TruncatedPoissonGaussian",
    "Unsupported",
    "WithReplacementGaussian",
    "WithoutReplacementGaussian",
    "ZeroConcentratedDP",
    "as_drawn",
    "best_of",
    "calibrate",
    "composition",
    "conversions",
    "divergence",
    "filters",
    "gdp",
    "groups",
    "ledger",
    "mechanisms",
    "moments",
    "parallel",
    "pld",
    "rdp",
    "risk",
    "statement",
    "tradeoff",
]
