"""DP-Adam's updates by clip norm: against a plain listing, closed forms and torch's Adam."""

from functools import partial

import numpy as np
import pytest

from dpkit.papers.small_images import adam, claims


def test_a_made_up_run_is_what_it_says():
    rng = np.random.default_rng(1)
    made = list(adam.trajectory(steps=3, batch_size=40, dims=7, shortest=2.0, rng=rng))
    assert len(made) == 3
    for batch in made:
        norms = np.linalg.norm(batch.gradients, axis=1)
        assert batch.gradients.shape == (40, 7)
        assert 2.0 <= norms.min() < norms.max() <= 20.0
        wanted = sum(g / max(1.0, np.linalg.norm(g) / 5) for g in batch.gradients)
        wanted = (wanted + 0.7 * 5 * batch.noise) / 40
        found = adam.released(batch, max_grad_norm=5.0, noise_multiplier=0.7)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_constant_gradients_have_closed_form_updates():
    """m and v are g and g^2 at every step, so the update is g / (|g| + eps)."""
    gradient = np.array([3.0, -1e-8, 0.25])
    found = adam.updates(np.tile(gradient, (5, 1)), betas=(0.5, 0.9), eps=1e-8)
    wanted = gradient / (np.abs(gradient) + 1e-8)
    np.testing.assert_allclose(found, np.tile(wanted, (5, 1)), rtol=1e-12)
    scaled = adam.updates(np.tile(gradient * 1e-3, (5, 1)), betas=(0.5, 0.9), eps=1e-8)
    wanted = gradient / (np.abs(gradient) + 1e-5)  # C 1000 times smaller: eps 1000 times larger
    np.testing.assert_allclose(scaled, np.tile(wanted, (5, 1)), rtol=1e-12)


def test_the_clip_norm_cancels_exactly_where_every_gradient_is_longer():
    run = adam.Comparison(shortest=2.0)
    assert run.difference(1.0, 2.0, eps=0.0) < 1e-12
    assert run.difference(1.0, 1e-9, eps=0.0) < 1e-12
    # one gradient that is shorter than the larger norm is enough
    first = run.batches[0]
    norms = np.linalg.norm(first.gradients, axis=1, keepdims=True)
    shorter = np.where(np.arange(128)[:, None] == 0, first.gradients / norms, first.gradients)
    run.batches[0] = first._replace(gradients=shorter)
    assert run.difference(1.0, 2.0, eps=0.0) > 1e-4
    assert run.difference(0.5, 1.0, eps=0.0) < 1e-12


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "told", "ours"),
    [
        *(
            (
                "Adam",
                {"betas": (0.5, 0.9), "eps": eps},
                partial(adam.updates, betas=(0.5, 0.9), eps=eps),
            )
            for eps in (1e-8, 1e-3)
        ),
        *((name, {}, claims.METHODS[name]) for name in ("RMSprop", "Adagrad")),
    ],
)
def test_updates_are_those_of_pytorch(name: str, told, ours):
    torch = pytest.importorskip("torch")
    gradients = np.random.default_rng(2).standard_normal((30, 5)) * 0.01
    weights = torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))
    optimizer = getattr(torch.optim, name)([weights], lr=1.0, **told)
    for gradient, update in zip(gradients, ours(gradients), strict=True):
        before = weights.detach().clone()
        weights.grad = torch.from_numpy(gradient)
        optimizer.step()
        np.testing.assert_allclose((before - weights.detach()).numpy(), update, rtol=1e-9)


def test_eps_weighs_in_proportion_to_one_over_the_clip_norm():
    """|u_C - u| is eps / (C root + eps) of u, so ten times smaller C moves u ten times as far."""
    run = adam.Comparison()
    exact = run.updates(1.0, eps=0.0)
    off = [adam.difference(exact, run.updates(norm, eps=1e-8)) for norm in (1.0, 0.1, 0.01)]
    assert off[1] == pytest.approx(10 * off[0], rel=0.01)
    assert off[2] == pytest.approx(100 * off[0], rel=0.05)


def test_without_their_constants_all_methods_cancel_c():
    first, second, other = (claims.comparison().means(norm) for norm in (1.0, 0.1, 100.0))
    ways = {
        "RMSprop": partial(adam.rmsprop, eps=0.0),
        "Adagrad": partial(adam.adagrad, eps=0.0),
        "normalised gradients": adam.normalised,
    }
    found = claims.other_methods()
    for name, way in ways.items():
        assert adam.difference(way(first), way(second)) < 1e-12
        assert adam.difference(way(first), way(other)) > 0.1  # regime (ii)
        assert found[name] < 1e-3
    assert max(found, key=found.__getitem__) == "RMSprop"


ONES = np.ones((2, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: adam.updates(ONES, betas=(0.5, 1.0), eps=0.0), "betas must lie in"),
        (lambda: adam.updates(ONES, betas=(0.5, 0.9), eps=-1.0), "eps must be"),
        (lambda: adam.rmsprop(ONES, eps=float("nan")), "eps must be"),
        (lambda: adam.adagrad(ONES, eps=-1.0), "eps must be"),
        (lambda: adam.Comparison(shortest=0.0), "shortest must be a finite number > 0, got 0.0"),
        (lambda: adam.Comparison().means(float("nan")), "max_grad_norm must be > 0 and finite"),
        (lambda: adam.normalised(0 * ONES), "has no direction"),
        (lambda: adam.difference(0 * ONES, ONES), "no relative difference"),
    ],
)
def test_bad_values_are_refused(call, message: str):
    with pytest.raises((ValueError, ArithmeticError), match=message):
        call()
