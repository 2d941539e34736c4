"""The releases of a run or private GAN, fixed before it begins, and their price."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from numbers import Real
from typing import Any

from dpkit.common import checks
from dpkit.privacy import Gaussian, Guarantee, Release, calibrate, pld
from dpkit.privacy.clipping import FlatClipping
from dpkit.privacy.sampling import PoissonSampling, mechanism
from dpkit.privacy.schedules import Constant
from dpkit.training.optimizers import Adam

LOSSES = ("wasserstein", "hinge", "bce")
LEAST_NORM = 1e-12
DIGITS = 5  # of a noise multiplier, rounded up: all machines calibrate the same


@dataclass(frozen=True)
class Plan:
    """Noisy sums of Poisson batches, each example's gradient clipped as a whole.

    Args:
        steps: releases, >= 1.
        batch_size: records a batch on average; it divides each noised sum.
        public_size: number of records, taken as public; sample rates follow from it.
        delta: in (0, 1).
        noise_multiplier: noise standard deviation / clip norm.
        max_grad_norm: the clip norm C.
        declared: whether public_size was declared, not counted.
        seeded: whether the noise follows from a seed (not which: it would remove the noise).
        scaling_noise: noise multiplier of a release of all records that comes first (see
            `dpkit.private.data`); None where there is none.
    """

    steps: int
    batch_size: int
    public_size: int
    delta: float
    noise_multiplier: float
    max_grad_norm: float = 1.0
    declared: bool = True
    seeded: bool = False
    scaling_noise: float | None = None

    @property
    def sampling(self) -> PoissonSampling:
        """How batches are drawn."""
        return PoissonSampling(self.batch_size)

    @property
    def clipping(self) -> FlatClipping:
        """How an example's gradient is clipped."""
        return FlatClipping(self.max_grad_norm)

    @property
    def noise_std(self) -> float:
        """The noise's deviation on each coordinate of a clipped sum."""
        return self.noise_multiplier * self.clipping.sensitivity("add-remove")

    def ledger(self, steps: int | None = None) -> list[Release]:
        """The releases of `steps` steps (all, by default), and that of a NoisyStandardised."""
        one = mechanism(
            self.sampling, noise_multiplier=self.noise_multiplier, public_size=self.public_size
        )
        count = self.steps if steps is None else checks.whole(steps=steps)
        return [*_scaling(self.scaling_noise), Release(one, count)]

    def guarantee(self, steps: int | None = None) -> Guarantee:
        """The certified accountant's bound on that, under add-remove adjacency."""
        return pld.epsilon(self.ledger(steps), delta=self.delta)


def calibrated(
    epsilon: float,
    *,
    delta: float,
    steps: int,
    batch_size: int,
    records: int,
    public_size: int | None = None,
    max_grad_norm: float = 1.0,
    seeded: bool = False,
    scaling_noise: float | None = None,
    before: Sequence[Release] = (),
) -> Plan:
    """The plan with the least noise (of `DIGITS` digits) whose certified epsilon is <= epsilon.

    Args:
        epsilon: nats, > 0.
        records: number of records: the public size where none is declared.
        delta, steps, batch_size, public_size, max_grad_norm, seeded, scaling_noise: as `Plan`.
        before: what else is released of the same records, which epsilon covers too.

    Raises:
        ValueError: a number is out of range, a batch is larger than the data set, or no noise
            meets the target.
    """
    epsilon = checks.positive(epsilon=epsilon)
    delta = checks.between(0, 1, delta=delta)
    steps, batch_size = checks.whole(1, steps=steps, batch_size=batch_size)
    max_grad_norm = checks.positive(max_grad_norm=max_grad_norm)
    if not max_grad_norm >= LEAST_NORM:
        raise ValueError(
            f"max_grad_norm must be at least {checks.short(LEAST_NORM)}, got "
            f"{checks.short(max_grad_norm)}: squares of much smaller gradients are 0 in float32, "
            "so that they would not be clipped"
        )
    size = size_of(records, public_size=public_size, delta=delta)
    if not batch_size <= size:
        raise ValueError(
            f"batch_size must be at most the {size} records of the data set, got {batch_size}; "
            "an expected batch of a tenth of the records, or less, is usual"
        )
    declared = public_size is not None
    plan = Plan(
        steps, batch_size, size, delta, 1, max_grad_norm, declared, seeded, scaling_noise
    )
    return _calibrated(plan, epsilon, tuple(before))


def size_of(records: int, *, public_size: int | None, delta: float) -> int:
    """The declared number of records, or the data's; warns where delta is large beside it.

    Raises:
        ValueError: there are no records and none are declared, or the declared is not >= 1.
    """
    if public_size is None and not records:
        raise ValueError("the data have no rows, and no public_size is declared")
    size = checks.whole(1, public_size=records if public_size is None else public_size)
    if not delta < 1 / size:
        warnings.warn(
            f"delta {checks.short(delta)} is not below 1 / {size} records: it would allow a whole "
            "record to be published; take a smaller one",
            stacklevel=4,
        )
    return size


