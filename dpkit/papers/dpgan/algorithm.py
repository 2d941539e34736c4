"""Algorithms 1 to 3: the critic's step in each form, the generator's, and the warm start.

A step updates the critic, every `critic_steps`-th the generator too (which the published snapshot
has commented out: `settings.generator_trained`).

The code clips g_i / B, where B is a device's batch, at c, and adds noise in that unit; here g_i is
clipped at B c, the same after division.

Convolutions have 5 x 5 kernels and stride 2, so each halves a side, rounded up, and each transposed
one undoes that: 28, 14, 7, 4 and back for MNIST. (In the code, models/gans/mnist.py, the first
transposed convolution makes 8 x 8, cropped to 7, and no ReLU follows it; here it makes 7, and one
does. The code's generators for CelebA and LSUN are residual networks; here they are as MNIST's.)
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor, nn

from dpkit.papers.dpgan.grouping import TensorsClippedAtGroupBound, mean_norm_bounds
from dpkit.papers.dpgan.settings import DpganSettings
from dpkit.privacy.clipping import GroupClipping, Unclipped
from dpkit.privacy.sampling import ShuffledBatches
from dpkit.private.release import penalised
from dpkit.training import clipped_sum
from dpkit.training.device import seeded
from dpkit.training.loop import train
from dpkit.training.networks import doubling_generator, halving_critic
from dpkit.training.noise import noised_each
from dpkit.training.optimizers import descend, set_rate, update
from dpkit.training.types import Data, Gan, Record, Step

MICROBATCH_SIZE = 512  # examples at a time: no Poisson batch outgrows the memory
LEAST_BOUND = 1e-6  # of a tensor whose public gradients vanish
Rule = GroupClipping | TensorsClippedAtGroupBound


class StepInputs(TypedDict):
    """One step of the critic."""

    settings: DpganSettings
    index: int  # number of this step, from 0
    rng: torch.Generator  # latents, mixing, noise


def new_gan(settings: DpganSettings, *, seed: int, device: torch.device) -> Gan:
    """Both networks, initialised as torch does by default; the generator is released as it is.

    The critic has two tensors each convolution and one more, as its last layer has no bias.
    The generator's batch normalisation is the code's.
    """
    shape, latent_size = settings.image_shape, settings.latent_size
    with seeded(seed):
        judge = halving_critic(shape, settings.critic_channels, bias=False).to(device)
        generator_net = doubling_generator(latent_size, settings.generator_channels, shape)
        generator_net = generator_net.to(device)
    return Gan(
        generator_net,
        generator_net,
        judge,
        settings.generator_optimizer.build(generator_net.parameters()),
        settings.critic_optimizer.build(judge.parameters()),
    )


def plain_step(gan: Gan, images: Tensor, labels: Tensor, **now: Unpack[StepInputs]) -> Record:
    """WGAN-GP without clipping or noise: the GAN of the tables, and the warm start.

    Args:
        gan: updated in place.
        images: the batch, (batch, channels, height, width), in [-1, 1].
        labels: not looked at.
        now: `StepInputs`, for networks, penalty and learning rates.
    """
    critic, settings = gan.discriminator, now["settings"]
    fakes, mixing = partners(gan, images, settings, now["rng"])
    # eq. 2: f(fake_i) - f(real_i) + weight (|grad f(x_i)| - 1)^2, x_i between the two
    points = torch.lerp(fakes, images, mixing.view(-1, 1, 1, 1)).detach().requires_grad_()
    (slope,) = torch.autograd.grad(critic(points).sum(), points, create_graph=True)
    penalty = (slope.flatten(1).norm(dim=1) - 1).square()
    of_fake, of_real = critic(fakes).squeeze(1), critic(images).squeeze(1)
    losses = of_fake - of_real + settings.penalty_weight * penalty
    parameters = list(critic.parameters())
    gradients = torch.autograd.grad(losses.mean(), parameters)
    kept = losses.new_ones(1, 1)
    return _updated(gan, parameters, gradients, losses.detach(), kept, **now)


def basic_step(gan: Gan, images: Tensor, labels: Tensor, **now: Unpack[StepInputs]) -> Record:
    """Algorithm 1, from line 7: gradients clipped by group at fixed bounds, noised, applied.

    Arguments as `plain_step`; the batch may be empty. settings.clipping is a GroupClipping.
    """
    return private_step(gan, images, fixed_rule(now["settings"]), **now)


def advanced_step(
    gan: Gan, images: Tensor, labels: Tensor, *, public: Tensor, **now: Unpack[StepInputs]
) -> Record:
    """Algorithm 3, from line 4: bounds, and by Algorithm 2 groups, from a public batch.

    Arguments as `basic_step`, with settings.clipping a PublicBounds or PublicClusters. Bounds and
    groups follow from `public`, all public examples, and from what was released.
    """
    clipping = now["settings"].clipping
    assert not isinstance(clipping, GroupClipping | Unclipped)
    # Lines 4 and 5
    bounds = public_bounds(gan, public, settings=now["settings"], rng=now["rng"])
    return private_step(gan, images, clipping.rule(bounds), **now)  # Lines 6, 9 to 12


def step_of(settings: DpganSettings, public: Tensor) -> Step:
    """The step for the settings' clipping, bound to the public examples if it reads them."""
    if isinstance(settings.clipping, Unclipped):
        return plain_step
    if isinstance(settings.clipping, GroupClipping):
        return basic_step
    return partial(advanced_step, public=public)


