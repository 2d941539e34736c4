"""Neighbouring data sets seen through a release, and for each mechanism those that it hides worst.

A world runs the mechanism by its definition (draw the batch, sum, add noise) on one known data set,
and knows the density of what comes out. Neither uses the mechanism's price, so that attacks check
prices rather than repeat them. Sums are clipped at 1. The attacker knows every other record, and
takes them off the sum: here they are zeros, but where a batch of a fixed size makes them matter.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial, singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import binom

from dpkit.privacy import (
    DiagonalGaussian,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    SampledGaussian,
    mechanisms,
)
from dpkit.privacy.best_of import BestOf, NumberOfRuns
from dpkit.privacy.ledger import Ledger, Parallel, Releases
from dpkit.privacy.mechanisms.balls_and_bins import BallsAndBinsGaussian
from dpkit.privacy.mechanisms.base import Adjacency, Floats, Unsupported
from dpkit.privacy.mechanisms.sampled_gaussian import GroupSampledGaussian
from dpkit.privacy.mechanisms.truncated_poisson import TruncatedPoissonGaussian
from dpkit.privacy.normals import standard_normals

REACH = 12.0  # scales beyond which discrete Gaussian noise has less mass than one uniform's step
MOST_RECORDS = 100  # of a data set whose batches of a fixed size are drawn
TYPICAL = 8.0  # Renyi order at which parallel parts are compared


class World(NamedTuple):
    """One data set, seen through a release of `width` numbers a trial."""

    width: int
    draw: Callable[[np.random.Generator, int], Floats]  # (rng, trials) -> outputs (trials, width)
    # of outputs (trials, width), less a constant that the neighbour's world leaves out as well;
    # -inf where this data set never gives an output
    log_density: Callable[[Floats], Floats]


class Worlds(NamedTuple):
    """A data set without the record, and its neighbour with it (in the other's place)."""

    absent: World
    present: World

    def draw(self, rng: np.random.Generator, trials: int, *, present: bool) -> Floats:
        return (self.present if present else self.absent).draw(rng, trials)

    def loss(self, outputs: Floats) -> Floats:
        """The privacy loss log(density with the record / density without it), (trials,)."""
        return self.present.log_density(outputs) - self.absent.log_density(outputs)

    def swapped(self) -> "Worlds":
        """The other direction, which epsilon covers too: a pair may leak unequally in the two."""
        return Worlds(self.present, self.absent)

    def untouched(self) -> "Worlds":
        """A release that the record does not touch."""
        return Worlds(self.absent, self.absent)


def repeated(worlds: Worlds, count: int) -> Worlds:
    """`count` releases with fresh randomness, side by side: (trials, count * width)."""

    def often(world: World) -> World:
        width = world.width

        def draw(rng: np.random.Generator, trials: int) -> Floats:
            return world.draw(rng, trials * count).reshape(trials, count * width)

        def log_density(outputs: Floats) -> Floats:
            return world.log_density(outputs.reshape(-1, width)).reshape(-1, count).sum(axis=1)

        return World(count * width, draw, log_density)

    return Worlds(*map(often, worlds))


def together(parts: Sequence[Worlds]) -> Worlds:
    """Independent releases about the same two data sets, their outputs side by side."""

    def side_by_side(worlds: Sequence[World]) -> World:
        cuts = np.cumsum([world.width for world in worlds])

        def draw(rng: np.random.Generator, trials: int) -> Floats:
            return np.concatenate([world.draw(rng, trials) for world in worlds], axis=1)

        def log_density(outputs: Floats) -> Floats:
            shares = np.split(outputs, cuts[:-1], axis=1)
            each = [world.log_density(share) for world, share in zip(worlds, shares, strict=True)]
            return np.sum(each, axis=0)

        return World(int(cuts[-1]), draw, log_density)

    return Worlds(*map(side_by_side, zip(*parts, strict=True)))


# --- each mechanism by its definition, on one data set ---


def log_normal(outputs: Floats, mean: Floats | float, deviation: Floats | float) -> Floats:
    """The log density of independent normals, less its constant: (trials,)."""
    return -(((outputs - mean) / deviation) ** 2).sum(axis=1) / 2


def log_mixture(without: Floats, with_it: Floats, rate: float) -> Floats:
    """log((1 - rate) e^without + rate e^with_it)."""
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-rate) + without, np.log(rate) + with_it)