@lru_cache(maxsize=64)  # a cell that runs again asks for the same
def _calibrated(plan: Plan, epsilon: float, before: tuple[Release, ...]) -> Plan:
    """The plan with the least noise of so many digits."""

    def whole(ledger: Sequence[Release], *, delta: float) -> Guarantee:
        return pld.epsilon([*before, *_scaling(plan.scaling_noise), *ledger], delta=delta)

    rate = plan.batch_size / plan.public_size
    least = calibrate.noise_multiplier(
        epsilon, sample_rate=rate, steps=plan.steps, delta=plan.delta, accountant=whole
    )
    unit = 10.0 ** (math.floor(math.log10(least)) + 1 - DIGITS)
    for more in range(3):
        noise = float(f"{(math.ceil(least / unit) + more) * unit:.{DIGITS}g}")
        rounded = replace(plan, noise_multiplier=noise)
        if pld.epsilon([*before, *rounded.ledger()], delta=plan.delta).epsilon <= epsilon:
            return rounded
    raise ArithmeticError(
        f"no rounded noise_multiplier is priced at or under epsilon {epsilon}"
    )


def _scaling(noise: float | None) -> list[Release]:
    return [] if noise is None else [Release(Gaussian(noise))]


class PlannedGan:
    """Settings of a private GAN: planned critic steps, now and then the generator."""

    plan: Plan
    loss: str
    n_critic: int
    generator_decay: float

    def __post_init__(self) -> None:
        checks.one_of(LOSSES, loss=self.loss)
        checks.whole(1, n_critic=self.n_critic)
        if not 0 <= self.generator_decay < 1:
            raise ValueError(f"generator_decay must lie in [0, 1), got {self.generator_decay}")
        if not self.plan.steps >= self.n_critic:
            raise ValueError(
                f"steps must be at least n_critic, {self.n_critic}, got {self.plan.steps}: the "
                "generator would never be trained"
            )

    @property
    def sampling(self) -> PoissonSampling:
        """How batches are drawn."""
        return self.plan.sampling

    def steps_allowed(self, *, public_size: int) -> int:
        """The steps that the noise was calibrated for.

        Raises:
            ValueError: it was calibrated for another size.
        """
        if public_size != self.plan.public_size:
            raise ValueError(f"public_size must be {self.plan.public_size}, got {public_size}")
        return self.plan.steps

    def ledger(self, *, public_size: int, steps: int | None = None) -> list[Release]:
        """The releases of `steps` steps (all, by default), under add-remove."""
        self.steps_allowed(public_size=public_size)
        return self.plan.ledger(steps)


@dataclass(frozen=True)
class GanSettings(PlannedGan):
    """A run of `PrivateGan`, whose arguments these are.

    Raises:
        ValueError: a number is out of range, or the generator would never be trained.
    """

    plan: Plan
    classes: int | None
    loss: str
    latent_size: tuple[int, ...]
    n_critic: int
    penalty_weight: float
    critic_optimizer: Adam
    generator_optimizer: Adam
    generator_decay: float
    reproducible_seed: str | None = None
    """SHA-256 of the seed, with which alone a stored run is resumed; None: from entropy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(penalty_weight=self.penalty_weight)


def gan_settings(gan: Any, *, records: int, steps: int) -> GanSettings:
    """The settings of a `PrivateGan` for data of so many records.

    Raises:
        ValueError: a number is out of range.
    """
    betas = tuple(gan.betas) if isinstance(gan.betas, tuple | list) else ()
    if len(betas) != 2 or not all(isinstance(x, Real) and 0 <= float(x) < 1 for x in betas):
        raise ValueError(f"betas must be two in [0, 1), such as (0.5, 0.9), got {gan.betas!r}")
    betas = float(betas[0]), float(betas[1])
    rate, seed = gan.learning_rate, gan.reproducible_seed
    of_generator = rate if gan.generator_learning_rate is None else gan.generator_learning_rate
    checks.positive(learning_rate=rate, generator_learning_rate=of_generator)
    plan = calibrated(
        gan.epsilon,
        delta=gan.delta,
        steps=steps,
        batch_size=gan.batch_size,
        records=records,
        public_size=gan.public_size,
        max_grad_norm=gan.max_grad_norm,
        seeded=seed is not None,
        scaling_noise=getattr(gan.transform, "scaling_noise", None),
    )
    critic, generator = (Adam(Constant(one), betas) for one in (rate, of_generator))
    return GanSettings(
        plan,
        gan.classes,
        gan.loss,
        latent_shape(gan.latent_size),
        gan.n_critic,
        gan.penalty_weight,
        critic,
        generator,
        gan.generator_decay,
        None if seed is None else sha256(f"{seed}".encode()).hexdigest(),
    )


def latent_shape(latent_size: Any) -> tuple[int, ...]:
    """A latent's shape, from it or its one number (ValueError where it is neither)."""
    shape = tuple(latent_size) if isinstance(latent_size, tuple | list) else (latent_size,)
    return tuple(checks.whole(1, latent_size=size) for size in shape)
