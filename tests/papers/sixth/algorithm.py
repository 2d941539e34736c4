"""The made-up paper's two networks, and DP-SGD on one of them."""

from copy import deepcopy
from functools import partial

import torch
from dpkit.papers.sixth.settings import Settings
from torch import Tensor, nn

from dpkit.training import Gan, Record, clipped_sum, noised, per_example, update
from dpkit.training.networks import called_fake, called_real, mlp


def new_gan(settings: Settings, *, seed: int, device: torch.device) -> Gan:
    """A generator and a discriminator of one hidden layer each."""
    rng = torch.Generator().manual_seed(seed)
    critic = mlp((784, settings.hidden, 1), last=None, rng=rng).to(device)
    net = mlp((settings.latent_size, settings.hidden, 784), last=nn.Sigmoid(), rng=rng).to(device)
    build = settings.optimizer.build
    return Gan(net, deepcopy(net), critic, build(net.parameters()), build(critic.parameters()))


def step(
    gan: Gan,
    images: Tensor,
    labels: Tensor,
    *,
    settings: Settings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """Real and generated gradients clipped one by one, noise on the real ones' sum."""
    size = settings.sampling.expected_batch_size
    fakes = gan.generator_net(latents(size, settings, rng))
    gradients = partial(per_example, gan.discriminator)
    real = clipped_sum(partial(gradients, called_real), images, rule=settings.clipping)
    fake = clipped_sum(partial(gradients, called_fake), fakes.detach(), rule=settings.clipping)
    noise_std = settings.noise_multiplier * settings.clipping.sensitivity("add-remove")
    noisy = noised(real.sums, noise_std=noise_std, rng=rng)
    means = [(r + f) / size for r, f in zip(noisy, fake.sums, strict=True)]
    update(gan.discriminator_optimizer, real.parameters, means)
    loss = called_real(gan.discriminator(fakes)).mean()
    parameters = list(gan.generator_net.parameters())
    update(gan.generator_optimizer, parameters, torch.autograd.grad(loss, parameters))
    clipped = (real.weights < 1).float().mean().nan_to_num().item()
    return Record(index, len(images), fake.losses.mean().item(), loss.item(), clipped)


def latents(count: int, settings: Settings, rng: torch.Generator) -> Tensor:
    """Standard normal inputs of the generator."""
    return torch.randn(count, settings.latent_size, generator=rng, device=rng.device)
