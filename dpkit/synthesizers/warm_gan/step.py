"""A warm GAN's networks and step: one release of the critic, now and then a generator's.

The generator starts as the class moments' sampler.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache, partial, reduce
from math import prod

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, pad
from torch.nn.utils.rnn import pad_sequence

from dpkit.private.gan_step import CRITIC_LOSSES, moved, normal, scores
from dpkit.private.release import PerExampleOf, released
from dpkit.synthesizers.class_moments import MomentsModel
from dpkit.synthesizers.records import checked_labels
from dpkit.synthesizers.warm_gan.settings import WarmGanSettings
from dpkit.training import Gradients, paired, per_example, seeded
from dpkit.training.gradients.ghost_clipping import PerExample
from dpkit.training.networks import Conditional, halvings
from dpkit.training.types import Gan, Record

AT_ONCE = 4096  # images generated together
Loss = Callable[[Tensor], Tensor]


def new_gan(
    settings: WarmGanSettings, model: MomentsModel, *, seed: int, device: torch.device
) -> Gan:
    """The moments' sampler as generator, and a critic with weights by the seed."""
    with seeded(seed):
        generator, critic = WarmGenerator(model, settings), new_critic(settings)
    generator, critic = generator.to(device), critic.to(device)
    return Gan(
        generator,
        deepcopy(generator),
        critic,
        settings.generator_optimizer.build(generator.parameters()),
        settings.critic_optimizer.build(critic.parameters()),
    )


def step(
    gan: Gan,
    images: Tensor,
    labels: Tensor,
    *,
    settings: WarmGanSettings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """A noised critic step on the private batch; after every n_critic-th one of the generator.

    The generator's labels are drawn uniformly: it reads the critic alone, which is released.
    Arguments as `private.gan_step.step`; images (batch, channels, height, width) in [0, 1].
    """
    copies = settings.copies
    copied, again = (x.repeat_interleave(copies, 0) for x in (images, labels))
    with torch.no_grad():
        fakes = gan.generator_net(latents(gan.averaged_net, len(again), rng), again)
    pairs = [
        shifted(x, settings.shift, rng=rng).unflatten(0, (len(images), copies))
        for x in (copied, fakes)
    ]
    of = averaged(gan.discriminator, settings.loss, settings.copies)
    found = released(of, *pairs, labels, plan=settings.plan, rng=rng)
    return moved(
        gan,
        found,
        partial(_answers, gan, settings, rng),
        batch_size=len(images),
        settings=settings,
        index=index,
    )


def averaged(critic: nn.Module, loss: str, copies: int) -> PerExampleOf:
    """Per-example gradients of the mean over copies of real_loss + fake_loss.

    Of reals and fakes (batch, copies, channels, height, width) and labels (batch,). All of an
    example's passes are one gradient, which is clipped as a whole: copies cost nothing (De et al.
    2022, section 3.2).

    Args:
        critic: of layers whose gradients are products, as `new_critic`'s are.
    """
    losses = _shares(loss, copies)

    def of(reals: Tensor, fakes: Tensor, labels: Tensor) -> tuple[PerExample, Tensor]:
        passes = [
            per_example(critic, own, images[:, copy], labels)
            for copy in range(copies)
            for own, images in zip(losses, (reals, fakes), strict=True)
        ]
        gradients = [one for one, _ in passes if isinstance(one, Gradients)]
        if len(gradients) < len(passes):  # no rows: nothing to add up
            return passes[0]
        return reduce(paired, gradients), torch.stack([values for _, values in passes]).sum(0)

    return of


@lru_cache  # one function each, whose checks are remembered
def _shares(loss: str, copies: int) -> tuple[Loss, Loss]:
    real, fake = CRITIC_LOSSES[loss]
    return (lambda output: real(output) / copies), (lambda output: fake(output) / copies)


def shifted(images: Tensor, most: int, *, rng: torch.Generator) -> Tensor:
    """Each image moved by its own whole pixels, at most `most` each way, zeros moved in.

    Args:
        images: (batch, channels, height, width).
    """
    if not most:
        return images
    count, _, height, width = images.shape
    moves = torch.randint(2 * most + 1, (2, count, 1), generator=rng, device=rng.device)
    rows = moves[0] + torch.arange(height, device=rng.device)
    columns = moves[1] + torch.arange(width, device=rng.device)
    each = torch.arange(count, device=rng.device)
    wide = pad(images, (most, most, most, most)).movedim(1, -1)
    return wide[each[:, None, None], rows[:, :, None], columns[:, None, :]].movedim(-1, 1)


def _answers(gan: Gan, settings: WarmGanSettings, rng: torch.Generator) -> Tensor:
    count = settings.generator_batch
    labels = torch.randint(settings.classes, (count,), generator=rng, device=rng.device)
    fakes = gan.generator_net(latents(gan.averaged_net, count, rng), labels)
    return scores(gan.discriminator(shifted(fakes, settings.shift, rng=rng), labels))


def latents(net: nn.Module, count: int, rng: torch.Generator) -> Tensor:
    """Normal latents of a `WarmGenerator`, (count, latent_size)."""
    assert isinstance(net, WarmGenerator)
    return normal(count, (net.latent_size,), like=net.means, rng=rng)


def generate_from(
    net: nn.Module, labels: ArrayLike, *, classes: int, rng: torch.Generator
) -> NDArray[np.float32]:
    """An image of each label by a `WarmGenerator`, (labels, channels, height, width) in [0, 1]."""
    wanted = torch.as_tensor(checked_labels(labels, classes=classes)).to(rng.device)
    with torch.no_grad():
        parts = [net(latents(net, len(part), rng), part) for part in wanted.split(AT_ONCE)]
    return torch.cat(parts).cpu().numpy()


SLOPE, OUTSIDE = 0.2, 0.1  # of LeakyReLU; of the gradient of a pixel that was cut off


class Fixed(nn.Module):
    """A product with a public matrix, which nothing trains."""

    matrix: Tensor  # (features in, features out)

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix.contiguous())

    def forward(self, inputs: Tensor) -> Tensor:
        """Args: inputs (batch, features in)."""
        return inputs @ self.matrix


