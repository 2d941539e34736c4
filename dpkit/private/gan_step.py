"""The step of a private GAN: one release a critic step, all else beside the data."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import relu, softplus

from dpkit.private.networks import check_logits, hold
from dpkit.private.plan import GanSettings, PlannedGan
from dpkit.private.release import PerExampleOf, Released, penalised, released, two_sided
from dpkit.training import Gan, Record, average, called_fake, called_real, update
from dpkit.training.device import draws_put_back


def new_gan(generator: nn.Module, critic: nn.Module, settings: GanSettings) -> Gan:
    """The two networks, changed in place, with optimisers and the generator's average."""
    return Gan(
        generator.train(),
        deepcopy(generator).eval(),
        hold(critic.train()),
        settings.generator_optimizer.build(generator.parameters()),
        settings.critic_optimizer.build(critic.parameters()),
    )


def step(
    gan: Gan,
    features: Tensor,
    labels: Tensor,
    *,
    settings: GanSettings,
    index: int,
    rng: torch.Generator,
) -> Record:
    """A noised critic step on the private batch; after every n_critic-th one of the generator.

    Each fake is made by itself, in evaluation mode, of a latent and its real example's label, if
    there are classes. The generator's step draws labels uniformly and reads the released critic
    alone: it costs nothing.

    Args:
        gan: updated in place.
        features: the private batch (batch, ...), perhaps empty.
        labels: (batch,).
        settings: clipping, noise and the rest.
        index: of the step, from 0.
        rng: latents, labels of fakes, and noise.
    """
    conditions = () if settings.classes is None else (labels,)
    fakes = features  # of an empty batch, which not every generator takes
    if len(features):
        fakes = _made(
            gan.generator_net, latents(gan, len(features), settings, rng), conditions
        )
    beside = (fakes,)
    if settings.loss == "wasserstein":
        beside = (fakes, torch.rand(len(features), generator=rng, device=rng.device))
    of = _critic_loss(gan.discriminator, settings)
    found = released(of, features, *beside, *conditions, plan=settings.plan, rng=rng)
    return moved(
        gan,
        found,
        partial(_answers, gan, settings, rng),
        batch_size=len(features),
        settings=settings,
        index=index,
    )


def moved(
    gan: Gan,
    found: Released,
    answers: Callable[[], Tensor],
    *,
    batch_size: int,
    settings: PlannedGan,
    index: int,
) -> Record:
    """Move the critic as released, and after every n_critic-th step the generator, averaged.

    Args:
        found: what the critic's step released.
        answers: the critic's scores of new fakes, (fakes,); reads no private data.
        gan, batch_size, settings, index: as `step`, of a private batch of so many records.
    """
    update(gan.discriminator_optimizer, found.parameters, found.means)
    generator_loss = None
    if (index + 1) % settings.n_critic == 0:
        scored = answers()
        loss = softplus(-scored).mean() if settings.loss == "bce" else -scored.mean()
        parameters = [p for p in gan.generator_net.parameters() if p.requires_grad]
        gradients = torch.autograd.grad(
            loss, parameters, allow_unused=True, materialize_grads=True
        )
        update(gan.generator_optimizer, parameters, gradients)
        decay, updates = settings.generator_decay, index // settings.n_critic
        average(gan.averaged_net, gan.generator_net, decay=decay, updates=updates)
        generator_loss = loss.detach()
    return Record(
        step=index,
        batch_size=batch_size,
        discriminator_loss=found.loss,
        generator_loss=generator_loss,
        clipped=found.clipped,
    )


def try_step(
    generator: nn.Module,
    critic: nn.Module,
    real: Tensor,
    fakes: Tensor,
    *conditions: Tensor,
    settings: GanSettings,
) -> None:
    """Try each gradient of a step on copies of the networks, for what it raises.

    Args:
        real, fakes, conditions: a few examples, as many fakes, and their labels, if any.

    Raises:
        UnsupportedLayer: the critic has no per-example gradients, as the error says.
        ValueError: the loss takes logits, and the critic gives probabilities; or the generator
            changes as it runs in evaluation mode.
    """
    generator, critic = deepcopy(generator).train(), hold(deepcopy(critic).train())
    beside = (fakes,)
    if settings.loss == "wasserstein":
        beside = (fakes, fakes.new_full((len(fakes),), 0.5))
    with draws_put_back(fakes.device):
        if settings.loss == "bce":
            check_logits(critic(fakes, *conditions))
        _critic_loss(critic, settings)(real, *beside, *conditions)[0].norms()
        drawn = torch.randn(len(fakes), *settings.latent_size).to(fakes)
        _made(generator, drawn, conditions)
        answers = scores(critic(generator(drawn, *conditions), *conditions))
        own = [p for p in generator.parameters() if p.requires_grad]
        torch.autograd.grad(answers.sum(), own, allow_unused=True)


def latents(gan: Gan, count: int, settings: GanSettings, rng: torch.Generator) -> Tensor:
    """Normal latents, (count, *latent_size)."""
    return normal(
        count, settings.latent_size, like=next(gan.generator_net.parameters()), rng=rng
    )


def normal(count: int, shape: Sequence[int], *, like: Tensor, rng: torch.Generator) -> Tensor:
    """Standard normal numbers, (count, *shape), of the type of `like`."""
    return torch.randn(count, *shape, generator=rng, device=rng.device, dtype=like.dtype)


def scores(output: Tensor) -> Tensor:
    """A critic's output (batch, 1) or (batch,) as (batch,)."""
    return output.squeeze(1) if output.ndim == 2 else output


def _made(net: nn.Module, drawn: Tensor, conditions: tuple[Tensor, ...]) -> Tensor:
    """Fakes for the critic: none depends on another, and none leaves a trace.

    Raises:
        ValueError: the generator changes as it runs, and here its labels are private.
    """
    before = _versions(net.eval())
    with torch.no_grad():
        fakes = net(drawn, *conditions)
    if _versions(net) != before:
        raise ValueError(
            "the generator changes a parameter or buffer as it runs in evaluation mode, which "
            "would release private labels; leave out what counts, renormalises (max_norm) or sets "
            "itself up"
        )
    net.train()
    return fakes


def _versions(net: nn.Module) -> list[tuple[int, int]]:
    return [(id(x), x._version) for x in (*net.parameters(), *net.buffers())]


def _critic_loss(critic: nn.Module, settings: GanSettings) -> PerExampleOf:
    if settings.loss == "wasserstein":
        return penalised(critic, settings.penalty_weight)
    return two_sided(critic, *CRITIC_LOSSES[settings.loss])


CRITIC_LOSSES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    # Lim, Ye 2017; Miyato et al. 2018, eq. 16
    "hinge": (lambda out: relu(1 - scores(out)), lambda out: relu(1 + scores(out))),
    # Goodfellow et al. 2014
    "bce": (
        lambda out: called_real(scores(out)[:, None]),
        lambda out: called_fake(scores(out)[:, None]),
    ),
}


def _answers(gan: Gan, settings: GanSettings, rng: torch.Generator) -> Tensor:
    count = settings.plan.batch_size
    conditions = ()
    if settings.classes is not None:
        public = torch.randint(settings.classes, (count,), generator=rng, device=rng.device)
        conditions = (public,)
    fakes = gan.generator_net(latents(gan, count, settings, rng), *conditions)
    return scores(gan.discriminator(fakes, *conditions))
