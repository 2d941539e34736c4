"""The paper's two pairs of networks, the code's (fully connected) and the text's (convolutions);
Algorithm 1, a step for each reading of where its noise goes, and a repaired one.

Every step updates `gan` in place and returns its record. Noise is drawn even at scale 0, so a run
with noise and one without differ in nothing else. Those of the loss value and the multiplicative
form draw one number a step, and share all other draws of one seed.
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import TypedDict, Unpack

import torch
from torch import Tensor, nn

from dpkit.papers.rdp_gan.settings import (
    Dcgan,
    GradientNoise,
    LossValueNoise,
    Mlp,
    MultiplicativeNoise,
    OutputErrorNoise,
    ParameterNoise,
    RdpGanSettings,
)
from dpkit.training import clipped_sum, per_example
from dpkit.training.device import seeded
from dpkit.training.networks import Conditional, called_fake, called_real
from dpkit.training.noise import noised
from dpkit.training.optimizers import average, descend, set_rate, update
from dpkit.training.types import Gan, Record, Step

SLOPE = 0.2  # of the leaky ReLUs
TEMPERATURE = 0.5  # of the softened one-hot parts of a generated record (Jang et al. 2017)
MICROBATCH_SIZE = 4096  # examples at a time: no Poisson batch outgrows the memory


class IterationInputs(TypedDict):
    """One step of the discriminator."""

    settings: RdpGanSettings  # noise, networks, learning rates
    index: int  # number of this step, from 0
    rng: torch.Generator  # latents and noise


def new_gan(settings: RdpGanSettings, *, seed: int, device: torch.device) -> Gan:
    """Both networks, initialised as torch does by default (as the code has it)."""
    with seeded(seed):
        judge = discriminator(settings).to(device)
        generator_net = generator(settings).to(device)
    return Gan(
        generator_net,
        deepcopy(generator_net),
        judge,
        settings.generator_optimizer.build(generator_net.parameters()),
        settings.discriminator_optimizer.build(judge.parameters()),
    )


def loss_value_step(
    gan: Gan, features: Tensor, labels: Tensor, **now: Unpack[IterationInputs]
) -> Record:
    """Algorithm 1, lines 6 to 12, as in the code: noise on the value of the loss (eq. 8).

    The noise is a constant: no gradient sees it.

    Args:
        features: the private batch, shape (batch, features).
        labels: shape (batch,), int64; ignored where settings.classes is 0.
        now: as in `IterationInputs`.
    """
    # lines 6 and 7
    real, fake = losses(gan, features, labels, **now)
    # line 9
    loss = real.mean() + fake.mean() + draw_noise((), **now)
    # lines 10 to 12
    return update_both(gan, gradients_of(gan, loss), (real, fake), **now)


def multiplicative_step(
    gan: Gan, features: Tensor, labels: Tensor, **now: Unpack[IterationInputs]
) -> Record:
    """The code's later form: loss + noise * loss / value of the loss. Arguments as above."""
    real, fake = losses(gan, features, labels, **now)
    plain = real.mean() + fake.mean()
    # the gradient times (1 + noise / loss)
    loss = plain + draw_noise((), **now) * plain / plain.detach()
    return update_both(gan, gradients_of(gan, loss), (real, fake), **now)


def output_error_step(
    gan: Gan, features: Tensor, labels: Tensor, **now: Unpack[IterationInputs]
) -> Record:
    """Eq. 9 read literally: noise on each real example's output error. Arguments as above."""
    made, told = fakes(gan, **now)
    logits = gan.discriminator(features, labels)
    real, fake = called_real(logits), called_fake(gan.discriminator(made.detach(), told))
    noise = draw_noise(logits.shape, **now)
    # a term whose derivative at an example's logit is its noise: added to that example's error
    loss = real.mean() + fake.mean() + (noise * logits).sum() / max(len(features), 1)
    return update_both(gan, gradients_of(gan, loss), (real, fake), **now)


def parameter_noise_step(
    gan: Gan, features: Tensor, labels: Tensor, **now: Unpack[IterationInputs]
) -> Record:
    """The baseline of the figures, as in its code: gradient, noise on parameters, then the step."""
    at = now["settings"].noise
    assert isinstance(at, ParameterNoise)
    real, fake = losses(gan, features, labels, **now)
    gradients = gradients_of(gan, real.mean() + fake.mean())
    with torch.no_grad():
        for parameter in gan.discriminator.parameters():
            parameter += draw_noise(parameter.shape, **now)
            parameter *= (at.norm / parameter.norm()).clamp(max=1.0)
    return update_both(gan, gradients, (real, fake), **now)


