"""DP-MERF's embedding: its norm, its kernel, and what its settings refuse."""

from math import prod
from typing import Any

import numpy as np
import pytest

from dpkit.synthesizers import random_features
from dpkit.synthesizers.random_features import FeaturesSettings, embedded

SHAPE = (1, 4, 5)
SETTINGS = FeaturesSettings(3, SHAPE, 1.0, features=20_000, length_scale=1.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_embedding_has_norm_1(dtype):
    """Also where an angle is far beyond what double precision resolves."""
    rng = np.random.default_rng(0)
    rows = np.vstack([rng.random((50, 20)), np.zeros(20), np.ones(20), rng.random((5, 20)) * 1e16])
    for scale in (1.5, 1e-4):
        settings = FeaturesSettings(3, SHAPE, 1.0, features=200, length_scale=scale)
        norms = np.square(embedded(rows.astype(dtype), settings.frequencies())).sum(1)
        np.testing.assert_allclose(norms, 1, atol=1e-12)


def test_products_of_embeddings_are_the_kernel():
    """10,000 frequencies: by Hoeffding one of 1,225 products is off by 0.06 with 4e-5 at most."""
    rows = np.random.default_rng(1).random((50, prod(SHAPE)))
    phi = embedded(rows, SETTINGS.frequencies())
    distances = np.square(rows[:, None] - rows).sum(-1)
    np.testing.assert_allclose(phi @ phi.T, np.exp(-distances / (2 * 1.5**2)), atol=0.06)


def test_frequencies_follow_from_the_settings_alone():
    first, second = (FeaturesSettings(3, SHAPE, 1.0, features=10) for _ in range(2))
    np.testing.assert_array_equal(first.frequencies(), second.frequencies())
    other = FeaturesSettings(3, SHAPE, 1.0, features=10, seed=1).frequencies()
    assert other.shape == (5, 20)
    assert (other != first.frequencies()).all()
    assert not other.flags.writeable


def test_many_records_are_embedded_a_few_at_a_time(monkeypatch):
    rng = np.random.default_rng(2)
    given = rng.random((7, *SHAPE)), rng.integers(3, size=7)
    settings = FeaturesSettings(3, SHAPE, 1.0, features=10)
    whole = random_features.embedded_sums(*given, settings=settings)
    monkeypatch.setattr(random_features, "AT_ONCE", 20)
    parts = random_features.embedded_sums(*given, settings=settings)
    np.testing.assert_allclose(parts, whole, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 0}, "classes must be an integer >= 1"),
        ({"shape": (28, 28)}, "dimensions_of_shape must be an integer >= 3, got 2"),
        ({"shape": (1, 0, 28)}, r"shape\[1\] must be an integer >= 1"),
        ({"features": 11}, "features must be even"),
        ({"features": 0}, "features must be an integer >= 2"),
        ({"length_scale": float("nan")}, "length_scale must be a finite number > 0"),
        ({"noise_multiplier": float("nan")}, "noise_multiplier must be"),
        ({"noise_multiplier": 1e-12}, "noise"),
        ({"seed": -1}, "seed must be an integer >= 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        FeaturesSettings(**{"classes": 3, "shape": SHAPE, "noise_multiplier": 1.0} | changes)
