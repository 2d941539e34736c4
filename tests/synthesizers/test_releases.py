"""What both baselines release: no record moves it by more than is stated; it costs what it says.

Images here are made up, or the embedded digits.
"""

from collections.abc import Callable
from functools import reduce
from math import sqrt
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from refusals import refused
from scipy import stats

from dpkit.privacy import Gaussian, Release, normals, pld
from dpkit.synthesizers import class_moments, marginals, random_features
from dpkit.synthesizers.class_moments import MomentsSettings, Sums, noised, sums
from dpkit.synthesizers.random_features import FeaturesSettings, embedded
from dpkit.synthesizers.records import checked

CLASSES, SHAPE = 3, (1, 4, 5)
EXTREMES = [
    *(np.zeros(SHAPE), np.ones(SHAPE), np.full(SHAPE, 1e-300), np.eye(20)[0].reshape(SHAPE)),
    *(np.eye(20)[:10].sum(0).reshape(SHAPE), (np.arange(20) % 2.0).reshape(SHAPE)),
]


class Baseline(NamedTuple):
    """A baseline as these tests need it.

    settings: of a noise multiplier, and of what else is set.
    sums: (images, labels, settings) -> what noise is added to, flat.
    noisy: (images, labels, settings, rng) -> what is released of it, flat.
    """

    name: str
    settings: Callable[..., Any]
    sums: Callable[..., np.ndarray]
    noisy: Callable[..., np.ndarray]


def _features(noise: float = 1.0, *, shape: tuple[int, ...] = SHAPE, **rest: Any) -> Any:
    return FeaturesSettings(CLASSES, shape, noise, **({"features": 60, "length_scale": 1.5} | rest))


def _moments(noise: float = 1.0, *, shape: tuple[int, ...] = SHAPE, **rest: Any) -> Any:
    """Some images are longer than the clipping norm, some shorter."""
    return MomentsSettings(CLASSES, shape, noise, **({"clip_norm": 2.0, "frequencies": 3} | rest))


def in_a_basis(found: Sums, settings: MomentsSettings) -> np.ndarray:
    """Weighted sums in an orthonormal basis of numbers, vectors and symmetric matrices."""
    rows, columns = np.triu_indices(settings.features)
    seconds = found.seconds[:, rows, columns] * np.where(rows < columns, sqrt(2), 1)
    np.testing.assert_allclose(found.seconds, found.seconds.transpose(0, 2, 1), atol=1e-12)
    parts = (found.counts, found.firsts.ravel(), seconds.ravel())
    return np.concatenate([w * part for w, part in zip(settings.weights, parts, strict=True)])


def _moments_sums(images: np.ndarray, labels: np.ndarray, settings: MomentsSettings) -> np.ndarray:
    rows, codes = checked(images, labels, classes=CLASSES, shape=settings.shape)
    return in_a_basis(sums(rows, codes, CLASSES, settings=settings), settings)


def _moments_release(
    images: np.ndarray, labels: np.ndarray, settings: MomentsSettings, rng: np.random.Generator
) -> np.ndarray:
    """What `fit` gives to all that comes after: the last release it makes."""
    after = class_moments.components_from
    with patch.object(class_moments, "components_from", wraps=after) as seen:
        class_moments.fit(images, labels, settings=settings, rng=rng)
    return in_a_basis(seen.call_args.args[0], settings)


BASELINES = [
    Baseline("class moments", _moments, _moments_sums, _moments_release),
    Baseline(
        "class moments, all pixels",
        lambda noise=1.0: _moments(noise, frequencies=None, weights=(2.0, 0.5, 0.1)),
        _moments_sums,
        _moments_release,
    ),
    Baseline(
        "class moments, low and centred",
        lambda noise=1.0: _moments(noise, frequencies=None, lowest=7, centre=0.5, mirrored=True),
        _moments_sums,
        _moments_release,
    ),
    Baseline(
        "random features",
        _features,
        lambda x, y, s: random_features.embedded_sums(x, y, settings=s).ravel(),
        lambda x, y, s, rng: random_features.release(x, y, settings=s, rng=rng).ravel(),
    ),
]
both = pytest.mark.parametrize("baseline", BASELINES, ids=lambda one: one.name)


