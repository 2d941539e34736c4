"""Group privacy: the cost of a run where several records come, go or change together.

A user with k records is such a group, if the run's guarantee is per record.
"""

import math
from dataclasses import replace

from dpkit.common import checks
from dpkit.privacy import numerics
from dpkit.privacy.accountants import pld
from dpkit.privacy.ledger import Guarantee, Ledger, Release, Releases
from dpkit.privacy.mechanisms import (
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Mechanism,
    NoGuarantee,
    RandomizedResponse,
    SampledGaussian,
    Unsupported,
)
from dpkit.privacy.mechanisms.sampled_gaussian import (
    LARGEST_GROUP,
    GroupSampledGaussian,
    together,
)

LARGEST_EPSILON = 1e4  # of one record, at which the search for a group's ends
TOLERANCE = 1e-5  # relative, of that search


def epsilon(ledger: Releases, *, group_size: int, delta: float) -> Guarantee:
    """The epsilon at `delta` for neighbours that differ in up to `group_size` records.

    A certified pair where each release has a price for groups (`of_group`); otherwise an upper
    bound from the curve of one record: an (e, d)-DP run is (k e, d')-DP for k records, with
    d' = d (1 + exp(e) + ... + exp((k - 1) e)) (Vadhan 2017, "The complexity of differential
    privacy", Lemma 2.2), at the least e for which the certified accountant proves delta.

    Args:
        ledger: releases under one adjacency; under add-remove a group comes or goes, under
            replace-one its records are replaced.
        group_size: k, >= 1.
        delta: in (0, 1).

    Raises:
        ValueError: a number is out of range, or as `pld.epsilon`.
        Unsupported: the certified accountant does not price a mechanism.
    """
    ledger, k = Ledger.of(ledger), checks.whole(1, group_size=group_size)
    delta = checks.between(0, 1, delta=delta)
    if k == 1:
        return pld.epsilon(ledger, delta=delta)

    def enough(epsilon: float) -> bool:  # of one record, for the group's delta
        left = pld.delta(ledger, epsilon=epsilon).delta
        if left == 0 or epsilon == 0:
            return k * left <= delta
        grown = (k - 1) * epsilon + math.log(math.expm1(-k * epsilon) / math.expm1(-epsilon))
        return math.log(left) + grown <= math.log(delta)

    try:
        found = pld.epsilon(in_groups(ledger, k), delta=delta)
        found = found._replace(adjacency=ledger.adjacency)
    except Unsupported:
        one = numerics.bracket(enough, tolerance=TOLERANCE, largest=LARGEST_EPSILON)[1]
        method = f"{k} times the epsilon of one record (Vadhan 2017, Lemma 2.2), by PLD"
        found = ledger.guarantee(epsilon=k * one, delta=delta, method=method)
    said = (
        together(k) if ledger.adjacency == "add-remove" else f"up to {k} records are replaced"
    )
    return found._replace(assumptions=tuple(dict.fromkeys((*found.assumptions, said))))


def in_groups(ledger: Releases, k: int) -> list[Release]:
    """The ledger that costs one record what `ledger` costs k records: see `of_group`."""
    return [Release(of_group(one, k), n) for one, n in Ledger.of(ledger).releases]


def of_group(mechanism: Mechanism, group_size: int) -> Mechanism:
    """The release that costs one record what `mechanism` costs `group_size` records.

    A sum moves by as many times C (or the sensitivity); in a Poisson batch a random number of the
    group is met; k answers of randomized response are k epsilon-DP.

    Raises:
        Unsupported: no price for groups is known.
    """
    k = group_size
    if k == 1 or isinstance(mechanism, NoGuarantee):
        return mechanism
    if isinstance(mechanism, SampledGaussian) and mechanism.sample_rate < 1:
        if mechanism.adjacency == "add-remove" and k <= LARGEST_GROUP:
            return GroupSampledGaussian(mechanism.noise_multiplier, mechanism.sample_rate, k)
    elif isinstance(mechanism, SampledGaussian | Gaussian):
        return replace(mechanism, noise_multiplier=mechanism.noise_multiplier / k)
    elif isinstance(mechanism, Laplace):
        return replace(mechanism, scale=mechanism.scale / k)
    elif isinstance(mechanism, RandomizedResponse):
        return RandomizedResponse(k * mechanism.epsilon, adjacency=mechanism.adjacency)
    elif isinstance(mechanism, DiscreteGaussian):
        return replace(
            mechanism,
            noise_multiplier=mechanism.noise_multiplier / k,
            sensitivity=k * mechanism.sensitivity,
        )
    raise Unsupported(f"no price of {type(mechanism).__name__} is known for groups of records")
