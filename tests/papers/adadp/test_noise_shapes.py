"""Noise shapes: what each step's clipping and noise come to, and what a shape remembers of it.

Of DpOpt's noise the optimum it descends to, and its constraint.
"""

from functools import partial

import numpy as np
import pytest
import torch
from scipy import optimize
from torch import nn

from dpkit.papers.adadp import noise_shapes
from dpkit.papers.adadp.noise_shapes import NoiseShape, RawHistory, ReleasedHistory, ScaledClipping
from dpkit.privacy import DiagonalGaussian
from dpkit.privacy.clipping import FlatClipping, PerCoordinateClipping
from dpkit.training import clipped_sum, per_example, seeded

SHAPES = [(4, 3), (4,)]
SHAPED = {
    "flat": partial(NoiseShape, max_grad_norm=2.0),
    "raw": partial(RawHistory, max_grad_norm=2.0),
    "released": partial(ReleasedHistory, max_grad_norm=2.0, lot=5),
    "optimised": partial(noise_shapes.OptimisedNoise, max_grad_norm=2.0),
}
RAW = partial(RawHistory, noise_multiplier=1.0, max_grad_norm=1.0)
SCALES = (np.array([0.5, 2.0]), np.array([[1.0, 4.0, 0.1]]))
AXES = np.concatenate([s.ravel() for s in SCALES])
NETWORKS = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), (7, 6)),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 3)),
        (7, 1, 6, 6),
    ),
    "positions": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Flatten()), (7, 3, 6)),
}


def parameters():
    return [torch.zeros(shape) for shape in SHAPES]


def random(seed=0, scale=1.0):
    rng = torch.Generator().manual_seed(seed)
    return [scale * torch.randn(shape, generator=rng) for shape in SHAPES]


def effective_noise(shaped, example):
    """1 / sqrt(sum s^2 / sigma^2) of the clipped gradient of one example: what Lemma 1 asks for."""
    if isinstance(shaped.rule, PerCoordinateClipping):
        moved = shaped.rule.clip([g[None] for g in example])
    else:
        scaled = shaped.rule.scales if isinstance(shaped.rule, ScaledClipping) else [1.0] * 2
        norms = torch.stack([(g / d).norm() for g, d in zip(example, scaled, strict=True)])
        weight = shaped.rule.weights(norms[:, None]).flatten()[0]
        moved = [weight * g for g in example]
    squares = [((m / s) ** 2).sum() for m, s in zip(moved, shaped.noise_stds, strict=True)]
    return float(torch.stack(squares).sum()) ** -0.5


@pytest.mark.parametrize("name", SHAPED)
@pytest.mark.parametrize("steps", [0, 1, 30])
def test_no_example_moves_a_release_by_more_than_the_noise_is_for(name, steps):
    shape = SHAPED[name](parameters(), noise_multiplier=1.7)
    for seed in range(steps):
        shape.see(random(seed, 30.0), lambda of, seed=seed: [g**2 for g in random(seed)])
    for seed, size in ((100, 1e3), (101, 1.0), (102, 1e6)):
        assert effective_noise(shape.now(), random(seed, size)) >= 1.7 * (1 - 1e-6)


def test_flat_noise_is_that_of_dp_sgd_and_dpopts_is_before_anything_is_released():
    given = {"noise_multiplier": 1.5, "max_grad_norm": 2.0}
    shaped = NoiseShape(parameters(), **given).now()
    assert (shaped.rule, list(shaped.noise_stds)) == (FlatClipping(2.0), [3.0, 3.0])
    rule, stds = noise_shapes.OptimisedNoise(parameters(), **given).now()
    assert all(torch.allclose(scale, torch.tensor(2.0)) for scale in rule.scales)
    assert all(torch.allclose(std, torch.tensor(3.0)) for std in stds)