def records(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((n, *SHAPE)), rng.integers(CLASSES, size=n)


def mover(baseline: Baseline, settings: Any, base: Any) -> Callable[[np.ndarray, int], float]:
    """(image, label) -> how far this one record moves the release of the others, in L2."""
    images, labels = base
    without = baseline.sums(*base, settings)

    def moved(image: np.ndarray, label: int) -> float:
        with_it = np.concatenate([images, image[None]]), np.append(labels, label)
        return sqrt(np.square(baseline.sums(*with_it, settings) - without).sum())

    return moved


def furthest(baseline: Baseline, settings: Any, base: Any) -> float:
    """The largest move found: among extremes and random records, and by climbing from the best.

    Each step tries the record with one pixel at 0, at 1, or anywhere, and another class.
    """
    rng, moved = np.random.default_rng(1), mover(baseline, settings, base)
    starts = [*EXTREMES, *rng.random((20, *SHAPE)), *rng.integers(2, size=(20, *SHAPE)) * 1.0]
    found = [(moved(image, label), image, label) for image in starts for label in range(CLASSES)]
    best, image, _ = max(found, key=lambda one: one[0])
    for _ in range(120):
        tried, other = image.copy(), int(rng.integers(CLASSES))
        tried.flat[rng.integers(tried.size)] = rng.choice([0.0, 1.0, rng.random()])
        value = moved(tried, other)
        if value >= best:
            best, image = value, tried
    return best


@both
@pytest.mark.parametrize("others", [0, 1, 40])
def test_no_record_moves_the_release_by_more_than_is_stated_and_some_by_as_much(baseline, others):
    """Whatever the other records are: an empty set, an empty class, all of one class, all alike."""
    settings = baseline.settings()
    images, labels = records(others)
    bases = [(images, labels), (images, labels * 0), (images * 0 + 1, labels)]
    for base in bases if others else bases[:1]:
        found = furthest(baseline, settings, base)
        assert found <= settings.sensitivity * (1 + 1e-9)
        assert found >= 0.99 * settings.sensitivity


@both
def test_the_release_is_a_sum_over_records(baseline):
    """So that what one record adds depends on no other, in whatever order they come.

    Not by rounding either: in single precision it would, by 1e-7 for each of the others.
    """
    settings = baseline.settings()
    images, labels = records(30)
    apart = sum(baseline.sums(images[[i]], labels[[i]], settings) for i in range(30))
    np.testing.assert_allclose(baseline.sums(images, labels, settings), apart, atol=1e-12)
    backwards = baseline.sums(images[::-1], labels[::-1], settings)
    np.testing.assert_allclose(backwards, apart, atol=1e-12)


@both
def test_a_record_stands_in_its_class_alone(baseline):
    """Of two records in different classes, what they add has no part in common."""
    settings = baseline.settings()
    image = records(1)[0]
    sums = [baseline.sums(image, np.array([label]), settings) for label in range(CLASSES)]
    overlaps = np.stack(sums) @ np.stack(sums).T
    np.testing.assert_allclose(overlaps, np.diag(np.diag(overlaps)), atol=1e-12)


@both
@pytest.mark.parametrize("noise", [0.4, 2.5])
def test_noise_is_as_large_as_priced_whether_there_are_records_or_none(baseline, noise):
    """Of 100 releases each, by chi-square and, for the shape, Kolmogorov and Smirnov.

    Each of four tests fails with probability 1e-7.
    """
    settings = baseline.settings(noise)
    assert settings.noise_std == pytest.approx(noise * settings.sensitivity)
    for n in (0, 25):
        base, rng = records(n), np.random.default_rng(n)
        exact = baseline.sums(*base, settings)
        draws = [baseline.noisy(*base, settings, rng) - exact for _ in range(100)]
        scaled = np.concatenate(draws) / settings.noise_std
        low, high = stats.chi2(scaled.size).ppf([5e-8, 1 - 5e-8])
        assert low < np.square(scaled).sum() < high
        assert stats.kstest(scaled, "norm").pvalue > 1e-7


ASKED: dict[str, Any] = {"delta": 1e-5, "classes": 10, "shape": (3, 32, 32)}
PRICED = {
    "one release": class_moments.settings_for(1.0, **ASKED, public_size=50_000, mirrored=True),
    "two releases": class_moments.settings_for(10.0, **ASKED, public_size=50_000),
    "random features": random_features.settings_for(1.0, **ASKED),
    "marginals": marginals.settings_for(0.2, delta=1e-5, sizes=(3, 4, 5), target=None),
}


@pytest.mark.parametrize("settings", PRICED.values(), ids=PRICED)
def test_dp_accounting_charges_a_release_alike(settings):
    peer = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    noises = [one.mechanism.noise_multiplier for one in settings.ledger()]
    assert len(noises) == 1 + (getattr(settings, "components", 1) > 1)
    one, *others = map(peer.from_gaussian_mechanism, noises)
    charged = reduce(lambda all_of, other: all_of.compose(other), others, one)
    found = pld.epsilon(settings.ledger(), delta=1e-5).epsilon
    assert charged.get_epsilon_for_delta(1e-5) == pytest.approx(found, rel=2e-3)


def on_grid(released: np.ndarray, noise_std: float) -> bool:
    """Whether all are multiples of the noise's grid, which no digit below it tells apart."""
    multiples = released / normals.grid(noise_std)
    return multiples.size > 0 and bool((multiples == multiples.round()).all())


@pytest.mark.parametrize("others", [0, 25])
def test_what_is_released_has_no_digits_that_tell_which_noise_was_possible(others):
    """A draw in floating point has gaps, and what it is added to moves them (Mironov 2012)."""
    base, rng = records(others), np.random.default_rng(0)
    features = _features()
    released = random_features.release(*base, settings=features, rng=rng)
    assert on_grid(released, features.noise_std)
    settings = _moments()
    rows, codes = checked(*base, classes=CLASSES, shape=SHAPE)
    exact = sums(rows, codes, CLASSES, settings=settings)
    found, std = noised(exact, 1.7, settings.weights, rng), 1.7
    rows, columns = np.triu_indices(settings.features, 1)
    assert on_grid(found.counts, std / settings.weights[0])
    assert on_grid(found.firsts, std / settings.weights[1])
    assert on_grid(np.einsum("gii->gi", found.seconds), std / settings.weights[2])
    assert on_grid(found.seconds[:, rows, columns], std / settings.weights[2] / sqrt(2))
    assert (found.seconds == found.seconds.transpose(0, 2, 1)).all()


@both
@pytest.mark.parametrize("noise", [0.7, 20.0])
def test_one_gaussian_of_that_noise_is_charged_and_nothing_proven_without(baseline, noise):
    assert baseline.settings(noise).ledger() == [Release(Gaussian(noise))]
    assert pld.epsilon(baseline.settings(0.0).ledger(), delta=1e-5).epsilon == np.inf


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 10.0])
def test_settings_for_an_epsilon_cost_it_and_hardly_less(epsilon):
    asked = {"delta": 1e-5, "classes": 10, "shape": (1, 28, 28)}
    found = [random_features.settings_for(epsilon, **asked, features=100)]
    for n in (1, 4, None):  # None: as many as can be told apart
        asked |= {"public_size": 60_000, "components": n}
        found.append(class_moments.settings_for(epsilon, **asked))
    assert found[0].features == 100
    assert [one.components for one in found[1:3]] == [1, 4]
    many = asked | {"classes": 2, "public_size": 10**9}
    assert class_moments.settings_for(10.0, **many).components == 64  # no more are told apart
    for settings in found:
        assert (settings.classes, settings.shape) == (10, (1, 28, 28))
        cost = pld.epsilon(settings.ledger(), delta=1e-5).epsilon
        assert 0.995 * epsilon <= cost <= epsilon