def repaired_step(
    gan: Gan, features: Tensor, labels: Tensor, **now: Unpack[IterationInputs]
) -> Record:
    """DP-SGD on the discriminator: real gradients clipped one by one, noised on every coordinate.

    Generated examples say nothing of a record that earlier releases did not; their gradients are
    clipped alike, so that neither side outweighs the other, and need no noise. Arguments as above;
    the batch may be empty.
    """
    settings, noise = now["settings"], now["settings"].noise
    assert isinstance(noise, GradientNoise)
    made, told = fakes(gan, **now)
    clip = partial(clipped_sum, rule=noise.rule, microbatch_size=MICROBATCH_SIZE)
    real = clip(partial(per_example, gan.discriminator, called_real), features, labels)
    fake = clip(partial(per_example, gan.discriminator, called_fake), made.detach(), told)
    multiplier = noise.schedule(now["index"] // settings.discriminator_steps)
    noisy = noised(real.sums, noise_std=multiplier * noise.max_grad_norm, rng=now["rng"])
    means = [
        (r + f) / settings.expected_batch_size for r, f in zip(noisy, fake.sums, strict=True)
    ]
    clipped = (real.weights < 1).float().mean().nan_to_num()
    return update_both(gan, means, (real.losses, fake.losses), clipped=clipped, **now)


def generate(
    gan: Gan, labels: Tensor, *, settings: RdpGanSettings, rng: torch.Generator
) -> Tensor:
    """Records of the released generator: images in [-1, 1], (labels, features).

    Or codes int64 (labels, parts) of table records, for which labels say only how many.
    """
    latents = torch.randn(len(labels), settings.latent_size, generator=rng, device=rng.device)
    with torch.no_grad():
        return drawn(gan.averaged_net(latents, labels), settings.parts, rng=rng)


def fakes(gan: Gan, **now: Unpack[IterationInputs]) -> tuple[Tensor, Tensor]:
    """As many records (count, features) as a batch has on average, and uniform public labels."""
    settings, rng = now["settings"], now["rng"]
    count, on = settings.expected_batch_size, {"generator": rng, "device": rng.device}
    labels = torch.randint(max(settings.classes, 1), (count,), **on)
    latents = torch.randn(count, settings.latent_size, **on)
    return shaped(gan.generator_net(latents, labels), settings.parts, rng=rng), labels


def losses(
    gan: Gan, features: Tensor, labels: Tensor, **now: Unpack[IterationInputs]
) -> tuple[Tensor, Tensor]:
    """The discriminator's losses (count,) on a batch and on generated records."""
    made, told = fakes(gan, **now)  # line 7
    real = called_real(gan.discriminator(features, labels))
    return real, called_fake(gan.discriminator(made.detach(), told))


def draw_noise(
    shape: tuple[int, ...], *, settings: RdpGanSettings, index: int, rng: torch.Generator
) -> Tensor:
    """Normal noise, of this iteration's standard deviation."""
    std = settings.noise.schedule(index // settings.discriminator_steps)
    return std * torch.randn(shape, generator=rng, device=rng.device)


def gradients_of(gan: Gan, loss: Tensor) -> Sequence[Tensor]:
    """Gradients of a loss, one for each tensor of the discriminator's weights."""
    return torch.autograd.grad(loss, list(gan.discriminator.parameters()))


def update_discriminator(
    gan: Gan, gradients: Sequence[Tensor], **now: Unpack[IterationInputs]
) -> None:
    """Line 10: a step of the discriminator's optimiser along these gradients."""
    settings, optimizer = now["settings"], gan.discriminator_optimizer
    iteration = now["index"] // settings.discriminator_steps
    set_rate(optimizer, settings.discriminator_optimizer.rate(iteration))
    update(optimizer, list(gan.discriminator.parameters()), gradients)


def update_generator(gan: Gan, **now: Unpack[IterationInputs]) -> Tensor:
    """Line 12: a step down the code's non-saturating loss, which is returned."""
    loss = called_real(gan.discriminator(*fakes(gan, **now))).mean()
    settings, optimizer = now["settings"], gan.generator_optimizer
    iteration = now["index"] // settings.discriminator_steps
    set_rate(optimizer, settings.generator_optimizer.rate(iteration))
    descend(optimizer, loss)
    decay = settings.generator_decay or 0.0
    average(gan.averaged_net, gan.generator_net, decay=decay, updates=iteration)
    return loss


def update_both(
    gan: Gan,
    gradients: Sequence[Tensor],
    seen: tuple[Tensor, Tensor],
    clipped: float | Tensor = 0.0,
    **now: Unpack[IterationInputs],
) -> Record:
    """Update the discriminator and, after every n_d-th time, the generator.

    `seen`: losses of real and generated records.
    """
    # line 10
    update_discriminator(gan, gradients, **now)
    # line 11
    ends = (now["index"] + 1) % now["settings"].discriminator_steps == 0
    real, fake = seen
    return Record(
        step=now["index"],
        batch_size=len(real),
        discriminator_loss=real.sum() / max(len(real), 1) + fake.mean(),
        # line 12
        generator_loss=update_generator(gan, **now) if ends else None,
        clipped=clipped,
    )


_STEPS: dict[type, Step] = {
    LossValueNoise: loss_value_step,
    MultiplicativeNoise: multiplicative_step,
    OutputErrorNoise: output_error_step,
    ParameterNoise: parameter_noise_step,
    GradientNoise: repaired_step,
}


def step_of(settings: RdpGanSettings) -> Step:
    """The step that puts the noise where `settings.noise` says."""
    return _STEPS[type(settings.noise)]


def discriminator(settings: RdpGanSettings) -> nn.Module:
    """A network of (inputs, labels) to logits, initialised by torch from its global state.

    The sigmoid of text and code is part of the loss.
    """
    match settings.network:
        case Mlp(hidden):
            body = nn.Sequential(
                nn.Linear(settings.features + settings.classes, hidden),
                nn.LeakyReLU(SLOPE),
                nn.Linear(hidden, hidden),
                nn.LeakyReLU(SLOPE),
                nn.Linear(hidden, 1),
            )
            scale = 1.0 if settings.label_scale is None else settings.label_scale
            return Conditional(body, classes=settings.classes, label_scale=scale)
        case Dcgan(width):
            return Convolutions(settings, width)


def generator(settings: RdpGanSettings) -> nn.Module:
    """A network of (latents, labels) to `features` numbers each, before `shaped`."""
    wide = settings.latent_size + settings.classes
    match settings.network:
        case Mlp(hidden):
            body: nn.Module = nn.Sequential(
                nn.Linear(wide, hidden),
                nn.ReLU(),
                nn.Linear(hidden, hidden),
                nn.ReLU(),
                nn.Linear(hidden, settings.features),
            )
        case Dcgan(width):
            body = Deconvolutions(settings, wide, width)
    return Conditional(body, classes=settings.classes)


def shaped(outputs: Tensor, parts: tuple[int, ...], *, rng: torch.Generator) -> Tensor:
    """A generator's outputs as records: tanh, or one-hot parts softened after Gumbel noise.

    `parts` are the one-hot parts' sizes, which sum to features; empty for images.
    """
    if not parts:
        return torch.tanh(outputs)
    logits = (outputs + _gumbel(outputs, rng)) / TEMPERATURE
    return torch.cat([part.softmax(1) for part in logits.split(parts, 1)], 1)


def drawn(outputs: Tensor, parts: tuple[int, ...], *, rng: torch.Generator) -> Tensor:
    """Records as released: images, or codes int64 (batch, parts) drawn from each softmax."""
    if not parts:
        return torch.tanh(outputs)
    logits = outputs + _gumbel(outputs, rng)
    return torch.stack([part.argmax(1) for part in logits.split(parts, 1)], 1)


def _gumbel(like: Tensor, rng: torch.Generator) -> Tensor:
    uniform = torch.rand(like.shape, generator=rng, device=like.device).clamp_(1e-20, 1 - 1e-7)
    return -torch.log(-torch.log(uniform))


class Convolutions(nn.Module):
    """Three convolutions over the record as a square; its label as planes beside it."""

    piecewise_linear = True

    def __init__(self, settings: RdpGanSettings, width: int) -> None:
        super().__init__()
        self.side = math.ceil(math.sqrt(settings.features))
        kernel = 4 if self.side % 4 == 0 else 3
        body = nn.Sequential(
            nn.Conv2d(1 + settings.classes, width, kernel, 2, 1),
            nn.LeakyReLU(SLOPE),
            nn.Conv2d(width, 2 * width, kernel, 2, 1),
            nn.LeakyReLU(SLOPE),
            nn.Conv2d(2 * width, 1, -(-self.side // 4)),
            nn.Flatten(),
        )
        scale = 1.0 if settings.label_scale is None else settings.label_scale
        self.body = Conditional(body, classes=settings.classes, label_scale=scale)

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Args: inputs (batch, features), labels (batch,)."""
        cells = nn.functional.pad(inputs, (0, self.side**2 - inputs.shape[1]))
        return self.body(cells.unflatten(1, (1, self.side, self.side)), labels)


class Deconvolutions(nn.Module):
    """Three transposed convolutions from a vector to a square; `features` of its cells are used."""

    def __init__(self, settings: RdpGanSettings, wide: int, width: int) -> None:
        super().__init__()
        self.features, self.side = settings.features, math.ceil(math.sqrt(settings.features))
        kernel = 3 if self.side % 4 == 1 else 4
        self.body = nn.Sequential(
            nn.Unflatten(1, (wide, 1, 1)),
            nn.ConvTranspose2d(wide, 2 * width, -(-self.side // 4)),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, kernel, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 1, kernel, 2, 1),
        )

    def forward(self, latents: Tensor) -> Tensor:
        """Args: latents (batch, latent_size + classes)."""
        square = self.body(latents)[:, :, : self.side, : self.side]
        return square.flatten(1)[:, : self.features]
