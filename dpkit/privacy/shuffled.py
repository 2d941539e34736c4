"""Least costs of passes over shuffled batches, and amplification by shuffling records."""

import math

import numpy as np
from scipy.special import log_ndtr

from dpkit.common import checks
from dpkit.privacy.accountants import pld
from dpkit.privacy.ledger import Release
from dpkit.privacy.mechanisms import (
    Adjacency,
    BallsAndBinsGaussian,
    Gaussian,
    RandomizedResponse,
    moved_by,
)
from dpkit.privacy.mechanisms.base import check_noise


def at_least(
    noise_multiplier: float, *, batches: int, delta: float, share: float = 1.0
) -> float:
    """An epsilon that one pass of `batches` noised sums cannot be below, at `delta`.

    Two data sets: all records' clipped gradients are alike, but one record's is the opposite, or 0
    where it is left out in place (zero-out: Poisson batches cost the same as under add-remove).
    Beside -C times its size, the sum of the batch that holds the place is 2C with the record and C
    without it. The event that some sum lies above a threshold tells the two apart, with
    delta >= P(event) - e^epsilon Q(event) (Chua et al. 2024, "How private are DP-SGD
    implementations?"); the best of 4,001 thresholds is taken. With chance 1 - share no batch of the
    pass holds the place.

    Raises:
        ValueError: noise_multiplier is not in [1e-9, 1e13], batches not an integer >= 1, delta
            not in (0, 1), or share not in [0, 1].
    """
    check_noise(noise_multiplier)
    checks.whole(1, batches=batches)
    checks.between(0, 1, delta=delta)
    checks.in_range(0, 1, share=share)
    thresholds = np.linspace(0, 2 + 8 * noise_multiplier, 4001)

    def event(moved: float):  # log of its probability, (4001,)
        below = log_ndtr((thresholds - moved) / noise_multiplier)
        below += (batches - 1) * log_ndtr(thresholds / noise_multiplier)
        return np.log(-np.expm1(below))

    with_it, without_it = event(2.0), event(1.0)
    if share < 1:
        with np.errstate(divide="ignore"):
            nowhere = np.log1p(-share) + event(0.0)
            with_it, without_it = (
                np.logaddexp(np.log(share) + one, nowhere) for one in (with_it, without_it)
            )
    useful = with_it > np.log(delta)
    if not useful.any():
        return 0.0
    left = with_it[useful] + np.log(
        -np.expm1(np.log(delta) - with_it[useful])
    )  # log(P - delta)
    return max(0.0, float((left - without_it[useful]).max()))


def lower(
    noise_multiplier: float,
    adjacency: Adjacency,
    *,
    public_size: int,
    batch: int,
    steps: int,
    delta: float,
) -> float:
    """An epsilon that `steps` shuffled batches cannot be below: the larger of two bounds.

    One is of data sets whose gradients are all -C, one record's C or -C (replace-one), or all 0,
    one record's C or left out (zero-out): passes are then balls and bins (pld/proof.md, J), which
    leave the record out with the chance of a short batch, or of one not begun. The other is
    `at_least`, of the first pass: a replaced record's gradient may be 0.
    """
    held, (passes, begun) = public_size // batch, divmod(steps, public_size // batch)
    noise = noise_multiplier / moved_by(adjacency)
    parts = [
        Release(BallsAndBinsGaussian(noise, many, many * batch / public_size), count)
        for many, count in ((held, passes), (begun, 1))
        if many and count
    ]
    if not parts:
        return 0.0
    first = held if passes else begun
    share = first * batch / public_size
    return max(
        pld.epsilon(parts, delta=delta).lower,
        at_least(noise_multiplier, batches=first, delta=delta, share=share),
    )


def amplified(noise_multiplier: float, *, records: int, passes: int, delta: float) -> float:
    """An epsilon of passes over batches of a single record, one record replaced: inf if none is.

    A step is an (eps0, delta0)-DP local randomizer, chosen by the steps before it. In random order
    `records` of them are (epsilon, d + (e^epsilon + 1) (1 + e^-eps0 / 2) records delta0)-DP with
    epsilon = log(1 + (1 - e^-eps0) / (1 + e^(-eps0 - log(1 + a))) a) and
    a = 8 sqrt(e^eps0 log(4 / d) / records) + 8 e^eps0 / records, where
    eps0 <= log(records / (16 log(4 / d))) (Feldman, McMillan, Talwar 2021, "Hiding among the
    clones", Thms 3.1 and 3.8; the constants as in the authors' code, which asks a little more).
    Half of delta goes to the passes, half of that to d and half to delta0; the passes compose as
    randomized responses do (Kairouz, Oh, Viswanath 2015, Thm 3.3).
    """
    each = delta / (4 * passes)
    local = Release(Gaussian(noise_multiplier, "replace-one"))
    eps0 = pld.epsilon(local, delta=each / (1.5 * records * (records + 1))).epsilon
    log = 16 * math.log(4 / each)
    if not (log < records and eps0 <= math.log(records / log)):
        return math.inf
    grown = math.exp(eps0) / records
    a = 8 * math.sqrt(grown * math.log(4 / each)) + 8 * grown
    gained = -math.expm1(-eps0) / (1 + math.exp(-eps0) / (1 + a)) * a
    if not gained + 1 <= records:  # e^epsilon + 1 <= records + 1, which delta0 counts on
        return math.inf
    response = RandomizedResponse(max(math.log1p(gained), 1e-9))
    return pld.epsilon([Release(response, passes)], delta=delta / 2).epsilon
