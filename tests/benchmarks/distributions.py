"""The PLD accountant against dp-accounting's, at its default interval of 1e-4.

Answers are compared before times are: dpkit's certified pair must reach from at or below the peer's
pessimistic epsilon, and be as narrow as it claims.
"""

import math
from collections.abc import Iterator
from importlib.metadata import version

import numpy as np
from accountants import CASES, DELTA
from bench import Row, medians

from dpkit.privacy import Guarantee, Release, SampledGaussian, calibrate, pld

INTERVAL = 1e-4
TARGET = 9.6  # of the calibration, at case A's sample rate and steps
NOISES = np.linspace(0.8, 2.0, 1000)
REPEATS = 15


def ours(sample_rate: float, noise_multiplier: float, steps: int) -> Guarantee:
    """dpkit's certified pair for one case."""
    ledger = [Release(SampledGaussian(noise_multiplier, sample_rate), steps)]
    return pld.epsilon(ledger, delta=DELTA)


def theirs(sample_rate: float, noise_multiplier: float, steps: int) -> float:
    """dp-accounting's pessimistic epsilon for one case."""
    from dp_accounting.pld import privacy_loss_distribution as distribution

    one = distribution.from_gaussian_mechanism(
        noise_multiplier, sampling_prob=sample_rate, value_discretization_interval=INTERVAL
    )
    return one.self_compose(steps).get_epsilon_for_delta(DELTA)


def our_noise() -> float:
    """The noise multiplier that dpkit finds for the target."""
    rate, _, steps = CASES["A"]
    return calibrate.noise_multiplier(
        TARGET, sample_rate=rate, steps=steps, delta=DELTA, accountant=pld.epsilon
    )


def their_noise() -> float:
    """The noise multiplier that dp-accounting finds for the target."""
    import dp_accounting
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

    rate, _, steps = CASES["A"]

    def event(noise: float) -> dp_accounting.DpEvent:
        one = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        return dp_accounting.SelfComposedDpEvent(one, steps)

    return dp_accounting.calibrate_dp_mechanism(PLDAccountant, event, TARGET, DELTA)


def heterogeneous() -> Guarantee:
    """1,000 steps, each with a noise multiplier of its own."""
    ledger = [Release(SampledGaussian(float(noise), 0.01)) for noise in NOISES]
    return pld.epsilon(ledger, delta=DELTA)


def rows() -> Iterator[Row]:
    """Cases A, B and C, the calibration, and the heterogeneous ledger.

    Raises:
        ValueError: a pair is wider than .1 % of epsilon, or its lower end exceeds the peer's value.
    """
    peer = f"dp-accounting {version('dp-accounting')} PLD"
    for name, case in CASES.items():
        found, other = ours(*case), theirs(*case)
        if not (found.lower <= other and found.epsilon - found.lower <= 1e-3 * found.epsilon):
            raise ValueError(f"case {name}: {found} against the peer's {other}")
        times = medians(
            {"dpkit": lambda case=case: ours(*case), "peer": lambda case=case: theirs(*case)},
            repeats=REPEATS,
        )
        rate, noise, steps = case
        label = f"PLD epsilon {name}: q {rate:.3g}, noise {noise:g}, {steps} steps"
        yield Row(name=label, dpkit_ms=times["dpkit"], peer=peer, peer_ms=times["peer"])
    noise, other = our_noise(), their_noise()
    if not math.isclose(noise, other, abs_tol=2e-4):
        raise ValueError(f"calibration: noise {noise} against the peer's {other}")
    times = medians({"dpkit": our_noise, "peer": their_noise}, repeats=3)
    label = f"PLD noise for epsilon {TARGET}"
    yield Row(name=label, dpkit_ms=times["dpkit"], peer=peer, peer_ms=times["peer"])
    times = medians({"dpkit": heterogeneous}, repeats=3)
    yield Row(name="PLD epsilon, 1,000 noise multipliers", dpkit_ms=times["dpkit"])
