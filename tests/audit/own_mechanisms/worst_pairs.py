"""For each mechanism the neighbouring data sets that it hides worst, as worlds to be told apart."""

from dataclasses import replace
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np

from dpkit.privacy.best_of import BestOf
from dpkit.privacy.ledger import Ledger, Parallel, Releases
from dpkit.privacy.mechanisms import (
    Adjacency,
    DiagonalGaussian,
    DiscreteGaussian,
    Gaussian,
    GroupedGaussian,
    Laplace,
    RandomizedResponse,
    SampledGaussian,
    Unsupported,
    WithoutReplacementGaussian,
)
from dpkit.privacy.mechanisms.balls_and_bins import BallsAndBinsGaussian
from dpkit.privacy.mechanisms.sampled_gaussian import GroupSampledGaussian
from dpkit.privacy.mechanisms.truncated_poisson import TruncatedPoissonGaussian
from own_mechanisms import choices, released
from own_mechanisms.worlds import Worlds, repeated, together, unmoved

MOST_RECORDS = 100  # of a data set whose batches of a fixed size are drawn
TYPICAL = 8.0  # Renyi order at which parallel parts are compared


def of_ledger(ledger: Releases) -> Worlds:
    """The worlds of all releases of a ledger, each with fresh randomness, side by side.

    One record is the worst of every mechanism at once: it moves every coordinate as far as its
    clipping lets it, and may report any answer.

    Raises:
        ValueError: the ledger has no release, or what `Ledger.of` refuses.
        Unsupported: no worst pair is known of a mechanism.
    """
    return together(
        [repeated(worst_pair(mechanism), n) for mechanism, n in Ledger.of(ledger).releases]
    )


@singledispatch
def worst_pair(mechanism: Any) -> Worlds:
    """Two data sets that differ in one record, seen through one release of the mechanism.

    Under add-remove the record is not there, or moves each clipped sum by its whole bound; under
    replace-one it stands at one end of the bound, or at the other.

    Raises:
        Unsupported: no pair is known of this mechanism.
    """
    raise Unsupported(f"no worlds are known for {type(mechanism).__name__}")


def ends(adjacency: Adjacency) -> tuple[int, int]:
    """What the record adds to a sum clipped at 1: in the absent and in the present world."""
    return (0, 1) if adjacency == "add-remove" else (-1, 1)


@worst_pair.register
def _(mechanism: Gaussian) -> Worlds:
    at = ends(mechanism.adjacency)
    return Worlds(*(released.normal_sum(move, mechanism.noise_multiplier) for move in at))


@worst_pair.register
def _(mechanism: SampledGaussian) -> Worlds:
    noise, rate = mechanism.noise_multiplier, mechanism.sample_rate
    at = ends(mechanism.adjacency)
    return Worlds(*(released.normal_sum(move, noise, rate=rate) for move in at))


@worst_pair.register
def _(mechanism: DiagonalGaussian) -> Worlds:
    """The record lies in a corner of the box that clipping leaves."""
    noise = mechanism.noise_multipliers
    at = ends(mechanism.adjacency)
    return Worlds(*(released.normal_sum([move] * len(noise), noise) for move in at))


@worst_pair.register
def _(mechanism: GroupedGaussian) -> Worlds:
    """The record reaches the bound of every group; one draw of the batch is every group's."""
    own, groups, rate = mechanism.noise_multiplier, mechanism.groups, mechanism.sample_rate
    noise = own if isinstance(own, tuple) else (own,) * groups
    at = ends(mechanism.adjacency)
    return Worlds(*(released.normal_sum([move] * groups, noise, rate=rate) for move in at))


@worst_pair.register
def _(mechanism: Laplace) -> Worlds:
    return Worlds(*(released.laplace_sum(m, mechanism.scale) for m in ends(mechanism.adjacency)))


@worst_pair.register
def _(mechanism: DiscreteGaussian) -> Worlds:
    size = mechanism.sensitivity
    scale = mechanism.noise_multiplier * size
    return Worlds(*(released.discrete_sum(m * size, scale) for m in ends(mechanism.adjacency)))


@worst_pair.register
def _(mechanism: RandomizedResponse) -> Worlds:
    """One true answer, and another one."""
    epsilon, k = mechanism.epsilon, mechanism.categories
    return Worlds(*(released.response(i, epsilon=epsilon, categories=k) for i in (1, 0)))