def test_a_raw_history_is_that_of_algorithm_1():
    shape = RawHistory(parameters(), noise_multiplier=8.0, max_grad_norm=4.0, threshold=0.0)
    assert isinstance(shape.now().rule, FlatClipping)  # E'_0 = 0 has no spread
    wanted = [np.zeros(s) for s in SHAPES]
    for seed in range(3):
        shape.see(random(9), lambda of, seed=seed: [g**2 for g in random(seed)])
        wanted = [0.9 * e + 0.1 * g.numpy() ** 2 for e, g in zip(wanted, random(seed), strict=True)]
    shaped = shape.now()
    assert isinstance(shaped.rule, PerCoordinateClipping)
    for bound, noise, square in zip(shaped.rule.bounds, shaped.noise_stds, wanted, strict=True):
        np.testing.assert_allclose(bound, 1.2 * np.sqrt(square), rtol=1e-5)  # line 9
        np.testing.assert_allclose(noise, 1.2 * 8 * np.sqrt(16 * square), rtol=1e-5)  # line 12


@pytest.mark.parametrize(("spread", "switches"), [("root", True), ("square", False)])
def test_readings_of_a_raw_history(spread, switches):
    """When it switches, which gradient it asks for, and noise on each example of 600."""
    shape, asked = RAW(parameters(), spread=spread, of="example"), []
    shape.see(random(), lambda of: asked.append(of) or [(0.01 * g) ** 2 for g in random()])
    assert (shape.switched(), asked) == (switches, ["example"])
    one, more = (RAW(parameters(), scale=scale).now() for scale in (1.0, 600**0.5))
    assert more.noise_stds[0] == pytest.approx(600**0.5 * one.noise_stds[0])
    with pytest.raises(TypeError, match="raw must be given"):
        shape.see(random())


def releases(shape, gradient, steps, *, lot, seed):
    """Steps in which the lot's mean is always `gradient`: noise is all that moves the history."""
    rng = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        stds = shape.now().noise_stds
        noisy = [
            lot * g + s * torch.randn(g.shape, generator=rng)
            for g, s in zip(gradient, stds, strict=True)
        ]
        shape.see(noisy, lambda of: pytest.fail("a released history reads no raw gradient"))


def test_a_released_history_estimates_the_squares_under_the_noise():
    """400 coordinates of 3,000 steps: the mean's deviation is 1 %, and 6 % is asked for.

    Chance of a failure below 1e-8 by a normal's tail.
    """
    gradient = [torch.full((400,), 0.02)]
    shape = ReleasedHistory(
        gradient, noise_multiplier=1.0, max_grad_norm=1.0, lot=10, decay=0.999, range_factor=2.0
    )
    releases(shape, gradient, 3_000, lot=10, seed=0)
    expected = 0.02**2 * (1 - 0.999**3_000)
    assert float(shape.remembered()[0].mean()) == pytest.approx(expected, rel=0.06)


def test_a_released_history_stays_within_its_range_whatever_the_noise():
    shape = ReleasedHistory(parameters(), noise_multiplier=50.0, max_grad_norm=2.0, lot=3)
    releases(shape, parameters(), 300, lot=3, seed=1)
    for scale in shape.scales():
        assert bool(((scale >= 0.5) & (scale <= 8.0)).all())
    assert max(float(one.abs().max()) for one in shape.remembered()) < (8 * 50) ** 2


@pytest.mark.parametrize("name", SHAPED)
def test_what_a_shape_remembers_is_kept_by_its_state(name):
    one, other = (SHAPED[name](parameters(), noise_multiplier=1.0) for _ in range(2))
    one.see(random(1, 50.0), lambda of: [g**2 for g in random(2)])
    other.load_state_dict(one.state_dict())
    for left, right in zip(one.now().noise_stds, other.now().noise_stds, strict=True):
        torch.testing.assert_close(torch.as_tensor(left), torch.as_tensor(right))