@both
@pytest.mark.parametrize(
    ("image", "label"),
    [(np.nan, 0), (np.inf, 0), (-0.1, 0), (1.1, 0), (1e200, 0), (0.5, -1), (0.5, CLASSES)],
)
def test_a_record_that_is_out_of_range_or_missing_is_refused(baseline, image, label):
    images, labels = records(4)
    images[2, 0, 1, 1], labels[2] = image, label
    with pytest.raises(ValueError, match=r"must lie in (\[0, 1\], and record 2|0\.\.2, got)"):
        baseline.noisy(images, labels, baseline.settings(), np.random.default_rng(0))


@both
@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((4, 1, 5, 4)), np.zeros(4, int), r"images must be .*shape \(records, 1, 4, 5\)"),
        (np.zeros((4, 20)), np.zeros(4, int), "images must be"),
        (np.zeros((4, *SHAPE), np.uint8), np.zeros(4, int), "images must be .*pixels / 255"),
        (np.zeros((4, *SHAPE)), np.zeros(3, int), r"labels must be .*\(4,\)"),
        (np.zeros((4, *SHAPE)), np.zeros(4), "labels must be integers"),
    ],
)
def test_other_shapes_and_types_are_refused(baseline, images, labels, message):
    with pytest.raises(ValueError, match=message):
        baseline.noisy(images, labels, baseline.settings(), np.random.default_rng(0))


