"""The paper's two pairs of networks, the code's (fully connected) and the text's (convolutions);
Algorithm 1, a step for each reading of where its noise goes, and a repaired one.

Every step updates `gan` in place and returns its record. `index` counts discriminator steps; every
`discriminator_steps`-th also updates the generator. Noise is drawn even at scale 0, so a run with
noise and one without differ in nothing else; those of the loss value and the multiplicative form,
which draw one number a step, also share all other draws of one seed.
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
from dpkit.training.optimizers import average, set_rate, update
from dpkit.training.types import Gan, Record, Step

SLOPE = 0.2  # of the leaky ReLUs
TEMPERATURE = 0.5  # of the softened one-hot parts of a generated record (Jang et al. 2017)
MICROBATCH_SIZE = 4096  # examples at a time: no Poisson batch outgrows the memory


class IterationInputs(TypedDict):
    """One step of the discriminator."""

    settings: RdpGanSettings
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
    """Algorithm 1, lines 6-9 and 12, as in the code: noise on the value of the loss (eq. 8).

    Args:
        features: the private batch, shape (batch, features).
        labels: shape (batch,), int64; ignored where settings.classes is 0.
        now: settings (noise, networks, learning rates), index (number of this discriminator step,
            from 0), rng (latents and noise).
    """
    real, fake = _losses(gan, features, labels, **now)
    loss = real.mean() + fake.mean() + _noise((), **now)  # a constant: no gradient sees it
    return _published(gan, loss, (real, fake), **now)


def multiplicative_step(
    gan: Gan, features: Tensor, labels: Tensor, **now: Unpack[IterationInputs]
) -> Record:
    """The code's later form: loss + noise * loss / value of the loss. Arguments as above."""
    real, fake = _losses(gan, features, labels, **now)
    plain = real.mean() + fake.mean()
    # the gradient times (1 + noise / loss)
    loss = plain + _noise((), **now) * plain / plain.detach()
    return _published(gan, loss, (real, fake), **now)


def output_error_step(
    gan: Gan, features: Tensor, labels: Tensor, **now: Unpack[IterationInputs]
) -> Record:
    """Eq. 9 read literally: noise on each real example's output error. Arguments as above."""
    logits, fake_logits = _logits(gan, features, labels, **now)
    real, fake = called_real(logits), called_fake(fake_logits)
    noise = _noise(logits.shape, **now)
    # a term whose derivative at an example's logit is its noise: added to that example's error
    loss = real.mean() + fake.mean() + (noise * logits).sum() / max(len(features), 1)
    return _published(gan, loss, (real, fake), **now)


def parameter_noise_step(
    gan: Gan, features: Tensor, labels: Tensor, **now: Unpack[IterationInputs]
) -> Record:
    """The baseline of the figures, as in its code: gradient, noise on parameters, then the step."""
    at = now["settings"].noise
    assert isinstance(at, ParameterNoise)
    real, fake = _losses(gan, features, labels, **now)
    parameters = list(gan.discriminator.parameters())
    gradients = torch.autograd.grad(real.mean() + fake.mean(), parameters)
    with torch.no_grad():
        for parameter in parameters:
            parameter += _noise(parameter.shape, **now)
            parameter *= (at.norm / parameter.norm()).clamp(max=1.0)
    return _updated(gan, parameters, gradients, (real, fake), **now)


