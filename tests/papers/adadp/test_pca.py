"""DP-PCA: the components, what one record moves, the noise, and what is refused.

Fixed seeds. The file's five statistical checks reject at a p-value of 1e-8 each, so that with right
noise they would fail with probability 5e-8 together.
"""

from fractions import Fraction

import numpy as np
import pytest
from draws import rng, two_sided
from refusals import refused
from scipy import stats

from dpkit import datasets
from dpkit.papers.adadp import pca
from dpkit.privacy import Gaussian, Release, pld

LEAST_P = 1e-8


def upper(matrix):
    return matrix[np.triu_indices(len(matrix))]


@pytest.fixture(scope="module")
def rows():
    return datasets.digits().flat()


def test_without_noise_they_are_the_eigenvectors_of_the_scaled_rows(rows):
    """Nothing is centred, so that the first is near the mean."""
    whole = rows.astype(np.float64)
    scaled = whole / np.maximum(np.linalg.norm(whole, axis=1, keepdims=True), 1.0)
    vectors = np.linalg.eigh(scaled.T @ scaled).eigenvectors[:, ::-1][:, :10]
    found = pca.components(rows, k=10, noise_multiplier=1e-9, rng=rng())
    np.testing.assert_allclose(np.abs((vectors * found).sum(0)), 1, rtol=1e-6)
    np.testing.assert_allclose(found.T @ found, np.eye(10), atol=1e-12)
    assert (found[np.abs(found).argmax(0), range(10)] > 0).all()
    assert found[:, 0] @ rows.mean(0) / np.linalg.norm(rows.mean(0)) > 0.98


def test_little_noise_leaves_what_the_components_keep(rows):
    def kept(noise):
        found = pca.components(rows, k=20, noise_multiplier=noise, rng=rng(1))
        return np.square(rows @ found).sum() / np.square(rows).sum()

    assert kept(1e-9) > 0.9
    assert kept(1e-9) - 0.02 < kept(0.1) < kept(1e-9)
    assert kept(1e6) < 0.2  # 20 of 784 directions at random


# What one record moves


def test_a_record_moves_what_is_released_by_at_most_one_and_another_by_the_root_of_two():
    """Rows along an axis, sparse ones and dense ones, short and long."""
    draws = rng(2).standard_normal((600, 6)) * np.geomspace(1e-3, 1e3, 600)[:, None]
    draws *= rng(3).random(draws.shape) < 0.6
    records = np.concatenate([draws, np.eye(6), -1e-3 * np.eye(6)])
    moved = np.array([upper(pca.second_moments(record[None])) for record in records])
    assert np.linalg.norm(moved, axis=1).max() == 1  # along an axis
    assert (np.square(moved).sum(1) <= 1).all()
    apart = np.linalg.norm(moved[500:, None] - moved[500:], axis=2)
    assert np.isclose(apart.max(), 2**0.5, rtol=1e-12)
    # less noise off the diagonal would cost no more: by deviations of 1 / sqrt(2) it is still 1
    one = upper(pca.second_moments(np.array([[0.6, 0.0, 0.8]])))
    assert np.linalg.norm(one) < 0.9
    whitened = one / upper(np.where(np.eye(3), 1.0, 0.5**0.5))
    assert np.linalg.norm(whitened) == pytest.approx(1, abs=1e-4)


def test_no_rounding_makes_a_record_longer_than_one():
    """In fractions: numbers are whole multiples of 2^-18, and their squares add up to 1 at most."""
    draws = rng(5).standard_normal((300, 7)) * 50
    for row in np.concatenate([draws, np.full((1, 7), 0.1), np.full((1, 7), 1e200)]):
        whole = [Fraction(number) for number in pca._scaled(row[None], 0)[0]]
        assert all(number.denominator == 1 for number in whole)
        length = min(1, sum(Fraction(x) ** 2 for x in row))
        assert Fraction(49, 50) * length <= sum(number**2 for number in whole) / 4**18 <= 1


def test_sums_are_exact_whatever_the_order_of_the_records():
    draws = rng(6).standard_normal((9_000, 5))
    total = pca.second_moments(draws)
    assert (total == pca.second_moments(draws[::-1])).all()
    assert (total == pca.second_moments(draws[:4000]) + pca.second_moments(draws[4000:])).all()


# What it costs


def test_it_costs_one_gaussian_release():
    assert pca.release(6) == Gaussian(6)
    replaced = pca.release(6, adjacency="replace-one")
    assert replaced.adjacency == "replace-one"
    assert replaced.gaussian_dp().mu == pytest.approx(2**0.5 / 6)
    assert pld.epsilon([Release(pca.release(16))], delta=1e-5).epsilon < 0.3


# The noise


def test_the_noise_of_what_is_released_has_its_deviation_and_is_independent(monkeypatch):
    """3,000 releases of 10 numbers: lengths, whole law, correlations, symmetry."""
    seen = []
    monkeypatch.setattr(
        np.linalg, "eigh", lambda m, eigh=np.linalg.eigh: seen.append(m.copy()) or eigh(m)
    )
    records, one = rng(7).random((20, 4)), rng(8)
    for _ in range(3_000):
        pca.components(records, k=1, noise_multiplier=3, rng=one)
    noisy = np.array(seen)
    assert (noisy == noisy.swapaxes(1, 2)).all()
    noise = np.array([upper(one - pca.second_moments(records)) for one in noisy]) / 3
    sizes = np.square(noise).sum(0)
    assert min(two_sided(stats.chi2(len(noise)), size) for size in sizes) * 10 > LEAST_P
    smooth = noise.flatten() + (rng(9).random(noise.size) - 0.5) / 48
    assert stats.kstest(smooth, "norm").pvalue > LEAST_P
    products = (noise.T @ noise / len(noise) ** 0.5)[np.triu_indices(10, 1)]
    assert min(two_sided(stats.norm(), product) for product in products) * 45 > LEAST_P


# What is refused


test_bad_input_is_refused_by_name = refused(
    *(
        ({"rows": rows}, r"rows must be numbers of shape \(records, pixels\), got")
        for rows in (np.zeros((2, 2, 2)), [["a", "b"]], np.zeros((3, 0)))
    ),
    ({"rows": [[0.0, 1.0], [np.nan, 0.0]]}, "finite, got NaN or infinity in row 1,"),
    ({"rows": [[np.inf, 1.0]]}, "finite, got NaN or infinity in row 0,"),
    ({"rows": np.zeros((2**17 + 1, 1))}, r"rows must be at most 131072"),
    ({"k": 0}, r"k must be an integer >= 1, got 0"),
    ({"k": 3}, r"k must lie in \[1, 2\], got 3"),
    ({"noise_multiplier": np.nan}, r"noise_multiplier must be a finite number > 0, got nan"),
    ({"noise_multiplier": 1e-12}, r"noise_multiplier must lie in \[1e-9,"),
    ({"rng": 0}, r"rng must be a numpy.random.Generator, got int"),
    call=lambda changed: pca.components(
        **{"rows": np.eye(2), "k": 1, "noise_multiplier": 1.0, "rng": rng(), **changed}
    ),
    error=(ValueError, TypeError),
)
