"""One-release baselines as targets: thousands of canaries in one release, each scored.

A release is a noised sum over records, so a canary's score is the release along the canary's own
summand. Canaries add next to nothing along each other. Both releases are private as proven: no
attack may find more.
"""

from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

import numpy as np

from dpkit.audit import one_run
from dpkit.audit.one_run import apart, coins
from dpkit.audit.scores import Scores
from dpkit.common import checks
from dpkit.papers.targets.target import DELTA, Target, price
from dpkit.synthesizers import class_moments, random_features
from dpkit.synthesizers.class_moments import MomentsSettings
from dpkit.synthesizers.random_features import FeaturesSettings

EPSILON = 8.0
COINS = "each canary's inclusion is an independent fair coin"
AT_ONCE = 200  # embeddings that are held at a time
CANARIES = 10_000
MOMENTS: dict[str, Any] = {"classes": 40, "shape": (1, 16, 16)}
KEPT: dict[str, Any] = {"clip_norm": 1.0, "frequencies": None}
FEATURES: dict[str, Any] = {
    "classes": 10,
    "shape": (1, 16, 16),
    "features": 10_000,
    "length_scale": 2.0,
}


@cache
def moments_settings() -> MomentsSettings:
    """The class moments' release at epsilon 8, of pixels as they are, with a norm of 1 at most."""
    settings = class_moments.settings_for(
        EPSILON, delta=DELTA, **MOMENTS, public_size=CANARIES, components=1
    )
    return replace(settings, **KEPT, lowest=None)


def single_pixels(rng: np.random.Generator, trials: int) -> Scores:
    """Scores of twice as many canaries in one release of the class moments, at most 10,240.

    Each has a pixel at 1, all others at 0, and no other canary of its class has that one: beside
    the count, means and second moments of two canaries have no part in common.

    Raises:
        ValueError: there are fewer pixels in all classes than canaries.
    """
    settings = moments_settings()
    size = prod(settings.shape)
    checks.in_range(1, settings.classes * size / 2, trials=trials)
    included = coins(rng, 2 * trials)
    labels, pixels = divmod(rng.permutation(settings.classes * size)[: included.size], size)
    seen = class_moments.release(
        np.eye(size)[pixels[included]],
        labels[included],
        settings.classes,
        std=settings.noise_std,
        settings=settings,
        rng=rng,
    )
    own = (
        seen.counts[labels],
        seen.firsts[labels, pixels],
        seen.seconds[labels, pixels, pixels],
    )
    scores = np.square(settings.weights) @ np.stack(own)
    return apart(scores / settings.sensitivity**2, included)


@cache
def features_settings() -> FeaturesSettings:
    """DP-MERF's release at epsilon 8, of a kernel so narrow that no two canaries are alike."""
    return random_features.settings_for(EPSILON, delta=DELTA, **FEATURES)


def random_images(rng: np.random.Generator, trials: int) -> Scores:
    """Scores of twice as many canaries in one release of their mean embeddings.

    Pixels are 0 or 1 by fair coins, so that kernels of two canaries are about exp(-16), and
    embeddings have products of deviation 1 / sqrt(features): what the approximation leaves.
    """
    settings = features_settings()
    included = coins(rng, 2 * trials)
    images = rng.integers(2, size=(included.size, *settings.shape)).astype(np.float64)
    labels = rng.integers(settings.classes, size=included.size)
    seen = random_features.release(
        images[included], labels[included], settings=settings, rng=rng
    )
    frequencies, rows = settings.frequencies(), images.reshape(len(images), -1)
    parts = (rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE))
    # Of each canary's embedding with the release of each class
    products = np.concatenate([random_features.embedded(x, frequencies) @ seen for x in parts])
    return apart(products[np.arange(len(rows)), labels], included)


def _as_json(settings: dict[str, Any]) -> dict[str, Any]:
    shape = {"shape": list(settings["shape"])}
    return {"asked_epsilon": EPSILON, "canaries": CANARIES} | settings | shape


def _target(name: str, asked: Any, **rest: Any) -> Target:
    return Target(
        f"baselines/{name}",
        version="mechanism",
        proven=lambda: price(asked().ledger()),
        bound=one_run.one_run,
        assumes=(COINS,),
        **rest,
    )


TARGETS = (
    _target(
        "class-moments",
        moments_settings,
        says="noised counts, means and second moments of all classes",
        where="synthesizers/class_moments.py",
        attack="sees the sums; each canary is an image with one pixel of its own, scored by the "
        "sums along what it alone adds",
        scores=single_pixels,
        trials=CANARIES // 2,
        settings=_as_json(MOMENTS | KEPT),
    ),
    _target(
        "random-features",
        features_settings,
        says="DP-MERF's noised sums of each class's random features, all that its generator sees",
        where="synthesizers/random_features.py",
        attack="sees the sums; each canary is a random black and white image, scored by the sums "
        "along its own features",
        scores=random_images,
        trials=CANARIES // 2,
        settings=_as_json(FEATURES),
    ),
)
