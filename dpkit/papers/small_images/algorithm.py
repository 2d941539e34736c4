"""Algorithm 2 of the paper: WGAN-GP whose critic is trained by DP-Adam, and the same without.

The critic and the generator are those of section 2.6.
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor

from dpkit.papers.small_images.settings import SmallImagesSettings
from dpkit.privacy.clipping import FlatClipping, Unclipped
from dpkit.private.release import penalised
from dpkit.training import (
    Gan,
    Record,
    Step,
    average,
    clipped_sum,
    noised,
    seeded,
    set_rate,
    update,
)
from dpkit.training.networks import doubling_generator, halving_critic
from dpkit.training.optimizers import descend

# Examples at a time: any Poisson batch fits
MICROBATCH_SIZE = 1024


def new_gan(settings: SmallImagesSettings, *, seed: int, device: torch.device) -> Gan:
    """Both networks, initialised by torch's defaults, as in the code.

    Convolutions have `capacity`, twice and four times as many filters. The generator's batch
    normalisation is as published: its examples are made of latents alone.

    `generator_net` stays in training mode between steps; `averaged_net`, which is released, in
    evaluation mode.
    """
    filters, shape = [settings.capacity * n for n in (1, 2, 4)], (1, *[settings.side] * 2)
    with seeded(seed):
        judge = halving_critic(shape, filters).to(device)
        generator_net = doubling_generator(settings.latent_size, filters[::-1], shape).to(
            device
        )
    return Gan(
        generator_net,
        deepcopy(generator_net).eval(),
        judge,
        settings.generator_optimizer.build(generator_net.parameters()),
        settings.critic_optimizer.build(judge.parameters()),
    )


def step(
    gan: Gan,
    features: Tensor,
    labels: Tensor,
    *,
    settings: SmallImagesSettings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """One iteration of Algorithm 2: a generator step where one is due, then a noised critic step.

    The i-th loss is D(fake_i) - D(real_i) + weight (|grad D(x_i)| - 1)^2 with x_i between the two.
    Its gradient over all of the critic's parameters is clipped, the sum noised once, and divided by
    `settings.divisor`.

    The private batch, images (batch, 1, side, side) in [-1, 1], may be empty; labels are
    ignored. The index counts critic steps; rng draws latents, places and noise.
    """
    assert isinstance(settings.clipping, FlatClipping)
    generator_loss = update_generator(gan, settings, index, rng)
    fakes, mixing = partners(gan, features, settings, rng)
    found = clipped_sum(  # Line 9
        penalised(gan.discriminator, settings.penalty_weight),
        features,
        fakes,
        mixing,
        rule=settings.clipping,
        microbatch_size=MICROBATCH_SIZE,
    )
    noisy = noised(found.sums, noise_std=settings.noise_std, rng=rng)  # Line 10
    update_critic(gan, found.parameters, noisy, settings, index, len(features))
    clipped = (found.weights < 1).float().mean().nan_to_num()
    return _record(index, found.losses, generator_loss, clipped)


def plain_step(
    gan: Gan,
    features: Tensor,
    labels: Tensor,
    *,
    settings: SmallImagesSettings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """WGAN-GP (Gulrajani et al. 2017): the same loss, unclipped. Arguments as `step`'s."""
    assert isinstance(settings.clipping, Unclipped)
    generator_loss = update_generator(gan, settings, index, rng)
    fakes, mixing = partners(gan, features, settings, rng)
    between = torch.lerp(fakes, features, mixing[:, None, None, None]).requires_grad_()
    critic, batch = gan.discriminator, len(features)
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty = (slope.flatten(1).norm(dim=1) - 1).square()
    of_fake, of_real = critic(torch.cat((fakes, features))).view(2, batch)
    losses = of_fake - of_real + settings.penalty_weight * penalty
    parameters = list(critic.parameters())
    sums = torch.autograd.grad(losses.sum(), parameters)
    update_critic(gan, parameters, sums, settings, index, batch)
    return _record(index, losses.detach(), generator_loss, 0.0)


def step_of(settings: SmallImagesSettings) -> Step:
    """The step for the settings' clipping, or for none."""
    return plain_step if isinstance(settings.clipping, Unclipped) else step


def generate(
    gan: Gan, count: int, *, settings: SmallImagesSettings, rng: torch.Generator
) -> Tensor:
    """`count` images of the released generator, (count, 1, side, side), in [-1, 1]."""
    with torch.no_grad():
        parts = [
            gan.averaged_net(_latents(min(MICROBATCH_SIZE, count - start), settings, rng))
            for start in range(0, count, MICROBATCH_SIZE)
        ]
    empty = torch.empty(0, 1, settings.side, settings.side, device=rng.device)
    return torch.cat([empty, *parts])


def watch(
    gan: Gan, features: Tensor, *, settings: SmallImagesSettings, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Losses and L2 norms of gradients, (images,) each, of real images beside generated ones.

    The critic is not updated. Both describe private data: do not release them.
    """
    fakes = generate(gan, len(features), settings=settings, rng=rng)
    mixing = torch.rand(len(features), generator=rng, device=rng.device)
    parts = zip(*(x.split(MICROBATCH_SIZE) for x in (features, fakes, mixing)), strict=True)
    judged = penalised(gan.discriminator, settings.penalty_weight)
    found = [judged(*part) for part in parts]
    norms = [gradients.norms().square().sum(0).sqrt() for gradients, _ in found]
    return torch.cat([losses for _, losses in found]), torch.cat(norms)


def _latents(count: int, settings: SmallImagesSettings, rng: torch.Generator) -> Tensor:
    return torch.randn(count, settings.latent_size, generator=rng, device=rng.device)


def partners(
    gan: Gan, features: Tensor, settings: SmallImagesSettings, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """A generated image for each real one, (batch, 1, side, side), and a place between the two.

    The generator is in evaluation mode, so none depends on how many are drawn with it.
    """
    gan.generator_net.eval()
    with torch.no_grad():
        fakes = gan.generator_net(_latents(len(features), settings, rng))
    gan.generator_net.train()
    return fakes, torch.rand(len(features), generator=rng, device=rng.device)


def update_generator(
    gan: Gan, settings: SmallImagesSettings, index: int, rng: torch.Generator
) -> Tensor | None:
    """Before each `critic_steps`-th critic step: the generator's loss is -D of what it makes."""
    if index % settings.critic_steps:
        return None
    fakes = gan.generator_net(_latents(settings.expected_batch_size, settings, rng))
    loss = -gan.discriminator(fakes).mean()
    set_rate(gan.generator_optimizer, settings.generator_optimizer.rate(index))
    descend(gan.generator_optimizer, loss)
    decay, updates = settings.generator_decay or 0.0, index // settings.critic_steps
    average(gan.averaged_net, gan.generator_net, decay=decay, updates=updates)
    return loss


def update_critic(
    gan: Gan,
    parameters: Sequence[Tensor],
    sums: Sequence[Tensor],
    settings: SmallImagesSettings,
    index: int,
    batch_size: int,
) -> None:
    """Move the critic along `sums` / `settings.divisor`, at the step's rate."""
    means = [total / max(settings.divisor(batch_size), 1) for total in sums]
    set_rate(gan.discriminator_optimizer, settings.critic_optimizer.rate(index))
    update(gan.discriminator_optimizer, parameters, means)


def _record(
    index: int, losses: Tensor, generator_loss: Tensor | None, clipped: float | Tensor
) -> Record:
    return Record(
        step=index,
        batch_size=len(losses),
        discriminator_loss=losses.sum() / max(len(losses), 1),
        generator_loss=generator_loss,
        clipped=clipped,
    )
