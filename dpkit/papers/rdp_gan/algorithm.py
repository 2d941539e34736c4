"""Algorithm 1 of the paper, a step for each reading of where its noise goes, and a repaired one.

Every step has one form: it updates `gan` in place and returns what it saw. `index` counts
discriminator steps; every `discriminator_steps`-th also updates the generator. Noise is drawn even
where its scale is 0, so that a run with noise and one without differ in nothing else; those of the
loss value and the multiplicative form, which draw one number a step, also share all else that is
drawn with one seed.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor

from dpkit.papers.rdp_gan import networks
from dpkit.papers.rdp_gan.settings import (
    GradientNoise,
    LossValueNoise,
    MultiplicativeNoise,
    OutputErrorNoise,
    ParameterNoise,
    Settings,
)
from dpkit.training import clipped_sum, per_example
from dpkit.training.device import seeded
from dpkit.training.networks import called_fake, called_real
from dpkit.training.noise import noised
from dpkit.training.optimizers import average, set_rate, update
from dpkit.training.types import Gan, Record, Step

AT_MOST = 4096  # examples at a time, so that no Poisson batch is too large for the memory


def new_gan(settings: Settings, *, seed: int, device: torch.device) -> Gan:
    """Both networks, initialised as torch does by default (as the code has it)."""
    with seeded(seed):
        discriminator = networks.discriminator(settings).to(device)
        generator_net = networks.generator(settings).to(device)
    return Gan(
        generator_net,
        deepcopy(generator_net),
        discriminator,
        settings.generator_optimizer.build(generator_net.parameters()),
        settings.discriminator_optimizer.build(discriminator.parameters()),
    )


def loss_value_step(
    gan: Gan,
    features: Tensor,
    labels: Tensor,
    *,
    settings: Settings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """Algorithm 1, lines 6-9 and 12, as in the code: noise on the value of the loss (eq. 8).

    Args:
        gan: updated in place.
        features: the private batch, shape (batch, features).
        labels: shape (batch,), int64; not looked at where settings.classes is 0.
        settings: noise, networks, learning rates.
        index: number of this discriminator step, from 0.
        rng: latents and noise.
    """
    real, fake = _losses(gan, features, labels, settings, rng)
    std = settings.noise.schedule(index // settings.discriminator_steps)
    noise = std * torch.randn((), generator=rng, device=rng.device)
    loss = real.mean() + fake.mean() + noise  # a constant is added: no gradient sees it
    return _published(gan, loss, (real, fake), settings, index, rng)


def multiplicative_step(
    gan: Gan,
    features: Tensor,
    labels: Tensor,
    *,
    settings: Settings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """The code's later form: loss + noise * loss / value of the loss. Arguments as above."""
    real, fake = _losses(gan, features, labels, settings, rng)
    std = settings.noise.schedule(index // settings.discriminator_steps)
    noise = std * torch.randn((), generator=rng, device=rng.device)
    loss = real.mean() + fake.mean()
    loss = loss + noise * loss / loss.detach()  # the gradient times (1 + noise / loss)
    return _published(gan, loss, (real, fake), settings, index, rng)


def output_error_step(
    gan: Gan,
    features: Tensor,
    labels: Tensor,
    *,
    settings: Settings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """Eq. 9 read literally: noise on each real example's output error. Arguments as above."""
    std = settings.noise.schedule(index // settings.discriminator_steps)
    logits, fake_logits = _logits(gan, features, labels, settings, rng)
    real, fake = called_real(logits), called_fake(fake_logits)
    noise = std * torch.randn(logits.shape, generator=rng, device=rng.device)
    # a term whose derivative at an example's logit is its noise: added to that example's error
    loss = real.mean() + fake.mean() + (noise * logits).sum() / max(len(features), 1)
    return _published(gan, loss, (real, fake), settings, index, rng)


def parameter_noise_step(
    gan: Gan,
    features: Tensor,
    labels: Tensor,
    *,
    settings: Settings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """The baseline of the figures, as in its code: gradient, noise on parameters, then the step."""
    assert isinstance(settings.noise, ParameterNoise)
    real, fake = _losses(gan, features, labels, settings, rng)
    parameters = list(gan.discriminator.parameters())
    gradients = torch.autograd.grad(real.mean() + fake.mean(), parameters)
    std = settings.noise.schedule(index // settings.discriminator_steps)
    with torch.no_grad():
        for parameter in parameters:
            parameter += std * torch.randn(parameter.shape, generator=rng, device=rng.device)
            parameter *= (settings.noise.norm / parameter.norm()).clamp(max=1.0)
    _update_discriminator(gan, parameters, gradients, settings, index)
    return _record(gan, (real, fake), settings, index, rng, clipped=0.0)


def repaired_step(
    gan: Gan,
    features: Tensor,
    labels: Tensor,
    *,
    settings: Settings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """DP-SGD on the discriminator: real gradients clipped one by one, noised on every coordinate.

    Generated examples say nothing of a record that earlier releases did not; their gradients are
    clipped alike, so that neither side outweighs the other, and need no noise. Arguments as above;
    the batch may be empty.
    """
    assert isinstance(settings.noise, GradientNoise)
    rule = settings.noise.rule
    fakes, fake_labels = _fakes(gan, settings, rng)
    judged = partial(per_example, gan.discriminator)
    real = clipped_sum(partial(judged, called_real), features, labels, rule=rule, at_most=AT_MOST)
    fake = clipped_sum(
        partial(judged, called_fake), fakes.detach(), fake_labels, rule=rule, at_most=AT_MOST
    )
    multiplier = settings.noise.schedule(index // settings.discriminator_steps)
    noisy = noised(real.sums, noise_std=multiplier * settings.noise.max_grad_norm, rng=rng)
    means = [(r + f) / settings.expected_batch_size for r, f in zip(noisy, fake.sums, strict=True)]
    _update_discriminator(gan, real.parameters, means, settings, index)
    clipped = (real.weights < 1).float().mean().nan_to_num()
    return _record(gan, (real.losses, fake.losses), settings, index, rng, clipped=clipped)


def generate(gan: Gan, labels: Tensor, *, settings: Settings, rng: torch.Generator) -> Tensor:
    """Records of the released generator.

    Returns:
        images in [-1, 1], (labels, features); or codes int64 (labels, parts) of table records,
        for which labels say only how many are wanted.
    """
    latents = torch.randn(len(labels), settings.latent_size, generator=rng, device=rng.device)
    with torch.no_grad():
        outputs = gan.averaged_net(latents, labels)
        return networks.drawn(outputs, settings.parts, rng=rng)


def _fakes(gan: Gan, settings: Settings, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """As many generated records as a batch has on average, labels drawn uniformly (public)."""
    count, device = settings.expected_batch_size, rng.device
    labels = torch.randint(max(settings.classes, 1), (count,), generator=rng, device=device)
    latents = torch.randn(count, settings.latent_size, generator=rng, device=device)
    outputs = gan.generator_net(latents, labels)
    return networks.shaped(outputs, settings.parts, rng=rng), labels


def _logits(
    gan: Gan, features: Tensor, labels: Tensor, settings: Settings, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    fakes, fake_labels = _fakes(gan, settings, rng)
    return gan.discriminator(features, labels), gan.discriminator(fakes.detach(), fake_labels)


def _losses(
    gan: Gan, features: Tensor, labels: Tensor, settings: Settings, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    logits, fake_logits = _logits(gan, features, labels, settings, rng)
    return called_real(logits), called_fake(fake_logits)


def _published(
    gan: Gan,
    loss: Tensor,
    losses: tuple[Tensor, Tensor],
    settings: Settings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """The update along the gradient of `loss`: whatever was added to it, nothing is clipped."""
    parameters = list(gan.discriminator.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    _update_discriminator(gan, parameters, gradients, settings, index)
    return _record(gan, losses, settings, index, rng, clipped=0.0)


def _update_discriminator(
    gan: Gan,
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    settings: Settings,
    index: int,
) -> None:
    rate = settings.discriminator_optimizer.rate(index // settings.discriminator_steps)
    set_rate(gan.discriminator_optimizer, rate)
    update(gan.discriminator_optimizer, parameters, gradients)


def _update_generator(
    gan: Gan, settings: Settings, index: int, rng: torch.Generator
) -> Tensor | None:
    """Line 12, after every n_d-th discriminator step: the non-saturating loss of the code."""
    if (index + 1) % settings.discriminator_steps:
        return None
    iteration = index // settings.discriminator_steps
    loss = called_real(gan.discriminator(*_fakes(gan, settings, rng))).mean()
    parameters = list(gan.generator_net.parameters())
    set_rate(gan.generator_optimizer, settings.generator_optimizer.rate(iteration))
    update(gan.generator_optimizer, parameters, torch.autograd.grad(loss, parameters))
    decay = settings.generator_decay or 0.0
    average(gan.averaged_net, gan.generator_net, decay=decay, updates=iteration)
    return loss


def _record(
    gan: Gan,
    losses: tuple[Tensor, Tensor],
    settings: Settings,
    index: int,
    rng: torch.Generator,
    *,
    clipped: float | Tensor,
) -> Record:
    real, fake = losses
    generator_loss = _update_generator(gan, settings, index, rng)
    return Record(
        step=index,
        batch_size=len(real),
        discriminator_loss=real.sum() / max(len(real), 1) + fake.mean(),
        generator_loss=generator_loss,
        clipped=clipped,
    )


_STEPS: dict[type, Step] = {
    LossValueNoise: loss_value_step,
    MultiplicativeNoise: multiplicative_step,
    OutputErrorNoise: output_error_step,
    ParameterNoise: parameter_noise_step,
    GradientNoise: repaired_step,
}


def step_of(settings: Settings) -> Step:
    """The step that puts the noise where `settings.noise` says."""
    return _STEPS[type(settings.noise)]
