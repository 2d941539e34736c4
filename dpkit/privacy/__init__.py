"""What a release costs: mechanisms that price themselves, and accountants that add them up.

Works with numpy and scipy alone; torch is never imported here.
"""

from dpkit.privacy import calibrate, conversions, divergence, ledger, mechanisms, pld, rdp
from dpkit.privacy.ledger import Guarantee, Release, adjacency_of, parallel
from dpkit.privacy.mechanisms import (
    Adjacency,
    Gaussian,
    Mechanism,
    NoGuarantee,
    SampledGaussian,
    Unsupported,
)

__all__ = [
    "Adjacency",
    "Gaussian",
    "Guarantee",
    "Mechanism",
    "NoGuarantee",
    "Release",
    "SampledGaussian",
    "Unsupported",
    "adjacency_of",
    "calibrate",
    "conversions",
    "divergence",
    "ledger",
    "mechanisms",
    "parallel",
    "pld",
    "rdp",
]