@pytest.mark.parametrize("name", SHAPED)
def test_what_is_no_release_of_the_network_is_refused(name):
    shape = SHAPED[name](parameters(), noise_multiplier=1.0)
    with pytest.raises(ValueError, match="noisy must hold a tensor for each parameter"):
        shape.see([torch.zeros(1)] * 2, lambda of: parameters())
    with pytest.raises(FloatingPointError, match="NaN or infinite"):
        shape.see([random()[0], torch.full((4,), torch.nan)], lambda of: parameters())


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        *((RawHistory, one) for one in ({"of": "sums"}, {"scale": 0.0}, {"threshold": np.nan})),
        (ReleasedHistory, {"noise_multiplier": float("nan"), "lot": 3}),
        (ReleasedHistory, {"max_grad_norm": 0.0, "lot": 3}),
        (ReleasedHistory, {"decay": 1.5, "lot": 3}),
        *((ReleasedHistory, {"range_factor": 0.5, "lot": 3}), (ReleasedHistory, {"lot": 0})),
    ],
)
def test_numbers_and_readings_out_of_range_are_refused(kind, change):
    given = {"noise_multiplier": 1.0, "max_grad_norm": 1.0} | change
    with pytest.raises(ValueError, match=f"{next(iter(change))} must"):
        kind(parameters(), **given)


@pytest.mark.parametrize("wrong", [torch.nn.Linear(2, 2), [], [torch.zeros(2, dtype=torch.int64)]])
def test_parameters_are_tensors_of_floats(wrong):
    with pytest.raises(TypeError, match="parameters must be"):
        NoiseShape(wrong, noise_multiplier=1.0, max_grad_norm=1.0)


# Clipping in the norm of the noise, against its definition


