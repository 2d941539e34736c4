"""Algorithm 1 of the paper and its baseline; the settings say whether published or repaired."""

from collections.abc import Callable
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

# Examples at a time: no Poisson batch is too large for the memory
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
    fakes, fake_labels = _fakes(gan, labels, settings, rng)
    judged = partial(per_example, gan.discriminator)
    real_of, fake_of = partial(judged, called_real), partial(judged, called_fake)
    own, made = (images, labels), (fakes.detach(), fake_labels)
    parts = {"microbatch_size": MICROBATCH_SIZE}
    # Lines 9-12
    real = clipped_sum(real_of, *own, rule=clipping.real, **parts)
    # Lines 13-15
    fake = clipped_sum(fake_of, *made, rule=clipping.fake, **parts)
    noisy = noised(real.sums, noise_std=settings.noise_std, rng=rng)
    means = [
        r / settings.expected_batch_size + f / settings.fakes
        for r, f in zip(noisy, fake.sums, strict=True)
    ]
    set_rate(gan.discriminator_optimizer, settings.discriminator_optimizer.rate(index))
    # Lines 16-18
    update(gan.discriminator_optimizer, real.parameters, means)
    # Lines 21-25
    generator_loss = _update_generator(gan, fakes, fake_labels, settings, index)
    return _record(index, real.weights, real.losses, fake.losses, generator_loss)


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
    fakes, fake_labels = _fakes(gan, labels, settings, rng)
    real, real_losses = _pass(gan.discriminator, images, labels, called_real)
    fake, fake_losses = _pass(gan.discriminator, fakes.detach(), fake_labels, called_fake)

    both = paired(real, fake)
    weights = clipping.rule.weights(both.norms())
    noisy = noised(both.weighted_sum(weights), noise_std=settings.noise_std, rng=rng)
    means = [total / settings.expected_batch_size for total in noisy]
    set_rate(gan.discriminator_optimizer, settings.discriminator_optimizer.rate(index))
    update(gan.discriminator_optimizer, both.parameters, means)
    generator_loss = _update_generator(gan, fakes, fake_labels, settings, index)
    return _record(index, weights, real_losses, fake_losses, generator_loss)


def generate(
    gan: Gan, labels: Tensor, *, settings: DpCganSettings, rng: torch.Generator
) -> Tensor:
    """Images of the given labels, shape (labels, pixels), in [0, 1]."""
    with torch.no_grad():
        return gan.averaged_net(_latents(len(labels), settings, rng), labels)


def _latents(count: int, settings: DpCganSettings, rng: torch.Generator) -> Tensor:
    # Uniform on [-1, 1]
    return 2 * torch.rand(count, settings.latent_size, generator=rng, device=rng.device) - 1


def _fakes(
    gan: Gan, labels: Tensor, settings: DpCganSettings, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """A batch of generated images, and the labels that they were asked for."""
    if settings.clipping.fakes_use_private_labels:
        fake_labels = labels
    else:  # a public distribution: the labels say nothing of the batch
        fake_labels = torch.randint(
            settings.classes, (settings.fakes,), generator=rng, device=rng.device
        )
    latents = _latents(len(fake_labels), settings, rng)
    return gan.generator_net(latents, fake_labels), fake_labels


def _pass(
    discriminator: nn.Module, images: Tensor, labels: Tensor, loss: Callable[[Tensor], Tensor]
) -> tuple[Gradients, Tensor]:
    """Per-example gradients and losses of one batch."""
    with capture(discriminator) as captured:
        losses = loss(discriminator(images, labels))
    return captured.gradients(losses), losses


def _update_generator(
    gan: Gan, fakes: Tensor, fake_labels: Tensor, settings: DpCganSettings, index: int
) -> Tensor | None:
    """The code's non-saturating step (the text prints log(1 - D)), on the batch's own fakes."""
    if (index + 1) % settings.discriminator_steps:
        return None
    loss = called_real(gan.discriminator(fakes, fake_labels)).mean()
    set_rate(gan.generator_optimizer, settings.generator_optimizer.rate(index))
    descend(gan.generator_optimizer, loss)
    decay = settings.generator_decay or 0.0
    average(gan.averaged_net, gan.generator_net, decay=decay, updates=index)
    return loss


def _record(
    index: int,
    weights: Tensor,
    real_losses: Tensor,
    fake_losses: Tensor,
    generator_loss: Tensor | None,
) -> Record:
    real_loss = real_losses.sum() / max(len(real_losses), 1)
    return Record(
        step=index,
        batch_size=len(real_losses),
        discriminator_loss=real_loss.double() + fake_losses.mean().double(),
        generator_loss=generator_loss,
        clipped=(weights < 1).float().mean().nan_to_num(),
    )