class WarmGenerator(nn.Module):
    """A Gaussian image of the label's moments, plus a correction that is 0 at first, cut to [0, 1].

    The correction is made of the cosines that the moments are measured in: free pixels would take
    the noise of the critic's gradient for detail.
    Its latent is standard normal: one number that picks the component, those of the component's
    directions, and those that only the correction sees.
    """

    means: Tensor  # (classes, components, pixels)
    factors: Tensor  # (classes, components, directions, pixels), 0 where a component has fewer
    edges: Tensor  # (classes, components) cumulative chances

    def __init__(self, model: MomentsModel, settings: WarmGanSettings) -> None:
        super().__init__()
        own = [one for parts in model.components for one in parts]
        size = (settings.classes, -1)
        means = torch.as_tensor(np.stack([one.mean for one in own])).float()
        factors = pad_sequence([torch.as_tensor(one.factors.T) for one in own], True).float()
        counts = torch.tensor([one.count for one in own]).unflatten(0, size)
        directions, pixels = factors.shape[1:]
        self.register_buffer("means", means.unflatten(0, size))
        self.register_buffer("factors", factors.unflatten(0, size))
        self.register_buffer("edges", (counts / counts.sum(1, keepdim=True)).cumsum(1).float())
        self.shape = settings.moments.shape
        self.latent_size = 1 + directions + settings.latent_size
        seen = pixels + settings.latent_size
        body = nn.Sequential(
            nn.Linear(seen + settings.classes, settings.hidden),
            nn.LeakyReLU(SLOPE),
            nn.Linear(settings.hidden, settings.moments.features),
            Fixed(_basis(settings)),
        )
        for parameter in body[2].parameters():
            nn.init.zeros_(parameter)
        self.correction = Conditional(body, classes=settings.classes)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """Args: z (batch, latent_size), labels (batch,) int64."""
        start, rest = self.start(z, labels)
        images = start + self.correction(torch.cat((start, rest), 1), labels)
        inside = images.clamp(0, 1)
        little = OUTSIDE * (images - inside)  # of the gradient passes outside of [0, 1]
        return (inside + (little - little.detach())).unflatten(1, self.shape)

    def start(self, z: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The moments' images (batch, pixels), not cut off yet, and the latents' rest."""
        directions = self.factors.shape[2]
        chance = torch.special.ndtr(z[:, :1])
        which = (chance > self.edges[labels]).sum(1).clamp(max=self.edges.shape[1] - 1)
        group = labels * self.edges.shape[1] + which
        images, seen = self.means.flatten(0, 1)[group], z[:, 1 : 1 + directions]
        factors = self.factors.flatten(0, 1)
        if z.device.type != "cpu":  # it would wait for the groups' sizes
            own = group[:, None] * directions + torch.arange(directions, device=z.device)
            images += embedding_bag(
                own, factors.flatten(0, 1), mode="sum", per_sample_weights=seen.contiguous()
            )
        else:
            order = group.argsort(stable=True)
            sizes = group.bincount(minlength=len(factors)).tolist()
            for rows, own in zip(order.split(sizes), factors, strict=True):
                images[rows] += seen[rows] @ own
        return images, z[:, 1 + directions :]


def _basis(settings: WarmGanSettings) -> Tensor:
    """The moments' orthonormal cosines, (features, pixels); all pixels where they have none."""
    basis = settings.moments.basis
    if basis is None:
        return torch.eye(prod(settings.moments.shape))
    return torch.tensor(basis).float()


def new_critic(settings: WarmGanSettings) -> nn.Module:
    """Two linear layers: of the moments' cosines, or of convolutions where there are `filters`."""
    if settings.filters:  # as the critic of Bie, Kamath, Zhang 2023, but for labels
        channels, *sides = settings.moments.shape
        layers, numbers = halvings((channels + settings.classes, *sides), settings.filters)
        body = nn.Sequential(*layers, _head(numbers, settings.features))
        return Conditional(body, classes=settings.classes)
    head = _head(settings.moments.features + settings.classes, settings.features)
    return _OfCosines(_basis(settings).T, Conditional(head, classes=settings.classes))


class _OfCosines(nn.Module):
    def __init__(self, matrix: Tensor, body: nn.Module) -> None:
        super().__init__()
        self.cosines, self.body = nn.Sequential(nn.Flatten(), Fixed(matrix)), body

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return self.body(self.cosines(images), labels)


def _head(inputs: int, features: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, features), nn.LeakyReLU(SLOPE), nn.Linear(features, 1)
    )
