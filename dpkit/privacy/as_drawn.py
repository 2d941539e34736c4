"""What the same run costs as its batches are drawn: a pair (lower, upper) for each way.

Every function takes a noise multiplier (noise on a step's sum, over the clip norm C), a batch size,
the declared size of the data, and a number of steps; the guarantee says its adjacency, for not all
ways have the same one.
"""

import math
from functools import partial

import numpy as np
from scipy.special import bdtrc, log_ndtr

from dpkit import checks
from dpkit.privacy.accountants import pld
from dpkit.privacy.ledger import Guarantee, Release
from dpkit.privacy.mechanisms import Floats, Gaussian
from dpkit.privacy.sampling import (
    Assuming,
    FixedSizeBatches,
    PoissonSampling,
    ShuffledBatches,
    mechanism,
    sample_rate,
)

THRESHOLDS = 4001
ROUNDED = 1e-6  # relative, of binomial tails
PASSES = "no amplification within a pass, certified; lower end by tests of the largest and mean sum"
ONE_BATCH = "in each pass every record enters one batch, drawn independently of all others"
TRUNCATED = "of at most the declared number of records; larger batches lose records at random"

WAYS = {  # how batches are drawn, in words
    "poisson": "each record enters each batch by chance",
    "truncated": "so, and a batch that is too large loses records",
    "balls-and-bins": "in each pass each record enters one batch by chance",
    "shuffled": "passes over shuffled data",
    "fixed": "each batch a fresh sample of one size",
}


def every_way(
    noise_multiplier: float,
    *,
    batch_size: int,
    public_size: int,
    steps: int,
    delta: float,
    largest: int | None = None,
) -> dict[str, Guarantee]:
    """The guarantee of one run under each of WAYS (arguments as `truncated`)."""
    run = {"batch_size": batch_size, "public_size": public_size, "steps": steps, "delta": delta}
    return {
        "poisson": poisson(noise_multiplier, **run),
        "truncated": truncated(noise_multiplier, **run, largest=largest),
        "balls-and-bins": balls_and_bins(noise_multiplier, **run),
        "shuffled": shuffled(noise_multiplier, **run),
        "fixed": fixed(noise_multiplier, **run),
    }


def poisson(
    noise_multiplier: float, *, batch_size: int, public_size: int, steps: int, delta: float
) -> Guarantee:
    """Batches that each record enters independently, of `batch_size` on average; add-remove.

    Raises:
        ValueError: a number is out of range, or the batch is larger than the data.
    """
    sampling = PoissonSampling(batch_size)
    step = mechanism(sampling, noise_multiplier=noise_multiplier, public_size=public_size)
    return pld.epsilon([Release(step, steps)], delta=delta)


def fixed(
    noise_multiplier: float, *, batch_size: int, public_size: int, steps: int, delta: float
) -> Guarantee:
    """Batches of a fixed size, each drawn afresh without replacement; replace-one.

    Raises:
        ValueError: as `poisson`.
    """
    sampling = FixedSizeBatches(batch_size)
    step = mechanism(sampling, noise_multiplier=noise_multiplier, public_size=public_size)
    return pld.epsilon([Release(step, steps)], delta=delta)


def truncated(
    noise_multiplier: float,
    *,
    batch_size: int,
    public_size: int,
    steps: int,
    delta: float,
    largest: int | None = None,
) -> Guarantee:
    """Poisson batches of at most `largest` records, as fixed shapes need; add-remove.

    Of a larger batch a random part is kept; a smaller one is padded, which costs nothing. A batch
    is too large with probability p = Pr[Binomial(n, q) > largest], so that all outputs are within
    t = steps p of those of Poisson batches in total variation, under both data sets:
    delta <= delta_Poisson + (1 + e^epsilon) t, and >= with a minus (Chua et al. 2024, "Scalable
    DP-SGD: shuffling vs. Poisson subsampling").

    Args:
        noise_multiplier, batch_size, public_size, steps, delta: as `poisson`; no data set that is
            compared has more than public_size records.
        largest: None for the least that takes at most 1 % of delta.

    Raises:
        ValueError: as `poisson`, or largest is not an integer >= batch_size.
    """
    run = {"batch_size": batch_size, "public_size": public_size, "steps": steps}
    if largest is None:
        largest = largest_batch(noise_multiplier, **run, delta=delta)
    price, plain = (
        partial(poisson, noise_multiplier, **run),
        poisson(noise_multiplier, **run, delta=delta),
    )
    lost = _too_large(checks.whole(batch_size, largest=largest), **run)
    epsilon, high, low = plain.epsilon, math.inf, plain.lower
    for _ in range(50):
        left = delta - (1 + math.exp(min(epsilon, 700.0))) * lost
        if not left > 0:
            break
        found = price(delta=left).epsilon
        if found <= epsilon:
            high = epsilon
            break
        epsilon = found * (1 + 1e-5)
    if lost > 0:
        more = delta + (1 + math.exp(min(plain.epsilon, 700.0))) * lost
        low = price(delta=more).lower if more < 1 else 0.0
    assumed = (*plain.assumptions, f"{TRUNCATED}: at most {largest}")
    method = f"{plain.method}; truncation by total variation"
    return plain._replace(epsilon=high, lower=low, method=method, assumptions=assumed)


def largest_batch(
    noise_multiplier: float, *, batch_size: int, public_size: int, steps: int, delta: float
) -> int:
    """The least size of `truncated` batches that takes 1 % of delta at most (as `poisson`)."""
    run = {"batch_size": batch_size, "public_size": public_size, "steps": steps}
    plain = poisson(noise_multiplier, **run, delta=delta)
    enough = delta / 100 / (1 + math.exp(min(plain.epsilon, 700.0)))
    low, high = batch_size - 1, public_size
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _too_large(middle, **run) <= enough else (middle, high)
    return high


