"""Settings of a warm GAN, the shares of its budget, and the price of the whole."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

from dpkit.common import checks
from dpkit.privacy import calibrate, pld
from dpkit.privacy.clipping import FlatClipping
from dpkit.privacy.ledger import Release
from dpkit.privacy.mechanisms import Gaussian
from dpkit.privacy.schedules import Constant
from dpkit.private.plan import Plan, PlannedGan
from dpkit.private.plan import calibrated as calibrated_plan
from dpkit.synthesizers import class_moments
from dpkit.synthesizers.class_moments import MomentsSettings
from dpkit.training.optimizers import Adam

LOSSES = ("hinge", "bce")
CRITIC = Adam(Constant(2e-3), betas=(0.5, 0.99))
GENERATOR = Adam(Constant(2e-4), betas=(0.5, 0.99))
CHOSEN = (
    "networks, rates and number of steps by a few runs at epsilon 10 on distorted copies of "
    "scikit-learn's digits (public data), where the steps added nothing to the start that "
    "classifiers could use; nothing was tried on private data"
)


@dataclass(frozen=True)
class WarmGanSettings(PlannedGan):
    """A release of class moments, then private steps of a critic.

    Args:
        moments: the first release.
        plan: the steps: their number, batch, clip norm and noise.
        target_epsilon: that both were calibrated for, in nats.
        loss: "hinge" or "bce", of a real and a fake image of one label.
        copies: shifted copies of an image, each with a fake of its own, whose gradients are
            averaged before the clip.
        shift: the largest shift, in pixels.
        n_critic: steps of the critic to one of the generator.
        generator_batch: images of a step of the generator.
        critic_optimizer, generator_optimizer: what moves each.
        generator_decay: of the released average of the generator's weights, in [0, 1).
        latent_size: normal numbers that the generator's correction sees beside the image.
        hidden: units of the correction.
        filters: of the critic's convolutions, one after the other; without any it sees the cosines
            that the moments are measured in.
        features: units of the critic's layer before its output.
        chosen: how the settings came about.

    Raises:
        ValueError: a number is out of range, or the generator would never be trained.
    """

    moments: MomentsSettings
    plan: Plan
    target_epsilon: float
    loss: str = "hinge"
    copies: int = 1
    shift: int = 0
    n_critic: int = 2
    generator_batch: int = 1024
    critic_optimizer: Adam = CRITIC
    generator_optimizer: Adam = GENERATOR
    generator_decay: float = 0.98
    latent_size: int = 16
    hidden: int = 256
    filters: tuple[int, ...] = ()
    features: int = 128
    chosen: str = CHOSEN

    def __post_init__(self) -> None:
        checks.one_of(LOSSES, loss=self.loss)
        super().__post_init__()
        checks.positive(target_epsilon=self.target_epsilon)
        checks.whole(
            1,
            copies=self.copies,
            generator_batch=self.generator_batch,
            latent_size=self.latent_size,
            hidden=self.hidden,
            features=self.features,
        )
        object.__setattr__(self, "filters", tuple(self.filters))
        checks.whole(1, **{f"filters[{i}]": count for i, count in enumerate(self.filters)})
        checks.whole(shift=self.shift)

    @property
    def classes(self) -> int:
        """Number of labels."""
        return self.moments.classes

    @property
    def clipping(self) -> FlatClipping:
        """How an example's gradient is clipped."""
        return self.plan.clipping

    def ledger(self, *, public_size: int, steps: int | None = None) -> list[Release]:
        """The releases of the moments and `steps` steps (all, by default), under add-remove."""
        return [*self.moments.ledger(), *super().ledger(public_size=public_size, steps=steps)]


def calibrated(
    epsilon: float,
    *,
    delta: float,
    public_size: int,
    classes: int,
    shape: tuple[int, ...],
    share: float = 0.5,
    steps: int = 150,
    batch_size: int = 2048,
    **more: Any,
) -> WarmGanSettings:
    """The settings with the least noise whose certified epsilon, of everything, is <= epsilon.

    Args:
        epsilon: nats, > 0.
        delta: in (0, 1).
        public_size: declared number of records.
        classes, shape: as `MomentsSettings`.
        share: of mu^2 (Gaussian differential privacy) that the moments take, in (0, 1).
        steps, batch_size: as `Plan`.
        more: of `WarmGanSettings`.

    Raises:
        ValueError: a number is out of range, or no noise meets the target.
    """
    share = checks.between(0, 1, share=share)
    alone = calibrate.gaussian_noise_multiplier(epsilon, delta=delta)
    # mu of a Gaussian is 1 / noise multiplier (Dong, Roth, Su 2022), and squares of mu add up
    part = Release(Gaussian(alone / sqrt(share)))
    moments = class_moments.settings_for(
        pld.epsilon([part], delta=delta).epsilon,
        delta=delta,
        classes=classes,
        shape=tuple(shape),
        public_size=public_size,
    )
    plan = calibrated_plan(
        epsilon,
        delta=delta,
        steps=steps,
        batch_size=batch_size,
        records=public_size,
        public_size=public_size,
        before=moments.ledger(),
    )
    return WarmGanSettings(moments, plan, epsilon, **more)


def signal(plan: Plan) -> float:
    """Total signal of the steps, sqrt(steps) * batch / noise multiplier, which `ceiling` bounds.

    Opposed to a mean gradient of norm max_grad_norm, it is the ratio of what all steps say of it
    to their noise: steps add up as independent measurements do.
    """
    return sqrt(plan.steps) * plan.batch_size / plan.noise_multiplier


def ceiling(epsilon: float, *, delta: float, public_size: int) -> float:
    """The largest `signal` at this budget: public_size * mu, one full-batch Gaussian.

    A full batch at the noise multiplier 1 / mu, or more often at as many times the variance, costs
    exactly (epsilon, delta) (Balle, Wang 2018, Theorem 8); sampled batches cost more.
    """
    return public_size / calibrate.gaussian_noise_multiplier(epsilon, delta=delta)
