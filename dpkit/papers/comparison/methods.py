"""The compared methods: what each is given, how it is fitted, priced and sampled.

Releases of class moments and of random features, and private GANs: a repaired one, a WGAN-GP, and
one with a warm start.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from math import prod
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import torch
from torch import Tensor, nn

from dpkit import datasets
from dpkit.common.progress import Progress
from dpkit.metrics.judge import CLASSES
from dpkit.papers.dp_cgan import algorithm
from dpkit.papers.dp_cgan.settings import REPAIRED, DpCganSettings
from dpkit.papers.experiments.run import Run
from dpkit.privacy import Release, calibrate, pld, rdp
from dpkit.privacy.sampling import mechanism
from dpkit.private import PrivateGan, gan_step
from dpkit.private.plan import GanSettings, gan_settings
from dpkit.synthesizers import class_moments, feature_matching, random_features
from dpkit.synthesizers.class_moments import MomentsSettings
from dpkit.synthesizers.feature_matching import Matching
from dpkit.synthesizers.jitter import Jitter
from dpkit.synthesizers.random_features import FeaturesSettings
from dpkit.synthesizers.warm_gan import step as warm
from dpkit.synthesizers.warm_gan.settings import WarmGanSettings, calibrated
from dpkit.training import Conditional, Data, Gan, mlp

SHAPE = (1, 28, 28)
BRIEF = 5  # steps of a training that only shows that it runs
PIXELS, HIDDEN, LATENT = prod(SHAPE), 256, 64

Sampler = Callable[[np.ndarray], np.ndarray]
"""A fitted method: makes images of labels, float32 (labels, channels, height, width) in [0, 1]."""


class ImageTask(NamedTuple):
    """A data set, a budget and a seed.

    data: name of an image set of ten classes.
    size: declared number of private records; if not all, a public seed draws them.
    epsilon, delta: of all that a method releases, under add-remove adjacency, certified.
    seed: of all draws of a method.
    device_name: auto, cpu or cuda, to train networks.
    brief: whether networks are trained for a few steps only.
    progress: wraps the steps of a training.
    """

    data: str
    size: int
    epsilon: float
    delta: float
    seed: int
    device_name: str
    progress: Progress
    brief: bool = False

    @property
    def key(self) -> str:
        """The name of its runs' files."""
        return f"{self.data}-{self.size}-eps{self.epsilon:g}"

    @property
    def shape(self) -> tuple[int, ...]:
        """(channels, height, width) of its images."""
        return (3, 32, 32) if self.data == "cifar10" else SHAPE

    def steps(self, steps: int) -> int:
        """The number of training steps, or a few if brief."""
        return min(steps, BRIEF) if self.brief else steps

    def records(self) -> datasets.Images:
        """The private records."""
        return _records(self.data, self.size)

    def pixels(self) -> np.ndarray:
        """The records' images in [0, 1], float32 (size, channels, height, width)."""
        return self.records().pixels / np.float32(255)

    def rng(self, purpose: str) -> np.random.Generator:
        """A source of randomness for one purpose and epsilon; others share none of it."""
        return np.random.default_rng(
            [self.seed, crc32(f"{purpose} {self.epsilon:g}".encode())]
        )


class Method(NamedTuple):
    """One line of the figure.

    post_processing: of its samples, in words.
    settings: of a task's fit; `describe` makes JSON values of them.
    ledger: all that a fit of these settings releases.
    make: fits it.
    """

    post_processing: str
    settings: Callable[[ImageTask], Any]
    ledger: Callable[[ImageTask, Any], list[Release]]
    make: Callable[[ImageTask, Any], Sampler]


class Recipe(NamedTuple):
    """A GAN trained by private steps.

    name: of its runs' files.
    new_gan: of (settings, images, labels, task, device): networks before the first step.
    step: a private one, as `dpkit.training.train` takes it.
    generate: of (gan, labels, settings, rng): images in [0, 1].
    shape: of an image in its step.
    """

    name: str
    new_gan: Callable[..., Gan]
    step: Callable[..., Any]
    generate: Callable[[Gan, Tensor, Any, torch.Generator], Any]
    shape: tuple[int, ...]


def fit(
    task: ImageTask, settings: Any, *, recipe: Recipe, jitter: Jitter | None = None
) -> Sampler:
    """Train a GAN, or load the same run's."""
    run = Run(
        "comparison",
        f"{recipe.name}-{task.key}",
        settings,
        task.seed,
        task.size,
        device_name=task.device_name,
        progress=task.progress,
    )
    images, labels = task.pixels(), task.records().labels
    gan = recipe.new_gan(settings, images, labels, task, run.device)
    if not run.weights.exists():
        features = torch.from_numpy(images.reshape(-1, *recipe.shape))
        data = Data(
            features.to(run.device), torch.from_numpy(labels).to(run.device), task.size
        )
        run.finish(run.train(recipe.step, gan, data), total=run.steps)
        run.keep(gan.averaged_net)
    run.load(gan.averaged_net)

    def sample(wanted: np.ndarray) -> np.ndarray:
        on_device = torch.from_numpy(wanted).to(run.device)
        made = recipe.generate(gan, on_device, settings, run.rng("synthesis"))
        found = np.asarray(torch.as_tensor(made).cpu()).reshape(-1, *SHAPE)
        return found if jitter is None else jitter(found, rng=task.rng("jitter"))

    return sample


