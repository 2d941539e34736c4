"""The paper's lemmas and Theorem 1 as printed, and corrected where they must differ.

`claims.py` compares them with what `dpkit.privacy` proves of the same releases. Epsilons are in
nats; a sensitivity is how far one record moves a function, a noise a standard deviation.
"""

import math
from typing import NamedTuple

import numpy as np

from dpkit.common import checks
from dpkit.privacy.mechanisms import Floats
from dpkit.privacy.mechanisms.without_replacement import printed_bound

# "we select alpha from {2, 3, ..., 64}" (section IV-A)
ORDERS = np.arange(2.0, 65.0)
# The exponent of H in dA / dH: as it must be, and in the proof
RIGHT, PRINTED = -1.5, 1.5


def limits(h: float, *, epsilon: float) -> tuple[float, float]:
    """A(H) and A'(H) of Lemma 1's proof: sqrt(H) / 2 - eps / sqrt(H) and -sqrt(H) / 2 - it.

    Args:
        h: H > 0.
        epsilon: >= 0.
    """
    checks.positive(h=h)
    checks.non_negative(epsilon=epsilon)
    root = math.sqrt(h)
    return root / 2 - epsilon / root, -root / 2 - epsilon / root


def limit_slope(h: float, *, epsilon: float, exponent: float = RIGHT) -> float:
    """dA / dH = 1 / (4 sqrt(H)) + (eps / 2) H^(-3/2); the proof prints H^(3/2)."""
    checks.positive(h=h)
    checks.non_negative(epsilon=epsilon)
    return 1 / (4 * math.sqrt(h)) + epsilon / 2 * h**exponent


def profile_slope(h: float, *, epsilon: float, exponent: float = RIGHT) -> float:
    """The slope in H of delta at epsilon, Phi(A) - e^eps Phi(A') (eq. 2), as the proof has it.

    The terms with `exponent` have the factor e^(-A^2 / 2) - e^(eps - A'^2 / 2), which is 0 since
    A'^2 = A^2 + 2 eps. So the printed exponent leaves the derivative as it is, and above 0.
    """
    upper, lower = limits(h, epsilon=epsilon)
    first = math.exp(-(upper**2) / 2)
    second = math.exp(epsilon - lower**2 / 2)
    rising = limit_slope(h, epsilon=epsilon, exponent=exponent)
    falling = rising - 1 / (2 * math.sqrt(h))  # dA' / dH
    return (first * rising - second * falling) / math.sqrt(2 * math.pi)


def lemma_3(order: float, *, noise_std: float) -> float:
    """Lemma 3: alpha / (2 sigma^2), of order alpha > 1 and sigma > 0.

    Right where one record moves f by 1 at most (Mironov 2017, Prop. 7); see claim `lemma-3`.
    """
    checks.between(1, math.inf, order=order)
    checks.positive(noise_std=noise_std)
    return order / (2 * noise_std**2)


def second_term(noise: float) -> float:
    """Theorem 1's min(4 (e^(1 / sigma^2) - 1), 2 e^(1 / sigma^2)); noise is sigma > 0.

    A bound of E_R[((P - Q) / R)^2] of three neighbours (Wang, Balle, Kasiviswanathan 2019, Thm 9).
    """
    checks.positive(noise=noise)
    return min(4 * math.expm1(noise**-2), 2 * math.exp(noise**-2))


def printed_second_term(noise: float) -> float:
    """Lemma 6's min(4 e^(1 / sigma^2 - 1), 2 e^(1 / sigma^2)), a misprint of `second_term`."""
    checks.positive(noise=noise)
    return min(4 * math.exp(noise**-2 - 1), 2 * math.exp(noise**-2))


class Best(NamedTuple):
    """Theorem 1's epsilon at its best order."""

    epsilon: float
    order: int


class Theorem1:
    """Theorem 1 (eq. 7): T log(...) / (alpha - 1) + log(1 / delta) / (alpha - 1) <= epsilon.

    Valid for lots of fixed size, drawn without replacement, and one record replaced by another.
    Algorithm 1 draws each record with probability L / N instead.

    Args:
        noise_multiplier: sigma_*, noise over how far replacing one record moves the lot's sum.
        sample_rate: q = L / N, in (0, 1].
    """

    def __init__(self, noise_multiplier: float, *, sample_rate: float) -> None:
        self.step: Floats = printed_bound(
            ORDERS, noise_over_sensitivity=noise_multiplier, sample_rate=sample_rate
        )  # Renyi epsilon of one step at each of ORDERS

    def epsilon(self, steps: int, *, delta: float) -> Best:
        """The least epsilon of `steps` >= 0 at `delta` in (0, 1), over the orders 2 to 64."""
        checks.whole(steps=steps)
        checks.between(0, 1, delta=delta)
        epsilons = steps * self.step - math.log(delta) / (ORDERS - 1)
        best = int(np.argmin(epsilons))
        return Best(float(epsilons[best]), int(ORDERS[best]))

    def steps(self, target_epsilon: float, *, delta: float) -> int:
        """The most steps within `target_epsilon` > 0 at `delta` in (0, 1); 0 if there is none."""
        checks.positive(target_epsilon=target_epsilon)
        checks.between(0, 1, delta=delta)
        left = target_epsilon + math.log(delta) / (ORDERS - 1)
        return max(0, math.floor((left / self.step).max()))


def footnote_1(epsilon: float, *, delta: float, moment: float) -> float:
    """Footnote 1: 2 eps / (1 + l) + 2 ln(delta) / (l + l^2), the most that Lemma 1's H may be.

    A loss of mean m and variance v has log E[e^(l loss)] = l m + l^2 v / 2, here with m = H / 2
    and v = H, and the tail bound asks that it be l eps + ln(delta) at most (Abadi et al. 2016, Thm
    2). The equation before (10a) of DpOpt (Xiang, Yang, Li 2019) lacks the term l^2 v / 2.

    Args:
        epsilon: > 0.
        delta: in (0, 1).
        moment: l > 0, the order of the moment of the privacy loss.
    """
    checks.positive(epsilon=epsilon, moment=moment)
    checks.between(0, 1, delta=delta)
    return 2 * epsilon / (1 + moment) + 2 * math.log(delta) / (moment + moment**2)