def normal_sum(moves: ArrayLike, deviations: ArrayLike, *, rate: float = 1.0) -> World:
    """A Poisson batch's sum, (width,), plus normal noise: the record moves it where it is drawn."""
    move, deviation = np.atleast_1d(np.asarray(moves, float)), np.asarray(deviations, float)

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        in_batch = rng.random((trials, 1)) < rate
        normals = standard_normals(trials * move.size, rng=rng).reshape(trials, move.size)
        return in_batch * move + deviation * normals

    def log_density(outputs: Floats) -> Floats:
        without, with_it = (log_normal(outputs, at, deviation) for at in (0 * move, move))
        return log_mixture(without, with_it, rate)

    return World(move.size, draw, log_density)


def fixed_batch_sum(
    record: float, *, others: float, batch: int, records: int, deviation: float
) -> World:
    """The sum of `batch` out of `records` records, no record twice, plus normal noise."""
    data = np.array([record] + [others] * (records - 1))

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        shuffled = rng.permuted(np.tile(data, (trials, 1)), axis=1)
        sums = shuffled[:, :batch].sum(axis=1, keepdims=True)
        return sums + deviation * standard_normals(trials, rng=rng)[:, None]

    def log_density(outputs: Floats) -> Floats:
        sums = (batch * others, (batch - 1) * others + record)
        without, with_it = (log_normal(outputs, at, deviation) for at in sums)
        return log_mixture(without, with_it, batch / records)

    return World(1, draw, log_density)


def laplace_sum(move: float, scale: float) -> World:
    """A sum that the record moves by `move`, plus Laplace noise of that scale."""
    return World(
        1,
        lambda rng, trials: move + rng.laplace(0.0, scale, (trials, 1)),
        lambda outputs: -np.abs(outputs[:, 0] - move) / scale,
    )


def discrete_sum(move: int, scale: float) -> World:
    """A count that the record moves by `move`, plus discrete Gaussian noise.

    The noise is drawn by inversion: of the listed probabilities in double precision, each is right
    to about 1e-16 (`discrete_gaussian` is exact and some hundred times slower).
    """
    far = int(np.ceil(REACH * scale)) + 1
    each = np.exp(-((np.arange(-far, far + 1) / scale) ** 2) / 2)
    below = np.cumsum(each)[:-1] / each.sum()

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        noise = np.searchsorted(below, rng.random((trials, 1)), side="right") - far
        return (move + noise).astype(np.float64)

    return World(1, draw, lambda outputs: -(((outputs[:, 0] - move) / scale) ** 2) / 2)


def response(answer: int, *, epsilon: float, categories: int) -> World:
    """One of `categories` answers: the true `answer`, e^epsilon times as likely as each other."""
    truth = 1 / (1 + (categories - 1) * np.exp(-epsilon))

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        lies = (answer + rng.integers(1, categories, trials)) % categories
        said = np.where(rng.random(trials) < truth, answer, lies)
        return said[:, None].astype(np.float64)

    return World(1, draw, lambda outputs: np.where(outputs[:, 0] == answer, epsilon, 0.0))


def exact_count(count: int) -> World:

    def log_density(outputs: Floats) -> Floats:
        return np.where(outputs[:, 0] == count, 0.0, -np.inf)

    return World(1, lambda rng, trials: np.full((trials, 1), float(count)), log_density)


def moved_sum(
    draw_moves: Callable[[np.random.Generator, int], Floats],
    moves: Floats,
    chances: Floats,
    deviation: float,
) -> World:
    """A sum plus normal noise; `draw_moves` runs what draws the sum, whose law the density has."""
    there = chances > 0
    at, logs = moves[there], np.log(chances[there])

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        sums = draw_moves(rng, trials)
        return (sums + deviation * standard_normals(trials, rng=rng))[:, None]

    def log_density(outputs: Floats) -> Floats:
        return np.logaddexp.reduce(logs - ((outputs - at) / deviation) ** 2 / 2, axis=1)

    return World(1, draw, log_density)


def group_sum(records: int, *, rate: float, deviation: float) -> World:
    """A Poisson batch's sum, `records` of a group in the data, each of which adds 1."""
    counts = np.arange(records + 1.0)

    def drawn(rng: np.random.Generator, trials: int) -> Floats:
        return rng.binomial(records, rate, trials).astype(float)

    return moved_sum(drawn, counts, binom.pmf(counts, records, rate), deviation)


def truncated_sum(records: int, *, others: int, rate: float, most: int, deviation: float) -> World:
    """A Poisson batch's sum, of which a random `most` are kept: others are -1, the record is 1.

    With the record `records` is 1, without it 0.
    """
    counts = np.arange(others + 1)
    drawn = binom.pmf(counts, others, rate)

    def draw_moves(rng: np.random.Generator, trials: int) -> Floats:
        other = rng.binomial(others, rate, trials)
        own = (rng.random(trials) < rate * records).astype(int)
        kept = own * (rng.random(trials) * (other + own) < most)
        return kept - np.minimum(other, most - kept).astype(float)

    held = np.minimum(1.0, most / (counts + 1)) * rate * records
    moves = [-np.minimum(counts, most), 1 - np.minimum(counts, most - 1)]
    chances = [drawn * (1 - held), drawn * held]
    return moved_sum(draw_moves, np.concatenate(moves), np.concatenate(chances), deviation)


