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
import peers
from bench import Row, against, medians
from peer_settings import CORNERS, Setting

from dpkit.privacy import Guarantee, Release, SampledGaussian, calibrate, pld, rdp

DELTA = 1e-5
CASES = dict(zip("ABC", CORNERS, strict=False))
INTERVAL = 1e-4
TARGET = 9.6  # of the calibration, at case A's sample rate and steps
NOISES = np.linspace(0.8, 2.0, 1000)
REPEATS = 15


def by_rdp(case: Setting) -> float:
    return rdp.epsilon(case.ledger(), delta=DELTA).epsilon


def by_opacus(case: Setting) -> float:
    return float(peers.opacus_epsilon(case, 0)["epsilon"])


def ours(case: Setting) -> Guarantee:
    """dpkit's certified pair for one case."""
    return pld.epsilon(case.ledger(), delta=DELTA)


def theirs(case: Setting) -> float:
    """dp-accounting's pessimistic epsilon for one case."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    one = from_gaussian_mechanism(
        case.noise_multiplier,
        sampling_prob=case.sample_rate,
        value_discretization_interval=INTERVAL,
    )
    return one.self_compose(case.steps).get_epsilon_for_delta(DELTA)


def our_noise() -> float:
    """The noise multiplier that dpkit finds for the target."""
    how = {"sample_rate": CASES["A"].sample_rate, "steps": CASES["A"].steps}
    return calibrate.noise_multiplier(TARGET, **how, delta=DELTA, accountant=pld.epsilon)


def their_noise() -> float:
    """The noise multiplier that dp-accounting finds for the target."""
    import dp_accounting
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

    def event(noise: float) -> dp_accounting.DpEvent:
        return peers.event(CASES["A"]._replace(noise_multiplier=noise))

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
        label = "epsilon {}: q {:.3g}, noise {:g}, {} steps".format(name, *case[:3])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            epsilon, other = by_rdp(case), by_opacus(case)
            if not epsilon <= other:
                raise ValueError(f"case {name}: epsilon {epsilon} against the peer's {other}")
            both = partial(by_rdp, case), f"opacus {version('opacus')}", partial(by_opacus, case)
            yield against(f"RDP {label}", *both, repeats=REPEATS)
        found, other = ours(case), theirs(case)
        if not (found.lower <= other and found.epsilon - found.lower <= 1e-3 * found.epsilon):
            raise ValueError(f"case {name}: {found} against the peer's {other}")
        both = partial(ours, case), google, partial(theirs, case)
        yield against(f"PLD {label}", *both, repeats=REPEATS)
    noise, other = our_noise(), their_noise()
    if not math.isclose(noise, other, abs_tol=2e-4):
        raise ValueError(f"calibration: noise {noise} against the peer's {other}")
    yield against(f"PLD noise for epsilon {TARGET}", our_noise, google, their_noise, repeats=3)
    times = medians({"dpkit": heterogeneous}, repeats=3)
    yield Row(name="PLD epsilon, 1,000 noise multipliers", dpkit_ms=times["dpkit"])
