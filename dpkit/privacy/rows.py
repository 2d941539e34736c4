"""A ledger as rows of numbers: as files hold it, and `dpkit epsilon --ledger` reads it."""

from typing import Any

from dpkit.privacy.ledger import Ledger, Releases
from dpkit.privacy.mechanisms import Gaussian, SampledGaussian, Unsupported
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian


def rows(ledger: Releases) -> list[dict[str, Any]]:
    """One {noise_multiplier, sample_rate, count, adjacency} for all equal steps.

    For batches drawn without replacement noise_over_sensitivity stands for noise_multiplier. A sum
    over all records has sample_rate 1.

    Raises:
        Unsupported: a release is not the noisy sum of a Poisson batch, nor of one drawn without
            replacement, or its price holds on further assumptions: a row does not say that.
    """
    found = []
    for mechanism, count in Ledger.of(ledger).releases:
        if type(mechanism) is Gaussian:
            mechanism = SampledGaussian(mechanism.noise_multiplier, 1.0, mechanism.adjacency)
        if type(mechanism) not in (SampledGaussian, WithoutReplacementGaussian):
            raise Unsupported(f"no row says all of {type(mechanism).__name__}; store it yourself")
        found.append(vars(mechanism) | {"count": count, "adjacency": mechanism.adjacency})
    return found
