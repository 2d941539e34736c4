"""RDP-GAN's formulas and what is certified of the same releases: the numbers behind `LossNoise`."""

import math
from functools import lru_cache
from typing import Any

from dpkit import checks
from dpkit.papers.rdp_gan import theorems
from dpkit.papers.rdp_gan.settings import DELTA, LossValueNoise
from dpkit.privacy import Release, SampledGaussian, pld
from dpkit.privacy.mechanisms import LARGEST_ORDER
from dpkit.privacy.schedules import Constant

LEAST_MULTIPLIER = 0.1  # below it epsilon is in the hundreds and more, and takes PLD long
MOST_MULTIPLIER = 1e12
GAP = 0.01  # relative, of the certified pairs
HALVINGS = 20  # of log2(order - 1), which lies in (-20, 20)
TOP = 1e6 + 0.5  # orders up to here are looked at; one that is not whole is priced sooner


def numbers(
    *, noise_std: float, largest_loss: float, batch: int, records: int,
    discriminator_steps: int, iterations: float, order: float,
) -> dict[str, Any]:  # fmt: skip
    """The theorems' values, certified (lower, upper) pairs, and up to which order Theorem 1 holds.

    Pairs are of Poisson-sampled Gaussian releases under add-remove, at delta 1e-5. Theorems 2 and
    4 are None where their condition fails.

    Args:
        noise_std: sigma, in the unit of the loss.
        largest_loss: C > 0, taken to bound every example's loss.
        batch: records a step, on average.
        records: N, at least `batch`.
        discriminator_steps: n_d.
        iterations: n_g, of the generator; rounded.
        order: of the Renyi divergence, in (1, 2^20].

    Raises:
        ValueError: a value is out of range, or noise over sensitivity is not in [0.1, 1e12].
    """
    checks.positive(noise_std=noise_std)
    checks.whole(1, batch=batch, records=records, discriminator_steps=discriminator_steps)
    checks.in_range(1, 1e6, iterations=iterations)
    if not batch <= records:
        raise ValueError(f"batch must be at most records, {records}, got {batch}")
    if not 1 < order <= LARGEST_ORDER:
        raise ValueError(f"order must lie in (1, {LARGEST_ORDER}], got {order:g}")
    sensitivity = theorems.sensitivity(largest_loss, batch_size=batch)
    multiplier = noise_std / sensitivity if sensitivity else math.inf
    if not LEAST_MULTIPLIER <= multiplier <= MOST_MULTIPLIER:
        raise ValueError(
            f"noise over sensitivity must lie in [{LEAST_MULTIPLIER}, {MOST_MULTIPLIER:g}], and "
            f"largest_loss {largest_loss:g} at noise_std {noise_std:g} makes it {multiplier:.3g}; "
            "change one of the two"
        )
    rate, rounds = batch / records, round(iterations)
    run = {
        "noise_std": noise_std, "order": order, "sample_rate": rate, "sensitivity": sensitivity,
        "discriminator_steps": discriminator_steps, "iterations": rounds,
        "releases": discriminator_steps * rounds, "noise_multiplier": multiplier,
    }  # fmt: skip
    return {
        **run, **formulas(run, noise_std),
        "exact": float(SampledGaussian(multiplier, rate).rdp([order])[0]),
        "holds_to": holds_to(multiplier, rate),
        "pair_each": certified(multiplier, rate, discriminator_steps),
        "pair": certified(multiplier, rate, run["releases"]),
        "training": of_training(noise_std),
    }  # fmt: skip


def formulas(run: dict[str, Any], noise_std: float) -> dict[str, Any]:
    """The values of Theorems 1, 2 and 4 and of eq. 23 for all iterations, at that noise.

    Theorems 2 and 4 are None where their condition log(1 / delta) >= eps^2 n_d fails.
    """
    step = {"sample_rate": run["sample_rate"], "sensitivity": run["sensitivity"]}
    each: Any = {"discriminator_steps": run["discriminator_steps"], "delta": DELTA}
    one = theorems.theorem_1(run["order"], noise_std=noise_std, **step)
    part = total = None
    if theorems.condition_of_theorem_2(one, **each):
        given = {**step, **each, "noise_std": noise_std, "order": run["order"]}
        part = theorems.theorem_2(**given)
        total = theorems.theorem_4(generator_steps=run["iterations"], **given)
    moments = theorems.moments_accountant_epsilon(noise_std, sample_rate=run["sample_rate"], **each)
    return {
        "theorem_1": one, "theorem_2": part, "theorem_4": total,
        "eq_23": run["iterations"] * moments,
    }  # fmt: skip


def holds_to(noise_multiplier: float, sample_rate: float) -> float:
    """The order, to four digits and at most TOP, up to which Theorem 1 is no underestimate.

    (order - 1) times the exact divergence starts below (order - 1) times Theorem 1's, which is a
    parabola, and crosses it once, where the part of the mixture with the record begins to rule.
    """
    mechanism = SampledGaussian(noise_multiplier, sample_rate)
    step = {"sample_rate": sample_rate, "sensitivity": 1.0, "noise_std": noise_multiplier}

    def enough(power: float) -> bool:
        order = 1 + 2**power
        return bool(theorems.theorem_1(order, **step) >= mechanism.rdp([order])[0])

    low, high = -20.0, math.log2(TOP - 1)
    if enough(high):
        return TOP
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return 1 + 2**low


@lru_cache(maxsize=512)
def certified(noise_multiplier: float, sample_rate: float, releases: int) -> tuple[float, float]:
    """(lower, upper) of the epsilon of sampled Gaussian releases at delta 1e-5, add-remove."""
    ledger = [Release(SampledGaussian(noise_multiplier, sample_rate), releases)]
    pair = pld.epsilon(ledger, delta=DELTA, gap=GAP)
    return pair.lower, pair.epsilon


def of_training(noise_std: float) -> float:
    """Epsilon of the updates themselves, by the ledger of Algorithm 1 as printed: inf."""
    return pld.epsilon(LossValueNoise(Constant(noise_std)).ledger(), delta=DELTA).epsilon
