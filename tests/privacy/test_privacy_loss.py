"""Masses of the privacy loss against 40 digits, to the accuracy that the PLD's proof asks for."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkit.privacy import Gaussian, NoGuarantee, SampledGaussian
from dpkit.privacy.mechanisms import Mechanism
from dpkit.privacy.mechanisms.base import ROUNDING, from_atoms, normal_masses
from dpkit.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dpkit.privacy.mechanisms.pure import Laplace, RandomizedResponse

UNIT = 2.0**-53
SHIFT = 8 * UNIT  # an edge may be off by so much of the largest loss: rounding of a threshold


def above(z: mp.mpf) -> mp.mpf:
    return mp.erfc(z / mp.sqrt(2)) / 2


def tails(noise: float, rate: float, adjacency: str, loss: mp.mpf) -> list[mp.mpf]:
    """Beyond a loss: P above, P below, Q above, Q below; the definition solved for the output."""
    s, q = mp.mpf(noise), mp.mpf(rate)
    mean_of_q = 0 if adjacency == "add-remove" else -1
    if mean_of_q == 0:  # (1-q) + q exp((2x - 1) / (2 s^2)) = exp(loss)
        ratio = (mp.exp(loss) - (1 - q)) / q
        x = s * s * mp.log(ratio) + mp.mpf(1) / 2 if ratio > 0 else -mp.inf
    else:  # with y = exp(x / s^2), c = q exp(-1 / (2 s^2)):  1-q + c y = exp(loss) (1-q + c / y)
        c, e = q * mp.exp(-1 / (2 * s * s)), mp.exp(loss)
        b = (1 - q) * (e - 1)
        root = mp.sqrt(b * b + 4 * c * c * e)
        y = (b + root) / (2 * c) if b > 0 else 2 * c * e / (root - b)
        x = s * s * mp.log(y)
    if x == -mp.inf:
        return [mp.mpf(1), mp.mpf(0), mp.mpf(1), mp.mpf(0)]
    return [
        (1 - q) * above(sign * x / s) + q * above(sign * (x - mean) / s)
        for mean in (1, mean_of_q)
        for sign in (1, -1)
    ]


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


NOISES, RATES = [0.03, 0.1, 0.3, 1.0, 5.0, 80.0], [1e-9, 1e-5, 0.01, 0.5, 0.99, 1.0]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("rate", RATES)
def test_tails_keep_their_digits_everywhere(adjacency: str, noise: float, rate: float):
    """ROUNDING is a promise for any edge, but for one moved by a rounding error of its own."""
    mechanism = SampledGaussian(noise, rate, adjacency)  # type: ignore[arg-type]
    top = (1 if adjacency == "add-remove" else 2) / noise
    furthest = min(top * top / 2 + 9 * top, 600.0)
    edges = np.concatenate([-furthest * np.geomspace(1, 1e-12, 8), furthest * SPREAD])
    if rate < 1 and adjacency == "add-remove":  # towards the least loss
        edges = np.concatenate([np.log1p(-rate) * (1 - np.geomspace(1e-12, 0.9, 9)), edges])
    edges = np.unique(edges)
    found = got(mechanism, edges)
    with mp.workdps(40):
        for i, edge in enumerate(edges):
            shift = mp.mpf(SHIFT * furthest)
            lower = tails(noise, rate, adjacency, mp.mpf(float(edge)) - shift)
            higher = tails(noise, rate, adjacency, mp.mpf(float(edge)) + shift)
            for j, (one, other) in enumerate(zip(lower, higher, strict=True)):
                least, most = min(one, other), max(one, other)
                if least > 1e-45:
                    assert least * (1 - ROUNDING) <= found[j, i] <= most * (1 + ROUNDING)


SPREAD = np.concatenate([np.geomspace(1e-12, 1, 8), [0.3, 0.45, 0.5, 0.6, 0.8]])

MECHANISMS = [
    Gaussian(0.7),
    Gaussian(30.0, "replace-one"),
    SampledGaussian(0.9, 0.02),
    SampledGaussian(2.0, 0.3, "replace-one"),
    SampledGaussian(1.0, 0.0),
    Laplace(0.4),
    Laplace(3.0, "replace-one"),
    RandomizedResponse(1.5),
    RandomizedResponse(0.7, 5),
    DiscreteGaussian(1.7),
    DiscreteGaussian(0.6, 3, "replace-one"),
    NoGuarantee("none"),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_masses_beyond_an_epsilon_are_its_delta(mechanism: Mechanism):
    """delta = P(loss > eps) - e^eps Q(loss > eps); the other direction from below -eps."""
    eps = np.array([0.05, 0.31, 0.9, 2.2])
    p_above, _, q_above, _ = got(mechanism, eps)
    _, p_below, _, q_below = got(mechanism, -eps[::-1])
    removed, added = p_above - np.exp(eps) * q_above, (q_below - np.exp(eps[::-1]) * p_below)[::-1]
    np.testing.assert_allclose([removed, added], mechanism.profile(eps), rtol=1e-9, atol=1e-14)


@given(
    which=st.sampled_from(MECHANISMS),
    edges=st.lists(st.floats(-60, 60), min_size=1, max_size=30, unique=True),
)
def test_masses_are_two_distributions_with_the_ratio_of_their_cell(which, edges):
    edges = np.sort(edges)
    p, q = masses = which.privacy_loss().masses(edges)
    assert masses.shape == (2, edges.size + 1)
    assert (masses >= 0).all()
    np.testing.assert_allclose(masses.sum(axis=1), 1, rtol=1e-12)
    # in a cell (a, b]:  q e^a <= p <= q e^b, an atom on an edge up to a rounding error of its loss
    near = 1e-12 * (1 + np.abs(edges)) + 1e-9 * np.abs(edges)
    less = 1e-12 * np.minimum(np.cumsum(p)[1:-1], np.cumsum(p[::-1])[::-1][1:-1])
    more = 1e-12 * np.minimum(np.cumsum(q)[1:-1], np.cumsum(q[::-1])[::-1][1:-1])
    p, q, low, high = p[1:-1], q[1:-1], (edges - near)[:-1], (edges + near)[1:]
    assert (p <= q * np.exp(high) + less + more * np.exp(high)).all()
    assert (p >= q * np.exp(low) - less - more * np.exp(low)).all()


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
