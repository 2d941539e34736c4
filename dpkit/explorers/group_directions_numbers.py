"""dpGAN's groups of the gradient, priced alone, apart and together: the numbers behind
`GroupDirections`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dpkit import checks
from dpkit.papers.as_published import OPACUS_ORDERS
from dpkit.papers.dpgan.settings import MNIST, Settings
from dpkit.privacy import GroupedGaussian, Release, SampledGaussian, pld, rdp
from dpkit.privacy.sampling import ShuffledBatches

CHARGED, ADDED = "as charged", "as the code adds it"
NOISES = (CHARGED, ADDED)
EACH = 64  # examples a device
DELTA, RECORDS = MNIST.target_delta, MNIST.private_examples
LEAST_NOISE, MOST_NOISE = 0.1, 1e4
MOST_GROUPS, MOST_DEVICES, MOST_ITERATIONS = 16, 16, 100_000
LEAST_CERTIFIED = 0.04  # noise over what a record moves, below which PLD takes seconds
GAP = 0.01  # relative, of the certified pair


def numbers(
    *, groups: int, noise_multiplier: float, devices: int, noise: str, iterations: int
) -> dict[str, Any]:
    """Epsilon of a run at delta 1e-5, by whoever counts: `alone`, `charge`, `together`, `pair`.

    `alone` is one group's, `charge` that of each group as a release with its own batch, both at
    the noise that is charged; `together` and the certified `pair` (lower, upper) are of all groups
    of one batch at the noise that is chosen. The first three are RDP at the paper's orders with the
    classic conversion, the pair is PLD's; all under add-remove, batches taken as Poisson. Lengths
    are in units of the clip norm C: `noise_std` lies on each coordinate of the clipped sum, which a
    record moves by up to `sensitivity`.

    Args:
        groups: k, each clipped at C.
        noise_multiplier: z, charged for each group.
        devices: each with 64 examples of the batch.
        noise: one of NOISES. The code's is smaller by sqrt(batch) / devices.
        iterations: of the generator, each of 4 steps of the critic.

    Raises:
        ValueError: a value is out of range.
    """
    checks.whole(1, groups=groups, devices=devices, iterations=iterations)
    checks.in_range(1, MOST_GROUPS, groups=groups)
    checks.in_range(1, MOST_DEVICES, devices=devices)
    checks.in_range(1, MOST_ITERATIONS, iterations=iterations)
    checks.in_range(LEAST_NOISE, MOST_NOISE, noise_multiplier=noise_multiplier)
    checks.one_of(NOISES, noise=noise)
    settings = _settings(noise_multiplier, devices, noise)
    rate = settings.expected_batch_size / settings.private_examples
    added = noise_multiplier / settings.noise_divisor
    found = {
        "groups": groups, "noise_multiplier": noise_multiplier, "devices": devices,
        "noise": noise, "iterations": iterations, "batch": settings.expected_batch_size,
        "sample_rate": rate, "steps": MNIST.critic_steps * iterations,
        "noise_std": added, "divisor": settings.noise_divisor, "sensitivity": math.sqrt(groups),
        "effective": GroupedGaussian(added, groups, rate).one.noise_multiplier,
    }  # fmt: skip
    curves = {name: values[0] for name, values in by_iteration(found, [iterations]).items()}
    return {**found, **curves, "pair": certified(found["effective"], rate, found["steps"])}


def by_iteration(found: dict[str, Any], iterations: Sequence[int]) -> dict[str, list[float]]:
    """The RDP epsilons `alone`, `charge` and `together` after each count of iterations."""
    rate, charged, groups = found["sample_rate"], found["noise_multiplier"], found["groups"]
    steps = [MNIST.critic_steps * count for count in iterations]
    return {
        "alone": [epsilon(charged, rate, n) for n in steps],
        "charge": [epsilon(charged, rate, groups * n) for n in steps],
        "together": [epsilon(found["effective"], rate, n) for n in steps],
    }


def epsilon(noise_multiplier: float, sample_rate: float, releases: int) -> float:
    """RDP's epsilon at delta 1e-5 by the classic conversion, the least of the paper's orders.

    It falls with the order, then rises (`dpkit.privacy.rdp` says why): where little noise makes an
    order take long, halving asks for few of the 151.
    """

    def at(index: int) -> float:
        order = OPACUS_ORDERS[index]
        cost = releases * _rdp(noise_multiplier, sample_rate, order)
        return cost - math.log(DELTA) / (order - 1)  # Mironov 2017, Prop. 3

    low, high = 0, len(OPACUS_ORDERS) - 1
    while low < high:
        middle = (low + high) // 2
        falls = at(middle + 1) < at(middle)  # never where both are infinite
        low, high = (middle + 1, high) if falls else (low, middle)
    return at(low)


@lru_cache(maxsize=4096)
def _rdp(noise_multiplier: float, sample_rate: float, order: float) -> float:
    ledger = [Release(SampledGaussian(noise_multiplier, sample_rate))]
    return float(rdp.curve(ledger, [order])[1][0])


@lru_cache(maxsize=256)
def certified(noise_multiplier: float, sample_rate: float, releases: int) -> tuple[float, float]:
    """(lower, upper) of epsilon by PLD; (0, inf) where it fails, or would take long."""
    if noise_multiplier < LEAST_CERTIFIED:
        return 0.0, math.inf
    ledger = [Release(SampledGaussian(noise_multiplier, sample_rate), releases)]
    try:
        pair = pld.epsilon(ledger, delta=DELTA, gap=GAP)
    except ArithmeticError:
        return 0.0, math.inf
    return pair.lower, pair.epsilon


def _settings(noise_multiplier: float, devices: int, noise: str) -> Settings:
    """The paper's run on MNIST, with these."""
    return replace(
        MNIST, noise_multiplier=noise_multiplier, sampling=ShuffledBatches(EACH * devices),
        devices=devices, noise_over_sqrt_batch=noise == ADDED,
    )  # fmt: skip