def repaired_step(
    gan: Gan, features: Tensor, labels: Tensor, **now: Unpack[IterationInputs]
) -> Record:
    """DP-SGD on the discriminator: real gradients clipped one by one, noised on every coordinate.

    Generated examples say nothing of a record that earlier releases did not; their gradients are
    clipped alike, so that neither side outweighs the other, and need no noise. Arguments as above;
    the batch may be empty.
    """
    settings, rng, noise = now["settings"], now["rng"], now["settings"].noise
    assert isinstance(noise, GradientNoise)
    fakes, fake_labels = _fakes(gan, settings, rng)
    sides = (called_real, features, labels), (called_fake, fakes.detach(), fake_labels)
    real, fake = (
        clipped_sum(
            partial(per_example, gan.discriminator, called),
            inputs,
            told,
            rule=noise.rule,
            microbatch_size=MICROBATCH_SIZE,
        )
        for called, inputs, told in sides
    )
    multiplier = noise.schedule(now["index"] // settings.discriminator_steps)
    noisy = noised(real.sums, noise_std=multiplier * noise.max_grad_norm, rng=rng)
    means = [
        (r + f) / settings.expected_batch_size for r, f in zip(noisy, fake.sums, strict=True)
    ]
    clipped = (real.weights < 1).float().mean().nan_to_num()
    losses = real.losses, fake.losses
    return _updated(gan, real.parameters, means, losses, clipped=clipped, **now)


def generate(
    gan: Gan, labels: Tensor, *, settings: RdpGanSettings, rng: torch.Generator
) -> Tensor:
    """Records of the released generator: images in [-1, 1], (labels, features).

    Or codes int64 (labels, parts) of table records, for which labels say only how many.
    """
    latents = torch.randn(len(labels), settings.latent_size, generator=rng, device=rng.device)
    with torch.no_grad():
        return drawn(gan.averaged_net(latents, labels), settings.parts, rng=rng)


def _fakes(gan: Gan, settings: RdpGanSettings, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """As many generated records as a batch has on average, labels drawn uniformly (public)."""
    count, device = settings.expected_batch_size, rng.device
    labels = torch.randint(max(settings.classes, 1), (count,), generator=rng, device=device)
    latents = torch.randn(count, settings.latent_size, generator=rng, device=device)
    outputs = gan.generator_net(latents, labels)
    return shaped(outputs, settings.parts, rng=rng), labels


def _logits(
    gan: Gan, features: Tensor, labels: Tensor, **now: Unpack[IterationInputs]
) -> tuple[Tensor, Tensor]:
    fakes, fake_labels = _fakes(gan, now["settings"], now["rng"])
    return gan.discriminator(features, labels), gan.discriminator(fakes.detach(), fake_labels)


def _losses(
    gan: Gan, features: Tensor, labels: Tensor, **now: Unpack[IterationInputs]
) -> tuple[Tensor, Tensor]:
    logits, fake_logits = _logits(gan, features, labels, **now)
    return called_real(logits), called_fake(fake_logits)


def _noise(
    shape: tuple[int, ...], *, settings: RdpGanSettings, index: int, rng: torch.Generator
) -> Tensor:
    std = settings.noise.schedule(index // settings.discriminator_steps)
    return std * torch.randn(shape, generator=rng, device=rng.device)


def _published(
    gan: Gan, loss: Tensor, losses: tuple[Tensor, Tensor], **now: Unpack[IterationInputs]
) -> Record:
    """The update along the gradient of `loss`: whatever was added to it, nothing is clipped."""
    parameters = list(gan.discriminator.parameters())
    return _updated(gan, parameters, torch.autograd.grad(loss, parameters), losses, **now)


def _updated(
    gan: Gan,
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    losses: tuple[Tensor, Tensor],
    *,
    settings: RdpGanSettings,
    index: int,
    rng: torch.Generator,
    clipped: float | Tensor = 0.0,
) -> Record:
    """The discriminator's update and, after every n_d-th, line 12: the generator's.

    The generator's loss is the non-saturating one of the code.
    """
    iteration, generator_loss = index // settings.discriminator_steps, None
    set_rate(gan.discriminator_optimizer, settings.discriminator_optimizer.rate(iteration))
    update(gan.discriminator_optimizer, parameters, gradients)
    if (index + 1) % settings.discriminator_steps == 0:
        generator_loss = called_real(gan.discriminator(*_fakes(gan, settings, rng))).mean()
        own = list(gan.generator_net.parameters())
        set_rate(gan.generator_optimizer, settings.generator_optimizer.rate(iteration))
        update(gan.generator_optimizer, own, torch.autograd.grad(generator_loss, own))
        decay = settings.generator_decay or 0.0
        average(gan.averaged_net, gan.generator_net, decay=decay, updates=iteration)
    real, fake = losses
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
            return Conditional(
                body,
                classes=settings.classes,
                label_scale=1.0 if settings.label_scale is None else settings.label_scale,
            )
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

    After Gumbel noise by rng, none for images. `parts` are the one-hot parts' sizes, which sum to
    features; empty for images.
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


def _side(features: int) -> int:
    return math.ceil(math.sqrt(features))


class Convolutions(nn.Module):
    """Three convolutions over the record as a square; its label as planes beside it."""

    piecewise_linear = True

    def __init__(self, settings: RdpGanSettings, width: int) -> None:
        super().__init__()
        self.side, self.classes = _side(settings.features), settings.classes
        self.label_scale = 1.0 if settings.label_scale is None else settings.label_scale
        kernel = 4 if self.side % 4 == 0 else 3
        last = -(-self.side // 4)
        self.body = nn.Sequential(
            nn.Conv2d(1 + self.classes, width, kernel, 2, 1),
            nn.LeakyReLU(SLOPE),
            nn.Conv2d(width, 2 * width, kernel, 2, 1),
            nn.LeakyReLU(SLOPE),
            nn.Conv2d(2 * width, 1, last),
            nn.Flatten(),
        )

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Args: inputs (batch, features), labels (batch,)."""
        padding = self.side**2 - inputs.shape[1]
        square = nn.functional.pad(inputs, (0, padding)).unflatten(
            1, (1, self.side, self.side)
        )
        classes = torch.arange(self.classes, device=labels.device)
        one_hot = self.label_scale * (labels.unsqueeze(1) == classes).to(inputs)
        planes = one_hot[:, :, None, None].expand(-1, -1, self.side, self.side)
        return self.body(torch.cat((square, planes), 1))


class Deconvolutions(nn.Module):
    """Three transposed convolutions from a vector to a square; `features` of its cells are used."""

    def __init__(self, settings: RdpGanSettings, wide: int, width: int) -> None:
        super().__init__()
        self.features = settings.features
        side = _side(self.features)
        kernel, self.side = 3 if side % 4 == 1 else 4, side
        self.body = nn.Sequential(
            nn.Unflatten(1, (wide, 1, 1)),
            nn.ConvTranspose2d(wide, 2 * width, -(-side // 4)),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, kernel, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 1, kernel, 2, 1),
        )

    def forward(self, latents: Tensor) -> Tensor:
        """Args: latents (batch, latent_size + classes)."""
        square = self.body(latents)[:, :, : self.side, : self.side]
        return square.flatten(1)[:, : self.features]
