"""Grid measures against hockey-stick curves in 50 digits: one never below, one never above."""

from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from truths import above

from dpkit.privacy import Gaussian, Laplace, Mechanism, RandomizedResponse, SampledGaussian
from dpkit.privacy.accountants.pld import loss_grid
from dpkit.privacy.accountants.pld.loss_grid import Cells, GridLoss
from dpkit.privacy.mechanisms.base import PrivacyLoss, from_atoms, normal_masses

CLOSE = mp.mpf(10) ** -12  # relative: sums of floats
SAMPLED = [SampledGaussian(0.6, 0.01), SampledGaussian(1.5, 0.2, "replace-one")]


def curve(masses: list, losses: list, infinite: float, epsilons: list) -> list:
    """E[(1 - exp(epsilon - loss))+] at falling epsilons, losses increasing."""
    out, left, p, q = [], len(losses), mp.mpf(infinite), mp.mpf(0)
    for epsilon in epsilons:
        while left and losses[left - 1] > epsilon:
            left -= 1
            mass = mp.mpf(float(masses[left]))
            p, q = p + mass, q + mass * mp.exp(-losses[left])
        out.append(p - mp.exp(epsilon) * q)
    return out


def gridded(loss: PrivacyLoss, spacing: float, span: tuple[float, float], centre: float) -> Cells:
    return loss_grid.cells(loss, spacing, span, loss_grid.balanced(loss, spacing, centre, 1e-9))


def exact_nodes(grid: GridLoss, side: int) -> list:
    """The nodes, moved to one side by what floats may be off by (the composition's `blur`)."""
    h, o = mp.mpf(float(grid.spacing)), mp.mpf(float(grid.offset))
    blur = side * mp.mpf(2.0**-52 * grid.furthest)
    return [(grid.first + k) * h + o + blur for k in range(grid.masses.size)]


def check(p: list, losses: list, cells: Cells) -> None:
    """Both measures against atoms p at losses, at every node, atom and between."""
    upper, lower = loss_grid.upper(cells), loss_grid.lower(cells)
    assert (upper.masses >= 0).all()
    assert (lower.masses >= 0).all()
    high, low = exact_nodes(upper, +1), exact_nodes(lower, -1)
    ends = sorted([*high, *low, *losses])
    asked = sorted([ends[0] - 1, *ends, *((a + b) / 2 for a, b in pairwise(ends))], reverse=True)
    true = curve(p, losses, 0, asked)
    for most, one in zip(curve(upper.masses, high, upper.infinite, asked), true, strict=True):
        assert most >= one * (1 - CLOSE)
    for least, one in zip(curve(lower.masses, low, lower.infinite, asked), true, strict=True):
        assert least <= one * (1 + CLOSE)


@given(
    atoms=st.lists(st.tuples(st.floats(-3, 3), st.floats(-25, 0)), min_size=1, max_size=5),
    spacing=st.floats(0.2, 3.0),
    span=st.tuples(st.floats(-4, 0), st.floats(0, 4)),
    centre=st.floats(-3, 3),
    lattice=st.booleans(),
)
def test_any_atoms_are_enclosed_in_both_directions(atoms, spacing, span, centre, lattice):
    """Also where the span cuts atoms off: raised or infinite above, lowered or dropped below."""
    losses = np.unique([loss for loss, _ in atoms])
    p = np.exp([w for _, w in atoms])[: losses.size]
    if lattice:
        losses = np.round(losses / 0.25) * 0.25
        losses, first = np.unique(losses, return_index=True)
        p = p[first]
    p = p / max(p.sum(), (p * np.exp(-losses)).sum())
    loss = from_atoms(losses, p, (0.0, 0.25) if lattice else None)
    cells = gridded(loss, spacing, span, centre)
    with mp.workdps(50):
        exact = [mp.mpf(float(x)) for x in losses]
        p = [mp.mpf(float(one)) for one in p]
        q = [one * mp.exp(-x) for one, x in zip(p, exact, strict=True)]
        check(p, exact, cells)
        check(q[::-1], [-x for x in exact[::-1]], cells.reversed())


