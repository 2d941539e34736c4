"""AGD: what a step costs, the budget that ends a run, how noise falls, and whole steps.

Statistical checks use fixed seeds.
"""

from dataclasses import replace
from functools import partial
from math import sqrt

import numpy as np
import pytest
import torch
from refusals import refused
from short_runs import BATCH, RECORDS, assert_covered, checked
from torch import nn
from truths import log_moment

from dpkit.papers.adadp import agd
from dpkit.papers.adadp.settings import AGD
from dpkit.privacy import Gaussian, Release, SampledGaussian, pld, rdp
from dpkit.privacy.sampling import PoissonSampling
from dpkit.training import Checkpoints, Data, generator_on, train

CPU = torch.device("cpu")
SIZE = 1_437  # of the embedded digits
SMALL = replace(
    AGD,
    **{"noise_multiplier": 2.0, "least_noise_multiplier": 1.0, "choice_noise": 8.0},
    **{"sampling": PoissonSampling(200), "target_epsilon": 8.0, "public_size": SIZE},
    **{"pca_noise": None, "widths": (784, 32, 10), "max_steps": 40},
)
TINY = replace(SMALL, widths=(8, 6, 3), sampling=PoissonSampling(6), max_grad_norm=0.1)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def lot():
    return 3 * torch.randn(6, 8, generator=generator()), torch.arange(6) % 3


def tiny(settings=TINY):
    return agd.new_descent(settings, seed=0, device=CPU)


def stepped(model, index=0, settings=TINY, seed=0):
    return agd.step(model, *lot(), settings=settings, index=index, rng=generator(seed))


# --- what a step costs ---


def test_gradient_and_choice_cost_what_one_gaussian_does():
    """By the certified accountant: two releases on the whole data, and the joint one."""
    both = AGD.noise_multiplier, AGD.choice_noise / sqrt(len(AGD.rates))
    found, expected = (
        pld.epsilon([Release(Gaussian(noise)) for noise in noises], delta=1e-5).epsilon
        for noises in ([AGD.joint_noise(0)], both)
    )
    assert found == pytest.approx(expected, rel=1e-4)  # each is within so much of the truth


def test_on_a_poisson_lot_they_cost_what_the_sampled_gaussian_does():
    """Renyi divergence of order 4 of two releases on the same lot, by binomial expansion.

    The record is in both or in neither: moments of (1 - q) + q exp(loss), whose loss adds up.
    """
    z_g, z_l, q, order = 1.5, 3.0, 0.1, 4
    settings = replace(TINY, noise_multiplier=z_g, choice_noise=z_l, rates=(0.1, 0.2))
    both = 1 / z_g**2 + 2 / z_l**2  # of j records, the moment is exp(j (j - 1) / 2 times this)
    found = SampledGaussian(settings.joint_noise(0), q).rdp([order])[0]
    assert found == pytest.approx(log_moment(order, both**-0.5, q) / (order - 1), rel=1e-9)


def test_the_choice_is_charged_and_so_is_the_projection():
    """A fifth of each step's 1 / z^2 is the choice's; the filter of a run knows of the PCA."""
    joint, gradient = (noise(0) ** -2 for noise in (AGD.joint_noise, AGD.gradient_noise))
    assert joint - gradient == pytest.approx(len(AGD.rates) / AGD.choice_noise**2)
    assert 1 - gradient / joint == pytest.approx(0.2)
    assert AGD.release(0) == SampledGaussian(AGD.joint_noise(0), 0.01)
    left = [replace(AGD, pca_noise=p).budget(public_size=60_000).remaining for p in (None, 16.0)]
    order = AGD.budget(public_size=60_000).order
    assert left[0] - left[1] == pytest.approx(order / 2 / 16**2)


# --- the budget ---


def test_steps_allowed_are_those_within_the_target_if_the_noise_never_falls():
    settings, size = replace(AGD, target_epsilon=0.35, max_steps=10**4), {"public_size": 60_000}
    steps, first = settings.steps_allowed(**size), settings.release(0)
    budget = settings.budget(**size)
    assert [budget.allows(first, n) for n in (steps, steps + 1)] == [True, False]
    ledger = [Release(Gaussian(16.0)), Release(first, steps)]
    assert rdp.epsilon(ledger, delta=1e-5, orders=[budget.order]).epsilon <= 0.35
    assert settings.guarantee(**size).epsilon == 0.35
    assert AGD.steps_allowed(**size) == AGD.max_steps
    with pytest.raises(ValueError, match="public_size must be the settings', 1437"):
        SMALL.steps_allowed(public_size=1_000)


def test_the_noise_falls_at_each_step_to_the_least_noise():
    levels, least = TINY.levels, TINY.least_noise_multiplier
    noises = [TINY.joint_noise(level) for level in range(levels)]
    assert noises == sorted(noises, reverse=True)
    assert TINY.gradient_noise(levels - 1) == least < TINY.gradient_noise(levels - 2)
    memory = tiny().memory
    for _ in range(2 * levels):
        memory.see(0.0)
    assert (int(memory.falls), memory.charged()) == (levels - 1, least)


