"""Algorithm 1 of the paper and its baseline; the settings say whether published or repaired."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, nn

from dpkit.papers.dp_cgan.settings import DpCganSettings
from dpkit.privacy.clipping import RealFakeApart, RealFakeSummed
from dpkit.training import (
    Conditional,
    Gan,
    Gradients,
    Record,
    average,
    called_fake,
    called_real,
    capture,
    clipped_sum,
    mlp,
    noised,
    paired,
    per_example,
    set_rate,
    update,
)
from dpkit.training.optimizers import descend

# Examples at a time: any Poisson batch fits
MICROBATCH_SIZE = 4096


def new_gan(settings: DpCganSettings, *, seed: int, device: torch.device) -> Gan:
    """The CGAN of Figure 1, initialised as in the code: weights N(0, 2 / fan_in), biases 0."""
    rng = torch.Generator().manual_seed(seed)
    classes, hidden = settings.classes, settings.hidden
    discriminator = mlp((settings.pixels + classes, hidden, 1), last=None, rng=rng)
    widths = (settings.latent_size + classes, hidden, settings.pixels)
    generator = mlp(widths, last=nn.Sigmoid(), rng=rng)
    generator_net = Conditional(generator, classes=classes).to(device)
    scale = settings.label_scale or 1.0
    critic = Conditional(discriminator, classes=classes, label_scale=scale).to(device)
    return Gan(
        generator_net,
        deepcopy(generator_net),
        critic,
        settings.generator_optimizer.build(generator_net.parameters()),
        settings.discriminator_optimizer.build(critic.parameters()),
    )


def step(
    gan: Gan,
    images: Tensor,
    labels: Tensor,
    *,
    settings: DpCganSettings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """One iteration of Algorithm 1: real and fake gradients clipped apart, added, noised, applied.

    The text's "perturbed per-example gradients" (lines 16-17) can also be read as noise on each
    example; here it is added once, to the sum, as in the code.

    The private batch, images (batch, pixels) in [0, 1] and labels, may be empty; rng draws latents,
    public labels and noise.
    """
    clipping = settings.clipping
    assert isinstance(clipping, RealFakeApart)
    parts = {"microbatch_size": MICROBATCH_SIZE}
    made, made_labels = fakes(gan, labels, settings, rng)  # Line 6
    # Lines 9-12
    of_real = partial(per_example, gan.discriminator, called_real)
    real = clipped_sum(of_real, images, labels, rule=clipping.real, **parts)
    # Lines 13-15
    of_fake = partial(per_example, gan.discriminator, called_fake)
    fake = clipped_sum(of_fake, made.detach(), made_labels, rule=clipping.fake, **parts)
    noisy = noised(real.sums, noise_std=settings.noise_std, rng=rng)  # Lines 16, 17
    means = [
        r / settings.expected_batch_size + f / settings.fakes
        for r, f in zip(noisy, fake.sums, strict=True)
    ]
    update_critic(gan, real.parameters, means, settings, index)  # Line 18
    generator_loss = update_generator(gan, made, made_labels, settings, index)  # Lines 21-25
    return _record(index, real.weights, (real.losses, fake.losses), generator_loss)


def basic_step(
    gan: Gan,
    images: Tensor,
    labels: Tensor,
    *,
    settings: DpCganSettings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """The baseline "basic DP": the i-th real and fake gradient added, then clipped and noised."""
    clipping = settings.clipping
    assert isinstance(clipping, RealFakeSummed)
    made, made_labels = fakes(gan, labels, settings, rng)
    real, real_losses = _pass(gan.discriminator, images, labels, called_real)
    fake, fake_losses = _pass(gan.discriminator, made.detach(), made_labels, called_fake)

    both = paired(real, fake)
    weights = clipping.rule.weights(both.norms())
    noisy = noised(both.weighted_sum(weights), noise_std=settings.noise_std, rng=rng)
    means = [total / settings.expected_batch_size for total in noisy]
    update_critic(gan, both.parameters, means, settings, index)
    generator_loss = update_generator(gan, made, made_labels, settings, index)
    return _record(index, weights, (real_losses, fake_losses), generator_loss)


def generate(
    gan: Gan, labels: Tensor, *, settings: DpCganSettings, rng: torch.Generator
) -> Tensor:
    """Images of the given labels, shape (labels, pixels), in [0, 1]."""
    with torch.no_grad():
        return gan.averaged_net(_latents(len(labels), settings, rng), labels)


def _latents(count: int, settings: DpCganSettings, rng: torch.Generator) -> Tensor:
    # Uniform on [-1, 1]
    return 2 * torch.rand(count, settings.latent_size, generator=rng, device=rng.device) - 1


def fakes(
    gan: Gan, labels: Tensor, settings: DpCganSettings, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Generated images (fakes, pixels), in [0, 1], and the labels asked for."""
    if not settings.clipping.fakes_use_private_labels:
        # A public distribution: the labels say nothing of the batch
        labels = torch.randint(
            settings.classes, (settings.fakes,), generator=rng, device=rng.device
        )
    return gan.generator_net(_latents(len(labels), settings, rng), labels), labels


def _pass(
    discriminator: nn.Module, images: Tensor, labels: Tensor, loss: Callable[[Tensor], Tensor]
) -> tuple[Gradients, Tensor]:
    """Per-example gradients and losses of one batch."""
    with capture(discriminator) as captured:
        losses = loss(discriminator(images, labels))
    return captured.gradients(losses), losses


def update_critic(
    gan: Gan,
    parameters: Sequence[Tensor],
    means: Sequence[Tensor],
    settings: DpCganSettings,
    index: int,
) -> None:
    """Move the discriminator along noised `means`, at the step's rate."""
    set_rate(gan.discriminator_optimizer, settings.discriminator_optimizer.rate(index))
    update(gan.discriminator_optimizer, parameters, means)


def update_generator(
    gan: Gan, made: Tensor, made_labels: Tensor, settings: DpCganSettings, index: int
) -> Tensor | None:
    """The code's non-saturating step (the text prints log(1 - D)), on the fakes `made`."""
    if (index + 1) % settings.discriminator_steps:
        return None
    loss = called_real(gan.discriminator(made, made_labels)).mean()
    set_rate(gan.generator_optimizer, settings.generator_optimizer.rate(index))
    descend(gan.generator_optimizer, loss)
    decay = settings.generator_decay or 0.0
    average(gan.averaged_net, gan.generator_net, decay=decay, updates=index)
    return loss


def _record(
    index: int, weights: Tensor, losses: tuple[Tensor, Tensor], generator_loss: Tensor | None
) -> Record:
    real, fake = losses
    return Record(
        step=index,
        batch_size=len(real),
        discriminator_loss=(real.sum() / max(len(real), 1)).double() + fake.mean().double(),
        generator_loss=generator_loss,
        clipped=(weights < 1).float().mean().nan_to_num(),
    )
