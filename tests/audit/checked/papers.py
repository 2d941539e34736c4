"""The kit's five papers as programs for the checker: a few steps as published, and repaired.

Each trains the paper's networks, made tiny, on made-up records, and returns what its method
releases: weights of the generator, or of AdaDP's classifier. Initial weights, the images that
dpGAN calls public, and the number of records are public.
"""

from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

import torch
from torch import Tensor

from dpkit.papers import adadp, dp_cgan, dpgan, rdp_gan, small_images
from dpkit.papers.adadp.settings import REPAIRED as ADADP_REPAIRED
from dpkit.papers.claims import OPACUS_ORDERS
from dpkit.papers.dp_cgan.settings import small
from dpkit.papers.rdp_gan.adaptive import LARGEST_LOSS
from dpkit.papers.rdp_gan.settings import GradientNoise, Mlp
from dpkit.papers.rdp_gan.theorems import sensitivity, theorem_4
from dpkit.privacy import pld, rdp
from dpkit.privacy.sampling import PoissonSampling, ShuffledBatches
from dpkit.privacy.schedules import Constant
from dpkit.training import Data, generator_on, train

CPU, DELTA = torch.device("cpu"), 1e-5
RECORDS, BATCH, STEPS = 80, 16, 12
EACH = 4  # discriminator steps for one of RDP-GAN's generator
SIDE, PIXELS, CLASSES = 8, 6, 3  # of images, and of rows
POISSON, SHUFFLED = PoissonSampling(BATCH), ShuffledBatches(BATCH)


def images(count: int, seed: int) -> Tensor:
    """Grey images in [-1, 1]."""
    rng = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(count, 1, SIDE, SIDE, generator=rng) - 1


def rows(least: float) -> tuple[Tensor, Tensor]:
    """Rows of pixels in [least, 1], and labels."""
    rng = torch.Generator().manual_seed(2)
    made = least + (1 - least) * torch.rand(RECORDS, PIXELS, generator=rng)
    return made, torch.randint(CLASSES, (RECORDS,), generator=rng)


def trained(step: Any, model: Any, features: Tensor, labels: Any, settings: Any) -> None:
    """Take the run's steps."""
    labels = torch.zeros(len(features), dtype=torch.int64) if labels is None else labels
    how = {"settings": settings, "rng": generator_on(CPU), "steps": STEPS}
    list(train(step, model, Data(features, labels, RECORDS), **how))


# dpGAN: clipped sums get too little noise by sqrt(batch) / devices, here by 4 as in the main
# run; and each tensor of a group is clipped at the group's bound
PUBLIC = images(16, seed=5)
SMALL = {
    **{"image_shape": (1, SIDE, SIDE), "latent_size": 3, "warm_start": 1, "devices": 1},
    **{"critic_channels": (2, 3, 4), "generator_channels": (3, 2, 2)},
    **{"private_examples": RECORDS, "public_examples": len(PUBLIC)},
}
DPGAN = replace(dpgan.SETTINGS, sampling=SHUFFLED, **SMALL)
DPGAN_REPAIRED = replace(dpgan.REPAIRED, sampling=POISSON, noise_multiplier=6.0, **SMALL)


def dpgan_run(settings: Any, data: Tensor) -> Any:
    """Algorithm 3: a warm start on public images, then private steps."""
    gan = dpgan.new_gan(settings, seed=0, device=CPU)
    list(dpgan.warm_start(gan, PUBLIC, settings=settings, rng=generator_on(CPU)))
    trained(dpgan.step_of(settings, PUBLIC), gan, data, None, settings)
    return gan.generator_net.state_dict()


# Small images: shuffled batches, charged as Poisson ones; here six passes
SMALL = {"side": SIDE, "latent_size": 3, "capacity": 1, "max_steps": STEPS}
SMALL_IMAGES = replace(small_images.SETTINGS, sampling=ShuffledBatches(2 * BATCH), **SMALL)
SMALL |= {"noise_multiplier": 1.5}
SMALL_IMAGES_REPAIRED = replace(small_images.REPAIRED, sampling=POISSON, **SMALL)


def small_images_run(settings: Any, data: Tensor) -> Any:
    """Algorithm 2."""
    gan = small_images.new_gan(settings, seed=0, device=CPU)
    trained(small_images.step_of(settings), gan, data, None, settings)
    return gan.averaged_net.state_dict()


# DP-CGAN: generated images have the private batch's labels, by which the generator moves
SMALL = {"pixels": PIXELS, "hidden": 4, "latent_size": 3, "classes": CLASSES}
DP_CGAN, DP_CGAN_REPAIRED = (
    replace(small(one, batch_size=BATCH, steps=STEPS), **SMALL)
    for one in (dp_cgan.SETTINGS, dp_cgan.REPAIRED)
)