def _too_large(largest: int, *, batch_size: int, public_size: int, steps: int) -> float:
    """How often, at most, one of `steps` Poisson batches is larger."""
    if largest >= public_size:
        return 0.0
    found = float(bdtrc(largest, public_size, batch_size / public_size))
    return steps * (1 + ROUNDED) * found


def shuffled(
    noise_multiplier: float, *, batch_size: int, public_size: int, steps: int, delta: float
) -> Guarantee:
    """Passes over shuffled data in batches of a fixed size, the rest dropped; replace-one.

    The upper end charges every pass that is begun as one Gaussian of sensitivity 2C, for a record
    is in one batch of it (`ShuffledBatches.passes`). The lower end is the best of two tests of the
    data set whose clipped gradients are all alike against the one with an opposite gradient. Where
    an incomplete batch is dropped, a pass may leave the record out.

    Raises:
        ValueError: as `poisson`.
    """
    begun = ShuffledBatches(batch_size).passes(
        noise_multiplier=noise_multiplier, public_size=public_size, steps=steps
    )
    upper = pld.epsilon([begun], delta=delta)
    batches = public_size // batch_size
    drawn = min(batches, steps) * batch_size / public_size
    low = _at_least(noise_multiplier / 2, batches, steps, drawn, delta)
    return upper._replace(lower=low, method=PASSES)


def balls_and_bins(
    noise_multiplier: float, *, batch_size: int, public_size: int, steps: int, delta: float
) -> Guarantee:
    """In each pass every record enters one batch, each as likely as the others; add-remove.

    A pass has public_size // batch_size batches, and so many of `batch_size` on average (Chua et
    al. 2025, "Balls-and-bins sampling for DP-SGD"). The upper end charges every pass that is begun
    as one Gaussian of sensitivity C; the lower end is as that of `shuffled`, and C for 2C.

    Raises:
        ValueError: as `poisson`.
    """
    sample_rate(PoissonSampling(batch_size), public_size=public_size)  # checks the batch
    batches = public_size // batch_size
    begun = Assuming(Gaussian(noise_multiplier), (ONE_BATCH,))
    upper = pld.epsilon([Release(begun, -(-checks.whole(steps=steps) // batches))], delta=delta)
    drawn = min(batches, steps) / batches
    low = _at_least(noise_multiplier, batches, steps, drawn, delta)
    return upper._replace(lower=low, method=PASSES)


def _at_least(noise: float, batches: int, steps: int, drawn: float, delta: float) -> float:
    """An epsilon that whole passes of batches cannot be below, a record moving a sum by 1.

    All other gradients are alike, so that beside what they add, the sum of the batch with the
    record is 1, all others 0. Two tests: is the largest sum of one pass above a threshold (Chua et
    al. 2024, "How private are DP-SGD implementations?")? Is the mean of all sums, whose noise is
    that of one Gaussian?

    Args:
        noise: standard deviation, in units of what the record moves.
        batches, steps: of a pass, and all that were drawn. A first pass may be incomplete.
        drawn: probability that a pass holds the record.
        delta: in (0, 1).
    """
    if not steps:
        return 0.0
    whole, a_pass = (steps // batches, batches) if steps >= batches else (1, steps)
    thresholds = np.linspace(0, 1 + 9 * noise, THRESHOLDS)
    with np.errstate(divide="ignore"):
        out_of_it = np.log1p(-drawn)
    without = log_largest(thresholds, 0.0, noise, a_pass)
    with_it = log_largest(thresholds, 1.0, noise, a_pass)
    mixed = np.logaddexp(np.log(drawn) + with_it, out_of_it + without)
    found = [refuted(mixed, without, delta)]
    spread = noise * math.sqrt(a_pass * whole)
    thresholds = np.linspace(0, whole + 9 * spread, THRESHOLDS)
    without = log_ndtr(-thresholds / spread)
    for fewest, often in _passes_with_it(whole, drawn):  # more of them would shift it further
        with_it = np.log(often) + log_ndtr((fewest - thresholds) / spread)
        found.append(refuted(with_it, without, delta))
    return max(found)


def log_largest(thresholds: Floats, moved: float, noise: float, batches: int) -> Floats:
    """log of the probability that one of `batches` noisy sums, one moved, is above each threshold.

    Args:
        thresholds, moved, noise: in units of C; the other sums are 0.
        batches: >= 1.
    """
    below = log_ndtr((thresholds - moved) / noise) + (batches - 1) * log_ndtr(thresholds / noise)
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(below))


def refuted(log_p: Floats, log_q: Floats, delta: float) -> float:
    """The largest epsilon that P(A) - e^epsilon Q(A) <= delta excludes, over tests A; at least 0.

    Args:
        log_p, log_q: (tests,) log of each test's probability under the two data sets.
        delta: in (0, 1).
    """
    useful = log_p > math.log(delta)
    if not useful.any():
        return 0.0
    left = log_p[useful] + np.log(-np.expm1(math.log(delta) - log_p[useful]))  # log(P - delta)
    return max(0.0, float((left - log_q[useful]).max()) - ROUNDED)


def _passes_with_it(passes: int, drawn: float) -> list[tuple[int, float]]:
    """Numbers of passes, and how often at least so many hold a record that each holds by chance."""
    if drawn == 1:
        return [(passes, 1.0)]
    mean, deviation = passes * drawn, math.sqrt(passes * drawn * (1 - drawn))
    fewest = {int(mean - many * deviation) for many in (-2, 0, 2, 4, 6)}
    return [
        (each, float(bdtrc(each - 1, passes, drawn)) * (1 - ROUNDED))
        for each in sorted(fewest)
        if 1 <= each <= passes
    ]
