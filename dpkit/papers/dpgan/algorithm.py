"""Algorithms 1 to 3: the critic's step in each form, the generator's, and the warm start.

A step is one update of the critic; after every `critic_steps`-th the generator is updated too. The
published snapshot has the generator's step commented out; here it runs unless
`settings.generator_trained` says otherwise.

The code clips g_i / B, where B is a device's batch, at c, and adds noise in that unit; here g_i is
clipped at B c, which is the same after the division that follows.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from dpkit.papers.dpgan import networks
from dpkit.papers.dpgan.clip_bounds import mean_norm_bounds
from dpkit.papers.dpgan.settings import Settings
from dpkit.privacy.clipping import GroupClipping, Unclipped
from dpkit.privacy.sampling import ShuffledBatches
from dpkit.privacy.wrong_clipping import TensorsClippedAtGroupBound
from dpkit.training import PerExample, clipped_sum, gradient_penalty
from dpkit.training.checkpoint import Checkpoints
from dpkit.training.device import seeded
from dpkit.training.loop import train
from dpkit.training.noise import noised_each
from dpkit.training.optimizers import set_rate, update
from dpkit.training.types import Data, Gan, Record, Step

AT_MOST = 512  # examples at a time, so that no Poisson batch is too large for the memory
LEAST_BOUND = 1e-6  # of a tensor whose public gradients vanish
Rule = GroupClipping | TensorsClippedAtGroupBound


def new_gan(settings: Settings, *, seed: int, device: torch.device) -> Gan:
    """Both networks, initialised as torch does by default; the generator is released as it is."""
    with seeded(seed):
        critic = networks.critic(settings).to(device)
        generator_net = networks.generator(settings).to(device)
    return Gan(
        generator_net,
        generator_net,
        critic,
        settings.generator_optimizer.build(generator_net.parameters()),
        settings.critic_optimizer.build(critic.parameters()),
    )


def plain_step(
    gan: Gan,
    images: Tensor,
    labels: Tensor,
    *,
    settings: Settings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """WGAN-GP without clipping or noise: the GAN of the tables, and the warm start.

    Args:
        gan: updated in place.
        images: the batch, (batch, channels, height, width), in [-1, 1].
        labels: not looked at.
        settings: networks, penalty, learning rates.
        index: number of this step of the critic, from 0.
        rng: latents and mixing.
    """
    fakes, mixing = _partners(gan, images, settings, rng)
    losses = critic_losses(gan.discriminator, images, fakes, mixing, weight=settings.penalty_weight)
    parameters = list(gan.discriminator.parameters())
    _update_critic(gan, parameters, torch.autograd.grad(losses.mean(), parameters), settings, index)
    return _record(gan, losses.detach(), torch.ones_like(losses)[None], settings, index, rng)


def basic_step(
    gan: Gan,
    images: Tensor,
    labels: Tensor,
    *,
    settings: Settings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """Algorithm 1, lines 4-11: gradients clipped by group at fixed bounds, noised, applied.

    Arguments as `plain_step`; the batch may be empty. settings.clipping is a GroupClipping.
    """
    return _private(gan, images, fixed_rule(settings), settings, index, rng)


def advanced_step(
    gan: Gan,
    images: Tensor,
    labels: Tensor,
    *,
    public: Tensor,
    settings: Settings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """Algorithm 3, lines 4-16: bounds, and by Algorithm 2 groups, from a batch of public examples.

    Arguments as `basic_step`, with settings.clipping a PublicBounds or PublicClusters.

    Args:
        public: all public examples, (examples, channels, height, width), in [-1, 1]: bounds and
            groups follow from them and from what was released before.
    """
    assert not isinstance(settings.clipping, GroupClipping | Unclipped)
    bounds = public_bounds(gan, public, settings=settings, rng=rng)
    return _private(gan, images, settings.clipping.rule(bounds), settings, index, rng)


def step_of(settings: Settings, public: Tensor) -> Step:
    """The step for the settings' clipping, bound to the public examples if it reads them."""
    if isinstance(settings.clipping, Unclipped):
        return plain_step
    if isinstance(settings.clipping, GroupClipping):
        return basic_step
    return partial(advanced_step, public=public)


def warm_settings(settings: Settings, *, examples: int) -> Settings:
    """The warm start as a separate run: no clipping, no noise, on this many public examples."""
    batch = min(settings.expected_batch_size, examples)
    return replace(
        settings,
        clipping=Unclipped(),
        noise_multiplier=0.0,
        noise_over_sqrt_batch=False,
        devices=1,
        moments=None,
        sampling=ShuffledBatches(batch),
        private_examples=examples,
        max_steps=settings.warm_start * settings.critic_steps,
    )


def warm_start(
    gan: Gan,
    public: Tensor,
    *,
    settings: Settings,
    rng: torch.Generator,
    checkpoint: Checkpoints | None = None,
) -> Iterator[Record]:
    """Algorithm 3, line 1: `settings.warm_start` iterations on the public examples alone."""
    labels = torch.zeros(len(public), dtype=torch.int64, device=public.device)
    data = Data(public, labels, len(public))
    warm = warm_settings(settings, examples=len(public))
    return train(plain_step, gan, data, settings=warm, rng=rng, checkpoint=checkpoint)


