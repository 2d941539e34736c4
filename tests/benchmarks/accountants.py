"""Three common runs, by RDP against Opacus' accountant and by PLD against dp-accounting's.

Both RDP accountants have their default orders and the improved conversion (Balle et al. 2020,
Theorem 21); dp-accounting's PLD has its default interval of 1e-4. Answers are compared before times
are, since a fast wrong answer is worth nothing: dpkit's certified pair must reach from at or below
the peer's pessimistic epsilon, and be as narrow as it claims.
"""

import math
import warnings
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version

import numpy as np
from bench import Row, against, medians

from dpkit.privacy import Guarantee, Release, SampledGaussian, calibrate, pld, rdp

DELTA = 1e-5
CASES = {  # name: (sample rate, noise multiplier, steps)
    "A": (0.01, 1.1, 10_000),
    "B": (0.01, 0.5, 1_000),
    "C": (64 / 60_000, 1.0, 60_000),
}
INTERVAL = 1e-4
TARGET = 9.6  # of the calibration, at case A's sample rate and steps
NOISES = np.linspace(0.8, 2.0, 1000)
REPEATS = 15


def by_rdp(sample_rate: float, noise_multiplier: float, steps: int) -> float:
    """dpkit's RDP epsilon of one case."""
    mechanism = SampledGaussian(noise_multiplier, sample_rate)
    return rdp.epsilon([Release(mechanism, steps)], delta=DELTA).epsilon


def by_opacus(sample_rate: float, noise_multiplier: float, steps: int) -> float:
    """Opacus' epsilon of one case."""
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    accountant.history = [(noise_multiplier, sample_rate, steps)]
    return accountant.get_epsilon(delta=DELTA)


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
    """Cases A, B and C by each accountant, the calibration, and the heterogeneous ledger.

    Raises:
        ValueError: dpkit's RDP epsilon is above the peer's; a pair is wider than .1 % of epsilon,
            or its lower end exceeds the peer's value; or noises differ.
    """
    google = f"dp-accounting {version('dp-accounting')} PLD"
    for name, case in CASES.items():
        label = "epsilon {}: q {:.3g}, noise {:g}, {} steps".format(name, *case)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            epsilon, other = by_rdp(*case), by_opacus(*case)
            if not epsilon <= other:
                raise ValueError(f"case {name}: epsilon {epsilon} against the peer's {other}")
            both = partial(by_rdp, *case), f"opacus {version('opacus')}", partial(by_opacus, *case)
            yield against(f"RDP {label}", *both, repeats=REPEATS)
        found, other = ours(*case), theirs(*case)
        if not (found.lower <= other and found.epsilon - found.lower <= 1e-3 * found.epsilon):
            raise ValueError(f"case {name}: {found} against the peer's {other}")
        both = partial(ours, *case), google, partial(theirs, *case)
        yield against(f"PLD {label}", *both, repeats=REPEATS)
    noise, other = our_noise(), their_noise()
    if not math.isclose(noise, other, abs_tol=2e-4):
        raise ValueError(f"calibration: noise {noise} against the peer's {other}")
    yield against(f"PLD noise for epsilon {TARGET}", our_noise, google, their_noise, repeats=3)
    times = medians({"dpkit": heterogeneous}, repeats=3)
    yield Row(name="PLD epsilon, 1,000 noise multipliers", dpkit_ms=times["dpkit"])
