"""Test functions against differences and their known minima; trajectories against plain loops."""

import math

import mpmath
import numpy as np
import pytest

from dpkit.papers.adadp import trajectories
from dpkit.papers.adadp.trajectories import BEALE, TrajectorySetting, adadp, dp_sgd, gradient

ROSENBROCK = next(one for one in trajectories.OBJECTIVES if one.name == "Rosenbrock")


@pytest.mark.parametrize("one", trajectories.OBJECTIVES, ids=lambda one: one.name)
def test_a_gradient_is_the_slope_and_a_function_is_least_where_it_is_said_to_be(
    one: trajectories.Objective,
):
    """By central differences, whose error is some 1e-9 of the function's size."""
    rng = np.random.default_rng(0)
    at = rng.uniform(one.low, one.high, (50, 2))
    found, scale = gradient(one, at), 1 + np.abs(one.value(*at.T))
    for axis, moved in enumerate(1e-5 * np.eye(2)):
        slope = (one.value(*(at + moved).T) - one.value(*(at - moved).T)) / 2e-5
        off = np.abs(slope - found[:, axis]) / (scale + np.abs(found[:, axis]))
        np.testing.assert_array_less(off, 1e-5)
    if one.least is not None:
        assert gradient(one, np.array(one.least)) == pytest.approx([0, 0], abs=1e-6)
        elsewhere = rng.uniform(one.low, one.high, (10_000, 2))
        assert one.value(*one.least) <= one.value(*elsewhere.T).min()


def test_a_gradient_in_high_precision():
    x, y, value = 1.3, -0.7, trajectories.BEALE_AS_PRINTED.value
    slopes = mpmath.diff(lambda t: value(t, y), x), mpmath.diff(lambda t: value(x, t), y)
    found = gradient(trajectories.BEALE_AS_PRINTED, np.array([x, y]))
    assert found == pytest.approx([float(one) for one in slopes], rel=1e-12)


def test_beale_with_its_last_term_cubed_has_no_least_value():
    assert trajectories.BEALE_AS_PRINTED.least is None
    x = -np.array([1e1, 1e2, 1e3])
    values = trajectories.BEALE_AS_PRINTED.value(x, 2.0)
    assert (np.diff(values) < 0).all()
    assert values[-1] < -1e8
    assert BEALE.value(x, 2.0).min() > 0


def by_line(
    name: str, one: trajectories.Objective, start, setting: TrajectorySetting, normals
) -> list[list[float]]:
    """One run by Algorithm 1, line by line and number by number."""
    rate, noise, norm = setting
    at, squares, history = [float(z) for z in start], [0.0, 0.0], [0.0, 0.0]
    path = []
    for normal in normals:
        raw = [float(z) for z in gradient(one, np.array(at))]
        roots = [math.sqrt(e) for e in history]
        mean = sum(roots) / 2
        local = name == "adadp" and sum((r - mean) ** 2 for r in roots) / 2 > 1e-6
        length = math.hypot(*raw)
        for i in (0, 1):
            if local:
                s = 1.5 * roots[i]
                noisy = min(max(raw[i], -s), s) + noise * math.sqrt(2) * s * normal[i]
            else:
                noisy = raw[i] / max(1.0, length / norm) + norm * noise * normal[i]
            squares[i] = 0.9 * squares[i] + 0.1 * noisy**2
            history[i] = 0.9 * history[i] + 0.1 * raw[i] ** 2
            scale = math.sqrt(squares[i] + 1e-8) if name == "adadp" else 1.0
            at[i] -= rate * noisy / scale
        path.append(list(at))
    return path


@pytest.mark.parametrize("steps", [adadp, dp_sgd], ids=["adadp", "dp_sgd"])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_trajectory_is_that_of_the_algorithm(steps, noise: float):
    """In 30 steps from two starts at once, each with a setting of its own."""
    starts = np.array([[1.0, 1.5], [-2.0, 0.5]])
    normals = np.random.default_rng(1).standard_normal((30, 2, 2))
    setting = TrajectorySetting(np.array([0.01, 0.03]), np.full(2, noise), np.array([1.0, 4.0]))
    found = np.stack(list(steps(BEALE, starts, setting, normals)), axis=1)
    for i in (0, 1):
        own = TrajectorySetting(*(float(np.asarray(value)[i]) for value in setting))
        exact = by_line(steps.__name__, BEALE, starts[i], own, normals[:, i])
        np.testing.assert_allclose(found[i], exact, rtol=1e-8)


def test_a_distance_is_the_mean_over_iterations():
    """Without noise there is none, and plain descent may diverge."""
    starts = np.array([[1.0, 1.5]])
    normals = np.random.default_rng(2).standard_normal((20, 1, 2))
    setting = TrajectorySetting(0.01, 1.0, 1.0)
    both = setting, setting._replace(noise_multiplier=0.0)
    noisy, clipped = (by_line("adadp", ROSENBROCK, starts[0], z, normals[:, 0]) for z in both)
    exact = sum(math.dist(p, q) for p, q in zip(noisy, clipped, strict=True)) / 20
    found, unclipped = trajectories.distances(adadp, ROSENBROCK, starts, setting, normals)
    assert found == pytest.approx(exact, rel=1e-8)
    assert 0 < unclipped[0] < math.inf
    told = np.array([[4.0, 4.0]]), TrajectorySetting(0.1, 0.0, 1.0), np.ones((50, 1, 2))
    for steps in (adadp, dp_sgd):
        found, unclipped = trajectories.distances(steps, BEALE, *told)
        assert found == 0
        assert np.isinf(unclipped) == (steps is dp_sgd)


def test_a_grid_is_every_combination_with_the_same_noise():
    grid = trajectories.TrajectoryGrid(2, (0.01, 0.1), (1.0,), (1.0, 4.0), seeds=2, iterations=10)
    clipped, unclipped = trajectories.over_grid(dp_sgd, BEALE, grid)
    assert clipped.shape == unclipped.shape == (4, 2, 1, 2, 2)
    points = trajectories.lattice(BEALE, 2)
    assert sorted(map(tuple, points)) == [(-1.5, -1.5), (-1.5, 1.5), (1.5, -1.5), (1.5, 1.5)]
    normals = np.random.default_rng(1).standard_normal((10, 2))[:, None]
    setting = TrajectorySetting(0.1, 1.0, 4.0)
    one, _ = trajectories.distances(dp_sgd, BEALE, points[2:3], setting, normals)
    assert clipped[2, 1, 0, 1, 1] == pytest.approx(one[0], rel=1e-12)


def test_the_evidence_of_a_small_grid():
    """Shares are shares, and what is near both ways round does not exceed either."""
    values = trajectories.trajectories(
        trajectories.TrajectoryGrid(2, (0.01, 0.1), (1.0,), (1.0,), 2, 20)
    ).values
    assert (values["settings"], values["functions"]) == (8, len(trajectories.OBJECTIVES) - 1)
    shares = [value for name, value in values.items() if name.endswith(("share", "nearer"))]
    assert all(0 <= share <= 1 for share in shares)
    for prefix in ("printed", "usual"):
        for name in ("adadp", "dpsgd"):
            ends = [0, *(values[f"{prefix}_{name}_{end}"] for end in ("low", "median", "high"))]
            assert ends == sorted(ends)
        assert values[f"{prefix}_both"] + values[f"{prefix}_reverse"] <= 1
    assert values["least_ratio"] <= values["usual_ratio"] <= values["most_ratio"]