def generate(generator_net: nn.Module, codes: Tensor, *, at_most: int = 1_000) -> Tensor:
    """Images of a released generator, in evaluation mode: an image depends on its own code alone.

    Args:
        generator_net: left as it is.
        codes: (images, latent_size), standard normal.
        at_most: images at a time.

    Returns:
        (images, channels, height, width) in [-1, 1].
    """
    released = deepcopy(generator_net).eval() if generator_net.training else generator_net
    with torch.no_grad():
        return torch.cat([released(part) for part in codes.split(at_most)])


def critic_losses(
    critic: nn.Module, real: Tensor, fake: Tensor, mixing: Tensor, *, weight: float
) -> Tensor:
    """f(fake_i) - f(real_i) + weight (|grad f(x_i)| - 1)^2, x_i between the two: eq. 2.

    Returns:
        (batch,), with a graph to the critic's parameters.
    """
    points = torch.lerp(fake, real, mixing.view(-1, 1, 1, 1)).detach().requires_grad_()
    (slope,) = torch.autograd.grad(critic(points).sum(), points, create_graph=True)
    penalty = (slope.flatten(1).norm(dim=1) - 1).square()
    return critic(fake).squeeze(1) - critic(real).squeeze(1) + weight * penalty


def fixed_rule(settings: Settings) -> GroupClipping:
    """The rule of fixed bounds, on g_i: as published, each times the batch of one device."""
    rule = settings.clipping
    assert isinstance(rule, GroupClipping)
    if not settings.noise_over_sqrt_batch:
        return rule
    batch = settings.expected_batch_size // settings.devices
    return replace(rule, bounds=tuple(batch * bound for bound in rule.bounds))


def public_bounds(
    gan: Gan, public: Tensor, *, settings: Settings, rng: torch.Generator
) -> tuple[float, ...]:
    """A bound for each tensor: the mean norm of its gradient in a batch of public examples."""
    order = torch.randperm(len(public), generator=rng, device=rng.device)
    batch = public[order[: settings.expected_batch_size]]
    fakes, mixing = _partners(gan, batch, settings, rng)
    gradients, _ = _judged(gan, settings, batch, fakes, mixing)
    return mean_norm_bounds(gradients.norms(), least=LEAST_BOUND)


def _private(
    gan: Gan, images: Tensor, rule: Rule, settings: Settings, index: int, rng: torch.Generator
) -> Record:
    """Clip example by example, add up, noise once, divide by the batch's public size, update."""
    fakes, mixing = _partners(gan, images, settings, rng)
    judged = partial(_judged, gan, settings)
    clipped = clipped_sum(judged, images, fakes, mixing, rule=rule, at_most=AT_MOST)
    noisy = noised_each(clipped.sums, noise_stds=settings.noise_stds(rule), rng=rng)
    means = [total / settings.expected_batch_size for total in noisy]
    _update_critic(gan, clipped.parameters, means, settings, index)
    return _record(gan, clipped.losses, clipped.weights, settings, index, rng)


def _judged(
    gan: Gan, settings: Settings, real: Tensor, fake: Tensor, mixing: Tensor
) -> tuple[PerExample, Tensor]:
    return gradient_penalty.per_example(
        gan.discriminator, real, fake, mixing=mixing, weight=settings.penalty_weight
    )


def _partners(
    gan: Gan, images: Tensor, settings: Settings, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """For each real image a generated one, and where between the two its penalty is taken.

    However many images the batch holds, as many are generated as it holds on average: in the
    generator's batch normalisation they depend on one another, and would otherwise depend on the
    private batch's size. Each image of a Poisson batch then draws one of them.
    """
    made, count = settings.expected_batch_size, len(images)
    latents = torch.randn(made, settings.latent_size, generator=rng, device=rng.device)
    with torch.no_grad():
        fakes = gan.generator_net(latents)
    if not isinstance(settings.sampling, ShuffledBatches):
        fakes = fakes[torch.randint(made, (count,), generator=rng, device=rng.device)]
    mixing = torch.rand(count, generator=rng, device=rng.device)
    return fakes[:count], mixing


def _update_critic(
    gan: Gan,
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    settings: Settings,
    index: int,
) -> None:
    set_rate(gan.discriminator_optimizer, settings.critic_optimizer.rate(index))
    update(gan.discriminator_optimizer, parameters, gradients)


def _update_generator(
    gan: Gan, settings: Settings, index: int, rng: torch.Generator
) -> Tensor | None:
    """Eq. 3 after every `critic_steps`-th step of the critic: it sees only what was released."""
    if (index + 1) % settings.critic_steps or not settings.generator_trained:
        return None
    shape = (settings.expected_batch_size, settings.latent_size)
    latents = torch.randn(shape, generator=rng, device=rng.device)
    loss = -gan.discriminator(gan.generator_net(latents)).mean()
    parameters = list(gan.generator_net.parameters())
    set_rate(
        gan.generator_optimizer, settings.generator_optimizer.rate(index // settings.critic_steps)
    )
    update(gan.generator_optimizer, parameters, torch.autograd.grad(loss, parameters))
    return loss


def _record(
    gan: Gan, losses: Tensor, weights: Tensor, settings: Settings, index: int, rng: torch.Generator
) -> Record:
    generator_loss = _update_generator(gan, settings, index, rng)
    return Record(
        step=index,
        batch_size=len(losses),
        discriminator_loss=losses.sum() / max(len(losses), 1),
        generator_loss=generator_loss,
        clipped=(weights < 1).any(0).float().mean().nan_to_num(),
    )