test_bad_settings_are_refused = refused(
    ({"least_noise_multiplier": 3.0}, "least_noise_multiplier must be <= noise_multiplier"),
    ({"rates": ()}, "rates must name a step size"),
    ({"rates": (0.1, 0.0)}, r"rates\[1\] must be a finite number > 0"),
    ({"choice_noise": float("nan")}, "choice_noise must be a finite number > 0"),
    ({"growth": 0.0}, "growth must be a finite number > 0"),
    call=lambda changes: replace(SMALL, **changes),
)


def test_when_the_budget_is_spent_a_step_does_nothing():
    settings = replace(TINY, target_epsilon=0.5, max_steps=10**6)
    model = tiny(settings)
    model.memory.used[0] = settings.steps_allowed(public_size=SIZE) - 1
    assert np.isfinite(stepped(model, settings=settings).loss)
    before = [one.clone() for one in model.net.parameters()]
    spent, rng = model.memory.spent().spent, generator(3)
    state = rng.get_state()
    record = agd.step(model, *lot(), settings=settings, index=1, rng=rng)
    assert record.loss == pytest.approx(model.net(*lot()).mean().item())
    assert torch.equal(state, rng.get_state())  # nothing was drawn, so nothing released
    assert all(map(torch.equal, model.net.parameters(), before))
    assert model.memory.spent().spent == spent <= model.memory.spent().budget


# --- how noise falls ---


def test_where_0_wins_the_noise_falls_and_gradients_are_averaged():
    """Rates so high that every candidate raises the loss, beyond the choice's noise."""
    steep = {"rates": (1e9, 1e10), "choice_noise": 0.01, "noise_multiplier": 1e3}
    settings = replace(TINY, **steep, target_epsilon=1e9, max_change=10.0, growth=1.0)
    model, weights = tiny(settings), list(tiny().net.parameters())
    for index in range(3):
        stepped(model, index, settings, seed=index)
        assert int(model.memory.falls) == index + 1
    assert all(torch.equal(p, w) for p, w in zip(model.net.parameters(), weights, strict=True))
    assert float(model.memory.precision) == pytest.approx((1 + 2 + 4) / 1e3**2)
    assert model.memory.used.tolist()[:4] == [1, 1, 1, 0]


def test_gradients_are_averaged_by_the_inverse_of_their_variances():
    """Of each sum's noise z C, so that the mean of all has the least variance there is."""
    memory = tiny().memory
    first, second = ([torch.full_like(one, v) for one in memory.means()] for v in (1.0, 5.0))
    memory.averaged(first, noise=2.0)
    found = memory.averaged(second, noise=1.0)
    expected = (1.0 / 4 + 5.0 / 1) / (1 / 4 + 1)
    assert all(torch.allclose(one, torch.tensor(expected)) for one in found)
    memory.see(0.1)  # the weights move: what was averaged is of no use
    assert torch.equal(memory.averaged(first, noise=1.0)[0], first[0])


class Row(nn.Bilinear):
    """A loss of (w - x)^2 for each row x."""

    def forward(self, x, y):
        return (self.weight.flatten() - x[:, 0]).square()


def test_changes_of_loss_are_clipped_row_by_row():
    settings, net = replace(TINY, rates=(1.0, 2.0), max_change=4.0), Row(1, 1, 1, bias=False)
    nn.init.constant_(net.weight, 3.0)
    x, y = torch.tensor([[0.0], [3.0], [torch.nan]]), torch.zeros(3)
    found = agd.changes_of_loss(net, [torch.ones(1, 1, 1)], x, y, settings=settings)
    # w = 2: (4 - 9 -> -4) + 1 + 4 where the loss is no number; w = 1: (1 - 9 -> -4) + 4 + 4
    assert found.tolist() == [1.0, 4.0]


# --- whole steps ---


@pytest.mark.parametrize(
    "steps",
    [1, pytest.param(2, marks=pytest.mark.slow("an AGD step that reads an earlier one's batch"))],
)
def test_steps_of_agd_are_covered_by_their_joint_release(steps):
    """Gradient and choice read the same batch: one Gaussian of both, not two samples."""
    sized = {"sampling": PoissonSampling(BATCH), "public_size": RECORDS, "target_epsilon": 1e4}
    settings, (x, y) = replace(TINY, **sized), lot()
    data = torch.cat((x, x[:2] / 2)), torch.cat((y, y[:2]))
    told = {"charged": Release(settings.release(0), steps), "steps": steps}
    told |= {"settings": settings, "released": lambda model: model.net}
    assert_covered(checked(agd.step, partial(tiny, settings), data, **told), share=0.85)


def test_a_stored_run_goes_on_with_all_that_it_remembers(tmp_path):
    settings = replace(TINY, growth=1.0, choice_noise=1e3, rates=(0.1,))  # 0 wins half of the time
    x, y = lot()
    data, found = Data(x.repeat(3, 1), y.repeat(3), public_size=SIZE), []
    for stops in ([12], [5, 12]):
        place = Checkpoints(tmp_path / str(len(stops)), every=1)
        for stop in stops:
            model, rng = tiny(settings), generator_on(CPU, reproducible_seed=5)
            told = {"settings": settings, "rng": rng, "steps": stop, "checkpoint": place}
            list(train(agd.step, model, data, **told))
        assert int(model.memory.falls) > 0
        assert model.memory.used.sum() == 12
        found.append([*model.net.state_dict().values(), *model.memory.state_dict().values()])
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))
