"""What a private GAN is trained with, fixed before it begins."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from dpkit.common import checks
from dpkit.privacy.ledger import Release
from dpkit.privacy.sampling import PoissonSampling
from dpkit.privacy.schedules import Constant
from dpkit.private.plan import Plan, calibrated, scaling_of
from dpkit.training.optimizers import Adam

LOSSES = ("wasserstein", "hinge", "bce")


class PlannedGan:
    """What the settings of private GANs share: planned critic steps, now and then the generator."""

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
        """What `steps` steps release (all, by default), under add-remove."""
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
    """SHA-256 of the seed, so that a stored run goes on with its own; None: from entropy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive(penalty_weight=self.penalty_weight)


def gan_settings(gan: Any, *, records: int, steps: int) -> GanSettings:
    """The settings of a `PrivateGan` for data of so many records.

    Raises:
        ValueError: a number is out of range.
    """
    if not (isinstance(gan.betas, tuple | list) and len(gan.betas) == 2):
        raise ValueError(f"betas must be two numbers, such as (0.5, 0.9), got {gan.betas!r}")
    for beta in checks.non_negative(**{"betas[0]": gan.betas[0], "betas[1]": gan.betas[1]}):
        if not beta < 1:
            raise ValueError(f"betas must lie in [0, 1), such as (0.5, 0.9), got {gan.betas!r}")
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
        scaling_noise=scaling_of(gan.transform),
    )
    critic, generator = (Adam(Constant(one), tuple(gan.betas)) for one in (rate, of_generator))
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
    """A latent's shape, from that or from its one number (ValueError where it is neither)."""
    shape = tuple(latent_size) if isinstance(latent_size, tuple | list) else (latent_size,)
    return tuple(checks.whole(1, latent_size=size) for size in shape)