# The embedding of DP-MERF: its norm, its kernel, and what its settings refuse


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_embedding_has_norm_1(dtype):
    """Also where an angle is far beyond what double precision resolves."""
    rng = np.random.default_rng(0)
    rows = np.vstack([rng.random((50, 20)), np.zeros(20), np.ones(20), rng.random((5, 20)) * 1e16])
    for scale in (1.5, 1e-4):
        settings = _features(features=200, length_scale=scale)
        norms = np.square(embedded(rows.astype(dtype), settings.frequencies())).sum(1)
        np.testing.assert_allclose(norms, 1, atol=1e-12)


def test_products_of_embeddings_are_the_kernel():
    """10,000 frequencies: by Hoeffding one of 1,225 products is off by 0.06 with 4e-5 at most."""
    rows = np.random.default_rng(1).random((50, 20))
    phi = embedded(rows, _features(features=20_000).frequencies())
    distances = np.square(rows[:, None] - rows).sum(-1)
    np.testing.assert_allclose(phi @ phi.T, np.exp(-distances / (2 * 1.5**2)), atol=0.06)


def test_frequencies_follow_from_the_settings_alone():
    first, second = (_features(features=10) for _ in range(2))
    np.testing.assert_array_equal(first.frequencies(), second.frequencies())
    other = _features(features=10, seed=1).frequencies()
    assert other.shape == (5, 20)
    assert (other != first.frequencies()).all()
    assert not other.flags.writeable


def test_many_records_are_embedded_a_few_at_a_time(monkeypatch):
    given, settings = records(7), _features(features=10)
    whole = random_features.embedded_sums(*given, settings=settings)
    monkeypatch.setattr(random_features, "AT_ONCE", 20)
    parts = random_features.embedded_sums(*given, settings=settings)
    np.testing.assert_allclose(parts, whole, atol=1e-12)


test_settings_of_features_that_cannot_be_are_refused = refused(
    ({"classes": 0}, "classes must be an integer >= 1"),
    ({"shape": (28, 28)}, "dimensions_of_shape must be an integer >= 3, got 2"),
    ({"shape": (1, 0, 28)}, r"shape\[1\] must be an integer >= 1"),
    ({"features": 11}, "features must be even"),
    ({"features": 0}, "features must be an integer >= 2"),
    ({"length_scale": float("nan")}, "length_scale must be a finite number > 0"),
    ({"noise_multiplier": float("nan")}, "noise_multiplier must be"),
    ({"noise_multiplier": 1e-12}, "noise"),
    ({"seed": -1}, "seed must be an integer >= 0"),
    call=lambda changes: FeaturesSettings(
        **{"classes": 3, "shape": SHAPE, "noise_multiplier": 1.0} | changes
    ),
)