def one_pass(move: float, *, batches: int, deviation: float) -> World:
    """All noised sums of a pass, of which one, at random, has the record: (trials, batches)."""

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        sums = deviation * standard_normals(trials * batches, rng=rng).reshape(trials, batches)
        sums[np.arange(trials), rng.integers(0, batches, trials)] += move
        return sums

    def log_density(outputs: Floats) -> Floats:
        each = (outputs * move - move**2 / 2) / deviation**2
        plain = log_normal(outputs, 0.0, deviation)
        return plain + np.logaddexp.reduce(each, axis=1) - np.log(batches)

    return World(batches, draw, log_density)


def best_sum(move: float, *, runs: NumberOfRuns, deviation: float) -> World:
    """The largest of a random number, at least 1, of noised sums, as a run with its score."""
    gamma, eta = runs.gamma, runs.shape

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        counts = np.array([runs.draw(u) for u in rng.random(trials)])
        ends = np.cumsum(counts)
        sums = move + deviation * standard_normals(int(ends[-1]), rng=rng)
        return np.maximum.reduceat(sums, ends - counts)[:, None]

    def log_density(outputs: Floats) -> Floats:
        z = (outputs[:, 0] - move) / deviation
        # the law's generating function has this derivative, but for a constant
        return -(z**2) / 2 - (eta + 1) * np.log1p(-(1 - gamma) * ndtr(z))

    return World(1, draw, log_density)


# --- the worst pair of each mechanism ---


def of_ledger(ledger: Releases) -> Worlds:
    """The worlds of all releases of a ledger, each with fresh randomness, side by side.

    One record is the worst of every mechanism at once: it moves every coordinate as far as its
    clipping lets it, and may report any answer.
    """
    return together([repeated(worst_pair(one), n) for one, n in Ledger.of(ledger).releases])


@singledispatch
def worst_pair(mechanism: Any) -> Worlds:
    """Two data sets that differ in one record, seen through one release of the mechanism.

    Under add-remove the record is not there, or moves each clipped sum by its whole bound; under
    replace-one it stands at one end of the bound, or at the other.
    """
    raise Unsupported(f"no worlds are known for {type(mechanism).__name__}")


def ends(adjacency: Adjacency) -> tuple[int, int]:
    """What the record adds to a sum clipped at 1: in the absent and in the present world."""
    return (0, 1) if adjacency == "add-remove" else (-1, 1)


def at_ends(mechanism: Any, world: Callable[[int], World]) -> Worlds:
    """The two worlds of a record at either end of its bound."""
    return Worlds(*map(world, ends(mechanism.adjacency)))


SUMS: dict[Any, Callable[[Any, float], World]] = {  # of a mechanism and the record's move
    Gaussian: lambda own, move: normal_sum(move, own.noise_multiplier),
    SampledGaussian: lambda own, move: normal_sum(move, own.noise_multiplier, rate=own.sample_rate),
    # in a corner of the box that clipping leaves
    DiagonalGaussian: lambda own, move: normal_sum(
        [move] * len(own.noise_multipliers), own.noise_multipliers
    ),
    Laplace: lambda own, move: laplace_sum(move, own.scale),
    DiscreteGaussian: lambda own, move: discrete_sum(
        int(move) * own.sensitivity, own.noise_multiplier * own.sensitivity
    ),
    # all records of the group move the sum the same way
    GroupSampledGaussian: lambda own, move: group_sum(
        int(move) * own.group_size, rate=own.sample_rate, deviation=own.noise_multiplier
    ),
    BallsAndBinsGaussian: lambda own, move: one_pass(
        move, batches=own.batches, deviation=own.noise_multiplier
    ),
    # all other records lie at -1: where they fill the batch, the record moves the sum by 2
    TruncatedPoissonGaussian: lambda own, move: truncated_sum(
        int(move),
        others=own.records - 1,
        rate=own.sample_rate,
        most=own.most,
        deviation=own.noise_multiplier,
    ),
    # each draw that meets the record, at 1, meets it in place of another, at -1
    mechanisms.WithReplacementGaussian: lambda own, move: group_sum(
        int(move) * own.draws, rate=1 / own.records, deviation=own.noise_multiplier / 2
    ),
    # each run is one Gaussian's noised sum, and the larger is the better
    BestOf: lambda own, move: best_sum(
        move, runs=own.runs, deviation=own.ledger.releases[0].mechanism.noise_multiplier
    ),
}
for kind, seen in SUMS.items():
    worst_pair.register(kind, lambda own, seen=seen: at_ends(own, partial(seen, own)))


