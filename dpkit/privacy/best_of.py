"""The cost of releasing the best of several runs.

A fixed number of runs costs what all of them cost, whether they are shown or not: a ledger of all.
A random number, drawn before the first from a law that is wide enough, costs less.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpkit.common import checks
from dpkit.privacy.accountants import conversions, pld, rdp
from dpkit.privacy.ledger import Ledger, Release, Releases
from dpkit.privacy.mechanisms import Adjacency, Floats, Unsupported, as_orders, unknown

MOST_RUNS = 10**6


@dataclass(frozen=True)
class NumberOfRuns:
    """The law of the number of runs.

    With a finite shape eta it is the truncated negative binomial law on 1, 2, ..., Pr[K = k] in
    proportion to (1 - gamma)^k (eta)_k / k!; shape 1 is the geometric law and 0 the logarithmic
    one. An infinite shape is the Poisson law, which has 0 runs too: nothing is released then
    (Papernot, Steinke 2022, "Hyperparameter tuning with Renyi differential privacy", Def. 1).

    Args:
        mean: of the number of runs; more than 1, or more than 0 for the Poisson law.
        shape: eta > -1; the smaller, the heavier the tail and the cheaper the choice.

    Raises:
        ValueError: mean or shape is out of range, or mean is more than 10^6.
    """

    mean: float
    shape: float = 1.0

    def __post_init__(self) -> None:
        checks.plain_fields(self)
        if not self.shape > -1:
            raise ValueError(
                f"shape must be a number > -1, or inf for Poisson, got {self.shape}"
            )
        least = 0 if self.shape == math.inf else 1
        if not least < self.mean <= MOST_RUNS:
            raise ValueError(f"mean must lie in ({least}, 10^6] runs, got {self.mean}")

    @cached_property
    def gamma(self) -> float:
        """The parameter in (0, 1) at which the law has this mean; NaN for the Poisson law."""
        if self.shape == math.inf:
            return math.nan
        low, high = 1e-300, 1.0  # the mean falls as gamma grows
        for _ in range(2000):
            middle = math.sqrt(low * high)
            if not low < middle < high:
                break
            low, high = (middle, high) if self._mean(middle) >= self.mean else (low, middle)
        return low

    def _mean(self, gamma: float) -> float:
        log, eta = math.log(gamma), self.shape
        if eta == 0:
            return -math.expm1(log) / gamma / -log
        return eta * -math.expm1(log) / gamma / -math.expm1(eta * log)

    def draw(self, uniform: float) -> int:
        """The number of runs, from a secret uniform number in [0, 1): by inversion.

        Raises:
            ValueError: uniform is not in [0, 1).
        """
        if not 0 <= uniform < 1:
            raise ValueError(f"uniform must lie in [0, 1), got {uniform}")
        eta, (k, chance) = self.shape, self._first()
        below = chance
        while below <= uniform and chance > 0 and k < 100 * MOST_RUNS:
            k += 1
            chance *= (
                self.mean / k if eta == math.inf else (1 - self.gamma) * (k - 1 + eta) / k
            )
            below += chance
        return k

    def _first(self) -> tuple[int, float]:
        """The least number of runs and its chance."""
        if self.shape == math.inf:
            return 0, math.exp(-self.mean)
        log = math.log(self.gamma)
        if self.shape == 0:
            return 1, (1 - self.gamma) / -log
        return 1, self.shape * (1 - self.gamma) / math.expm1(-self.shape * log)

    def __str__(self) -> str:
        names = {1.0: "geometric", 0.0: "logarithmic", math.inf: "Poisson"}
        own = f"truncated negative binomial (shape {self.shape:g})"
        return f"{names.get(self.shape, own)} law with mean {self.mean:g}"


@dataclass(frozen=True)
class BestOf:
    """A random number of equal runs, of which the best alone is released (see `best_of`)."""

    ledger: Ledger
    runs: NumberOfRuns
    hides_participation: ClassVar[bool] = False

    @property
    def adjacency(self) -> Adjacency:
        return self.ledger.adjacency

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (
            f"the number of runs is drawn from the {self.runs} before the first and stays secret; "
            "all that is released is one run's output, and its score is part of that run",
            *(
                one
                for release in self.ledger.releases
                for one in release.mechanism.assumptions
            ),
        )

    @cached_property
    def _known(self) -> Floats:
        """One run's Renyi DP at the accountant's orders."""
        return self.ledger.rdp(rdp.ORDERS)

    def rdp(self, orders: ArrayLike) -> Floats:
        """An upper bound in nats at each order a.

        With f the law's generating function, E[(P / Q)^a] is at most one run's times the largest
        f'(x)^a f'(y)^(1 - a) of chances x and y of one event. For the negative binomial law with
        one run's Renyi DP e(b) at any order b that gives
        e(a) + (1 + eta) ((1 - 1 / b) e(b) + log(1 / gamma) / b) + log(mean) / (a - 1)
        (Papernot, Steinke 2022, Thm 2), for the Poisson law with delta d at epsilon
        log(a / (a - 1)) e(a) + mean d + log(mean) / (a - 1) (Thm 6). There 0 runs add their chance.
        """
        alpha = as_orders(orders)
        if not self._known.any():  # the runs do not depend on the data
            return np.zeros_like(alpha)
        one, mean, eta = self.ledger.rdp(alpha), self.runs.mean, self.runs.shape
        if eta == math.inf:
            lost = mean * self._deltas(np.log1p(1 / (alpha - 1)))
            chosen = np.logaddexp(math.log(mean) + (alpha - 1) * (one + lost), -mean)
            return chosen / (alpha - 1)
        told = (1 - 1 / rdp.ORDERS) * self._known - math.log(self.runs.gamma) / rdp.ORDERS
        return one + (1 + eta) * float(told.min()) + math.log(mean) / (alpha - 1)

    def _deltas(self, epsilons: Floats) -> Floats:
        """One run's delta at each epsilon, certified, or else by Renyi DP."""
        try:
            return pld.profile(self.ledger, epsilons)
        except Unsupported:
            finite = np.isfinite(self._known)
            convert = conversions.named("improved").delta
            found = [convert(rdp.ORDERS[finite], self._known[finite], e) for e in epsilons]
            return np.array([np.min(one, initial=1.0) for one in found])

    profile = privacy_loss = gaussian_dp = unknown(
        "of the best of several runs only Renyi DP is known: rdp alone prices it, without a risk"
    )


def best_of(ledger: Releases, *, mean: float, shape: float = 1.0) -> list[Release]:
    """The ledger of releasing the best of a random number of runs.

    Args:
        ledger: of one run, its score included; if their settings differ, of the dearest.
        mean: mean number of runs.
        shape: of the law of their number (see `NumberOfRuns`).

    Raises:
        ValueError: mean or shape is out of range, or as `Ledger.of`.
    """
    return [Release(BestOf(Ledger.of(ledger), NumberOfRuns(mean, shape)))]