# RDP-GAN: noise on the loss's value, which no gradient sees
RDP_GAN = replace(
    rdp_gan.SETTINGS,
    **{"sampling": SHUFFLED, "discriminator_steps": EACH, "iterations": STEPS // EACH},
    **{"features": PIXELS, "classes": CLASSES, "latent_size": 3, "network": Mlp(4)},
)
RDP_GAN_REPAIRED = replace(
    RDP_GAN,
    **{"noise": GradientNoise(Constant(3.0), 0.5), "sampling": POISSON},
    **{"generator_decay": 0.99, "label_scale": 20.0, "target_epsilon": 4.0},
)


def labelled_run(new: Any, step: Any, settings: Any, data: tuple[Tensor, Tensor]) -> Any:
    """Algorithm 1 of DP-CGAN or RDP-GAN, on images and labels."""
    gan = new(settings, seed=0, device=CPU)
    trained(step, gan, *data, settings)
    return gan.averaged_net.state_dict()


# AdaDP: bounds and noise follow raw gradients; rows are as after the projection
SMALL = {"sampling": POISSON, "widths": (PIXELS, 5, CLASSES), "max_steps": STEPS}
SMALL |= {"target_epsilon": 8.0, "pca_noise": None}
ADADP = replace(adadp.SETTINGS, **SMALL)
ADADP_REPAIRED = replace(ADADP_REPAIRED, noise_multiplier=2.62, **SMALL)


def adadp_run(settings: Any, data: tuple[Tensor, Tensor]) -> Any:
    """Algorithm 1."""
    model = adadp.new_classifier(settings, seed=0, device=CPU)
    trained(adadp.step, model, *data, settings)
    return model.net.net.state_dict()


def published(name: str, run: Any, settings: Any, data: Any, claimed: float) -> Any:
    """The two that are charged too little have noise on all that they release.

    Shuffled batches of a fixed size have a price under replace-one alone, as in the claims.
    """
    told = ("replace-one", "understated") if data is IMAGES else ("add-remove", "broken")
    return f"{name} published", partial(run, settings), data, claimed, DELTA, *told


def repaired(name: str, run: Any, settings: Any, data: Any, **length: int) -> Any:
    """The claim is what the run's own ledger costs, rounded up."""
    ledger = settings.ledger(public_size=RECORDS, **(length or {"steps": STEPS}))
    claimed = ceil(1e3 * pld.epsilon(ledger, delta=DELTA).epsilon) / 1e3
    told = "add-remove", "covered"
    return f"{name} repaired", partial(run, settings), data, claimed, DELTA, *told


CHARGED, BY_CODE = (  # by their code, for these steps
    rdp.epsilon(
        one.claimed_ledger(public_size=RECORDS, steps=STEPS),
        **{"delta": DELTA, "conversion": "classic", "orders": OPACUS_ORDERS},
    ).epsilon
    for one in (SMALL_IMAGES, DP_CGAN)
)
BY_THEOREM = theorem_4(
    **{"generator_steps": STEPS // EACH, "discriminator_steps": EACH, "delta": DELTA},
    **{"noise_std": RDP_GAN.noise.schedule(0), "sample_rate": BATCH / RECORDS},
    sensitivity=sensitivity(LARGEST_LOSS["digits"], batch_size=BATCH),
)
BY_THEOREM_1 = ADADP.charged(public_size=RECORDS, steps=STEPS)
IMAGES, UNIT, SIGNED = images(RECORDS, seed=1), rows(0.0), rows(-1.0)
CGAN = partial(labelled_run, dp_cgan.new_gan, dp_cgan.step)
RDP, RDP_REPAIRED = (
    partial(labelled_run, rdp_gan.new_gan, rdp_gan.step_of(one))
    for one in (RDP_GAN, RDP_GAN_REPAIRED)
)
# name, train, data, claimed, delta, adjacency, what a checker should say
CASES = [
    published("dpgan", dpgan_run, DPGAN, IMAGES, DPGAN.target_epsilon),
    repaired("dpgan", dpgan_run, DPGAN_REPAIRED, IMAGES),
    published("small_images", small_images_run, SMALL_IMAGES, IMAGES, CHARGED),
    repaired("small_images", small_images_run, SMALL_IMAGES_REPAIRED, IMAGES),
    published("dp_cgan", CGAN, DP_CGAN, UNIT, BY_CODE),
    repaired("dp_cgan", CGAN, DP_CGAN_REPAIRED, UNIT),
    published("rdp_gan", RDP, RDP_GAN, SIGNED, BY_THEOREM),
    repaired("rdp_gan", RDP_REPAIRED, RDP_GAN_REPAIRED, SIGNED, iterations=STEPS // EACH),
    published("adadp", adadp_run, ADADP, UNIT, BY_THEOREM_1),
    repaired("adadp", adadp_run, ADADP_REPAIRED, UNIT),
]
