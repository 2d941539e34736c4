"""One-release baselines as targets: thousands of canaries in one release, each scored by its own.

All that the records do to a release is a sum, so that a canary's score is the release along what
the canary alone would add to it. Canaries are made to add next to nothing along each other. Both
releases are private as proven: no attack may find more.
"""

from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpkit.audit import one_run
from dpkit.audit.scores import Scores
from dpkit.audit.target import Target
from dpkit.audit.training.candidates import apart, coins
from dpkit.baselines import random_features
from dpkit.baselines.random_features import FeaturesSettings
from dpkit.privacy import pld
from dpkit.privacy.ledger import Guarantee
from dpkit.privacy.mechanisms import Floats

DELTA, EPSILON, CLASSES = 1e-5, 8.0, 10
COINS = "each canary's inclusion is an independent fair coin"
AT_ONCE = 200  # embeddings that are held at a time
FEATURES: dict[str, Any] = {"shape": (1, 16, 16), "features": 10_000, "length_scale": 2.0}


@cache
def features_settings() -> FeaturesSettings:
    """DP-MERF's release at epsilon 8, of a kernel so narrow that no two canaries are alike."""
    return random_features.settings_for(EPSILON, delta=DELTA, classes=CLASSES, **FEATURES)


def random_images(rng: np.random.Generator, trials: int) -> Scores:
    """Of twice as many canaries in one release of their mean embeddings.

    Pixels are 0 or 1 by fair coins, so that kernels of two canaries are about exp(-16), and
    embeddings have products of deviation 1 / sqrt(features): what the approximation leaves.
    """
    settings = features_settings()
    included = coins(rng, 2 * trials)
    images = rng.integers(2, size=(included.size, *settings.shape)).astype(np.float64)
    labels = rng.integers(CLASSES, size=included.size)
    seen = random_features.release(images[included], labels[included], settings=settings, rng=rng)
    return apart(_along_embeddings(seen, images, labels), included)


def _along_embeddings(seen: Floats, images: Floats, labels: NDArray[np.int64]) -> Floats:
    """Product of each canary's embedding with the release of its class, (canaries,)."""
    frequencies = features_settings().frequencies()
    rows = images.reshape(len(images), -1)
    starts = range(0, len(rows), AT_ONCE)
    parts = [slice(start, start + AT_ONCE) for start in starts]
    products = [random_features.embedded(rows[part], frequencies) @ seen for part in parts]
    return np.concatenate(products)[np.arange(len(rows)), labels]


def _price(asked: Any) -> Guarantee:
    return pld.epsilon(asked().ledger(), delta=DELTA)


def _target(name: str, asked: Any, **rest: Any) -> Target:
    return Target(
        f"baselines/{name}",
        "mechanism",
        proven=partial(_price, asked),
        bound=one_run.one_run,
        delta=DELTA,
        independent=False,
        assumes=(COINS,),
        **rest,
    )


TARGETS: tuple[Target, ...] = (
    _target(
        "random-features",
        features_settings,
        says="DP-MERF's noised sums of each class's random features, all that its generator sees",
        where="baselines/random_features.py",
        attack="sees the sums; each canary is a random black and white image, scored by the sums "
        "along its own features",
        scores=random_images,
        trials=5000,
        settings={
            "asked_epsilon": EPSILON,
            "classes": CLASSES,
            "canaries": 10_000,
            **{name: list(one) if name == "shape" else one for name, one in FEATURES.items()},
        },
    ),
)
