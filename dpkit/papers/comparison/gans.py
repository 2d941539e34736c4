"""The private GANs that are compared: a repaired one, a WGAN-GP, and one with a warm start."""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch
from torch import Tensor, nn

from dpkit.papers.comparison.recipe import Recipe
from dpkit.papers.comparison.task import CLASSES, SHAPE, Task
from dpkit.papers.dp_cgan import algorithm
from dpkit.papers.dp_cgan.settings import REPAIRED, Settings
from dpkit.privacy import calibrate, pld, rdp
from dpkit.privacy.ledger import Release
from dpkit.privacy.sampling import mechanism
from dpkit.private import PrivateGan, gan_step
from dpkit.private.plan import GanSettings, gan_settings
from dpkit.synthesizers import class_moments
from dpkit.synthesizers.class_moments import MomentsSettings
from dpkit.synthesizers.warm_gan import step as warm
from dpkit.synthesizers.warm_gan.settings import WarmGanSettings, calibrated, large
from dpkit.training.networks import Conditional, mlp
from dpkit.training.types import Gan

PIXELS, HIDDEN, LATENT = prod(SHAPE), 256, 64


def dp_cgan_settings(task: Task) -> Settings:
    """The repaired DP-CGAN with its own settings, but for the noise of this epsilon."""
    sampling = replace(
        REPAIRED.sampling, expected_batch_size=min(REPAIRED.expected_batch_size, task.size // 10)
    )
    steps = task.steps(REPAIRED.max_steps)
    noise = calibrate.noise_multiplier(
        task.epsilon,
        sample_rate=sampling.expected_batch_size / task.size,
        steps=steps,
        delta=task.delta,
        accountant=pld.epsilon,
    )
    one = mechanism(sampling, noise_multiplier=noise, public_size=task.size)
    charged = rdp.epsilon([Release(one, steps)], delta=task.delta).epsilon
    return replace(  # the paper's settings count their steps by Renyi DP
        REPAIRED,
        noise_multiplier=noise,
        sampling=sampling,
        target_epsilon=charged * (1 + 1e-9),
        target_delta=task.delta,
        max_steps=steps,
    )


DP_CGAN = Recipe(
    "dp_cgan",
    lambda settings, images, labels, task, device: algorithm.new_gan(
        settings, seed=task.seed, device=device
    ),
    algorithm.step,
    lambda gan, labels, settings, rng: algorithm.generate(gan, labels, settings=settings, rng=rng),
    (PIXELS,),
)


def moments_rng(task: Task, settings: MomentsSettings) -> np.random.Generator:
    """Of a release of moments: a warm-started GAN starts as the same release alone does."""
    return task.rng(f"moments {settings.noise_multiplier:.6g}")


def warm_gan_settings(task: Task) -> WarmGanSettings:
    """Half of the budget for the moments, half for the critic's steps."""
    return _warm(task, steps=150, batch_size=min(2_048, task.size // 10))


def large_warm_gan_settings(task: Task) -> WarmGanSettings:
    """The same with more and larger steps, and larger networks: for a GPU."""
    settings = large(_warm(task, steps=2_000, batch_size=min(8_192, task.size // 4)))
    brief = {"filters": (8, 16), "features": 16, "generator_batch": 64}
    return replace(settings, **brief) if task.brief else settings


def _warm(task: Task, *, steps: int, batch_size: int) -> WarmGanSettings:
    return calibrated(
        task.epsilon,
        delta=task.delta,
        public_size=task.size,
        classes=CLASSES,
        shape=SHAPE,
        steps=task.steps(steps),
        batch_size=batch_size,
    )


def _new_warm_gan(
    settings: WarmGanSettings,
    images: np.ndarray,
    labels: np.ndarray,
    task: Task,
    device: torch.device,
) -> Gan:
    rng = moments_rng(task, settings.moments)
    model = class_moments.fit(images, labels, settings=settings.moments, rng=rng)
    return warm.new_gan(settings, model, seed=0, device=device)


WARM_GAN = Recipe(
    "warm_gan",
    _new_warm_gan,
    warm.step,
    lambda gan, labels, settings, rng: warm.generate_from(
        gan.averaged_net, labels.cpu(), classes=settings.classes, rng=rng
    ),
    SHAPE,
)


@dataclass(frozen=True)
class WganGpSettings(GanSettings):
    """Those of a `PrivateGan`, and of its networks of one hidden layer.

    Args:
        hidden: units of that layer.
        label_scales: what stands for 1 in a one-hot label, of the generator and of the critic.
        chosen: how the settings came about.
    """

    hidden: int = HIDDEN
    label_scales: tuple[float, float] = (4.0, 20.0)
    chosen: str = (
        "the best of five at epsilon 10 on distorted copies of scikit-learn's digits (public data)"
    )

    def networks(self, seed: int) -> list[nn.Module]:
        """A generator and a critic, which see the label."""
        rng = torch.Generator().manual_seed(seed)
        bodies = (
            mlp((LATENT + CLASSES, self.hidden, PIXELS), last=nn.Sigmoid(), rng=rng),
            mlp((PIXELS + CLASSES, self.hidden, 1), last=None, rng=rng),
        )
        return [
            Conditional(body, classes=CLASSES, label_scale=scale)
            for body, scale in zip(bodies, self.label_scales, strict=True)
        ]


def wgan_gp_settings(task: Task) -> WganGpSettings:
    """Those of a `PrivateGan` with a gradient penalty."""
    gan = PrivateGan(
        nn.Identity(),
        nn.Identity(),
        epsilon=task.epsilon,
        delta=task.delta,
        classes=CLASSES,
        latent_size=LATENT,
        batch_size=min(2_048, task.size // 10),
        n_critic=2,
        betas=(0.5, 0.99),
        public_size=task.size,
        reproducible_seed=task.seed,
    )
    return WganGpSettings(**vars(gan_settings(gan, records=task.size, steps=task.steps(600))))


def _new_wgan_gp(
    settings: WganGpSettings,
    images: np.ndarray,
    labels: np.ndarray,
    task: Task,
    device: torch.device,
) -> Gan:
    generator, critic = (net.to(device) for net in settings.networks(task.seed))
    return gan_step.new_gan(generator, critic, settings)


def _generate(gan: Gan, labels: Tensor, settings: WganGpSettings, rng: torch.Generator) -> Tensor:
    with torch.no_grad():
        return gan.averaged_net(gan_step.latents(gan, len(labels), settings, rng), labels)


WGAN_GP = Recipe("wgan_gp", _new_wgan_gp, gan_step.step, _generate, (PIXELS,))
