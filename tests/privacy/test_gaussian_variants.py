"""Several noise levels in one release, against the vectors they stand for."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from dpkit.privacy import Gaussian, SampledGaussian
from dpkit.privacy.mechanisms import DiagonalGaussian, GroupedGaussian, effective_noise

NOISES = (0.8, 3.0, 1.5)
ORDERS = [1.5, 2.0, 7.0]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_diagonal_noise_costs_what_the_product_of_its_coordinates_does(adjacency):
    """Renyi divergences of a product add up, by definition; its delta is the mean, over the second
    loss l, of the first's at epsilon - l."""
    apart = sum(Gaussian(noise, adjacency).rdp(ORDERS) for noise in NOISES)
    np.testing.assert_allclose(DiagonalGaussian(NOISES, adjacency).rdp(ORDERS), apart, rtol=1e-14)
    first, second = (Gaussian(noise, adjacency) for noise in NOISES[:2])
    mu = second.gaussian_dp().mu  # its loss is N(mu^2 / 2, mu^2)

    def inside(z: float, epsilon: float) -> float:
        rest = epsilon - mu * z - mu * mu / 2
        return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * float(first.profile([rest])[0, 0])

    for epsilon in (0.0, 1.0, 4.0):
        expected = quad(inside, -10, 10, args=(epsilon,), epsabs=1e-12, limit=200)[0]
        found = DiagonalGaussian(NOISES[:2], adjacency).profile([epsilon])
        np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_equal_coordinates_are_one_vector():
    assert DiagonalGaussian((2.0,) * 16).noise_multiplier == pytest.approx(0.5, rel=1e-15)
    assert DiagonalGaussian((1.7,)).one == Gaussian(1.7)
    assert effective_noise((1e-9, 1e13)) == 1e-9


def test_groups_of_one_batch_move_together():
    """Order 2 of the mixture in two dimensions in closed form: 1 + q^2 (e^(|move|^2) - 1)."""
    q = 0.2
    for noises, groups, squared in (((0.9, 1.4), 2, 1 / 0.9**2 + 1 / 1.4**2), (0.9, 5, 5 / 0.9**2)):
        expected = math.log1p(q * q * math.expm1(squared))
        found = GroupedGaussian(noises, groups, q).rdp([2])[0]
        assert found == pytest.approx(expected, rel=1e-12)


def test_groups_under_replace_one_on_a_grid_of_two_dimensions():
    """The record's move in one data set is the opposite of that in the other."""
    q, noises = 0.3, (0.9, 1.4)
    x = np.arange(-14, 14, 0.05)

    def density(at: float) -> np.ndarray:
        one, two = (np.exp(-((x - at / noise) ** 2) / 2) for noise in noises)
        return np.outer(one, two) / (2 * np.pi)

    p, other = ((1 - q) * density(0) + q * density(sign) for sign in (1, -1))
    ours = GroupedGaussian(noises, 2, q, "replace-one")
    for order in (1.5, 3.0):
        expected = np.log((p**order * other ** (1 - order)).sum() * 0.05**2) / (order - 1)
        assert ours.rdp([order])[0] == pytest.approx(expected, rel=1e-9)
    stick = np.maximum(p - math.exp(0.7) * other, 0).sum() * 0.05**2
    assert ours.profile([0.7])[0, 0] == pytest.approx(stick, rel=1e-3)


def test_every_price_is_that_of_the_one_gaussian():
    ours, one = GroupedGaussian(1.2, 3, 0.1), SampledGaussian(1.2 / math.sqrt(3), 0.1)
    np.testing.assert_array_equal(ours.profile([0.5]), one.profile([0.5]))
    assert ours.gaussian_dp() == one.gaussian_dp()
    assert GroupedGaussian(1.2, 3).gaussian_dp().exact
    assert GroupedGaussian(1.2, 3).assumptions < ours.assumptions  # Poisson sampling besides
    diagonal = DiagonalGaussian(NOISES)
    assert diagonal.gaussian_dp().mu == pytest.approx(math.sqrt(sum(1 / z**2 for z in NOISES)))
    assert len({diagonal, DiagonalGaussian(NOISES), ours, GroupedGaussian(1.2, 3, 0.1)}) == 2
