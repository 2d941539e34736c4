"""Clipped sums do not depend on how a batch is cut, and obey each rule's own definition."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from per_example_tests import alone, filled, normal
from torch import nn

from dpkit.privacy import clipping
from dpkit.privacy.clipping import FlatClipping, PerCoordinateClipping, PerTensorClipping, Unclipped
from dpkit.training.device import precision
from dpkit.training.gradients import clipped_sum, layers, per_example
from dpkit.training.networks import called_real

RULES = (
    *(FlatClipping(0.2), PerTensorClipping(0.1, tensors=4)),
    *(clipping.GroupClipping((0.1, 0.05), (0, 1, 0, 1)), Unclipped()),
)


def critic() -> nn.Module:
    layers = nn.Conv2d(1, 3, 3), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(48, 1)
    return filled(nn.Sequential(*layers), std=0.3)


class Scaled(nn.Linear):
    """A layer of one's own: torch.func is asked."""


def fully_connected(first: type[nn.Linear]) -> nn.Module:
    layers = nn.Flatten(), first(36, 50), nn.ReLU(), nn.Linear(50, 1)
    return filled(nn.Sequential(*layers), std=0.3)


WAYS = (critic, partial(fully_connected, nn.Linear), partial(fully_connected, Scaled))


def box(network: nn.Module) -> PerCoordinateClipping:
    rng = torch.Generator().manual_seed(5)
    shares = (torch.rand(p.shape, generator=rng, dtype=p.dtype) for p in network.parameters())
    return PerCoordinateClipping(tuple(0.05 * share for share in shares))


def images(batch: int, seed: int = 1) -> torch.Tensor:
    return normal(batch, 1, 6, 6, seed=seed, dtype=torch.float64)


BOX = box(critic())


@pytest.mark.parametrize("rule", [*RULES, BOX], ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("batch", [0, 1, 7])
def test_a_batch_in_parts_is_the_same_batch(rule, batch):
    network = critic()
    of = partial(per_example, network, called_real)
    whole = clipped_sum(of, images(batch), rule=rule)
    for microbatch_size in (1, 2, 3, 7, 100):
        parts = clipped_sum(of, images(batch), rule=rule, microbatch_size=microbatch_size)
        torch.testing.assert_close(parts.sums, whole.sums, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(parts.weights, whole.weights)
        torch.testing.assert_close(parts.losses, whole.losses)
        assert parts.losses.shape == (batch,)


@pytest.mark.parametrize("rule", [*RULES[:3], BOX], ids=lambda rule: type(rule).__name__)
def test_no_record_moves_the_sum_further_than_the_rule_says(rule):
    """Add one record to a batch of 6: the joint L2 distance, for 20 records of any size."""
    of = partial(per_example, critic(), called_real)
    base = clipped_sum(of, images(6), rule=rule).sums
    furthest = 0.0
    for seed in range(20):
        record = 10 ** (seed / 5 - 2) * images(1, seed=10 + seed)
        moved = clipped_sum(of, torch.cat((images(6), record)), rule=rule).sums
        distance = sum(((a - b) ** 2).sum() for a, b in zip(moved, base, strict=True)).sqrt()
        furthest = max(furthest, float(distance))
    bound = rule.sensitivity("add-remove")
    assert 0.5 * bound < furthest <= bound * (1 + 1e-9)


@pytest.mark.filterwarnings("ignore:.*torch.func")
@pytest.mark.parametrize("make", WAYS, ids=("convolution", "linear", "torch.func"))
@pytest.mark.parametrize("space", [2**19, 100])  # numbers: rows of a weight, few examples
def test_coordinates_are_clipped_one_by_one(make, space, monkeypatch):
    monkeypatch.setattr(layers, "WORKSPACE", space)
    network, batch = make(), images(7)
    rule = box(network)
    of = partial(per_example, network, called_real)
    wanted = [
        torch.minimum(torch.maximum(full, -bound), bound).sum(0)
        for full, bound in zip(alone(network, called_real, batch), rule.bounds, strict=True)
    ]
    for microbatch_size in (None, 3):
        found = clipped_sum(of, batch, rule=rule, microbatch_size=microbatch_size)
        torch.testing.assert_close(found.sums, wanted, rtol=1e-10, atol=1e-13)
        assert found.weights.shape == (1, 7)
    assert clipped_sum(of, images(0), rule=rule).weights.shape == (1, 0)


@pytest.mark.filterwarnings("ignore:.*torch.func")
@pytest.mark.parametrize("make", WAYS, ids=("convolution", "linear", "torch.func"))
def test_the_weight_of_an_example_says_whether_anything_of_it_was_cut(make):
    network, batch = make(), images(7) * torch.logspace(-3, 3, 7)[:, None, None, None].double()
    full = alone(network, called_real, batch)
    bounds = tuple(1e-9 + (1 + 1e-9) * g[3].abs() for g in full)  # nothing of the fourth is cut
    cut = [(g.abs() > s).flatten(1).any(1) for g, s in zip(full, bounds, strict=True)]
    wanted = (~torch.stack(cut).any(0)).double()
    assert 0 < wanted.sum() < 7
    of = partial(per_example, network, called_real)
    found = clipped_sum(of, batch, rule=PerCoordinateClipping(bounds))
    assert found.weights.tolist() == [wanted.tolist()]


@pytest.mark.parametrize("make", WAYS[:2], ids=("convolution", "linear"))
def test_coordinate_by_coordinate_a_record_that_is_not_a_number_stays_within_its_bounds(make):
    network, batch = make(), images(3)
    of = partial(per_example, network, called_real)
    rule = box(network)
    rule.bounds[0].flatten()[::2] = 0
    sums = clipped_sum(of, batch, rule=rule).sums
    assert sums[0].flatten()[::2].count_nonzero() == 0 < sums[0].count_nonzero()
    others = clipped_sum(of, batch[[0, 2]], rule=rule).sums
    batch[1] = torch.nan
    found = clipped_sum(of, batch, rule=rule)
    for total, other, bound in zip(found.sums, others, rule.bounds, strict=True):
        assert ((total - other).abs() <= bound * (1 + 1e-6) + 1e-6).all()
    assert found.weights[0, 1] == 0


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 3e20])  # whose square overflows
@pytest.mark.parametrize("per_tensor", [False, True])
@pytest.mark.parametrize("make", WAYS, ids=("convolution", "linear", "torch.func"))
def test_a_record_whose_gradient_is_not_finite_adds_nothing(make, per_tensor, value):
    """Zero is within every bound, so it moves the sum by no more than another record (C)."""
    network, batch = make().float(), images(4).float()
    of = partial(per_example, network, lambda out: out.square().sum(1))
    tensors = len(list(network.parameters()))
    rule = PerTensorClipping(1.0, tensors) if per_tensor else FlatClipping(1)
    others = clipped_sum(of, batch[[0, 3]], rule=rule)
    batch[1:3] = value
    found = clipped_sum(of, batch, rule=rule)
    assert (found.weights[:, 1:3] == 0).all()
    torch.testing.assert_close(found.weights[:, [0, 3]], others.weights)
    torch.testing.assert_close(found.sums, others.sums)


