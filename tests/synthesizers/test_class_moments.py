"""The class moments' model: it follows from noised sums alone, and makes images that have them."""

from dataclasses import replace
from math import sqrt
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from draws import rng
from refusals import refused
from scipy import stats

from dpkit import PrivateImages
from dpkit.datasets import digits
from dpkit.synthesizers import class_moments
from dpkit.synthesizers.class_moments import MomentsSettings, clipped, cosines, fit, waves

SHAPE = (1, 6, 5)
SETTINGS = MomentsSettings(3, SHAPE, 0.5, clip_norm=4.0, frequencies=3)
TWO = replace(SETTINGS, components=2)
both = pytest.mark.parametrize("settings", [SETTINGS, TWO], ids=["one", "two components"])
ONE_CLUSTER = pytest.mark.filterwarnings("ignore:Number of distinct clusters")


def made_up(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    return rng(9).random((n, *SHAPE)), rng(8).integers(3, size=n)


def releases_of(settings: MomentsSettings, images: Any, labels: Any, **rest: Any) -> list[Any]:
    """All that `fit` gives to what comes after: (noised sums, their noise)."""
    after = class_moments.components_from
    with patch.object(class_moments, "components_from", wraps=after) as seen:
        fit(images, labels, settings=settings, **rest)
    return [call.args for call in seen.call_args_list]


@both
def test_what_is_released_is_what_the_ledger_prices(settings):
    """One release or two, each with noise of its own multiplier times the sensitivity."""
    found = releases_of(settings, *made_up(), rng=rng())
    mechanisms = [one.mechanism for one in settings.ledger()]
    assert len(found) == len(mechanisms) == settings.components
    for (_, std), mechanism in zip(found, mechanisms, strict=True):
        assert std == pytest.approx(mechanism.noise_multiplier * settings.sensitivity)
    together = sum(one.noise_multiplier**-2 for one in mechanisms) ** -0.5
    assert together == pytest.approx(settings.noise_multiplier)
    assert settings.sensitivity == sqrt(sum(weight**2 for weight in settings.weights))


@ONE_CLUSTER
def test_both_releases_of_components_have_the_noise_that_is_priced():
    """On an empty data set all is noise: chi-square of 40 releases, failing with 2e-7 each."""
    settings, no_images = TWO, np.zeros((0, *SHAPE))
    draws = [releases_of(settings, no_images, [], rng=rng(seed)) for seed in range(40)]
    rows, columns = np.triu_indices(settings.features)
    for index, multiplier in enumerate(settings.noise_multipliers):
        scale = multiplier * settings.sensitivity
        released = [draw[index][0] for draw in draws]
        count, first, second = settings.weights
        second = second * np.where(rows < columns, sqrt(2), 1)
        parts = [
            (count, [one.counts for one in released]),
            (first, [one.firsts for one in released]),
            (second, [one.seconds[:, rows, columns] for one in released]),
        ]
        for weight, part in parts:
            scaled = (weight * np.array(part) / scale).ravel()
            low, high = stats.chi2(scaled.size).ppf([1e-7, 1 - 1e-7])
            assert low < np.square(scaled).sum() < high


@both
def test_a_model_follows_from_the_noised_sums_alone(settings):
    images, labels = made_up()
    model = fit(images, labels, settings=settings, rng=rng(1))
    noisy, std = releases_of(settings, images, labels, rng=rng(1))[-1]
    images[:], labels[:] = 0, 0
    again = list(class_moments.components_from(noisy, std, settings=settings))
    own = [one for components in model.components for one in components]
    for one, other in zip(own, again, strict=True):
        assert one.count == pytest.approx(other.count)
        np.testing.assert_allclose(one.mean, other.mean, atol=1e-9)
        spreads = [part.factors @ part.factors.T for part in (one, other)]
        np.testing.assert_allclose(spreads[0], spreads[1], atol=1e-9)


@ONE_CLUSTER
def test_an_empty_class_and_empty_data_make_images_too():
    images, labels = made_up(30)
    for given in ((images, labels * 0), (images[:0], labels[:0])):
        drawn = fit(*given, settings=TWO, rng=rng()).sample([0, 1, 2], rng=rng())
        assert ((drawn >= 0) & (drawn <= 1)).all()


def test_a_records_component_depends_on_that_record_alone():
    """Alone, among others and in another order; centres are public by then."""
    images, labels = made_up(200)
    rows = images.reshape(200, -1)
    near = class_moments.partition(list(rng(1).random((3, 30))), [np.eye(30) * 0.3] * 3, 4)
    whole = near(rows, labels)
    assert set(whole) == {0, 1, 2, 3}
    alone = [int(near(rows[[i]], labels[[i]])[0]) for i in range(200)]
    assert alone == whole.tolist()
    assert near(rows[::-1], labels[::-1]).tolist() == whole[::-1].tolist()


def test_samples_have_the_moments_of_the_data():
    """Without noise: of 20,000 samples a mean is off by 0.02 with 1e-8, a covariance by 0.02.

    Images of little contrast, so that next to nothing is cut off at 0 and 1.
    """
    base = 0.5 + 0.1 * (rng(2).random((3, *SHAPE)) - 0.5)
    labels = rng(3).integers(3, size=600)
    images = base[labels] + 0.3 * (rng(4).random((600, *SHAPE)) - 0.5)
    quiet = MomentsSettings(3, SHAPE, 0.0, clip_norm=30.0, frequencies=None)
    model = fit(images, labels, settings=quiet, rng=rng())
    for label in range(3):
        drawn = model.sample(np.full(20_000, label), rng=rng(5)).reshape(20_000, -1)
        own = images[labels == label].reshape(-1, 30)
        np.testing.assert_allclose(drawn.mean(0), own.mean(0), atol=0.005)
        np.testing.assert_allclose(np.cov(drawn.T), np.cov(own.T, bias=True), atol=0.002)


def test_components_are_drawn_as_often_as_they_are():
    """A class of two kinds, 3 to 1, without noise: of 4,000 samples 0.05 off has 1e-12."""
    images = np.concatenate([np.full((300, *SHAPE), 0.2), np.full((100, *SHAPE), 0.8)])
    images += 0.02 * rng().random(images.shape)
    labels = np.zeros(400, dtype=int)
    quiet = MomentsSettings(1, SHAPE, 0.0, clip_norm=6.0, frequencies=None, components=2)
    model = fit(images, labels, settings=quiet, rng=rng())
    drawn = model.sample(np.zeros(4000, dtype=int), rng=rng(1)).reshape(4000, -1).mean(1)
    assert (drawn > 0.5).mean() == pytest.approx(0.25, abs=0.05)


def test_images_longer_than_the_clipping_norm_are_scaled_to_it():
    rows = np.stack([np.zeros(30), np.ones(30), np.full(30, 0.1)])
    found = clipped(rows, settings=replace(SETTINGS, frequencies=None))
    norms = np.sqrt(np.square(found).sum(1))
    np.testing.assert_allclose(norms, [0, 1, 0.1 * sqrt(30) / 4], atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 6, 5), (3, 4, 4), (1, 2, 9)])
