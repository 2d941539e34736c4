"""A loss on a grid: the upper measure costs more, the lower one less, at every epsilon."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkit.privacy import Gaussian, Laplace, SampledGaussian
from dpkit.privacy.accountants.pld import loss_grid, saddle
from dpkit.privacy.accountants.pld.composed_loss import compose
from dpkit.privacy.mechanisms.base import from_atoms

EPSILONS = np.linspace(-4, 4, 81)


def curve(losses, p) -> np.ndarray:
    """The hockey-stick curve of atoms at EPSILONS."""
    return (p * np.maximum(-np.expm1(EPSILONS[:, None] - losses), 0.0)).sum(axis=1)


def bounded(cells, truth) -> None:
    up, low = loss_grid.upper(cells), loss_grid.lower(cells)
    assert (curve(up.nodes, up.masses) + up.infinite >= truth - 1e-12).all()
    assert (curve(low.nodes, low.masses) <= truth + 1e-12).all()


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    losses=st.lists(st.floats(-3, 3), min_size=1, max_size=9, unique=True),
    weights=st.lists(st.floats(0.01, 1), min_size=9, max_size=9),
    spacing=st.floats(0.05, 1.5),
    centre=st.floats(-1, 1),
)
def test_atoms_are_bounded_in_both_directions(losses, weights, spacing, centre):
    at = np.sort(np.array(losses))
    p = np.array(weights[: at.size])
    q = p * np.exp(-at)
    p, q = p / p.sum(), q / q.sum()
    at = np.log(p / q)  # normalised: a pair of distributions
    loss = from_atoms(at, p, None)
    found = loss_grid.cells(
        loss, spacing, (at[0] - 1, at[-1] + 1), loss_grid.balanced(loss, spacing, centre, 1e-9)
    )
    bounded(found, curve(at, p))
    bounded(found.reversed(), curve(-at[::-1], q[::-1]))


MECHANISMS = (
    Gaussian(1.3),
    SampledGaussian(1.1, 0.1),
    SampledGaussian(0.6, 0.3, "replace-one"),
    Laplace(1.5),
)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("spacing", [0.5, 0.05, 0.003])
def test_mechanisms_are_bounded_by_their_exact_profile(mechanism, spacing):
    loss = mechanism.privacy_loss()
    found = loss_grid.cells(
        loss, spacing, (-9.0, 9.0), loss_grid.balanced(loss, spacing, 0.0, 1e-9)
    )
    truth = mechanism.profile(EPSILONS)
    for cells, exact in ((found, truth[0]), (found.reversed(), truth[1])):
        bounded(cells, exact)
        up, low = loss_grid.upper(cells), loss_grid.lower(cells)
        width = curve(up.nodes, up.masses) - curve(low.nodes, low.masses)
        assert (width <= spacing).all()


def test_shares_that_are_too_large_are_lowered():
    """Whatever shares are tried, no node is left with less than its own loss."""
    loss = SampledGaussian(0.8, 0.2).privacy_loss()
    cells = loss_grid.cells(loss, 0.07, (-1.0, 6.0), loss_grid.balanced(loss, 0.07, 0.0, 1e-9))
    excess = loss_grid._excess(cells)
    rng = np.random.default_rng(0)
    for _ in range(50):
        up = loss_grid._allowed(rng.random(excess.p.size), excess)
        held = (1 - up[1:]) * excess.above[1:] - up[:-1] * excess.below[:-1]
        assert (held >= -1e-16).all()
        assert ((up >= 0) & (up <= 1)).all()


@pytest.mark.parametrize("count", [1, 2, 7, 40])
@pytest.mark.parametrize("delta", [1e-9, 1e-2])
def test_composition_is_convolution_within_its_own_error(count, delta):
    mechanism = SampledGaussian(1.0, 0.3)
    release = saddle.coarse([mechanism.privacy_loss()], [count], 1e-16)[0]
    look = saddle.for_delta(saddle.moments([release]), delta, count)
    cells = loss_grid.cells(
        mechanism.privacy_loss(),
        0.05,
        release.span,
        loss_grid.balanced(mechanism.privacy_loss(), 0.05, 0.0, 1e-9),
    )
    part = loss_grid.upper(cells)
    found = compose([(part, count)], look)
    masses, tilted = part.masses, part.masses * np.exp(look.tilt * part.nodes)
    expected = np.array([1.0])
    for _ in range(count):
        expected = np.convolve(expected, tilted / tilted.sum())
    nodes = count * part.nodes[0] + part.spacing * np.arange(expected.size)
    at = np.rint((nodes - found.losses[0]) / part.spacing).astype(int)
    inside = (at >= 0) & (at < found.losses.size)
    wrong = np.abs(found.weights[at[inside]] - expected[inside]).sum() + expected[~inside].sum()
    assert wrong <= found.error
    assert found.error < 1e-3
    assert masses.sum() + part.infinite == pytest.approx(1, abs=1e-12)
