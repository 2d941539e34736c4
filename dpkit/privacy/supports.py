"""The accountants of each mechanism, adjacency and sampling, by asking each of them."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

from dpkit.common import checks
from dpkit.privacy import mechanisms, sampling
from dpkit.privacy.accountants import composition, gdp, moments, pld, rdp
from dpkit.privacy.best_of import best_of
from dpkit.privacy.ledger import Guarantee, Release, parallel
from dpkit.privacy.mechanisms import (
    Adjacency,
    Mechanism,
    NoGuarantee,
    SampledGaussian,
    Unsupported,
)
from dpkit.privacy.mechanisms.sampled_gaussian import GroupSampledGaussian
from dpkit.privacy.sampling import SHUFFLED_AS_POISSON, ShuffledBatches

DELTA = 1e-5
COUNT = 2  # releases: enough to ask for composition
# Prefixes of assumptions under which a price is not an upper bound for the run
TO_BE_KNOWN = (gdp.APPROXIMATE, SHUFFLED_AS_POISSON, "no guarantee")

ACCOUNTANTS: Mapping[str, Callable[..., Guarantee]] = {
    "rdp": rdp.epsilon,
    "pld": pld.epsilon,
    "moments": moments.epsilon,
    "gdp": gdp.epsilon,
    "basic": composition.basic,
    "advanced": composition.advanced,
}


class SupportRow(NamedTuple):
    """One accountant's answer for one mechanism (or one way to draw batches).

    reason: why it does not; where it does, what must be known of the price, such as that it is an
        approximation or infinite; empty if nothing.
    """

    mechanism: str
    adjacency: Adjacency
    accountant: str
    supported: bool
    reason: str


def matrix() -> list[SupportRow]:
    """A row for each mechanism and way to draw batches, adjacency and accountant (seconds).

    Raises:
        ArithmeticError: a price is infinite, of something that has a guarantee.
    """
    adjacencies: tuple[Adjacency, ...] = ("add-remove", "replace-one")
    return [
        _asked(name, adjacency, accountant)
        for name in EXAMPLES
        for adjacency in adjacencies
        for accountant in ACCOUNTANTS
    ]


def price(name: str, adjacency: Adjacency, accountant: str) -> Guarantee:
    """The accountant's guarantee of two releases of the named example, at delta 1e-5.

    Raises:
        Unsupported: the mechanism is not defined under the adjacency, or has no such price.
    """
    return ACCOUNTANTS[accountant]([Release(EXAMPLES[name](adjacency), COUNT)], delta=DELTA)


def _asked(name: str, adjacency: Adjacency, accountant: str) -> SupportRow:
    try:
        found = price(name, adjacency, accountant)
    except Unsupported as error:
        return SupportRow(name, adjacency, accountant, False, str(error))
    notes = [one for one in found.assumptions if one.startswith(TO_BE_KNOWN)]
    if gdp.APPROXIMATE in notes:
        notes.append("not an upper bound")
    if not found.epsilon < float("inf"):
        if name != NoGuarantee.__name__:
            raise ArithmeticError(
                f"{accountant} gives {name} under {adjacency} no finite price"
            )
        notes.insert(0, "epsilon is infinite")
    return SupportRow(name, adjacency, accountant, True, "; ".join(notes))


def _under(example: Any, adjacency: Adjacency) -> Any:
    """The same under that adjacency."""
    if adjacency == example.adjacency:
        return example
    try:
        if all(field.name != "adjacency" for field in fields(example)):
            checks.one_of((example.adjacency,), adjacency=adjacency)
        return replace(example, adjacency=adjacency)
    except ValueError as error:
        if not str(error).startswith("adjacency must be"):
            raise
        raise Unsupported(str(error)) from None


def _drawn(way: sampling.Sampling, assume: tuple[str, ...], adjacency: Adjacency) -> Mechanism:
    one = _under(way, adjacency)
    return sampling.mechanism(one, noise_multiplier=2.0, public_size=50, assume=assume)


def _steps(adjacency: Adjacency) -> list[Release]:
    return [Release(SampledGaussian(2.0, 0.1, adjacency))]


_MECHANISMS = (
    mechanisms.Gaussian(2.0),
    SampledGaussian(2.0, 0.1),
    mechanisms.WithoutReplacementGaussian(2.0, 0.1),
    mechanisms.WithReplacementGaussian(4.0, 5, 50),
    mechanisms.TruncatedPoissonGaussian(2.0, 0.1, 8, 50),
    mechanisms.BallsAndBinsGaussian(2.0, 10),
    GroupSampledGaussian(2.0, 0.1, 3),
    mechanisms.DiagonalGaussian((2.0, 3.0)),
    mechanisms.GroupedGaussian(2.0, 4, 0.1),
    mechanisms.DiscreteGaussian(2.0),
    mechanisms.Laplace(2.0),
    mechanisms.RandomizedResponse(1.0),
    mechanisms.ExponentialMechanism(1.0),
    mechanisms.PoissonSampled(mechanisms.Laplace(2.0), 0.1),
    mechanisms.ApproximateDP(1.0, 1e-6),
    mechanisms.ZeroConcentratedDP(0.1),
    NoGuarantee("its noise protects nothing"),
)
_SAMPLINGS = (
    sampling.PoissonSampling(5),
    sampling.TruncatedPoisson(5, 8),
    sampling.FixedSizeBatches(5),
    sampling.WithReplacement(5),
    sampling.BallsAndBins(5),
    ShuffledBatches(5),
)

# Each name with what makes its example under an adjacency, or raises Unsupported.
EXAMPLES: Mapping[str, Callable[[Adjacency], Mechanism]] = {
    **{type(one).__name__: partial(_under, one) for one in _MECHANISMS},
    "Parallel": lambda adjacency: parallel(*[_steps(adjacency)] * 2)[0].mechanism,
    "BestOf": lambda adjacency: best_of(_steps(adjacency), mean=10.0)[0].mechanism,
    **{type(one).__name__: partial(_drawn, one, ()) for one in _SAMPLINGS},
    "ShuffledBatches as Poisson": partial(_drawn, ShuffledBatches(5), (SHUFFLED_AS_POISSON,)),
}