@pytest.mark.parametrize("size", [1e-3, 0.3, 1.0, 1e6])
def test_a_clipped_gradient_lies_in_the_ellipsoid_and_a_long_one_at_its_edge(size):
    """There it moves the release by 1 / z in the noise's units, which is along any axis one z."""
    rule, z = ScaledClipping(SCALES), 1.7
    g = size * np.random.default_rng(0).standard_normal(5)
    norms = np.array([[np.linalg.norm(g[:2] / AXES[:2])], [np.linalg.norm(g[2:] / AXES[2:])]])
    left = np.linalg.norm(rule.weights(norms)[0, 0] * g / AXES)
    assert left <= 1
    assert left == pytest.approx(min(np.linalg.norm(g / AXES), 1.0), rel=1e-4)
    noise = np.concatenate([s.ravel() for s in rule.noise_stds(z)])
    edge = g / np.linalg.norm(g) * AXES
    assert DiagonalGaussian(tuple(noise / np.abs(edge))).noise_multiplier == pytest.approx(z)
    assert (rule.sensitivity("add-remove"), rule.sensitivity("replace-one")) == (4.0, 8.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_scales_that_are_not_positive_numbers_or_of_other_shapes_are_refused(bad):
    with pytest.raises(ValueError, match=r"scales\[1\] must hold finite numbers > 0"):
        ScaledClipping((np.ones(2), np.array([1.0, bad])))
    ScaledClipping(SCALES).check_shapes([(2,), (1, 3)])
    with pytest.raises(ValueError, match="scales must have the parameters' shapes"):
        ScaledClipping(SCALES).check_shapes([(2,), (3, 1)])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def harm(weights, shares):
    """What is minimised."""
    return float((weights / shares.sqrt()).sum())


def closed_form(weights):
    """Lagrange: w_i u_i^(-3/2) is the same at all coordinates."""
    shares = weights ** (2 / 3)
    return shares / shares.mean()


# --- DpOpt: the optimum ---


def test_descent_ends_at_the_closed_form_which_another_solver_finds():
    weights = 1 + normal(5_000).abs()
    assert torch.allclose(noise_shapes.optimal_shares(weights), closed_form(weights), rtol=1e-6)
    weights = 1 + 4 * normal(6).abs()
    found = optimize.minimize(
        lambda u: harm(weights, torch.from_numpy(u)),
        np.ones(6),
        bounds=[(0.05, 6)] * 6,
        constraints={"type": "eq", "fun": lambda u: u.mean() - 1},
        options={"ftol": 1e-14},
    )
    assert np.allclose(found.x, closed_form(weights), rtol=1e-4)


@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_descent_comes_near_the_least_harm_where_few_slopes_are_steep(spread):
    """Log-normal ones, the largest hundreds of times the average, below which none counts."""
    slopes = (spread * normal(5_000)).exp()
    weights = slopes.clamp(min=slopes.mean())
    least = harm(weights, closed_form(weights))
    assert least <= harm(weights, noise_shapes.optimal_shares(weights)) < 1.01 * least
    assert harm(weights, torch.ones_like(weights)) > 1.02 * least  # with equal noise


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("least", [0.0, 0.6])
def test_projection_goes_to_the_nearest_shares(seed, least):
    """Of which the remaining difference is at right angles, or points out of the set."""
    given = 1 + 2 * normal(40, seed=seed)
    moved = noise_shapes.projected(given, least)
    assert float(moved.mean()) == pytest.approx(1, rel=1e-12)
    assert moved.min() >= least
    others = torch.rand(100, 40, generator=generator(seed), dtype=torch.float64)
    others = least + (1 - least) * others / others.mean(1, keepdim=True)
    assert ((others - moved) @ (given - moved) <= 1e-9).all()


def test_the_constraint_is_met_to_six_digits():
    """sum (C^2 / m) / d_i^2 = 1."""
    slopes = [normal(*one, seed=i).float() ** 3 for i, one in enumerate([(30, 20), (30,), (1, 30)])]
    scales = torch.cat([d.double().flatten() for d in noise_shapes.least_harmful(slopes, 4.0)])
    assert float((16.0 / len(scales) / scales**2).sum()) == pytest.approx(1, rel=1e-6)
    assert scales.max() > 1.2 * scales.min()


def test_noise_is_least_where_the_released_slope_is_steepest():
    noise = noise_shapes.OptimisedNoise(
        [torch.zeros(4)], noise_multiplier=1.3, max_grad_norm=1.0, decay=0.5
    )
    noise.see([torch.tensor([0.0, 1.0, -8.0, 3.0])], lambda *_: pytest.fail("the raw one was read"))
    (scales,), (std,) = noise.now().rule.scales, noise.now().noise_stds
    assert scales.argmin() == 2  # -8, the steepest
    assert scales[0] == scales[1] == scales.max()  # both below the average
    assert torch.allclose(std / scales, torch.tensor(1.3), rtol=1e-6)
    with pytest.raises(FloatingPointError, match="a slope is NaN or infinite"):
        noise_shapes.least_harmful([torch.tensor([0.0, torch.inf])], 1.0)


# --- clipping in the norm of the noise ---


def summed_squares(outputs):
    return outputs.square().sum(1)


@pytest.fixture(params=NETWORKS)
def case(request):
    """A network, a batch and scales."""
    made, shape = NETWORKS[request.param]
    with seeded(0):
        network = made().double()
        scales = tuple(torch.rand_like(p).detach() + 0.1 for p in network.parameters())
    return network, normal(*shape), ScaledClipping(scales)


def test_clipped_sums_are_those_of_gradients_one_by_one(case):
    network, batch, rule = case
    found = clipped_sum(partial(per_example, network, summed_squares), batch, rule=rule)
    expected = [torch.zeros_like(p) for p in network.parameters()]
    for row in batch:
        own = torch.autograd.grad(summed_squares(network(row[None])).sum(), [*network.parameters()])
        norm = sum((g / d).square().sum() for g, d in zip(own, rule.scales, strict=True)).sqrt()
        for total, g in zip(expected, own, strict=True):
            total += g / max(1.0, float(norm) * noise_shapes.ROUNDED_UP)
    assert all(torch.allclose(a, b) for a, b in zip(found.sums, expected, strict=True))
    assert (found.weights < 1).any()


def test_no_example_leaves_the_ellipsoid(case):
    """In single precision, where sums round: 1 / z is the most that a record moves by."""
    network, batch, rule = case
    network.float()
    rule = ScaledClipping(tuple(scale.float() for scale in rule.scales))
    for row in 100 * batch.float():
        sums = clipped_sum(partial(per_example, network, summed_squares), row[None], rule=rule).sums
        pairs = zip(sums, rule.scales, strict=True)
        moved = sum((g.double() / d.double()).square().sum() for g, d in pairs) ** 0.5
        assert 1 - 1e-4 < moved <= 1


def test_an_empty_batch_has_a_sum_of_zeros(case):
    network, batch, rule = case
    found = clipped_sum(partial(per_example, network, summed_squares), batch[:0], rule=rule)
    assert found.weights.shape == (1, 0)
    assert not any(one.any() for one in found.sums)