@worst_pair.register
def _(mechanism: WithoutReplacementGaussian) -> Worlds:
    """All other records lie at -1: where the record, at +1, is drawn, one of them is not.

    So the sum moves by 2, with the chance m / n, from what it always is without the record: the
    pair of Zhu, Dong, Wang 2022 (Thm 11, on subsampling without replacement). Where the others are
    0, both worlds are mixtures, which are less far apart.
    """
    share = Fraction(mechanism.sample_rate).limit_denominator(MOST_RECORDS)
    if share == 0 or float(share) != mechanism.sample_rate:
        raise Unsupported(
            f"sample_rate must be a batch's share of at most {MOST_RECORDS} records, got "
            f"{mechanism.sample_rate}"
        )
    batch, records = share.as_integer_ratio()
    noise = 2 * mechanism.noise_over_sensitivity
    at = ends(mechanism.adjacency)
    return Worlds(
        *(
            released.fixed_batch_sum(m, others=-1, batch=batch, records=records, deviation=noise)
            for m in at
        )
    )


@worst_pair.register
def _(mechanism: TruncatedPoissonGaussian) -> Worlds:
    """All other records lie at -1: where they fill the batch, the record moves the sum by 2."""
    if mechanism.adjacency != "add-remove":
        raise Unsupported("worlds of batches that are cut are known under add-remove alone")
    noise, most, rate = mechanism.noise_multiplier, mechanism.most, mechanism.sample_rate
    others = mechanism.records - 1
    return Worlds(
        *(
            choices.truncated_sum(own, others=others, rate=rate, most=most, deviation=noise)
            for own in (0, 1)
        )
    )


@worst_pair.register
def _(mechanism: BallsAndBinsGaussian) -> Worlds:
    if mechanism.share < 1:
        raise Unsupported("worlds of a pass are known for a share of 1 alone")
    noise = mechanism.noise_multiplier
    return Worlds(
        *(choices.one_pass(m, batches=mechanism.batches, deviation=noise) for m in (0, 1))
    )


@worst_pair.register
def _(mechanism: GroupSampledGaussian) -> Worlds:
    """All records of the group move the sum the same way."""
    noise, rate = mechanism.noise_multiplier, mechanism.sample_rate
    sizes = (0, mechanism.group_size)
    return Worlds(*(choices.group_sum(size, rate=rate, deviation=noise) for size in sizes))


@worst_pair.register
def _(mechanism: BestOf) -> Worlds:
    """Each run is a Gaussian's noised sum, and the larger is the better."""
    (run, count), *more = mechanism.ledger.releases
    if more or count > 1 or not isinstance(run, Gaussian) or mechanism.runs.shape == np.inf:
        raise Unsupported("worlds of a choice are known for runs of one Gaussian release alone")
    noise = run.noise_multiplier
    return Worlds(
        *(
            choices.best_sum(m, runs=mechanism.runs, deviation=noise)
            for m in ends(mechanism.adjacency)
        )
    )


@worst_pair.register
def _(mechanism: Parallel) -> Worlds:
    """The record lies in the part that costs most, in both worlds where it is replaced."""
    costs = [float(part.rdp([TYPICAL])[0]) for part in mechanism.parts]
    dearest = costs.index(max(costs))
    return together(
        [
            pair if i == dearest else unmoved(pair.absent)
            for i, pair in enumerate(map(of_ledger, mechanism.parts))
        ]
    )


def between_parts(mechanism: Parallel, *, leaves: int, enters: int) -> Worlds:
    """Under replace-one: a record leaves one part, another enters another part.

    Each of the two parts is then seen with one record more or less, as under add-remove.

    Args:
        mechanism: parts whose mechanisms take an adjacency.
        leaves, enters: numbers of two different parts, counted from 0.

    Raises:
        ValueError: the parts are the same, or there is no such part.
    """
    checked = {leaves, enters} & set(range(len(mechanism.parts)))
    if len(checked) < 2:
        raise ValueError(
            f"leaves and enters must be two of the {len(mechanism.parts)} parts, got {leaves} and "
            f"{enters}"
        )
    pairs = [of_ledger(_add_remove(part)) for part in mechanism.parts]
    turned = {leaves: pairs[leaves].swapped(), enters: pairs[enters]}
    return together([turned.get(i, unmoved(pair.absent)) for i, pair in enumerate(pairs)])


def _add_remove(ledger: Ledger) -> Ledger:
    return Ledger.of([r._replace(mechanism=_one_record(r.mechanism)) for r in ledger.releases])


def _one_record(mechanism: Any) -> Any:
    return replace(mechanism, adjacency="add-remove")