def dp_cgan_settings(task: ImageTask) -> DpCganSettings:
    """The repaired DP-CGAN's own settings, with the noise of this epsilon."""
    sampling = replace(
        REPAIRED.sampling,
        expected_batch_size=min(REPAIRED.expected_batch_size, task.size // 10),
    )
    steps = task.steps(REPAIRED.max_steps)
    noise = calibrate.noise_multiplier(
        task.epsilon,
        sample_rate=sampling.expected_batch_size / task.size,
        steps=steps,
        delta=task.delta,
        accountant=pld.epsilon,
    )
    one = mechanism(sampling, noise_multiplier=noise, public_size=task.size)
    charged = rdp.epsilon([Release(one, steps)], delta=task.delta).epsilon
    return replace(  # the paper's settings count their steps by Renyi DP
        REPAIRED,
        noise_multiplier=noise,
        sampling=sampling,
        target_epsilon=charged * (1 + 1e-9),
        target_delta=task.delta,
        max_steps=steps,
    )


DP_CGAN = Recipe(
    "dp_cgan",
    lambda settings, images, labels, task, device: algorithm.new_gan(
        settings, seed=task.seed, device=device
    ),
    algorithm.step,
    lambda gan, labels, settings, rng: algorithm.generate(
        gan, labels, settings=settings, rng=rng
    ),
    (PIXELS,),
)


def moments_rng(task: ImageTask, settings: MomentsSettings) -> np.random.Generator:
    """The rng of a release of moments, the same alone and as a warm-started GAN's start."""
    return task.rng(f"moments {settings.noise_multiplier:.6g}")


def warm_gan_settings(task: ImageTask) -> WarmGanSettings:
    """Half of the budget for the moments, half for the critic's steps."""
    return _warm(task, steps=150, batch_size=min(2_048, task.size // 10))


def _warm(task: ImageTask, *, steps: int, batch_size: int) -> WarmGanSettings:
    settings = calibrated(
        task.epsilon,
        delta=task.delta,
        public_size=task.size,
        classes=CLASSES,
        shape=SHAPE,
        steps=task.steps(steps),
        batch_size=batch_size,
    )
    return replace(settings, moments=replace(settings.moments, **SQUARE))


def _new_warm_gan(
    settings: WarmGanSettings,
    images: np.ndarray,
    labels: np.ndarray,
    task: ImageTask,
    device: torch.device,
) -> Gan:
    rng = moments_rng(task, settings.moments)
    model = class_moments.fit(images, labels, settings=settings.moments, rng=rng)
    return warm.new_gan(settings, model, seed=0, device=device)


WARM_GAN = Recipe(
    "warm_gan",
    _new_warm_gan,
    warm.step,
    lambda gan, labels, settings, rng: warm.generate_from(
        gan.averaged_net, labels.cpu(), classes=settings.classes, rng=rng
    ),
    SHAPE,
)


@dataclass(frozen=True)
class WganGpSettings(GanSettings):
    """Settings of a `PrivateGan`, and of its networks of one hidden layer.

    Args:
        hidden: units of that layer.
        label_scales: values in place of 1 in one-hot labels, of the generator and of the critic.
        chosen: origin of the settings.
    """

    hidden: int = HIDDEN
    label_scales: tuple[float, float] = (4.0, 20.0)
    chosen: str = (
        "the best of five at epsilon 10 on distorted copies of scikit-learn's digits "
        "(public data)"
    )

    def networks(self, seed: int) -> list[nn.Module]:
        """A generator and a critic, which see the label."""
        rng = torch.Generator().manual_seed(seed)
        bodies = (
            mlp((LATENT + CLASSES, self.hidden, PIXELS), last=nn.Sigmoid(), rng=rng),
            mlp((PIXELS + CLASSES, self.hidden, 1), last=None, rng=rng),
        )
        return [
            Conditional(body, classes=CLASSES, label_scale=scale)
            for body, scale in zip(bodies, self.label_scales, strict=True)
        ]


def wgan_gp_settings(task: ImageTask) -> WganGpSettings:
    """Settings of a `PrivateGan` with a gradient penalty."""
    gan = PrivateGan(
        nn.Identity(),
        nn.Identity(),
        epsilon=task.epsilon,
        delta=task.delta,
        classes=CLASSES,
        latent_size=LATENT,
        batch_size=min(2_048, task.size // 10),
        n_critic=2,
        betas=(0.5, 0.99),
        public_size=task.size,
        reproducible_seed=task.seed,
    )
    return WganGpSettings(**vars(gan_settings(gan, records=task.size, steps=task.steps(600))))


def _new_wgan_gp(
    settings: WganGpSettings,
    images: np.ndarray,
    labels: np.ndarray,
    task: ImageTask,
    device: torch.device,
) -> Gan:
    generator, critic = (net.to(device) for net in settings.networks(task.seed))
    return gan_step.new_gan(generator, critic, settings)


def _generate(
    gan: Gan, labels: Tensor, settings: WganGpSettings, rng: torch.Generator
) -> Tensor:
    with torch.no_grad():
        return gan.averaged_net(gan_step.latents(gan, len(labels), settings, rng), labels)


WGAN_GP = Recipe("wgan_gp", _new_wgan_gp, gan_step.step, _generate, (PIXELS,))


HANDWRITING = ("turn", "shift", "size", "bend")
INVARIANT = {  # what keeps a class, said of each image set before `PrivateImages` ran on it
    "mnist": HANDWRITING,
    "digits": HANDWRITING,
    "fashion_mnist": ("shift", "size", "mirror"),
    "cifar10": ("shift", "size", "mirror"),
}
NONE = "none"
CLIPPED = "none but clipping to [0, 1]"
JITTERED = (
    "clipped to [0, 1], turned, shifted and enlarged at random by at most 10 degrees, "
    "5 %, 10 %"
)


# Of an image the lowest 14 x 14 cosines, whatever the budget, and no shrinkage
SQUARE: dict[str, Any] = {"clip_norm": 9.5, "frequencies": 14, "lowest": None, "shrunk": False}


def moments_settings(task: ImageTask) -> MomentsSettings:
    """Settings of the class moments in a fixed basis, by a certified epsilon."""
    return replace(budgeted_settings(task), mirrored=False, **SQUARE)


def budgeted_settings(task: ImageTask) -> MomentsSettings:
    """Settings of the class moments as `PrivateImages` takes them: the budget chooses the basis."""
    return class_moments.settings_for(
        task.epsilon,
        delta=task.delta,
        classes=CLASSES,
        shape=task.shape,
        public_size=task.size,
        mirrored="mirror" in INVARIANT[task.data],
    )


def _of_release(
    task: ImageTask, settings: MomentsSettings | FeaturesSettings
) -> list[Release]:
    return settings.ledger()


def _moments(
    task: ImageTask,
    settings: MomentsSettings,
    *,
    jitter: Jitter | None = None,
    own: bool = False,
) -> Sampler:
    labels, rng = task.records().labels, moments_rng(task, settings)
    model = class_moments.fit(task.pixels(), labels, settings=settings, rng=rng)
    jitter = Jitter.of(INVARIANT[task.data]) if own else jitter

    def sample(wanted: np.ndarray) -> np.ndarray:
        images = model.sample(wanted, rng=task.rng("samples"))
        return images if jitter is None else jitter(images, rng=task.rng("jitter"))

    return sample


def features_settings(task: ImageTask) -> FeaturesSettings:
    """Settings of DP-MERF, by a certified epsilon."""
    return random_features.settings_for(
        task.epsilon, delta=task.delta, classes=CLASSES, shape=SHAPE
    )


def _features(task: ImageTask, settings: FeaturesSettings) -> Sampler:
    labels, rng = task.records().labels, task.rng("random features")
    model = feature_matching.fit(
        task.pixels(),
        labels,
        settings=settings,
        public_size=task.size,
        rng=rng,
        matching=Matching(steps=task.steps(Matching().steps)),
    )
    return lambda wanted: model.sample(wanted, rng=task.rng("samples"))


def _gan(
    post_processing: str,
    settings: Callable[[ImageTask], Any],
    how: Recipe,
    jitter: Jitter | None = None,
) -> Method:
    return Method(
        post_processing,
        settings,
        lambda task, settings: settings.ledger(public_size=task.size),
        partial(fit, recipe=how, jitter=jitter),
    )


METHODS: dict[str, Method] = {
    "moments": Method(CLIPPED, moments_settings, _of_release, partial(_moments, jitter=None)),
    "moments_jittered": Method(
        JITTERED, moments_settings, _of_release, partial(_moments, jitter=Jitter())
    ),
    "private_images": Method(
        "clipped to [0, 1], and changed at random by what keeps a class",
        budgeted_settings,
        _of_release,
        partial(_moments, own=True),
    ),
    "random_features": Method(NONE, features_settings, _of_release, _features),
    "dp_cgan": _gan(NONE, dp_cgan_settings, DP_CGAN),
    "warm_gan": _gan(CLIPPED, warm_gan_settings, WARM_GAN),
    "warm_gan_jittered": _gan(JITTERED, warm_gan_settings, WARM_GAN, Jitter()),
    "warm_start_jittered": Method(  # half of the warm-started GAN's budget, and no more
        JITTERED,
        lambda task: warm_gan_settings(task).moments,
        _of_release,
        partial(_moments, jitter=Jitter()),
    ),
    "wgan_gp": _gan(NONE, wgan_gp_settings, WGAN_GP),
}


@cache
def _records(data: str, size: int) -> datasets.Images:
    every = datasets.load(data, split="train")
    if size == every.n:
        return every
    if not size <= every.n:
        raise ValueError(f"size must be at most the {every.n} images of {data}, got {size}")
    chosen = np.sort(np.random.default_rng(0).permutation(every.n)[:size])
    return datasets.make_images(data, every.pixels[chosen], every.labels[chosen])