@worst_pair.register
def _(mechanism: mechanisms.GroupedGaussian) -> Worlds:
    """The record reaches the bound of every group; one draw of the batch is every group's."""
    own, groups, rate = mechanism.noise_multiplier, mechanism.groups, mechanism.sample_rate
    noise = own if isinstance(own, tuple) else (own,) * groups
    return at_ends(mechanism, lambda move: normal_sum([move] * groups, noise, rate=rate))


@worst_pair.register
def _(mechanism: mechanisms.RandomizedResponse) -> Worlds:
    """One true answer, and another one."""
    of = partial(response, epsilon=mechanism.epsilon, categories=mechanism.categories)
    return Worlds(of(1), of(0))


@worst_pair.register
def _(mechanism: mechanisms.ExponentialMechanism) -> Worlds:
    """Two choices, whose scores trade places."""
    return worst_pair(mechanisms.RandomizedResponse(mechanism.epsilon / 2))


@worst_pair.register
def _(mechanism: mechanisms.ApproximateDP) -> Worlds:
    """With chance delta the record is shown, by 2 or 3; else it is one of two true answers."""
    answers, delta = worst_pair(mechanisms.RandomizedResponse(mechanism.epsilon)), mechanism.delta
    shown = [World(1, lambda _, n, at=at: np.full((n, 1), at), is_at(at)) for at in (2.0, 3.0)]
    return Worlds(*(mixed(delta, *both) for both in zip(shown, answers, strict=True)))


def is_at(place: float) -> Callable[[Floats], Floats]:
    return lambda outputs: np.where(outputs[:, 0] == place, 0.0, -np.inf)


def mixed(chance: float, one: World, other: World) -> World:
    """The first world with this chance, else the second."""

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        there = rng.random((trials, 1)) < chance
        return np.where(there, one.draw(rng, trials), other.draw(rng, trials))

    def log_density(outputs: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            first = np.log(chance) + one.log_density(outputs)
            return np.logaddexp(first, np.log1p(-chance) + other.log_density(outputs))

    return World(one.width, draw, log_density)


@worst_pair.register
def _(mechanism: mechanisms.PoissonSampled) -> Worlds:
    """The record is drawn by chance."""
    absent, present = worst_pair(mechanism.mechanism)
    return Worlds(absent, mixed(mechanism.sample_rate, present, absent))


@worst_pair.register
def _(mechanism: mechanisms.WithoutReplacementGaussian) -> Worlds:
    """All other records lie at -1: where the record, at +1, is drawn, one of them is not.

    So the sum moves by 2, with the chance m / n, from what it always is without the record: the
    pair of Zhu, Dong, Wang 2022 (Thm 11, on subsampling without replacement). Where the others are
    0, both worlds are mixtures, which are less far apart.
    """
    share = Fraction(mechanism.sample_rate).limit_denominator(MOST_RECORDS)
    if share == 0 or float(share) != mechanism.sample_rate:
        raise Unsupported(f"a batch's share of at most {MOST_RECORDS} records must be sampled")
    batch, records = share.as_integer_ratio()
    noise = 2 * mechanism.noise_over_sensitivity
    of = partial(fixed_batch_sum, others=-1, batch=batch, records=records, deviation=noise)
    return at_ends(mechanism, of)


@worst_pair.register
def _(mechanism: Parallel) -> Worlds:
    """The record lies in the part that costs most, in both worlds where it is replaced."""
    costs = [float(part.rdp([TYPICAL])[0]) for part in mechanism.parts]
    pairs = [of_ledger(part).untouched() for part in mechanism.parts]
    dearest = costs.index(max(costs))
    pairs[dearest] = of_ledger(mechanism.parts[dearest])
    return together(pairs)


def between_parts(mechanism: Parallel, *, leaves: int, enters: int) -> Worlds:
    """Under replace-one: a record leaves one part, and another enters another part, from 0 on.

    Each of the two parts is then seen with one record more or less, as under add-remove.
    """

    def of_one(release: Any) -> Any:
        return release._replace(mechanism=replace(release.mechanism, adjacency="add-remove"))

    pairs = [of_ledger([of_one(one) for one in part.releases]) for part in mechanism.parts]
    turned = {leaves: pairs[leaves].swapped(), enters: pairs[enters]}
    return together([turned.get(i, pair.untouched()) for i, pair in enumerate(pairs)])
