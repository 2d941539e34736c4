"""Clipping in the norm of the noise, against its definition."""

import numpy as np
import pytest

from dpkit.papers.adadp.noise_shapes import ScaledClipping
from dpkit.privacy.mechanisms import DiagonalGaussian

SCALES = (np.array([0.5, 2.0]), np.array([[1.0, 4.0, 0.1]]))


def gradients(size, seed=0):
    """One example's, as one vector of five coordinates."""
    return size * np.random.default_rng(seed).standard_normal(5)


@pytest.mark.parametrize("size", [1e-3, 0.3, 1.0, 1e6])
def test_a_clipped_gradient_lies_in_the_ellipsoid_and_a_long_one_at_its_edge(size):
    flat, g = np.concatenate([s.ravel() for s in SCALES]), gradients(size)
    norms = np.array([[np.linalg.norm(g[:2] / flat[:2])], [np.linalg.norm(g[2:] / flat[2:])]])
    left = np.linalg.norm(ScaledClipping(SCALES).weights(norms)[0, 0] * g / flat)
    whole = np.linalg.norm(g / flat)
    assert left <= 1
    assert left == pytest.approx(min(whole, 1.0), rel=1e-4)


def test_the_noise_protects_as_one_gaussian_of_its_multiplier_along_any_axis():
    """And a gradient at the ellipsoid's edge moves the release by 1 / z in the noise's units."""
    rule, z = ScaledClipping(SCALES), 1.7
    noise = np.concatenate([s.ravel() for s in rule.noise_stds(z)])
    scales = np.concatenate([s.ravel() for s in SCALES])
    edge = gradients(1.0)
    edge *= scales / np.linalg.norm(edge)
    assert DiagonalGaussian(tuple(noise / np.abs(edge))).noise_multiplier == pytest.approx(z)


def test_sensitivity_is_the_longest_axis():
    assert ScaledClipping(SCALES).sensitivity("add-remove") == 4.0
    assert ScaledClipping(SCALES).sensitivity("replace-one") == 8.0


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_scales_that_are_not_positive_numbers_are_refused(bad):
    with pytest.raises(ValueError, match=r"scales\[1\] must hold finite numbers > 0"):
        ScaledClipping((np.ones(2), np.array([1.0, bad])))


def test_scales_of_other_shapes_are_refused():
    ScaledClipping(SCALES).check_shapes([(2,), (1, 3)])
    with pytest.raises(ValueError, match="scales must have the parameters' shapes"):
        ScaledClipping(SCALES).check_shapes([(2,), (3, 1)])
