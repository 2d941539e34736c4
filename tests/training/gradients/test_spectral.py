"""Spectral normalisation: one power iteration a step, none within it."""

from functools import partial

import pytest
import torch
from per_example_tests import alone, assert_gradients, normal, penalty
from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.utils import spectral_norm as by_hook

from dpkit.privacy.clipping import FlatClipping
from dpkit.training import called_real, update
from dpkit.training.gradients import clipped_sum, functional, per_example

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*goes through torch.func"),
    pytest.mark.filterwarnings("ignore:.*spectral_norm.* is deprecated"),
]
FORMS = (parametrizations.spectral_norm, by_hook)
OTHER = pytest.mark.slow("a norm that drifts under this form and loss together alone")
CASES = [(by_hook, False), *(pytest.param(form, True, marks=OTHER) for form in FORMS)]


def critic_of(form, dtype: torch.dtype = torch.float32) -> nn.Module:
    layers = form(nn.Linear(6, 16)), nn.LeakyReLU(0.2), form(nn.Linear(16, 16)), nn.ReLU()
    return nn.Sequential(*layers, nn.Linear(16, 1)).to(dtype).train()


def norms_of(critic: nn.Module) -> list[float]:
    with torch.no_grad(), functional.still(critic):
        critic(normal(1, 6))  # the older form computes its weight here
        return [float(torch.linalg.matrix_norm(critic[i].weight, 2)) for i in (0, 2)]


@pytest.mark.parametrize(
    ("form", "penalised"), [*CASES, pytest.param(FORMS[0], False, marks=OTHER)]
)
def test_norms_stay_near_1_while_the_critic_trains(form, penalised):
    critic = critic_of(form)
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    of = partial(penalty, critic) if penalised else partial(per_example, critic, called_real)
    largest = 0.0
    for step in range(60):
        clipped = clipped_sum(
            of, normal(32, 6, seed=step), rule=FlatClipping(1.0), microbatch_size=20
        )
        update(optimizer, clipped.parameters, clipped.sums)
        if step >= 10:  # the older form begins at random vectors
            largest = max(largest, *norms_of(critic))
    assert all(module.training for module in critic.modules())
    assert min(norms_of(critic)) > 0.95
    assert largest < 1.2


@pytest.mark.parametrize("form", FORMS)
def test_a_step_iterates_once_however_many_parts_and_losses_it_has(form):
    """What a batch's size decided would say something of it."""
    critic = critic_of(form)
    with torch.no_grad():
        for parameter in critic.parameters():
            parameter.mul_(1.1).add_(0.01)
    per_example(critic, called_real, normal(2, 6))
    once = {name: value.clone() for name, value in critic.state_dict().items()}
    per_example(critic, called_real, normal(9, 6))
    penalty(critic, normal(5, 6))
    for name, value in critic.state_dict().items():
        assert torch.equal(value, once[name])


@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_those_of_each_example_alone(form):
    critic, inputs = critic_of(form, torch.float64), normal(5, 6).double()
    found, _ = per_example(critic, called_real, inputs)
    with functional.still(critic):
        full = alone(critic, called_real, inputs)
    assert_gradients(found, full, 1e-9)


def test_no_tensor_of_torch_func_stays_in_the_weights_place_and_evaluation_is_left_alone():
    critic = critic_of(by_hook)
    found, _ = per_example(critic, called_real, normal(3, 6))
    weight = critic[0].weight
    found.norms()
    assert critic[0].weight is weight
    critic = critic_of(parametrizations.spectral_norm).eval()
    before = {name: value.clone() for name, value in critic.state_dict().items()}
    per_example(critic, called_real, normal(3, 6))
    assert all(torch.equal(value, before[name]) for name, value in critic.state_dict().items())
