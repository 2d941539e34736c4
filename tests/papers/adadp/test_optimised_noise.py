"""DpOpt's noise: the optimum it descends to, its constraint, and whole steps with it."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from scipy import optimize
from torch import nn

from dpkit import datasets
from dpkit.audit.training.step_check import check_step
from dpkit.papers.adadp import algorithm
from dpkit.papers.adadp.noise_shapes import (
    ROUNDED_UP,
    OptimisedNoise,
    ScaledClipping,
    least_harmful,
    optimal_shares,
    projected,
)
from dpkit.papers.adadp.settings import DPOPT
from dpkit.privacy.clipping import FlatClipping
from dpkit.privacy.sampling import PoissonSampling
from dpkit.privacy.schedules import Constant
from dpkit.training import Sgd, clipped_sum, per_example, seeded


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


# --- the optimum ---


def test_descent_ends_at_the_closed_form_which_another_solver_finds():
    weights = 1 + normal(5_000).abs()
    assert torch.allclose(optimal_shares(weights), closed_form(weights), rtol=1e-6)
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
    assert least <= harm(weights, optimal_shares(weights)) < 1.01 * least
    assert harm(weights, torch.ones_like(weights)) > 1.02 * least  # with equal noise


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("least", [0.0, 0.6])
def test_projection_goes_to_the_nearest_shares(seed, least):
    """Of which the remaining difference is at right angles, or points out of the set."""
    given = 1 + 2 * normal(40, seed=seed)
    moved = projected(given, least)
    assert float(moved.mean()) == pytest.approx(1, rel=1e-12)
    assert moved.min() >= least
    others = torch.rand(100, 40, generator=generator(seed), dtype=torch.float64)
    others = least + (1 - least) * others / others.mean(1, keepdim=True)
    assert ((others - moved) @ (given - moved) <= 1e-9).all()


# --- its constraint ---


def shapes():
    return [torch.zeros(30, 20), torch.zeros(30), torch.zeros(1, 30)]


def test_the_constraint_is_met_to_six_digits():
    """sum (C^2 / m) / d_i^2 = 1."""
    slopes = [normal(*one.shape, seed=i).float() ** 3 for i, one in enumerate(shapes())]
    scales = torch.cat([d.double().flatten() for d in least_harmful(slopes, 4.0)])
    assert float((16.0 / len(scales) / scales**2).sum()) == pytest.approx(1, rel=1e-6)
    assert scales.max() > 1.2 * scales.min()


def test_before_anything_is_released_it_is_dp_sgd():
    noise = OptimisedNoise(shapes(), noise_multiplier=1.3, max_grad_norm=2.0)
    rule, stds = noise.now()
    assert all(torch.allclose(scale, torch.tensor(2.0)) for scale in rule.scales)
    assert all(torch.allclose(std, torch.tensor(2.6)) for std in stds)


def test_noise_is_least_where_the_released_slope_is_steepest():
    noise = OptimisedNoise([torch.zeros(4)], noise_multiplier=1.3, max_grad_norm=1.0, decay=0.5)
    noise.see([torch.tensor([0.0, 1.0, -8.0, 3.0])], lambda *_: pytest.fail("the raw one was read"))
    (scales,), (std,) = noise.now().rule.scales, noise.now().noise_stds
    assert scales.argmin() == 2  # -8, the steepest
    assert scales[0] == scales[1] == scales.max()  # both below the average
    assert torch.allclose(std / scales, torch.tensor(1.3), rtol=1e-6)
    with pytest.raises(FloatingPointError, match="a slope is NaN or infinite"):
        least_harmful([torch.tensor([0.0, torch.inf])], 1.0)


# --- clipping in the norm of the noise ---


def squares(outputs):
    return outputs.square().sum(1)


NETWORKS = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), (7, 6)),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 3)),
        (7, 1, 6, 6),
    ),
    "positions": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Flatten()), (7, 3, 6)),
}


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
    found = clipped_sum(partial(per_example, network, squares), batch, rule=rule)
    expected = [torch.zeros_like(p) for p in network.parameters()]
    for row in batch:
        own = torch.autograd.grad(squares(network(row[None])).sum(), list(network.parameters()))
        norm = sum((g / d).square().sum() for g, d in zip(own, rule.scales, strict=True)).sqrt()
        for total, g in zip(expected, own, strict=True):
            total += g / max(1.0, float(norm) * ROUNDED_UP)
    assert all(torch.allclose(a, b) for a, b in zip(found.sums, expected, strict=True))
    assert (found.weights < 1).any()


def test_no_example_leaves_the_ellipsoid(case):
    """In single precision, where sums round: 1 / z is the most that a record moves by."""
    network, batch, rule = case
    network.float()
    rule = ScaledClipping(tuple(scale.float() for scale in rule.scales))
    for row in 100 * batch.float():
        sums = clipped_sum(partial(per_example, network, squares), row[None], rule=rule).sums
        pairs = zip(sums, rule.scales, strict=True)
        moved = sum((g.double() / d.double()).square().sum() for g, d in pairs) ** 0.5
        assert 1 - 1e-4 < moved <= 1


def test_equal_scales_clip_as_one_norm_does_and_an_empty_batch_has_a_sum_of_zeros(case):
    network, batch, rule = case
    of = partial(per_example, network, squares)
    equal = ScaledClipping(tuple(torch.full_like(scale, 0.3) for scale in rule.scales))
    found, flat = (clipped_sum(of, batch, rule=one) for one in (equal, FlatClipping(0.3)))
    for one, other in zip(found.sums, flat.sums, strict=True):
        assert torch.allclose(one, other, rtol=1e-3)
    found = clipped_sum(of, batch[:0], rule=rule)
    assert found.weights.shape == (1, 0)
    assert not any(one.any() for one in found.sums)


# --- a whole step ---


SMALL = replace(
    DPOPT, widths=(8, 6, 3), sampling=PoissonSampling(6), pca_noise=None, noise_multiplier=1.1
)


@pytest.mark.slow("a step of DpOpt that a record moves too far, of all steps alone")
def test_nothing_is_found_in_steps_of_dpopt():
    """Three of them, so that the noise of the last two follows what was released."""
    made = partial(algorithm.new_classifier, SMALL, seed=0, device=torch.device("cpu"))
    x, y = 3 * normal(6, 8).float(), torch.arange(6) % 3
    report = check_step(algorithm.step, made, x, y, settings=SMALL, steps=3)
    assert report.findings == (), report
    assert 1.1 < report.replaced < 2.001


def test_it_learns_digits():
    digits = datasets.digits(split="train")
    x, y = torch.from_numpy(digits.flat()), torch.from_numpy(digits.labels)
    sampling, rate = PoissonSampling(200), Sgd(Constant(0.5))
    settings = replace(SMALL, widths=(784, 32, 10), sampling=sampling, optimizer=rate)
    model, rng = (
        algorithm.new_classifier(settings, seed=0, device=torch.device("cpu")),
        generator(1),
    )
    for index in range(40):
        lot = torch.rand(len(x), generator=rng) < 200 / len(x)
        algorithm.step(model, x[lot], y[lot], settings=settings, index=index, rng=rng)
    assert algorithm.accuracy(model.net.net, x, y) > 0.6