@pytest.mark.parametrize("kept", [(3,), (None, 12), (3, 5)])
def test_cosines_are_orthonormal_and_hold_the_mean(shape, kept):
    basis = cosines(shape, *kept)
    assert basis is not None
    assert cosines(shape, 9) is cosines(shape, None) is None  # the pixels themselves
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)
    flat = np.ones(int(np.prod(shape)))
    np.testing.assert_allclose(basis.T @ (basis @ flat), flat, atol=1e-12)


def test_the_lowest_frequencies_are_kept_and_those_of_colours_count_twice():
    """By hand: of 1 x 4 x 4 the ten below 3.2 half waves; of colours one for four of light."""
    squares = np.square(waves((1, 4, 4), None, 10)[:, 1:]).sum(1)
    assert squares.tolist() == [0, 1, 1, 2, 4, 4, 5, 5, 8, 9]
    channels = waves((3, 32, 32), None, 600)[:, 0]
    light, *colours = np.bincount(channels)
    assert colours[0] == colours[1] == pytest.approx(light / 4, rel=0.15)
    basis = cosines((3, 8, 8), None, 3)
    assert basis is not None
    grey, red_blue, green = basis @ np.kron(np.eye(3), np.ones(64)).T
    assert grey == pytest.approx(np.full(3, grey[0]))
    assert red_blue == pytest.approx([red_blue[0], 0, -red_blue[0]])
    assert green == pytest.approx([green[0], -2 * green[0], green[0]])


