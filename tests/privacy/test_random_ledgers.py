"""Random ledgers to 10^9 releases and delta 1e-15: the pair holds what a closed form gives.

`DPKIT_LEDGERS=700 pytest tests/privacy/test_random_ledgers.py` tries more.
"""

import math
import os

import numpy as np

from dpkit import privacy

LEDGERS = int(os.environ.get("DPKIT_LEDGERS", "12"))


def within(rng: np.random.Generator, low: float, high: float) -> float:
    """Between both, evenly in logs."""
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def count(rng: np.random.Generator, most: float = 1e9) -> int:
    return int(within(rng, 1, most))


def priced(ledger: list[privacy.Release], delta: float):
    found = privacy.pld.epsilon(ledger, delta=delta)
    assert 0 <= found.lower <= found.epsilon, ledger
    return found


def holds(ledger: list[privacy.Release], delta: float, truth, close: float) -> None:
    """`truth` gives delta at an epsilon; it is right within a share `close`, by floats."""
    found = priced(ledger, delta)
    if math.isfinite(found.epsilon):
        assert truth(found.epsilon) <= delta * (1 + close), (ledger, delta)
    if found.lower > 0:
        assert truth(found.lower) >= delta * (1 - close), (ledger, delta)


def test_gaussians_against_one():
    rng = np.random.default_rng(1)
    for _ in range(LEDGERS):
        mus = [within(rng, 1e-3, 20) for _ in range(rng.integers(1, 4))]
        counts = [count(rng) for _ in mus]
        pairs = [(math.sqrt(n) / mu, n) for n, mu in zip(counts, mus, strict=True)]
        ledger = [privacy.Release(privacy.Gaussian(z), n) for z, n in pairs]
        once = privacy.Gaussian(1 / math.hypot(*mus)).profile
        holds(ledger, within(rng, 1e-15, 0.5), lambda e, once=once: once([e])[0, 0], 1e-7)


def any_release(rng: np.random.Generator, *, replace: bool) -> privacy.Release:
    """Of any mechanism that the certified accountant prices under the adjacency."""
    adjacency = "replace-one" if replace else "add-remove"
    rate, noise, records = within(rng, 1e-9, 1), within(rng, 0.3, 100), count(rng, 1e6) + 1
    most = int(rng.integers(1, records + 1))
    any_of = [
        privacy.SampledGaussian(noise, rate, adjacency),
        privacy.TruncatedPoissonGaussian(noise, rate, most, records, adjacency),
        privacy.GroupedGaussian(noise, int(rng.integers(1, 9)), rate, adjacency),
        privacy.DiagonalGaussian((noise, 2 * noise), adjacency),
        privacy.DiscreteGaussian(noise, int(rng.integers(1, 5)), adjacency),
        privacy.Laplace(within(rng, 1, 1e4), adjacency),
    ]
    if replace:
        any_of.append(privacy.WithoutReplacementGaussian(noise, rate))
        any_of.append(privacy.RandomizedResponse(within(rng, 1e-6, 2.0)))
    else:
        any_of.append(privacy.BallsAndBinsGaussian(noise, count(rng, 1e5) + 1))
        any_of.append(privacy.GroupSampledGaussian(noise, rate, int(rng.integers(1, 9))))
    chosen = any_of[rng.integers(len(any_of))]
    return privacy.Release(chosen, count(rng, 1e6 if isinstance(chosen, privacy.Laplace) else 1e9))


def test_mixed_ledgers_are_ordered_and_below_renyi():
    """No truth is known of these: the pair is in order, and does not contradict RDP."""
    rng = np.random.default_rng(3)
    for _ in range(LEDGERS // 3):
        replace = rng.random() < 0.3
        ledger = [any_release(rng, replace=replace) for _ in range(rng.integers(1, 4))]
        delta = within(rng, 1e-15, 0.1)
        found = priced(ledger, delta)
        try:
            renyi = privacy.rdp.epsilon(ledger, delta=delta).epsilon
        except (privacy.Unsupported, ArithmeticError):
            continue
        assert found.lower <= renyi * (1 + 1e-9), (ledger, delta)
        assert found.epsilon <= renyi * (1 + 1e-3) + 1e-9, (ledger, delta)
