"""Pure differential privacy: Laplace noise, randomised response, the exponential mechanism."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfinv, ndtri, ndtri_exp

from dpkit.common import checks
from dpkit.privacy.mechanisms.base import (
    ADJACENCIES,
    Adjacency,
    Floats,
    GaussianDp,
    PrivacyLoss,
    as_epsilons,
    as_orders,
    at_all,
    check_noise,
    from_atoms,
    moved_by,
    unknown,
)
from dpkit.privacy.mechanisms.gaussian import NODES, WEIGHTS


@dataclass(frozen=True)
class Laplace:
    """A sum of vectors clipped at L1 norm C, plus Laplace noise of scale b = scale * C.

    The pair is Lap(shift) against Lap(0), shift C under add-remove and 2C under replace-one.
    It also dominates moves spread over several coordinates: in two steps, by a and by c, the
    trade-off is at least f_a after f_c (Dong, Roth, Su 2022, on groups), and for a log-concave
    density moved along a line that is f_(a+c).

    Args:
        scale: b / C; the noise's standard deviation is sqrt(2) b.

    Raises:
        ValueError: scale is not in [1e-9, 1e13], or adjacency is unknown.
    """

    scale: float
    adjacency: Adjacency = "add-remove"
    hides_participation: ClassVar[bool] = True
    assumptions = ("the sum is clipped in L1 norm",)
    known_dp = property(lambda self: (self._shift, 0.0))

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        check_noise(self.scale, "scale")
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)

    @property
    def _shift(self) -> float:
        """shift / b: the largest privacy loss, so the epsilon of pure DP."""
        return moved_by(self.adjacency) / self.scale

    def rdp(self, orders: ArrayLike) -> Floats:
        """log(A) / (alpha - 1), the same in both directions (Mironov 2017, Prop. 6).

        A = alpha / (2 alpha - 1) e^((alpha-1) t) + (alpha-1) / (2 alpha - 1) e^(-alpha t) with
        t = shift / b. Constant and linear terms add up to 1, so that A - 1 is a sum of positive
        terms e^z - 1 - z.
        """
        alpha, t = as_orders(orders), self._shift
        up = np.log(alpha) + _log_exp_beyond_line((alpha - 1) * t)
        down = np.log(alpha - 1) + _log_exp_beyond_line(-alpha * t)
        excess = np.logaddexp(up, down) - np.log(2 * alpha - 1)  # log(A - 1)
        return np.minimum(np.logaddexp(0.0, excess) / (alpha - 1), t)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """1 - e^((epsilon - t) / 2) for |epsilon| <= t = shift / b, in both directions."""
        t = self._shift
        return at_all(
            as_epsilons(epsilons), lambda size: -np.expm1((np.minimum(size, t) - t) / 2)
        )

    def privacy_loss(self) -> PrivacyLoss:
        """Atoms at +-t (P beyond its own centre has loss t), and densities between them.

        P(loss <= l) = e^((l - t) / 2) / 2 for -t <= l < t, and Q(loss > l) = e^(-(l + t) / 2) / 2.
        """
        t = self._shift

        def masses(edges: Floats) -> Floats:
            ends = np.concatenate([[-t], np.clip(edges, -t, t), [t]])
            width = np.diff(ends)
            p = 0.5 * np.exp((ends[1:] - t) / 2) * -np.expm1(-width / 2)
            q = 0.5 * np.exp(-(ends[:-1] + t) / 2) * -np.expm1(-width / 2)
            low, high = np.searchsorted(edges, [-t, t], side="left")
            p[high], q[low] = p[high] + 0.5, q[low] + 0.5
            p[low], q[high] = p[low] + 0.5 * np.exp(-t), q[high] + 0.5 * np.exp(-t)
            return np.stack([p, q])

        return PrivacyLoss(masses, lattice=(-t, 2 * t))

    def gaussian_dp(self) -> GaussianDp:
        """The least mu whose trade-off curve lies below Laplace's: equal type I and II errors.

        Both curves are shifts of their noise, so mu is the largest step psi(x) - psi(x - t) of
        psi, the quantile map from Lap(0) to N(0, 1). psi is odd, and concave above 0 as
        log(1 - Phi) is; so the step is largest around 0, where Phi(-mu / 2) = e^(-t / 2) / 2.
        """
        t = self._shift
        if t < 1:
            return GaussianDp(float(np.sqrt(8) * erfinv(-np.expm1(-t / 2))), exact=True)
        return GaussianDp(float(-2 * ndtri_exp(-np.log(2) - t / 2)), exact=True)


def _log_exp_beyond_line(z: Floats) -> Floats:
    """log(e^z - 1 - z) for z != 0, whose argument is z^2 / 2 near 0."""
    small = np.clip(z, -0.5, 0.5)
    series = np.ones_like(z)
    for k in range(18, 2, -1):
        series = 1 + small / k * series
    with np.errstate(all="ignore"):
        near = 2 * np.log(np.abs(small)) - np.log(2) + np.log(series)
        above = z + np.log1p(-(1 + z) * np.exp(-z))
        below = np.log(np.expm1(np.minimum(z, 0.0)) - z)
    return np.where(z >= 0.5, above, np.where(z <= -0.5, below, near))


@dataclass(frozen=True)
class RandomizedResponse:
    """Each owner's report of a record: the truth, or one of the other answers evenly.

    The truth has probability e^epsilon / (e^epsilon + categories - 1) (Warner 1965 for two
    answers; Kairouz, Oh, Viswanath 2016 for more). The pair is any two true answers; whether a
    record takes part is not hidden, so replace-one is its adjacency.

    Args:
        epsilon: nats, of pure DP.
        categories: possible answers, >= 2.

    Raises:
        ValueError: epsilon is not in [1e-9, 1e9], categories is not an integer in [2, 2^53], or
            adjacency is not "replace-one".
    """

    epsilon: float
    categories: int = 2
    adjacency: Adjacency = "replace-one"
    hides_participation: ClassVar[bool] = False
    assumptions = (
        "each record is randomised by itself, and its answer is all that is seen of it",
    )
    known_dp = property(lambda self: (self.epsilon, 0.0))

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        checks.positive(epsilon=self.epsilon)
        checks.in_range(1e-9, 1e9, epsilon=self.epsilon)
        checks.whole(2, categories=self.categories)
        checks.in_range(2, 2**53, categories=self.categories)
        checks.one_of(("replace-one",), adjacency=self.adjacency)

    @property
    def _truth(self) -> float:
        return float(1 / (1 + (self.categories - 1) * np.exp(-self.epsilon)))

    def rdp(self, orders: ArrayLike) -> Floats:
        """log(A) / (alpha - 1), A = p (e^(alpha eps) + e^((1-alpha) eps) + categories - 2).

        p is the probability of one wrong answer; then A - 1 is the product of positive factors
        p (1 - e^(-(alpha-1) eps)) (e^(alpha eps) - 1) (Mironov 2017, Prop. 5, for two answers).
        """
        alpha, eps = as_orders(orders), self.epsilon
        more = (alpha - 1) * eps
        excess = np.log(self._truth) + more + np.log(-np.expm1(-more))
        excess += np.log(-np.expm1(-alpha * eps))
        return np.minimum(np.logaddexp(0.0, excess) / (alpha - 1), eps)

    def profile(self, epsilons: ArrayLike) -> Floats:
        """The sum of max(P - e^epsilon Q, 0) over the answers, the same in both directions."""
        truth, eps = self._truth, self.epsilon
        return at_all(
            as_epsilons(epsilons), lambda size: truth * -np.expm1(np.minimum(size - eps, 0.0))
        )

    def privacy_loss(self) -> PrivacyLoss:
        """Atoms at +-epsilon, and at 0 from the answers that are wrong for both."""
        eps, truth = self.epsilon, self._truth
        wrong = truth * np.exp(-eps)
        p = np.array([wrong, (self.categories - 2) * wrong, truth])
        lattice = (-eps, 2 * eps) if self.categories == 2 else (-eps, eps)
        return from_atoms(np.array([-eps, 0.0, eps]), p, lattice, q=p[::-1])

    def gaussian_dp(self) -> GaussianDp:
        """The least mu: its curve, convex, passes through the corners of this one's polygon.

        The corner is (p, 1 - truth), p one wrong answer's probability:
        mu = Phi^-1(truth) - Phi^-1(p).
        """
        truth, wrong = self._truth, self._truth * np.exp(-self.epsilon)
        if self.epsilon < 0.5:  # close: integrate the derivative of Phi^-1 between them
            at = ndtri(wrong + (truth - wrong) * (NODES + 1) / 2)
            slope = np.sqrt(2 * np.pi) * np.exp(at * at / 2)
            width = wrong * np.expm1(self.epsilon)
            return GaussianDp(float(width / 2 * (WEIGHTS @ slope)), exact=True)
        log_wrong = np.log(truth) - self.epsilon
        lie = np.log(self.categories - 1) + log_wrong
        at_truth = ndtri(truth) if truth < 0.5 else -ndtri_exp(lie)
        return GaussianDp(float(at_truth - ndtri_exp(log_wrong)), exact=True)


@dataclass(frozen=True)
class ExponentialMechanism:
    """A choice by score, with probability in proportion to e^(epsilon score / (2 sensitivity)).

    Its losses lie in an interval of length epsilon: it has bounded range, which costs less than
    pure DP does (Dong, Durfee, Rogers 2020, "Optimal differential privacy composition for
    exponential mechanisms"). Of the pairs on two losses t and t - epsilon the dominating one takes
    the dearest t at each point of its profile.

    Args:
        epsilon: nats, of the exponent; half of that where a record only raises scores or only
            lowers them.

    Raises:
        ValueError: epsilon is not in [2e-9, 1e9], or adjacency is unknown.
    """

    epsilon: float
    adjacency: Adjacency = "add-remove"
    assumptions = ("the scores' sensitivity is as stated, and the choice alone is released",)
    known_dp = property(lambda self: (self.epsilon, 0.0))
    hides_participation = property(lambda self: self.adjacency == "add-remove")

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        checks.in_range(2e-9, 1e9, epsilon=checks.positive(epsilon=self.epsilon))
        checks.one_of(ADJACENCIES, adjacency=self.adjacency)

    def rdp(self, orders: ArrayLike) -> Floats:
        """log(A) / (alpha - 1) at the dearest t, or alpha epsilon^2 / 8 where that is less.

        With x = e^(t - epsilon), A = x^(alpha-1) (D - x (D' - 1)) / (1 - e^-epsilon), D' =
        e^((alpha-1) epsilon), D = D' - e^-epsilon: largest at x = (1 - 1/alpha) D / (D' - 1). The
        other is Cesar, Rogers 2021, "Bounding, concentrating, and truncating".
        """
        alpha, eps = as_orders(orders), self.epsilon
        more = (alpha - 1) * eps
        log_d, log_less = (more + np.log(-np.expm1(-one)) for one in (alpha * eps, more))
        log_x = np.log1p(-1 / alpha) + log_d - log_less
        log_a = (alpha - 1) * log_x + log_d - np.log(alpha) - np.log(-np.expm1(-eps))
        bound = np.minimum(alpha * eps * eps / 8, eps)
        # of a small alpha epsilon its digits are lost
        return np.where(alpha * eps < 0.01, bound, np.minimum(log_a / (alpha - 1), bound))

    def profile(self, epsilons: ArrayLike) -> Floats:
        """(1 - e^((e - epsilon) / 2))^2 / (1 - e^-epsilon) for |e| <= epsilon, both directions."""
        eps = self.epsilon
        return at_all(
            as_epsilons(epsilons),
            lambda size: np.expm1((np.minimum(size, eps) - eps) / 2) ** 2 / -np.expm1(-eps),
        )

    def privacy_loss(self) -> PrivacyLoss:
        """P(loss > l) = (1 - h) / (1 - e^-epsilon), h = e^((l - epsilon) / 2), by the profile.

        Q(loss > l) is that times h e^-l. No two data sets have all of it: two choices whose scores
        trade places have losses +-epsilon / 2 alone. Of several choices `rdp` may prove less.
        """
        eps = self.epsilon

        def masses(edges: Floats) -> Floats:
            ends = np.concatenate([[-eps], np.clip(edges, -eps, eps), [eps]])
            share = np.expm1(-np.diff(ends) / 2) / np.expm1(-eps)
            return np.exp(np.stack([ends[1:] - eps, -(ends[:-1] + eps)]) / 2) * share

        return PrivacyLoss(masses, attained=RandomizedResponse(eps / 2).privacy_loss())

    gaussian_dp = unknown("no mu of the exponential mechanism is known here")
