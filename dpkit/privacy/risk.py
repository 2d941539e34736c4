"""What a run's whole curve says in few numbers: mu, its regret, and what an attack may reach.

All follow from deltas that the certified accountant proves, and hold as upper bounds.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from dpkit.common import checks
from dpkit.common.show import at_most, short
from dpkit.privacy import numerics, tradeoff
from dpkit.privacy.accountants import pld
from dpkit.privacy.ledger import Ledger, Releases
from dpkit.privacy.mechanisms import Floats, gaussian

NODES = 256  # epsilons at which delta is proven
FALSE_ALARMS = (0.01, 0.001)
ALPHAS = ndtr(np.linspace(-9, 9, 1801))  # false alarms at which curves are compared
TAILS = (1e-9, 1e-6, 1e-3, 0.1, 0.5)  # more, where all may be shown at once
FARTHEST = 700.0  # epsilon, beyond which nothing is said: e^epsilon is no float
ROUNDED_UP = 1 + 1e-6
LARGEST_MU = 1e6


class Risk(NamedTuple):
    """What a run allows, each an upper bound for every attack on one record.

    mu: delta is at most that of one Gaussian release of parameter mu, plus `tail`, at each epsilon.
    tail: what is left out of mu.
    regret: how far apart both errors of the best attack may be in what is proven and in what mu
        says (Gomez, Kulynych, Kaissis, Calmon, Hayes, Honkela 2025); small: mu says it all.
    power: the share of true alarms at each share of false ones.
    advantage: the largest difference of the two.
    auroc: the area under the curve of true over false alarms.
    """

    mu: float
    tail: float
    regret: float
    power: Mapping[float, float]
    advantage: float
    auroc: float

    def __str__(self) -> str:
        found = ", ".join(
            f"{at_most(100 * one)} % where it falsely accuses {short(100 * alarms)} % of others"
            for alarms, one in self.power.items()
        )
        told = (
            "At every epsilon, delta is at most that of Gaussian DP with mu "
            f"{at_most(self.mu)}, plus {short(self.tail)}"
            if self.mu < np.inf
            else f"No mu of Gaussian DP was found for all but a delta of {short(self.tail)}"
        )
        return (
            "By pld, an attack on this run alone finds its target with a chance of at most "
            f"{found}; its advantage is at most {at_most(self.advantage)} and its AUROC at most "
            f"{at_most(self.auroc)}. {told} (regret {at_most(self.regret, 2)})"
        )


def risk(ledger: Releases, *, tail: float = 1e-10) -> Risk:
    """The risk of a ledger, by the certified accountant.

    Args:
        ledger: releases under one adjacency.
        tail: in [1e-12, 1e-3]; with less a heavier tail decides mu.

    Raises: as `pld.epsilon`.
    """
    ledger, tail = Ledger.of(ledger), checks.in_range(1e-12, 1e-3, tail=tail)
    tails = [tail, *(one for one in TAILS if one > tail)]
    far = ((one, pld.epsilon(ledger, delta=one).epsilon) for one in tails)
    left, most = next((pair for pair in far if pair[1] < FARTHEST), (1.0, 0.0))
    if left == 1:
        return Risk(np.inf, tail, 1.0, dict.fromkeys(FALSE_ALARMS, 1.0), 1.0, 1.0)
    epsilons = np.linspace(0.0, most, NODES) if most > 0 else np.zeros(1)
    deltas = pld.profile(ledger, epsilons)
    deltas[-1] = min(deltas[-1], left)
    mu = np.inf if left > tail else _mu(*_hull(epsilons, np.maximum(deltas - tail, 0.0)))
    errors = tradeoff.from_profile(epsilons, deltas, ALPHAS)
    power = 1 - tradeoff.from_profile(epsilons, deltas, FALSE_ALARMS) * (1 - 1e-12)
    middle = tradeoff.from_profile(epsilons, deltas, (ALPHAS[1:] + ALPHAS[:-1]) / 2)
    return Risk(
        mu,
        tail,
        _regret(errors, mu) if mu < np.inf else 1.0,
        dict(zip(FALSE_ALARMS, power.tolist(), strict=True)),
        float(deltas[0]),
        # a convex curve has at least its middles' area
        float(1 - (np.diff(ALPHAS) * middle).sum() * (1 - 1e-12)),
    )


def _hull(epsilons: Floats, deltas: Floats) -> tuple[Floats, Floats]:
    """The points that lie below all chords of others, in e^epsilon, as true deltas do."""
    kept: list[int] = []
    t = np.expm1(epsilons)
    for i in range(t.size):
        while len(kept) > 1:
            (x, y), (u, v) = ((t[k], deltas[k]) for k in kept[-2:])
            if (v - y) * (t[i] - x) < (deltas[i] - y) * (u - x):
                break
            kept.pop()
        kept.append(i)
    return epsilons[kept], deltas[kept]


def _mu(epsilons: Floats, deltas: Floats) -> float:
    """The least mu whose profile is above each chord, in e^epsilon, of the points.

    A profile is convex in e^epsilon, so it lies below its chords. And so is that of mu: above a
    chord it comes closest where its slope, -Phi(-epsilon / mu - mu / 2), is the chord's.
    """
    t = np.expm1(epsilons)
    slopes = np.minimum(-np.diff(deltas) / np.diff(t), 1.0)

    def covers(mu: float) -> bool:
        at = np.clip(-mu * (ndtri(slopes) + mu / 2), epsilons[:-1], epsilons[1:])
        chords = deltas[:-1] - slopes * (np.expm1(at) - t[:-1])
        return bool((np.exp(gaussian.log_delta(mu, at)) >= chords).all())

    if not deltas.any():
        return 0.0
    return numerics.bracket(covers, largest=LARGEST_MU)[1] * ROUNDED_UP


def _regret(errors: Floats, mu: float) -> float:
    """The least shift that brings the proven curve of errors, at ALPHAS, down to mu's."""
    with np.errstate(invalid="ignore"):
        goal = ndtr(ndtri(1 - ALPHAS) - mu)
    low, high = np.zeros(ALPHAS.size), np.ones(ALPHAS.size)

    def there(shift: Floats):
        return np.interp(ALPHAS + shift, ALPHAS, errors) - shift <= goal

    return float(numerics.halved(low, high, there, rounds=40)[1].max())
