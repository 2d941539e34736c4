"""The methods that are compared: each fitted for a task, priced, and sampled."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dpkit.papers.comparison import gans, recipe
from dpkit.papers.comparison.task import CLASSES, SHAPE, Made, Method, Task
from dpkit.privacy.ledger import Release
from dpkit.synthesizers import class_moments, feature_matching, random_features
from dpkit.synthesizers.class_moments import MomentsSettings
from dpkit.synthesizers.feature_matching import Matching
from dpkit.synthesizers.jitter import Jitter
from dpkit.synthesizers.random_features import FeaturesSettings

NONE = "none"
CLIPPED = "none but clipping to [0, 1]"
JITTERED = (
    "clipped to [0, 1], turned, shifted and enlarged at random by at most 10 degrees, 5 %, 10 %"
)


def moments_settings(task: Task) -> MomentsSettings:
    """Those of the class moments, by a certified epsilon."""
    return class_moments.settings_for(
        task.epsilon, delta=task.delta, classes=CLASSES, shape=SHAPE, public_size=task.size
    )


def _ledger(task: Task, settings: MomentsSettings | FeaturesSettings) -> list[Release]:
    return settings.ledger()


def _moments(task: Task, settings: MomentsSettings, *, jitter: Jitter | None) -> Made:
    labels, rng = task.records().labels, gans.moments_rng(task, settings)
    model = class_moments.fit(task.pixels(), labels, settings=settings, rng=rng)

    def sample(wanted: np.ndarray) -> np.ndarray:
        images = model.sample(wanted, rng=task.rng("samples"))
        return images if jitter is None else jitter(images, rng=task.rng("jitter"))

    return Made(sample)


def start_settings(task: Task) -> MomentsSettings:
    """Those of what the warm-started GAN starts from: half of its budget, and no more."""
    return gans.warm_gan_settings(task).moments


def features_settings(task: Task) -> FeaturesSettings:
    """Those of DP-MERF, by a certified epsilon."""
    return random_features.settings_for(
        task.epsilon, delta=task.delta, classes=CLASSES, shape=SHAPE
    )


def _features(task: Task, settings: FeaturesSettings) -> Made:
    labels, rng = task.records().labels, task.rng("random features")
    model = feature_matching.fit(
        task.pixels(),
        labels,
        settings=settings,
        public_size=task.size,
        rng=rng,
        matching=Matching(steps=task.steps(Matching().steps)),
    )
    return Made(lambda wanted: model.sample(wanted, rng=task.rng("samples")))


def _gan(
    post_processing: str,
    settings: Callable[[Task], Any],
    how: recipe.Recipe,
    jitter: Jitter | None = None,
) -> Method:
    made = partial(recipe.fit, recipe=how, jitter=jitter)
    return Method(post_processing, settings, recipe.ledger, made)


METHODS: dict[str, Method] = {
    "moments": Method(CLIPPED, moments_settings, _ledger, partial(_moments, jitter=None)),
    "moments_jittered": Method(
        JITTERED, moments_settings, _ledger, partial(_moments, jitter=Jitter())
    ),
    "random_features": Method(NONE, features_settings, _ledger, _features),
    "dp_cgan": _gan(NONE, gans.dp_cgan_settings, gans.DP_CGAN),
    "warm_gan": _gan(CLIPPED, gans.warm_gan_settings, gans.WARM_GAN),
    "warm_gan_jittered": _gan(JITTERED, gans.warm_gan_settings, gans.WARM_GAN, Jitter()),
    "warm_start_jittered": Method(
        JITTERED, start_settings, _ledger, partial(_moments, jitter=Jitter())
    ),
    "wgan_gp": _gan(NONE, gans.wgan_gp_settings, gans.WGAN_GP),
}
LARGE: dict[str, Method] = {  # hours on a processor, minutes on a GPU
    "warm_gan_large": _gan(CLIPPED, gans.large_warm_gan_settings, gans.WARM_GAN),
    "warm_gan_large_jittered": _gan(
        JITTERED, gans.large_warm_gan_settings, gans.WARM_GAN, Jitter()
    ),
}