@pytest.mark.parametrize("mirrored", [False, True])
def test_what_noise_adds_to_a_variance_is_taken_off(mirrored):
    """A spike of ten times the noise's edge, in 400 cosines: off by 3 % in none of 30 draws.

    The best multiple of the noisy direction is sought by its distance from the spike.
    """
    settings = MomentsSettings(1, (1, 20, 20), 1.0, lowest=400, clip_norm=1.0, mirrored=mirrored)
    spike = np.zeros((400, 400))
    spike[0, 0] = strength = 10 * 2 * sqrt(400 / 2)
    mean = np.zeros((1, 400))
    noisy = class_moments.noised(
        class_moments.Sums(np.ones(1), mean, spike[None]), 1.0, (1e9, 1e9, 1.0), rng()
    )
    (made,) = class_moments.components_from(noisy, 1.0, settings=settings)
    assert settings.basis is not None
    factors = settings.basis @ made.factors
    found = factors @ factors.T
    top = np.linalg.eigh(found)[1][:, -1]
    best = strength * top[0] ** 2  # argmin over c of |c v v' - spike| in Frobenius norm
    assert np.linalg.eigvalsh(found)[-1] == pytest.approx(best, rel=0.03)


def test_moments_of_images_and_of_their_mirror_images_are_alike_where_a_mirror_keeps_a_class():
    images, labels = made_up()
    settings = replace(SETTINGS, noise_multiplier=0.0, mirrored=True)
    pair = [fit(x, labels, settings=settings, rng=rng()) for x in (images, images[..., ::-1])]
    for ones in zip(*(model.components for model in pair), strict=True):
        (one, other) = (component for (component,) in ones)
        np.testing.assert_allclose(one.mean, other.mean, atol=1e-9)
        spreads = [part.factors @ part.factors.T for part in (one, other)]
        np.testing.assert_allclose(spreads[0], spreads[1], atol=1e-9)
        np.testing.assert_allclose(one.mean.reshape(6, 5), one.mean.reshape(6, 5)[:, ::-1])
    both = np.concatenate([images, images[..., ::-1]])
    plain = fit(both, np.tile(labels, 2), settings=replace(settings, mirrored=False), rng=rng())
    own, other = (model.components[0][0].factors for model in (pair[0], plain))
    np.testing.assert_allclose(own @ own.T, other @ other.T, atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64)])
def test_features_follow_from_public_numbers_and_grow_with_the_budget(shape):
    asked: dict[str, Any] = {"delta": 1e-5, "classes": 10, "shape": shape}
    counts = [
        class_moments.settings_for(epsilon, **asked, public_size=size, components=1).features
        for epsilon, size in ((0.1, 100), (1, 1_000), (1, 50_000), (10, 10**6))
    ]
    assert counts == sorted(counts)
    assert 0 < counts[0] <= counts[-1] <= min(np.prod(shape), 256)


def test_digits_keep_their_classes():
    """The nearest of the sampled means is right for 0.86 to 0.89 in 8 runs, deviation 0.008."""
    data = digits()
    fitted = PrivateImages(epsilon=10, reproducible_seed=0).fit(data.pixels, data.labels)
    drawn = fitted.sample(np.repeat(np.arange(10), 100), reproducible_seed=1)
    means = drawn.reshape(10, 100, -1).mean(1)
    distances = np.square(data.flat()[:, None] - means).sum(-1)
    assert (distances.argmin(1) == data.labels).mean() > 0.8


test_settings_that_cannot_be_are_refused = refused(
    ({"classes": 0}, "classes must be an integer >= 1"),
    ({"shape": (28, 28)}, r"shape must be \(channels, height, width\)"),
    ({"shape": (1, 0, 28)}, "height must be an integer >= 1"),
    *(({"clip_norm": bad}, "clip_norm must be a finite number > 0") for bad in (0.0, np.nan)),
    ({"weights": (1.0, 1.0)}, "weights must be of count, mean, second moment"),
    ({"weights": (1.0, 0.0, 1.0)}, r"weights\[1\] must be a finite number > 0"),
    *(({"noise_multiplier": bad}, "noise_multiplier must be") for bad in (-1.0, np.nan)),
    ({"frequencies": 0}, "frequencies must be an integer >= 1"),
    ({"lowest": 0}, "lowest must be an integer >= 1"),
    ({"centre": 1.5}, "centre must lie in"),
    ({"mirrored": True}, "mirrored needs cosines"),
    ({"components": 0}, "components must be an integer >= 1"),
    call=lambda changes: MomentsSettings(
        **{"classes": 3, "shape": SHAPE, "noise_multiplier": 1.0} | changes
    ),
)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_sums_that_are_not_finite_are_refused(value):
    noisy, std = releases_of(SETTINGS, *made_up(), rng=rng())[0]
    noisy.seconds[1, 0, 0] = value
    with pytest.raises(ValueError, match="noisy sums must be finite"):
        list(class_moments.components_from(noisy, std, settings=SETTINGS))
