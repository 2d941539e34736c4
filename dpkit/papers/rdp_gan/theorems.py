"""The paper's theorems as printed: claims, not certified bounds.

`claims.py` compares them with the proofs of `dpkit.privacy` for the same releases. Delta is the
paper's throughout, epsilons are in nats, noise is a standard deviation in the unit of the loss.
"""

import math
from collections.abc import Iterable
from typing import TypedDict, Unpack

from dpkit.common import checks

BEST_ORDER = 2.0  # order^2 / (order - 1) is least there: Theorem 1 names no order


class TheoremSetting(TypedDict):
    """The arguments of Theorems 2 to 4 beside the order and the noise."""

    sample_rate: float
    sensitivity: float
    discriminator_steps: int
    delta: float


class ConditionFails(ValueError):
    """Theorem 2 does not apply: log(1 / delta) < eps^2 n_d."""


def sensitivity(largest_loss: float, *, batch_size: int) -> float:
    """Eq. 13: C / |X|, one record's stated shift of the mean loss of a batch.

    largest_loss is C > 0, a bound on one example's loss (`cross-entropy-bounded`).
    """
    checks.positive(largest_loss=largest_loss)
    checks.whole(1, batch_size=batch_size)
    return largest_loss / batch_size


def theorem_1(
    order: float, *, sample_rate: float, sensitivity: float, noise_std: float
) -> float:
    """Theorem 1: Renyi epsilon of one release, q a^2 dS^2 / (2 (a - 1) s^2), at order a > 1.

    Not a bound (`theorem-1-order`). sample_rate is q in [0, 1], sensitivity dS > 0,
    noise_std s > 0.
    """
    checks.between(1, math.inf, order=order)
    checks.in_range(0, 1, sample_rate=sample_rate)
    checks.positive(sensitivity=sensitivity, noise_std=noise_std)
    return sample_rate * order**2 / (2 * (order - 1)) * (sensitivity / noise_std) ** 2


def lemma_1_divergence(renyi_epsilon: float, *, order: float, releases: int) -> float:
    """Eq. 28: 2 a n eps^2, the Renyi divergence said to bound n releases of Renyi epsilon eps.

    Not a bound (`lemma-1-composition`).
    """
    checks.non_negative(renyi_epsilon=renyi_epsilon)
    checks.between(1, math.inf, order=order)
    checks.whole(releases=releases)
    return 2 * order * releases * renyi_epsilon**2


def most_steps(renyi_epsilon: float, *, delta: float) -> float:
    """The largest n that meets Theorem 2's condition: log(1 / delta) / eps^2 (Remark 3)."""
    checks.non_negative(renyi_epsilon=renyi_epsilon)
    checks.between(0, 1, delta=delta)
    square = renyi_epsilon**2
    return math.log(1 / delta) / square if square else math.inf


def eq_15(renyi_epsilon: float, *, discriminator_steps: int, delta: float) -> float:
    """4 eps sqrt(2 n_d log(1 / delta)), whether or not Theorem 2's condition holds."""
    checks.non_negative(renyi_epsilon=renyi_epsilon)
    checks.whole(1, discriminator_steps=discriminator_steps)
    checks.between(0, 1, delta=delta)
    return 4 * renyi_epsilon * math.sqrt(2 * discriminator_steps * math.log(1 / delta))


def theorem_2(
    order: float = BEST_ORDER,
    *,
    sample_rate: float,
    sensitivity: float,
    noise_std: float,
    discriminator_steps: int,
    delta: float,
) -> float:
    """Theorem 2: epsilon_d of n_d >= 1 discriminator steps by eq. 15, eps by Theorem 1.

    Theorem 3, eq. 16, by post-processing: epsilon_g of one generator iteration. Not a bound: it
    rests on Theorem 1 and on eq. 28. Other arguments as `theorem_1`; delta in (0, 1).

    Raises:
        ConditionFails: log(1 / delta) < eps^2 n_d.
    """
    renyi = theorem_1(
        order, sample_rate=sample_rate, sensitivity=sensitivity, noise_std=noise_std
    )
    if not discriminator_steps <= most_steps(renyi, delta=delta):
        raise ConditionFails(
            f"Theorem 2 asks for log(1 / delta) >= eps^2 n_d, got {math.log(1 / delta):.4g} and "
            f"{renyi**2 * discriminator_steps:.4g} at noise_std {noise_std:g}; raise the noise"
        )
    return eq_15(renyi, discriminator_steps=discriminator_steps, delta=delta)


def theorem_4(
    order: float = BEST_ORDER,
    *,
    generator_steps: int,
    noise_std: float,
    **setting: Unpack[TheoremSetting],
) -> float:
    """Theorem 4: n_g epsilon_g, n_g >= 0; the rest as `theorem_2`. Of delta: `theorem-4-delta`."""
    checks.whole(generator_steps=generator_steps)
    return generator_steps * theorem_2(order, noise_std=noise_std, **setting)


def iterations_within(
    target_epsilon: float, noises: Iterable[float], **setting: Unpack[TheoremSetting]
) -> int:
    """Generator iterations, of those in `noises`, whose sum by Theorem 4 is within the target.

    This is how Algorithm 2 ends. An iteration that Theorem 2 does not cover ends the count as well.
    `noises`, noise_std of each, may be endless if it does not grow; the rest as `theorem_2`.
    """
    checks.positive(target_epsilon=target_epsilon)
    spent, done = 0.0, 0
    for noise_std in noises:
        try:
            spent += theorem_2(noise_std=noise_std, **setting)
        except ConditionFails:
            break
        if not spent <= target_epsilon:
            break
        done += 1
    return done


def moments_accountant_epsilon(
    noise_std: float, *, sample_rate: float, discriminator_steps: int, delta: float
) -> float:
    """Eq. 23: 2 q sqrt(n_d log(1 / delta)) / s, the paper's baseline of Theorem 3.

    The order of Abadi et al. 2016, Theorem 1, with 2 for its unnamed constant and the sensitivity
    left out, as the paper says. Neither a bound nor what a moments accountant computes.
    """
    checks.positive(noise_std=noise_std)
    checks.in_range(0, 1, sample_rate=sample_rate)
    checks.whole(1, discriminator_steps=discriminator_steps)
    checks.between(0, 1, delta=delta)
    return 2 * sample_rate * math.sqrt(discriminator_steps * math.log(1 / delta)) / noise_std
