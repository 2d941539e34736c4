"""Each mechanism run by its definition on one known data set: draw the batch, sum, add noise.

Sums are clipped at 1. The attacker knows every other record, as in the definition of differential
privacy, and takes them off the sum; so they stand here as zeros, but where a batch of a fixed size
makes them matter.
"""

import numpy as np
from numpy.typing import ArrayLike

from dpkit.common import checks
from dpkit.privacy.mechanisms import Floats
from dpkit.privacy.normals import standard_normals
from own_mechanisms.worlds import World

REACH = 12.0  # scales beyond which discrete Gaussian noise has less mass than one uniform's step
WIDEST = 1e5  # scale of discrete noise up to which its probabilities are listed


def normal_sum(moves: ArrayLike, deviations: ArrayLike, *, rate: float = 1.0) -> World:
    """A Poisson batch's sum plus normal noise.

    Args:
        moves: what the record adds to each coordinate where it is in the batch, (width,).
        deviations: the noise's standard deviation on each coordinate, (width,).
        rate: chance of the record to enter the batch, in [0, 1].

    Raises:
        ValueError: a deviation is not > 0, or rate is out of range.
    """
    move, deviation = np.atleast_1d(np.asarray(moves, float)), np.asarray(deviations, float)
    if not ((deviation > 0) & (deviation < np.inf)).all():
        raise ValueError(f"deviations must be finite numbers > 0, got {deviations}")
    rate = checks.in_range(0, 1, rate=rate)

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        in_batch = rng.random((trials, 1)) < rate
        normals = standard_normals(trials * move.size, rng=rng).reshape(trials, move.size)
        return in_batch * move + deviation * normals

    def log_density(outputs: Floats) -> Floats:
        without, with_it = (_log_normal(outputs, at, deviation) for at in (0 * move, move))
        return _log_mixture(without, with_it, rate)

    return World(move.size, draw, log_density)


def fixed_batch_sum(
    record: float, *, others: float, batch: int, records: int, deviation: float
) -> World:
    """The sum of a batch of `batch` out of `records` records, no record twice, plus normal noise.

    Args:
        record: the record's own number, clipped to [-1, 1].
        others: the number of each of the other records.
        batch, records: 1 <= batch <= records.
        deviation: the noise's standard deviation.

    Raises:
        ValueError: a number is out of range.
    """
    checks.in_range(-1, 1, record=record, others=others)
    checks.whole(1, batch=batch)
    checks.whole(batch, records=records)
    checks.positive(deviation=deviation)
    data = np.array([record] + [others] * (records - 1))

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        shuffled = rng.permuted(np.tile(data, (trials, 1)), axis=1)
        sums = shuffled[:, :batch].sum(axis=1, keepdims=True)
        return sums + deviation * standard_normals(trials, rng=rng)[:, None]

    def log_density(outputs: Floats) -> Floats:
        sums = np.array([batch * others, (batch - 1) * others + record])
        without, with_it = (_log_normal(outputs, at, np.array(deviation)) for at in sums)
        return _log_mixture(without, with_it, batch / records)

    return World(1, draw, log_density)


def laplace_sum(move: float, scale: float) -> World:
    """A sum that the record moves by `move`, plus Laplace noise of that scale."""
    checks.positive(scale=scale)

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        return move + rng.laplace(0.0, scale, (trials, 1))

    return World(1, draw, lambda outputs: -np.abs(outputs[:, 0] - move) / scale)


def discrete_sum(move: int, scale: float) -> World:
    """A count that the record moves by `move`, plus discrete Gaussian noise.

    The noise is drawn by inversion: of the listed probabilities in double precision, each is right
    to about 1e-16 (`discrete_gaussian` is exact and some hundred times slower).

    Raises:
        ValueError: scale is not in (0, 1e5].
    """
    if not 0 < scale <= WIDEST:
        raise ValueError(f"scale must lie in (0, {WIDEST:g}], got {scale}; count in larger units")
    far = int(np.ceil(REACH * scale)) + 1
    each = np.exp(-((np.arange(-far, far + 1) / scale) ** 2) / 2)
    below = np.cumsum(each)[:-1] / each.sum()

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        noise = np.searchsorted(below, rng.random((trials, 1)), side="right") - far
        return (move + noise).astype(np.float64)

    return World(1, draw, lambda outputs: -(((outputs[:, 0] - move) / scale) ** 2) / 2)


def response(answer: int, *, epsilon: float, categories: int) -> World:
    """One of `categories` answers: the true `answer`, e^epsilon times as likely as each other.

    Raises:
        ValueError: epsilon is not a finite number > 0, or answer not one of 0 ... categories - 1.
    """
    checks.positive(epsilon=epsilon)
    checks.whole(2, categories=categories)
    checks.whole(answer=answer)
    if not answer < categories:
        raise ValueError(f"answer must be below categories = {categories}, got {answer}")
    truth = 1 / (1 + (categories - 1) * np.exp(-epsilon))

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        lies = (answer + rng.integers(1, categories, trials)) % categories
        said = np.where(rng.random(trials) < truth, answer, lies)
        return said[:, None].astype(np.float64)

    return World(1, draw, lambda outputs: np.where(outputs[:, 0] == answer, epsilon, 0.0))


def exact_count(count: int) -> World:
    """A count that is released as it is."""
    checks.whole(count=count)

    def draw(rng: np.random.Generator, trials: int) -> Floats:
        return np.full((trials, 1), float(count))

    return World(1, draw, lambda outputs: np.where(outputs[:, 0] == count, 0.0, -np.inf))


def _log_normal(outputs: Floats, mean: Floats, deviation: Floats) -> Floats:
    """The log density of independent normals, less its constant: (trials,)."""
    return -(((outputs - mean) / deviation) ** 2).sum(axis=1) / 2


def _log_mixture(without: Floats, with_it: Floats, rate: float) -> Floats:
    """log((1 - rate) e^without + rate e^with_it)."""
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-rate) + without, np.log(rate) + with_it)
