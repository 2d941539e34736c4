"""The moments accountant against an integral over the privacy loss, 30 digits, and a table."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import logsumexp

from dpkit.privacy import Laplace, NoGuarantee, SampledGaussian, Unsupported, moments, rdp
from dpkit.privacy.ledger import FIXED, Release, parallel
from dpkit.privacy.mechanisms import DiscreteGaussian, Gaussian, GroupedGaussian, RandomizedResponse

LAMBDAS = np.arange(1.0, 33.0)
SOME = np.array([1, 5, 13, 32])  # lambdas that the oracle integrates
CELLS = 20_000  # of the oracle's grid, on either side of loss 0
FAR = np.geomspace(1e-12, 1e6, 2000)  # nats
MECHANISMS = [SampledGaussian(4.0, 0.5), Laplace(0.7), DiscreteGaussian(1.5, 2)]
MECHANISMS += [RandomizedResponse(*one) for one in ((1.3, 10), (1e-5,), (40.0,))]
DENSE = [SampledGaussian(*one) for one in ((1.1, 0.01), (20.0, 1e-3), (1e4, 1e-4))]
DENSE += [SampledGaussian(1.1, 0.01, "replace-one"), Gaussian(1.1), Gaussian(1e5)]
DENSE += [GroupedGaussian(3.0, 4, 0.2)]
MORE = pytest.mark.slow("a moment wrong at one noise or rate, where quadrature of one is not")


def bounds(mechanism) -> tuple[np.ndarray, np.ndarray]:
    """(low, high): bounds on alpha at SOME by an integral over the privacy loss, (len(SOME),) each.

    The larger direction, from `privacy_loss` alone. With A the moment, order a = lambda + 1 and
    P, Q the pair, A - 1 = E_Q[excess(loss)], see `log_excess`: terms >= 0, convex in exp(loss).
    In a cell of losses, whose masses under P and Q are known, that is at least the excess of all
    the mass at one loss (Jensen's inequality) and at most that of the mass moved to the cell's two
    ends, both masses kept. Tails below 1e-290 are left out: they decide no moment asked for here.
    """
    masses = mechanism.privacy_loss().masses

    def reverse(edges):  # the next number below keeps cells open on the left
        return masses(np.nextafter(-edges[::-1], -np.inf))[::-1, ::-1]

    each = np.stack([direction(masses, reverse), direction(reverse, masses)])
    low, high = each.max(axis=0)
    return low, high


def direction(masses, reverse) -> np.ndarray:
    """Both bounds on log E_P[exp(lambda * loss)], P in row 0 of `masses`: (2, len(SOME))."""
    below, above = (reach(one) * np.linspace(0, 1, CELLS) ** 2 for one in (reverse, masses))
    edges = np.concatenate([-below[:0:-1], above])
    p, q = masses(edges)[:, 1:-1]
    held = (p > 0) & (q > 0)
    p, q, left, right = p[held], q[held], edges[:-1][held], edges[1:][held]
    at = np.clip(np.log(p / q), left, right)
    with np.errstate(divide="ignore"):
        mass = np.where(at > 0, np.log(p) - at, np.log(q))  # under Q, in the digits of the larger
        to_right = np.log(np.expm1(at - left) / np.expm1(right - left))
        to_left = np.log1p(-np.exp(to_right))
    least, most = [], []
    for order in SOME + 1.0:
        ends = [to_left + log_excess(left, order), to_right + log_excess(right, order)]
        least.append(logsumexp(mass + log_excess(at, order)))
        most.append(logsumexp(mass + ends))
    return np.logaddexp(0, [least, most])


def reach(masses) -> float:
    """The loss of FAR beyond which P's mass is below 1e-290."""
    tails = np.cumsum(masses(FAR)[0, ::-1])[-2::-1]
    return float(FAR[(tails > 1e-290).sum()])


def log_excess(loss: np.ndarray, order: float) -> np.ndarray:
    """log(exp(a l) - 1 - a (exp(l) - 1)) at order a: directly, in logs, or by its series."""
    tilt = order * loss
    series = sum((1 - order ** (1 - k)) / math.factorial(k) * tilt**k for k in range(2, 12))
    with np.errstate(all="ignore"):
        direct = np.log(np.expm1(tilt) - order * np.expm1(loss))
        large = tilt + np.log1p(-order * np.exp(loss - tilt))
        return np.where(tilt > 40, large, np.where(abs(tilt) < 0.1, np.log(series), direct))


@pytest.mark.parametrize(
    "mechanism", [*MECHANISMS, *(pytest.param(one, marks=MORE) for one in DENSE)], ids=str
)
def test_each_moment_is_the_integral_in_the_larger_direction(mechanism):
    _, alpha = moments.curve([Release(mechanism)])
    low, high = bounds(mechanism)
    assert (high <= low * (1 + 1e-5)).all(), high / low - 1
    assert (low * (1 - 1e-10) <= alpha[SOME - 1]).all()
    assert (alpha[SOME - 1] <= high * (1 + 1e-10)).all()


def exceeded(ledger, **changed) -> int:
    return moments.exceeded_at(ledger, **{"target_epsilon": 2.0, "target_delta": 1e-5, **changed})


def test_the_iteration_before_is_not_exceeded_and_the_first_or_none_may_be():
    one = SampledGaussian(4.0, 0.3)
    found = exceeded([Release(one, 2)])
    for count, above in ((found - 1, False), (found, True)):
        spent = moments.delta([Release(one, 2 * count)], epsilon=2.0).delta
        assert (spent > 1e-5) == above
    assert exceeded([Release(Gaussian(0.5))]) == exceeded([Release(NoGuarantee("x"))]) == 1
    with pytest.raises(ValueError, match="costs nothing"):
        exceeded([Release(SampledGaussian(1.0, 0.0))])


def test_epsilon_is_the_classic_conversion_at_integer_orders():
    """Also of what knows its Renyi divergence alone."""
    ledger = [Release(SampledGaussian(1.1, 0.01), 2000), Release(Gaussian(20.0), 3)]
    alone = parallel([Release(Gaussian(1.0))], [Release(SampledGaussian(1.0, 0.1), 9)])
    with pytest.raises(Unsupported):
        alone[0].mechanism.privacy_loss()
    for one in (alone, ledger):
        spent = moments.epsilon(one, delta=1e-5)
        by_rdp = rdp.epsilon(one, delta=1e-5, conversion="classic", orders=LAMBDAS + 1)
        assert spent.epsilon == pytest.approx(by_rdp.epsilon, rel=1e-12)
    back = moments.delta(ledger, epsilon=spent.epsilon)
    assert back.delta == pytest.approx(1e-5, rel=1e-9)
    assert spent.method.startswith("moments accountant (Abadi et al. 2016, Thm 2), moment ")
    assert (spent.lower, spent.assumptions) == (0, (*ledger[0].mechanism.assumptions, FIXED))
    assert moments.epsilon(ledger, delta=1e-5, moments=3).epsilon > spent.epsilon


@dataclass(frozen=True)
class Priced(Gaussian):
    """A mechanism whose Renyi divergence is 1 at orders below 4, then `above`."""

    above: float = math.inf

    def rdp(self, orders):
        return np.where(np.asarray(orders) < 4, 1.0, self.above)


def test_infinite_moments_decide_nothing_and_failed_ones_are_exceptions():
    found = moments.epsilon([Release(Priced(1.0))], delta=1e-5)
    assert found.epsilon == pytest.approx(1 + math.log(1e5) / 2)
    assert found.method.endswith("moment 2")
    for above in (math.nan, -1.0):
        with pytest.raises(ArithmeticError, match="not a number >= 0"):
            moments.epsilon([Release(Priced(1.0, above=above))], delta=1e-5)
