"""The moments accountant as published (Abadi et al. 2016): Renyi DP at the integer orders 2 to 33.

The log moment alpha(lambda) = log E[exp(lambda * loss)], in nats, is that of the larger direction:
a record removed or added (ibid., section 3.2), or replaced. It is lambda times the Renyi
divergence of order lambda + 1 (Mironov 2017, Def. 3), which every mechanism knows in the larger
direction too; for the sampled Gaussian that is always mixture against N(0) (Mironov, Talwar, Zhang
2019, Thm 5). Releases add up, and

    delta = min over lambda of exp(alpha(lambda) - lambda * epsilon)      (Abadi et al. 2016, Thm 2)
"""

import numpy as np

from dpkit.common import checks
from dpkit.privacy.accountants import rdp
from dpkit.privacy.ledger import Guarantee, Ledger, Releases
from dpkit.privacy.mechanisms import Floats

MOST_MOMENTS = 32  # "it suffices to compute lambda <= 32" (Abadi et al. 2016, section 3.2)
LARGEST_MOMENT = 4096  # the largest that may be asked for: more take minutes and prove no more
LEAST = 5e-324  # the least positive number: a delta that underflows is rounded up to it


def curve(ledger: Releases, moments: int = MOST_MOMENTS) -> tuple[Floats, Floats]:
    """(lambdas, alpha): the ledger's log moments in nats at 1..moments, (moments,) each.

    Raises:
        ValueError: moments is not an integer in [1, 4096], or the ledger is bad or mixes
            adjacencies.
        ArithmeticError: a moment came out as NaN or negative.
    """
    checks.in_range(1, LARGEST_MOMENT, moments=checks.whole(1, moments=moments))
    orders, costs = rdp.curve(ledger, np.arange(2.0, moments + 2))
    return orders - 1, (orders - 1) * costs


def epsilon(ledger: Releases, *, delta: float, moments: int = MOST_MOMENTS) -> Guarantee:
    """The smallest epsilon that moments 1..moments prove at `delta` (Abadi et al. 2016, Thm 2).

    Args:
        ledger: releases under one adjacency.
        delta: in (0, 1).
        moments: the largest lambda; 32 as published.

    Raises:
        ValueError: delta is not in (0, 1), or as `curve`.
        ArithmeticError: as `curve`.
    """
    ledger, delta = Ledger.of(ledger), checks.between(0, 1, delta=delta)
    lambdas, alpha = curve(ledger, moments)
    epsilons = (alpha - np.log(delta)) / lambdas
    best = int(np.argmin(epsilons))
    value = float(epsilons[best]) if alpha.any() else 0.0  # 0: nothing depends on the data
    return _guarantee(ledger, value, delta, lambdas[best])


def delta(ledger: Releases, *, epsilon: float, moments: int = MOST_MOMENTS) -> Guarantee:
    """The smallest delta that the moments prove at `epsilon` >= 0 (arguments as `epsilon`)."""
    ledger, epsilon = Ledger.of(ledger), checks.non_negative(epsilon=epsilon)
    lambdas, alpha = curve(ledger, moments)
    logs = lambdas * (
        alpha / lambdas - epsilon
    )  # in this order no inf is subtracted from an inf
    best = int(np.argmin(logs))
    value = max(float(np.exp(min(logs[best], 0.0))), LEAST) if alpha.any() else 0.0
    return _guarantee(ledger, epsilon, value, lambdas[best])


def _guarantee(ledger: Ledger, epsilon: float, delta: float, best: float) -> Guarantee:
    method = f"moments accountant (Abadi et al. 2016, Thm 2), moment {best:.0f}"
    return ledger.guarantee(epsilon=epsilon, delta=delta, method=method)


def exceeded_at(
    ledger: Releases,
    *,
    target_epsilon: float,
    target_delta: float,
    every: int = 1,
    moments: int = MOST_MOMENTS,
) -> int:
    """The first multiple of `every` iterations whose delta is above the target.

    `ledger` is one iteration's. A training loop that tests its budget every so often stops there,
    at the first test that fails, so already beyond its budget.

    Raises:
        ValueError: bad input, or a ledger that costs nothing and so never exceeds a target.
        ArithmeticError: as `curve`.
    """
    target_epsilon = checks.positive(target_epsilon=target_epsilon)
    target_delta = checks.between(0, 1, target_delta=target_delta)
    every = checks.whole(1, every=every)
    lambdas, alpha = curve(ledger, moments)
    if not alpha.any():
        raise ValueError(
            "the ledger costs nothing: no number of iterations exceeds the target"
        )
    # exceeded when iterations * alpha(lambda) > lambda epsilon + log(delta) for every lambda
    allowed = (lambdas * target_epsilon + np.log(target_delta)) / alpha
    return every * (int(np.floor(max(allowed.max(), 0.0) / every)) + 1)
