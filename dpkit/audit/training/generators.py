"""Attacks on a released generator: who was trained on, from its critic and its images.

They show how little such attacks find where training is private: far below what is proven, so that
a low figure of theirs says nothing of a guarantee. The critic's score is that of LOGAN (Hayes et
al. 2019); distances to generated samples are those of Chen et al. 2020 (GAN-Leaks), and beside a
public reference those of DOMIAS (van Breugel et al. 2023), with nearest neighbours for densities.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpkit.audit.one_run import apart, coins
from dpkit.audit.scores import Scores, check_rng
from dpkit.audit.training.canaries import mixed, seed
from dpkit.common import checks
from dpkit.datasets import Images
from dpkit.privacy.mechanisms import Floats
from dpkit.private.gan import PrivateGan
from dpkit.private.gan_step import new_gan, scores, step
from dpkit.private.plan import Plan, gan_settings
from dpkit.training import Conditional, Data, generator_on, mlp, train

LATENT, HIDDEN = 32, 128
AT_ONCE = 256  # records compared with all samples at a time


class Trained(NamedTuple):
    """One run on records that independent fair coins chose, and all candidates.

    generator: as released; of latents and labels.
    critic: of features and labels; as private as the generator, though not released.
    features: (records, pixels) in [-1, 1], of all candidates.
    labels: (records,) int64.
    included: (records,) bool, who was trained on.
    reference: features and labels of others, who took no part.
    plan: noise, sampling and price of the run.
    """

    generator: nn.Module
    critic: nn.Module
    features: Tensor
    labels: Tensor
    included: NDArray[np.bool_]
    reference: tuple[Tensor, Tensor]
    plan: Plan


def on_half(
    rng: np.random.Generator,
    records: int,
    *,
    epsilon: float,
    delta: float = 1e-5,
    steps: int = 300,
    rate: float = 0.1,
    images: Images | None = None,
) -> Trained:
    """Train a small conditional GAN by `PrivateGan`'s step on half the records.

    Args:
        rng: chooses candidates and who is included; draws weights, batches, latents and noise.
        records: candidates, each included by an independent fair coin.
        epsilon, delta: the budget of the run, in nats, under add-remove.
        steps: of the critic, each a release.
        rate: probability with which a record is drawn into a batch, in (0, 1].
        images: candidates and reference are drawn from these; by default all digits, 1,797.

    Raises:
        ValueError: a number is out of range, or there are not more images than candidates.
    """
    records = checks.whole(2, records=records)
    features, labels = mixed(rng, images, records=records)
    features = 2 * features - 1
    included = coins(rng, records)
    chosen = torch.from_numpy(np.flatnonzero(included))
    data = Data(features[chosen], labels[chosen], records)
    classes = int(labels.max()) + 1
    nets = _networks(features.shape[1], classes, seed=seed(rng))
    made = PrivateGan(
        *nets,
        epsilon=epsilon,
        delta=delta,
        classes=classes,
        latent_size=LATENT,
        batch_size=round(checks.positive(rate=rate) * records),
        public_size=records,
    )
    settings = gan_settings(made, records=records, steps=steps)
    gan = new_gan(*nets, settings)  # by hand: `PrivateGan` keeps the critic to itself
    noise = generator_on(torch.device("cpu"), reproducible_seed=seed(rng))
    for _ in train(step, gan, data, settings=settings, rng=noise):
        pass
    return Trained(
        gan.averaged_net,
        gan.discriminator,
        features[:records],
        labels[:records],
        included,
        (features[records:], labels[records:]),
        settings.plan,
    )


def critic_scores(trained: Trained) -> Scores:
    """The critic's score of each candidate: the higher, the more like its records."""
    with torch.no_grad():
        said = scores(trained.critic(trained.features, trained.labels)).double().numpy()
    return apart(said, trained.included)


def nearest_scores(rng: np.random.Generator, trained: Trained, *, samples: int) -> Scores:
    """How much nearer generated images are to each candidate than the reference's.

    Args:
        rng: draws latents and labels.
        trained: the run.
        samples: number of generated images, whose labels are drawn uniformly.

    Raises:
        ValueError: samples is not an integer >= 1.
    """
    check_rng(rng)
    samples = checks.whole(1, samples=samples)
    wanted = torch.from_numpy(rng.integers(int(trained.labels.max()) + 1, size=samples))
    latents = torch.from_numpy(rng.standard_normal((samples, LATENT), np.float32))
    with torch.no_grad():
        made = trained.generator.eval()(latents, wanted)
    own = (trained.features, trained.labels)
    near = nearest(own, trained.reference) - nearest(own, (made, wanted))
    return apart(near, trained.included)


def nearest(records: tuple[Tensor, Tensor], others: tuple[Tensor, Tensor]) -> Floats:
    """The distance of each record to the nearest of others of its label, (records,).

    Args:
        records: features (records, numbers) and labels (records,).
        others: as many numbers each. A record with whose label there is none gets the distance to
            the nearest of any label.
    """
    (x, y), (others_x, others_y) = records, others
    parts = []
    for own, labels in zip(x.split(AT_ONCE), y.split(AT_ONCE), strict=True):
        distances = torch.cdist(own.double().flatten(1), others_x.double().flatten(1))
        alike = labels[:, None] == others_y
        alike |= ~alike.any(1, keepdim=True)
        parts.append(distances.masked_fill(~alike, torch.inf).amin(1))
    return torch.cat(parts).numpy()


def _networks(pixels: int, classes: int, *, seed: int) -> tuple[Any, Any]:
    """Generator and critic; the label weighs as much as many pixels."""
    rng = generator_on(torch.device("cpu"), reproducible_seed=seed, stream="weights")
    return (
        Conditional(
            mlp((LATENT + classes, HIDDEN, pixels), last=nn.Tanh(), rng=rng), classes=classes
        ),
        Conditional(
            mlp((pixels + classes, HIDDEN, 1), last=None, rng=rng),
            classes=classes,
            label_scale=10.0,
        ),
    )