@pytest.mark.parametrize("mechanism", [Gaussian(0.8), *SAMPLED, Laplace(1.2)])
def test_densities_are_enclosed_and_ever_closer(mechanism: Mechanism):
    """By their profile, which a finer grid brings closer (atoms keep the lower one away)."""
    eps, gaps = np.linspace(0.03, 1.5, 41), []
    for spacing in (0.2, 0.01):
        cells = gridded(mechanism.privacy_loss(), spacing, (-6.0, 9.0), 0.0)
        widest = 0.0
        for one, true in zip((cells, cells.reversed()), mechanism.profile(eps), strict=True):
            low, high = (
                -np.expm1(np.minimum(eps[:, None] - g.nodes, 0.0)) @ g.masses + g.infinite
                for g in (loss_grid.lower(one), loss_grid.upper(one))
            )
            assert (low <= true * (1 + 1e-12)).all()
            assert (high >= true * (1 - 1e-12)).all()
            widest = max(widest, (high - low).max())
        gaps.append(widest)
    assert gaps[1] < gaps[0] / 4


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(2, 40),
    spacing=st.floats(1e-6, 5.0),
    lost=st.booleans(),
)
def test_any_shares_are_lowered_until_every_node_keeps_its_loss(seed, count, spacing, lost):
    """Statement (2) of the proof, from the masses themselves, whatever shares were wanted."""
    rng = np.random.default_rng(seed)
    p = rng.exponential(size=count + 1) ** 3
    nodes = np.arange(count) * spacing
    inside = np.concatenate([[nodes[0] - 1], nodes[:-1] + spacing * rng.random(count - 1), [1e3]])
    p /= p.sum()
    q = p * np.exp(-np.maximum(inside, -1.0))
    if lost:  # masses that may have lost their digits
        q[rng.integers(count + 1)] = 0.0
    cells = Cells(0, 0.0, spacing, p, q / max(q.sum(), 1.0), 0)
    excess = loss_grid._excess(cells)
    up = loss_grid._allowed(rng.random(count - 1), excess)
    assert (up >= 0).all()
    assert (up <= 1).all()
    assert up[-1] == 0
    # up_(k-1) (q_(k-1) e^(v_k) - p_(k-1)) <= (1 - up_k) (p_k - q_k e^(v_k))
    p, q, t = cells.p[1:-1], cells.q[1:-1], np.exp(nodes)
    gives = up[:-1] * (q[:-1] * t[1:-1] - p[:-1])
    takes = (1 - up[1:]) * (p[1:] - q[1:] * t[1:-1])
    assert (gives <= takes + 1e-15 * p[1:]).all()


@pytest.mark.parametrize("spacing", [0.7, 0.1, 0.0123])
def test_atoms_of_a_lattice_lie_on_nodes(spacing: float):
    """Then the upper measure is the response itself, and the lower one at most a node below."""
    mechanism = RandomizedResponse(0.9, 4)
    loss = mechanism.privacy_loss()
    spacing = loss_grid.fitted(spacing, [loss])
    cells = gridded(loss, spacing, (-1.0, 1.0), 0.0)
    for grid, below in ((loss_grid.upper(cells), 0.0), (loss_grid.lower(cells), spacing)):
        there = grid.masses > 1e-9
        off = np.array([-0.9, 0.0, 0.9]) - grid.nodes[there]
        assert (off > -1e-11).all()
        assert (off < below + 1e-11).all()
        p = loss.masses(np.array([-0.95, -0.85, -0.05, 0.05, 0.85]))[0, [1, 3, 5]]
        np.testing.assert_allclose(grid.masses[there], p, rtol=1e-9)


def test_fitted_spacing_divides_the_finest_lattice_and_is_not_larger():
    coarse, fine = (PrivacyLoss(lambda e: e, (0.0, one)) for one in (1.0, 0.3))
    assert loss_grid.fitted(0.2, [coarse]) == pytest.approx(0.2)
    assert loss_grid.fitted(0.2, [fine, coarse]) == pytest.approx(0.15)
    assert loss_grid.fitted(0.2, [Gaussian(1.0).privacy_loss()]) == 0.2


# The masses that a grid is made of


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
                assert abs(found - true) <= (4 + edge * edge) * 2.0**-53 * true


def test_an_atom_on_an_edge_belongs_below_it():
    loss = from_atoms(np.array([-1.0, 0.5, 2.0]), np.array([0.1, 0.2, 0.7]), None)
    p, q = loss.masses(np.array([-1.0, 0.0, 2.0, 3.0]))
    np.testing.assert_array_equal(p, [0.1, 0.0, 0.2 + 0.7, 0.0, 0.0])
    np.testing.assert_allclose(q, [0.1 * np.e, 0, 0.2 * np.exp(-0.5) + 0.7 * np.exp(-2.0), 0, 0])
