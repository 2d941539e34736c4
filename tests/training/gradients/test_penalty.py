"""WGAN-GP's per-example gradients against a double backward of each example alone."""

import pytest
import torch
from per_example_tests import Calls, alone_penalised, assert_gradients
from torch import nn

from dpkit.training.gradients import Gradients, MixesExamples, UnsupportedLayer, gradient_penalty
from dpkit.training.networks import Conditional, mlp

GENERAL = pytest.mark.filterwarnings("ignore:.*torch.func")


def convolutional(activation=lambda: nn.LeakyReLU(0.2), norm=None) -> nn.Sequential:
    layers = [nn.Conv2d(1, 4, 5, 2, 2), activation(), nn.Conv2d(4, 6, 3, 2, 1)]
    if norm is not None:
        layers.append(norm(6))
    return nn.Sequential(*layers, activation(), nn.Flatten(), nn.Linear(96, 1)).double()


def straight(critic: nn.Module) -> bool:
    return all(map(gradient_penalty.is_straight, critic.modules()))


def two_inputs() -> nn.Module:
    """Image and label map by a convolution each: the second one's input does not move."""

    def score(parts, images, labels):
        maps = (labels[:, None] == torch.arange(2))[:, :, None, None].expand(-1, -1, 14, 14)
        return parts[2](torch.cat((parts[0](images), parts[1](maps.to(images))), 1))

    rest = nn.Sequential(nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(6 * 49, 1))
    critic = Calls(score, nn.Conv2d(1, 3, 4, 2, 1), nn.Conv2d(2, 3, 4, 2, 1), rest)
    critic.piecewise_linear = critic.parts.piecewise_linear = True
    return critic.double()


def drawn(batch: int, *, seed: int = 0, dtype=torch.float64):
    rng = torch.Generator().manual_seed(seed)
    real, fake = (torch.randn(batch, 1, 14, 14, generator=rng, dtype=dtype) for _ in range(2))
    return real, fake, torch.rand(batch, generator=rng, dtype=dtype)


def assert_as_reference(critic, batch=5, *conditions, dtype=torch.float64):
    real, fake, mixing = drawn(batch, dtype=dtype)
    critic = critic.to(dtype)
    found, losses = gradient_penalty.per_example(
        critic, real, fake, *conditions, mixing=mixing, weight=7.0
    )
    wanted = alone_penalised(critic, real, fake, mixing, *conditions, weight=7.0)
    assert_gradients(found, wanted, 1e-10 if dtype == torch.float64 else 1e-5)
    assert losses.shape == (batch,)
    return found


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("batch", [1, 7])
def test_piecewise_linear_critics_by_the_tangent_pass(batch, dtype):
    for activation in (lambda: nn.LeakyReLU(0.2), lambda: nn.ReLU(inplace=True)):
        critic = convolutional(activation)
        assert straight(critic)
        assert isinstance(assert_as_reference(critic, batch, dtype=dtype), Gradients)


@GENERAL
@pytest.mark.parametrize(
    ("activation", "norm"),
    [
        (nn.Tanh, None),
        (nn.Softplus, lambda c: nn.GroupNorm(2, c)),
        (nn.LeakyReLU, lambda c: nn.GroupNorm(c, c)),
        (nn.ReLU, lambda c: nn.InstanceNorm2d(c, affine=True)),
        (nn.ReLU, lambda c: nn.LayerNorm([c, 4, 4])),
        (nn.Mish, None),
        (nn.PReLU, None),  # straight, and its weight is not known as a product
    ],
)
def test_other_critics_go_through_torch_func(activation, norm):
    critic = convolutional(activation, norm)
    assert straight(critic) is (activation is nn.PReLU)
    assert not isinstance(assert_as_reference(critic), Gradients)


@GENERAL
def test_other_ways_through_a_critic():
    """Bent by a hook; in place after layers at many positions."""
    critic = convolutional(nn.ReLU)
    critic[1].register_forward_hook(lambda module, inputs, output: output.tanh())
    assert not isinstance(assert_as_reference(critic), Gradients)
    critic = nn.Sequential(nn.Unflatten(3, (7, 2)), nn.Linear(2, 8), nn.ReLU(inplace=True))
    critic = nn.Sequential(critic, nn.Flatten(), nn.Linear(14 * 7 * 8, 1)).double()
    assert isinstance(assert_as_reference(critic), Gradients)


@GENERAL
def test_a_curved_critic_that_is_called_straight_is_found_out():
    critic = convolutional(nn.Tanh)
    for module in critic:
        module.piecewise_linear = True
    assert straight(critic)
    right = assert_as_reference(critic, 3)
    assert not isinstance(right, Gradients)
    real, fake, mixing = drawn(3)
    between = torch.lerp(fake, real, mixing[:, None, None, None])
    wrong, _ = gradient_penalty.straight(critic, (real, fake, between, (), 7.0))
    assert not torch.allclose(wrong.norms(), right.norms(), rtol=1e-3)


@GENERAL
@pytest.mark.parametrize("declared", [True, False])
def test_conditions_do_not_move(declared):
    critic, labels = two_inputs(), torch.tensor([0, 1, 1, 0, 1])
    critic.piecewise_linear = declared
    assert isinstance(assert_as_reference(critic, 5, labels), Gradients) is declared


def test_a_conditional_critic_counts_as_straight():
    body = mlp((14, 6, 1), last=None, rng=torch.Generator().manual_seed(0))
    assert straight(Conditional(body, classes=4))
    curved = Conditional(nn.Sequential(nn.Linear(14, 1), nn.Tanh()), classes=4)
    assert not straight(curved)


def test_an_empty_batch_sums_to_zero():
    critic = convolutional()
    found, losses = gradient_penalty.per_example(critic, *drawn(0)[:2], mixing=drawn(0)[2])
    assert (losses.shape, found.norms().shape) == ((0,), (6, 0))
    sums = found.weighted_sum(torch.zeros(1, 0).double())
    assert [s.shape for s in sums] == [p.shape for p in found.parameters]
    assert not any(s.any() for s in sums)


def test_a_flat_point_has_no_direction():
    """Where grad f is 0, |grad f| takes 0 as its derivative, as torch's norm does."""
    critic = convolutional(nn.ReLU)
    for parameter in critic.parameters():
        parameter.data.zero_()
    real, fake, mixing = drawn(3)
    found, losses = gradient_penalty.per_example(critic, real, fake, mixing=mixing)
    assert torch.equal(losses, torch.full((3,), 10.0).double())
    assert found.norms().isfinite().all()


def test_bad_input_is_refused():
    critic = convolutional()
    real, fake, mixing = drawn(3)
    for network, other, mixed, error, words in (
        (critic, fake[:2], mixing, ValueError, "one shape"),
        (critic, fake, mixing[:2], ValueError, "one number an example"),
        (nn.Sequential(nn.Dropout(0.5), critic), fake, mixing, UnsupportedLayer, "eval"),
        (nn.Sequential(critic, nn.BatchNorm1d(1)), fake, mixing, MixesExamples, "mixes the"),
    ):
        with pytest.raises(error, match=words):
            gradient_penalty.per_example(network, real, other, mixing=mixed)
