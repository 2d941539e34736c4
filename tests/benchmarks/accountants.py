"""RDP epsilon of three common runs against Opacus' RDP accountant, each with its default orders.

Both take the improved conversion (Balle et al. 2020, Theorem 21); the answers are compared before
the times are, since a fast wrong answer is worth nothing.
"""

import warnings
from collections.abc import Iterator
from importlib.metadata import version

from bench import Row, medians

from dpkit.privacy import Release, SampledGaussian, rdp

DELTA = 1e-5
CASES = {  # name: (sample rate, noise multiplier, steps)
    "A": (0.01, 1.1, 10_000),
    "B": (0.01, 0.5, 1_000),
    "C": (64 / 60_000, 1.0, 60_000),
}
REPEATS = 15


def ours(sample_rate: float, noise_multiplier: float, steps: int) -> float:
    """dpkit's epsilon of one case."""
    mechanism = SampledGaussian(noise_multiplier=noise_multiplier, sample_rate=sample_rate)
    return rdp.epsilon([Release(mechanism, steps)], delta=DELTA).epsilon


def theirs(sample_rate: float, noise_multiplier: float, steps: int) -> float:
    """Opacus' epsilon of one case."""
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    accountant.history = [(noise_multiplier, sample_rate, steps)]
    return accountant.get_epsilon(delta=DELTA)


def rows() -> Iterator[Row]:
    """One row a case.

    Raises:
        ValueError: dpkit's epsilon is above the peer's.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, case in CASES.items():
            epsilon, peer = ours(*case), theirs(*case)
            if not epsilon <= peer:
                raise ValueError(f"case {name}: epsilon {epsilon} against the peer's {peer}")
            times = medians(
                {"dpkit": lambda case=case: ours(*case), "peer": lambda case=case: theirs(*case)},
                repeats=REPEATS,
            )
            rate, noise, steps = case
            yield Row(
                name=f"RDP epsilon {name}: q {rate:.3g}, noise {noise:g}, {steps} steps",
                dpkit_ms=times["dpkit"],
                peer=f"opacus {version('opacus')}",
                peer_ms=times["peer"],
            )
