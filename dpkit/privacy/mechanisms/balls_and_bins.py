"""An epoch of batches that every record enters once, at random: balls into bins."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from dpkit.common import checks
from dpkit.privacy.mechanisms import lognormal_sums
from dpkit.privacy.mechanisms.base import (
    UNIT,
    WHOLE_SUM,
    Adjacency,
    Floats,
    PrivacyLoss,
    as_epsilons,
    as_orders,
    check_noise,
    from_atoms,
    unknown,
)
from dpkit.privacy.mechanisms.lognormal_sums import Law
from dpkit.privacy.mechanisms.renyi_integrals import log_sums
from dpkit.privacy.mechanisms.sampled_gaussian import SampledGaussian

CERTIFIED = (0.1, 1e4)  # noise between which the law of the sum is computed
MOST_BATCHES = 2**40
LEAST_RATIO = 1e-10  # P / Q of the bracketing pairs
HIGHEST = 256  # order up to which Renyi divergences are summed


@dataclass(frozen=True)
class BallsAndBinsGaussian:
    """One epoch: each record enters one of `batches` batches at random, all sums are released.

    The pair, a record removed (the number of batches is public), is the mean over t of
    N(e_t, s^2 I) against N(0, s^2 I), s the noise multiplier (Chua et al. 2025, "Balls-and-bins
    sampling for DP-SGD"): it dominates, and some neighbours have it.

    Args:
        noise_multiplier: standard deviation of the noise on each clipped sum / C.
        batches: T, of the epoch.
        share: chance, in (0, 1], that a record enters a batch of the epoch at all.

    Raises:
        ValueError: noise_multiplier is not in [1e-9, 1e13], batches not an integer in [1, 2^40], or
            share not in (0, 1].
    """

    noise_multiplier: float
    batches: int
    share: float = 1.0
    hides_participation: ClassVar[bool] = True
    assumptions = (
        "balls and bins: every record enters at most one batch of an epoch, each of them as "
        "likely, independently of the others; the number of batches is public",
        WHOLE_SUM,
    )

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        check_noise(self.noise_multiplier)
        checks.whole(1, batches=self.batches)
        checks.in_range(1, MOST_BATCHES, batches=self.batches)
        checks.positive(share=self.share)
        checks.in_range(0, 1, share=self.share)

    @property
    def adjacency(self) -> Adjacency:
        return "add-remove"

    @property
    def _one(self) -> SampledGaussian:
        """The release that also names the record's batch: costs no less."""
        return SampledGaussian(self.noise_multiplier, self.share)

    def rdp(self, orders: ArrayLike) -> Floats:
        """Upper bounds in nats, never above those of one batch.

        With R = S / T, log E_Q[R^a] and log E_Q[R^(1-a)] are computed at whole orders a up to 256
        (`_cumulants`); between them lies a chord, for both are convex in a and 0 at 1.
        1 - share + share E bounds E, where a record may stay out.
        """
        alpha = as_orders(orders)
        unamplified = self._one.rdp(alpha)
        if self.batches == 1 or not _certified(self.noise_multiplier):
            return unamplified
        known = _cumulants(self.noise_multiplier, self.batches).copy()
        known[1:] = np.logaddexp(
            0.0, np.log(self.share) + known[1:] + np.log(-np.expm1(-known[1:]))
        )
        at = np.minimum(alpha, HIGHEST)
        amplified = np.interp(at, np.arange(1, HIGHEST + 1), known) / (at - 1)
        return np.where(alpha <= HIGHEST, np.minimum(amplified, unamplified), unamplified)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """delta(epsilon) of the dominating pair that is computed, shape (2, len(epsilons))."""
        eps = as_epsilons(epsilons)
        atoms = self._atoms
        if atoms is None:
            return self._one.profile(eps)
        t = np.exp(np.minimum(eps, 700.0))[:, None]
        there = np.maximum(atoms.p - t * atoms.q, 0.0).sum(axis=1) + atoms.lost
        back = np.maximum(atoms.q - t * atoms.p, 0.0).sum(axis=1) + atoms.lost
        return np.minimum(np.stack([there, back]), 1.0)

    def privacy_loss(self) -> PrivacyLoss:
        """The loss of a finite pair that dominates the epoch's; `attained` is one below it.

        Proof: pld/proof.md, J. Where no law of the sum is computed (noise below 0.1 or above
        10^4), one batch dominates, and no attained pair is known.
        """
        if self.batches == 1:
            return self._one.privacy_loss()
        nothing = from_atoms(np.zeros(1), np.ones(1), lattice=None)
        if not _certified(self.noise_multiplier):
            return self._one.privacy_loss()._replace(attained=nothing)
        most = self._atoms
        loss = self._one.privacy_loss() if most is None else most.loss()
        least = _lower(self.noise_multiplier, self.batches, self.share)
        return loss._replace(attained=least.loss())

    gaussian_dp = unknown("no mu of Gaussian DP is known for balls-and-bins batches")

    @property
    def _atoms(self) -> "_Atoms | None":
        if self.batches == 1 or not _certified(self.noise_multiplier):
            return None
        return _upper(self.noise_multiplier, self.batches, self.share)


class _Atoms(NamedTuple):
    """Masses p and q at increasing losses, and `lost` of each at + and - infinity."""

    losses: Floats
    p: Floats
    q: Floats
    lost: float

    def loss(self) -> PrivacyLoss:
        def masses(edges: Floats) -> Floats:
            ends = np.searchsorted(self.losses, edges, side="right")
            starts, ends = np.append(0, ends), np.append(ends, self.losses.size)
            found = np.stack(
                [np.add.reduceat(np.append(w, 0.0), starts) for w in (self.p, self.q)]
            )
            found[:, starts == ends] = 0.0  # where reduceat gives the next atom
            found[[0, 1], [-1, 0]] += self.lost
            return found

        return PrivacyLoss(masses)


def _certified(noise: float) -> bool:
    return CERTIFIED[0] <= noise <= CERTIFIED[1]


_law = lru_cache(maxsize=32)(lambda side, noise, batches: side(noise, batches))


def _upper(noise: float, batches: int, share: float) -> _Atoms | None:
    """A dominating pair (pld/proof.md, J), None where rounding spoils its two masses."""
    law: Law = _law(lognormal_sums.upper, noise, batches)
    ratio = np.maximum(share * law.at / batches, LEAST_RATIO - 1)  # R - 1
    q = law.mass * (1 - law.doubt)
    p = q * (1 + ratio)
    lost = batches * lognormal_sums.LOST
    p_rest, q_rest = 1 - p.sum() - lost, 1 - q.sum() - lost
    least, most = 1 + ratio[0], 1 + ratio[-1]
    at_least = (q_rest - p_rest / most) / (1 / least - 1 / most)
    at_most = p_rest - at_least
    if not min(p_rest, q_rest, at_least, at_most) > 0:
        return None
    p[[0, -1]] += at_least, at_most
    q[[0, -1]] += at_least / least, at_most / most
    return _Atoms(np.log1p(ratio), p, q, lost)


def _lower(noise: float, batches: int, share: float) -> _Atoms:
    """A part of a dominated pair: masses rounded down."""
    law: Law = _law(lognormal_sums.lower, noise, batches)
    ratio = share * law.at / batches
    kept = ratio > LEAST_RATIO - 1
    ratio, q = ratio[kept], law.mass[kept] * max(1 - law.doubt, 0.0)
    return _Atoms(np.log1p(ratio), q * (1 + ratio), q, 0.0)


@lru_cache(maxsize=32)
def _cumulants(noise: float, batches: int) -> Floats:
    """The larger of log E_Q[R^a] and log E_Q[R^(1-a)] at a = 1, 2, ..., 256, rounded up."""
    orders = np.arange(1.0, HIGHEST + 1)
    r = orders - 1
    reverse = r * (1 + r / batches) / (2 * noise**2)  # R is at least the geometric mean
    near = r / batches <= min(12 * noise, 30 * noise**2)  # or what decides is not integrated
    reverse[near] = np.minimum(_reversed(noise, batches), reverse)[near]
    found = np.maximum(_moments(noise, batches), reverse)
    return np.where(orders > 1, np.maximum(found, 1e-300), 0.0)


def _moments(noise: float, batches: int) -> Floats:
    """log E_Q[R^a] = log(a! / T^a [z^a] (sum_k E[X^k] z^k / k!)^T), E[X^k] = e^(k (k-1) / (2 s^2)).

    A power series of positive terms, in logs; their rounding is added.
    """
    k = np.arange(HIGHEST + 1.0)
    power, found, left = k * (k - 1) / (2 * noise**2) - gammaln(k + 1), None, batches
    while left:
        if left % 2:
            found = power if found is None else _product(found, power)
        left //= 2
        power = _product(power, power) if left else power
    assert found is not None
    terms: Floats = np.stack([gammaln(k + 1), -k * np.log(batches), found])
    return (terms.sum(axis=0) + 64 * UNIT * np.abs(terms).sum(axis=0))[1:]


def _product(a: Floats, b: Floats) -> Floats:
    """The product of two power series, as logs of their coefficients."""
    shifted = np.arange(a.size)[:, None] - np.arange(a.size)
    return log_sums(np.where(shifted >= 0, a + b[shifted], -np.inf))


def _reversed(noise: float, batches: int) -> Floats:
    """log E_Q[R^-r] at r = 0, 1, ..., 255: R^-r is an integral of e^(-R u) u^(r-1) over u > 0.

    E_Q[e^(-R u)] is the T-th power of one variable's, and both integrals are trapezoidal sums in
    log u and z, which converge faster than any power of their steps. What decides lies near
    z = -r / (s T) and log u = r / (s^2 T).
    """
    step = 2.0**-5
    y, z = np.arange(-45, 75, step), np.arange(-24, 9 + 1 / noise, step)
    density = step * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    x = np.exp((z - 0.5 / noise) / noise)
    u = np.exp(y)[:, None] / batches
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        missing = -np.expm1(-u * x) @ density
        log_one = np.where(missing < 0.5, np.log1p(-np.minimum(missing, 0.5)), 0.0)
        far = missing >= 0.5
        log_one[far] = np.log(np.exp(-u[far] * x) @ density)
    r = np.arange(1.0, HIGHEST)
    found = log_sums(r[:, None] * y + batches * log_one) + np.log(step) - gammaln(r)
    return np.append(0.0, found + 1e-12)