def warm_start(
    gan: Gan, public: Tensor, *, settings: DpganSettings, rng: torch.Generator, **how: Any
) -> Iterator[Record]:
    """Algorithm 3, line 1: `settings.warm_start` iterations on public data; `how` is `train`'s."""
    labels = public.new_zeros(len(public), dtype=torch.int64)
    data = Data(public, labels, len(public))
    warm = replace(
        settings,
        clipping=Unclipped(),
        noise_multiplier=0.0,
        noise_over_sqrt_batch=False,
        devices=1,
        moments=None,
        sampling=ShuffledBatches(min(settings.expected_batch_size, len(public))),
        private_examples=len(public),
        max_steps=settings.warm_start * settings.critic_steps,
    )
    return train(plain_step, gan, data, settings=warm, rng=rng, **how)


def generate(generator_net: nn.Module, codes: Tensor) -> Tensor:
    """Images of a released generator, (codes, channels, height, width), in [-1, 1].

    In evaluation mode, so that an image depends on its own code alone.

    Args:
        generator_net: left as it is.
        codes: (codes, latent_size), standard normal.
    """
    released = deepcopy(generator_net).eval() if generator_net.training else generator_net
    with torch.no_grad():
        return torch.cat([released(part) for part in codes.split(1_000)])


def fixed_rule(settings: DpganSettings) -> GroupClipping:
    """The rule of fixed bounds, on g_i: as published, each times the batch of one device."""
    rule, batch = settings.clipping, settings.expected_batch_size // settings.devices
    assert isinstance(rule, GroupClipping)
    if not settings.noise_over_sqrt_batch:
        return rule
    return replace(rule, bounds=tuple(batch * bound for bound in rule.bounds))


def public_bounds(
    gan: Gan, public: Tensor, *, settings: DpganSettings, rng: torch.Generator
) -> tuple[float, ...]:
    """A bound for each tensor: the mean norm of its gradient in a batch of public examples."""
    order = torch.randperm(len(public), generator=rng, device=rng.device)
    batch = public[order[: settings.expected_batch_size]]
    fakes, mixing = partners(gan, batch, settings, rng)
    judged = penalised(gan.discriminator, settings.penalty_weight)
    gradients, _ = judged(batch, fakes, mixing)
    return mean_norm_bounds(gradients.norms(), least=LEAST_BOUND)


def private_step(gan: Gan, images: Tensor, rule: Rule, **now: Unpack[StepInputs]) -> Record:
    """One step at the bounds of `rule`; other arguments as `basic_step`."""
    settings, rng = now["settings"], now["rng"]
    fakes, mixing = partners(gan, images, settings, rng)
    judged = penalised(gan.discriminator, settings.penalty_weight)  # line 7
    # Line 8
    clipped = clipped_sum(
        judged, images, fakes, mixing, rule=rule, microbatch_size=MICROBATCH_SIZE
    )
    noisy = noised_each(clipped.sums, noise_stds=settings.noise_stds(rule), rng=rng)
    means = [total / settings.expected_batch_size for total in noisy]
    return _updated(gan, clipped.parameters, means, clipped.losses, clipped.weights, **now)


def partners(
    gan: Gan, images: Tensor, settings: DpganSettings, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """A generated image for each real one, of its shape, and a place between the two, (batch,).

    As many are generated as a batch holds on average: batch normalisation mixes them, and their
    number must not tell the private batch's size. Each image of a Poisson batch draws one of them.
    """
    made, count = settings.expected_batch_size, len(images)
    with torch.no_grad():
        fakes = gan.generator_net(_latents(settings, rng))
    if not isinstance(settings.sampling, ShuffledBatches):
        fakes = fakes[torch.randint(made, (count,), generator=rng, device=rng.device)]
    return fakes[:count], torch.rand(count, generator=rng, device=rng.device)


def update_generator(
    gan: Gan, settings: DpganSettings, index: int, rng: torch.Generator
) -> Tensor | None:
    """After every `critic_steps`-th step, eq. 3: its loss reads the released critic alone."""
    if (index + 1) % settings.critic_steps or not settings.generator_trained:
        return None
    loss = -gan.discriminator(gan.generator_net(_latents(settings, rng))).mean()
    set_rate(
        gan.generator_optimizer,
        settings.generator_optimizer.rate(index // settings.critic_steps),
    )
    descend(gan.generator_optimizer, loss)
    return loss


def _latents(settings: DpganSettings, rng: torch.Generator) -> Tensor:
    return torch.randn(
        settings.expected_batch_size, settings.latent_size, generator=rng, device=rng.device
    )


def _updated(
    gan: Gan,
    parameters: Sequence[Tensor],
    means: Sequence[Tensor],
    losses: Tensor,
    weights: Tensor,
    **now: Unpack[StepInputs],
) -> Record:
    settings, index = now["settings"], now["index"]
    set_rate(gan.discriminator_optimizer, settings.critic_optimizer.rate(index))
    update(gan.discriminator_optimizer, parameters, means)
    return Record(
        step=index,
        batch_size=len(losses),
        discriminator_loss=losses.sum() / max(len(losses), 1),
        generator_loss=update_generator(gan, settings, index, now["rng"]),
        clipped=(weights < 1).any(0).float().mean().nan_to_num(),
    )
