"""One-release baselines as targets: thousands of canaries in one release, each scored.

A release is a noised sum over records, so a canary's score is the release along the canary's own
summand. Canaries add next to nothing along each other. All releases are private as proven: no
attack may find more.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from dpkit.audit import one_run
from dpkit.audit.one_run import apart, coins
from dpkit.audit.scores import Scores
from dpkit.common import checks
from dpkit.papers.targets.target import DELTA, Target, price
from dpkit.privacy import normals
from dpkit.synthesizers import class_moments, marginals, random_features
from dpkit.synthesizers.class_moments import MomentsSettings
from dpkit.synthesizers.marginals import MarginalsSettings
from dpkit.synthesizers.random_features import FeaturesSettings

EPSILON = 8.0
COINS = "each canary's inclusion is an independent fair coin"
AT_ONCE = 200  # embeddings that are held at a time
CANARIES = 10_000
MOMENTS: dict[str, Any] = {"classes": 40, "shape": (3, 16, 16), "mirrored": True}
KEPT: dict[str, Any] = {"clip_norm": 1.0, "lowest": 256}
VALUES = 100  # of each of three columns
FEATURES: dict[str, Any] = {
    "classes": 10,
    "shape": (1, 16, 16),
    "features": 10_000,
    "length_scale": 2.0,
}


@cache
def moments_settings() -> MomentsSettings:
    """The class moments' release at epsilon 8, of 256 cosines in colour, of a norm of 1 at most."""
    settings = class_moments.settings_for(
        EPSILON, delta=DELTA, **MOMENTS, public_size=CANARIES, components=1
    )
    return replace(settings, **KEPT)


def single_waves(rng: np.random.Generator, trials: int) -> Scores:
    """Scores of twice as many canaries in one release of the class moments, at most 10,240.

    Each is grey with one cosine, which no other canary of its class has: beside the count, means
    and second moments of two canaries have no part in common.

    Raises:
        ValueError: there are fewer cosines in all classes than canaries.
    """
    settings = moments_settings()
    size, basis = settings.features, settings.basis
    assert basis is not None
    checks.in_range(1, settings.classes * size / 2, trials=trials)
    included = coins(rng, 2 * trials)
    labels, waves = divmod(rng.permutation(settings.classes * size)[: included.size], size)
    seen = class_moments.release(
        settings.centre + settings.clip_norm * basis[waves[included]],
        labels[included],
        settings.classes,
        std=settings.noise_std,
        settings=settings,
        rng=rng,
    )
    own = (seen.counts[labels], seen.firsts[labels, waves], seen.seconds[labels, waves, waves])
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


@cache
def marginals_settings() -> MarginalsSettings:
    """The release of all pairs of three columns' counts at epsilon 8."""
    sizes = (VALUES,) * 3
    return marginals.settings_for(EPSILON, delta=DELTA, sizes=sizes, target=None)


def latin_rows(rng: np.random.Generator, trials: int) -> Scores:
    """Scores of twice as many canaries, at most 10,000, in one release of the pairs' counts.

    A row is (a, b, a + b mod 100), a cell of a Latin square: no pair of values is in two rows.
    """
    settings = marginals_settings()
    checks.in_range(1, VALUES**2 / 2, trials=trials)
    included = coins(rng, 2 * trials)
    first, second = divmod(rng.permutation(VALUES**2)[: included.size], VALUES)
    rows = np.stack([first, second, (first + second) % VALUES], 1)
    counts = marginals.pair_counts(rows[included], settings.sizes)
    seen = normals.noised(counts, noise_std=settings.noise_std, rng=rng).reshape(
        3, VALUES, VALUES
    )
    own = [seen[k, rows[:, i], rows[:, j]] for k, (i, j) in enumerate(settings.pairs)]
    return apart(np.sum(own, 0) / settings.sensitivity**2, included)


def _as_json(settings: dict[str, Any]) -> dict[str, Any]:
    held = {key: list(one) if isinstance(one, tuple) else one for key, one in settings.items()}
    return {"asked_epsilon": EPSILON, "canaries": CANARIES} | held


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
        attack="sees the sums; each canary is an image with one wave of its own, scored by the "
        "sums along what it alone adds",
        scores=single_waves,
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
    _target(
        "marginals",
        marginals_settings,
        says="noised counts of all pairs of a table's columns (three of 100 values)",
        where="synthesizers/marginals.py",
        attack="sees the counts; each canary is a row whose pairs are its own, scored by their sum",
        scores=latin_rows,
        trials=CANARIES // 2,
        settings=_as_json({"sizes": (VALUES,) * 3}),
    ),
)
