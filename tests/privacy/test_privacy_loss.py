"""Masses of the privacy loss against 40 digits, to the accuracy that the PLD's proof asks for."""

import mpmath as mp
import numpy as np
import pytest
from truths import above, tails

from dpkit.privacy import SampledGaussian
from dpkit.privacy.mechanisms import Mechanism
from dpkit.privacy.mechanisms.base import from_atoms, normal_masses

UNIT = 2.0**-53
SHIFT = 8 * UNIT  # an edge may be off by so much of the largest loss: rounding of a threshold


def got(mechanism: Mechanism, edges: np.ndarray) -> np.ndarray:
    """The same four, (4, edges), as sums of the cells' masses."""
    masses = mechanism.privacy_loss().masses(edges)
    below = np.cumsum(masses, axis=1)[:, :-1]
    beyond = np.cumsum(masses[:, ::-1], axis=1)[:, ::-1][:, 1:]
    return np.stack([beyond[0], below[0], beyond[1], below[1]])


@pytest.mark.parametrize("z", [[-30.0, -3.0, -1e-9, 0.0, 1e-9, 3.0, 30.0], [8.0, 8.1], [-0.5]])
def test_normal_masses_equal_40_digits_on_both_sides(z: list[float]):
    masses = normal_masses(np.array(z))
    with mp.workdps(40):
        for i, edge in enumerate(z):
            for found, true in [
                (masses[: i + 1].sum(), above(mp.mpf(-edge))),
                (masses[i + 1 :].sum(), above(mp.mpf(edge))),
            ]:
                # (x near 30 loses 30^2 / 2 units to the exponential's argument)
                assert abs(found - true) <= (4 + edge * edge) * UNIT * true


def test_an_atom_on_an_edge_belongs_below_it():
    loss = from_atoms(np.array([-1.0, 0.5, 2.0]), np.array([0.1, 0.2, 0.7]), None)
    p, q = loss.masses(np.array([-1.0, 0.0, 2.0, 3.0]))
    np.testing.assert_array_equal(p, [0.1, 0.0, 0.2 + 0.7, 0.0, 0.0])
    np.testing.assert_allclose(q, [0.1 * np.e, 0, 0.2 * np.exp(-0.5) + 0.7 * np.exp(-2.0), 0, 0])


def test_large_losses_of_a_rare_record_keep_their_mass():
    """Between log(largest float) + log(rate) and it, exp(loss) / rate is no float."""
    mechanism = SampledGaussian(0.0268, 1e-9)
    found = got(mechanism, np.array([680.0, 690.0, 695.0, 701.0, 760.0]))[0]
    with mp.workdps(40):
        true = [float(tails(0.0268, 1e-9, "add-remove", mp.mpf(e))[0]) for e in (680, 690, 695)]
    np.testing.assert_allclose(found[:3], true, rtol=1e-9)
    assert (np.diff(found) < 0).all()


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_tails_keep_their_digits_under_much_noise(adjacency: str):
    """log(1 + small) / small: an error of 1e-16 there would be one of noise * 1e-16 in z."""
    noise, rate = 1e5, 0.01
    edges = np.array([-6e-7, -1e-7, 1e-8, 3e-7, 9e-7])
    found = got(SampledGaussian(noise, rate, adjacency), edges)  # type: ignore[arg-type]
    with mp.workdps(40):
        for i, edge in enumerate(edges):
            true = tails(noise, rate, adjacency, mp.mpf(float(edge)))
            np.testing.assert_allclose(found[:, i], [float(t) for t in true], rtol=1e-12)