def test_bounds_in_another_type_are_rounded_down():
    """1e300 is infinite in float32, and 0.1 would be more than 0.1."""
    network = nn.Linear(2, 1, bias=False)
    rule = PerCoordinateClipping((torch.tensor([[0.1, 1e300]], dtype=torch.float64),))
    x = torch.tensor([[1000.0, 1000.0]])
    (total,) = clipped_sum(partial(per_example, network, lambda y: y[:, 0]), x, rule=rule).sums
    assert total.dtype == torch.float32
    assert 0.1 - 1e-8 < float(total[0, 0]) < 0.1
    assert float(total[0, 1]) == 1000.0


def test_bounds_of_another_network_and_parts_of_no_example_are_refused():
    of = partial(per_example, critic(), called_real)
    rule = box(critic())
    with pytest.raises(ValueError, match="an array for each parameter tensor, 4, got 3"):
        clipped_sum(of, images(2), rule=PerCoordinateClipping(rule.bounds[:3]))
    with pytest.raises(ValueError, match=r"bounds\[1\] must have its parameter's shape \(3,\)"):
        clipped_sum(of, images(2), rule=PerCoordinateClipping(rule.bounds[:1] * 4))
    for bad in (0, -1, 2.5, float("nan")):
        with pytest.raises(ValueError, match="microbatch_size"):
            clipped_sum(of, images(2), rule=Unclipped(), microbatch_size=bad)


def test_norms_and_sums_are_float32_however_the_network_is_run():
    """Gradients that note torch's precision when norms and sums are asked of them."""
    notes: list[str] = []

    def noting(answer):
        def asked(*_):
            notes.append(torch.get_float32_matmul_precision())
            return answer

        return asked

    sums = [torch.zeros(2)]
    answers = {"norms": torch.ones(1, 3), "weighted_sum": sums}
    answers["clamped_sum"] = sums, torch.ones(3, dtype=torch.bool)
    found = {name: noting(answer) for name, answer in answers.items()}
    of = noting((SimpleNamespace(parameters=sums, **found), torch.ones(3)))

    with precision(tf32=True):
        clipped_sum(of, torch.ones(3), rule=FlatClipping(1.0))
        assert torch.get_float32_matmul_precision() == "high"
        clipped_sum(of, torch.ones(3), rule=PerCoordinateClipping((torch.ones(2),)))
    assert notes == ["high", "highest", "highest", "high", "highest"]
