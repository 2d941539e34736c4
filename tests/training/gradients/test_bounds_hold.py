"""What could make a record move a clipped sum further than its rule says."""

import random
import warnings
from functools import partial

import pytest
import torch
from per_example_tests import Calls, frozen_norm, normal, squares, with_labels, with_penalty
from torch import nn

from dpkit.papers.adadp.noise_shapes import ScaledClipping
from dpkit.privacy.clipping import FlatClipping, PerCoordinateClipping, PerTensorClipping
from dpkit.training import called_real, clipped_sum, per_example
from dpkit.training.gradients import MixesExamples, UnsupportedLayer, functional, gradient_penalty

SLACK = 1e-4  # more than rounding of one record's own part adds


def length(sums) -> float:
    return float(torch.cat([total.double().flatten() for total in sums]).norm())


def difference(parts, x):
    """Of what a layer makes of two inputs that are nearly equal: its terms cancel."""
    h = parts[0](x)
    return (h[:, 0] - h[:, 1]).flatten(1)


@pytest.mark.parametrize("size", [1.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("layer", ["linear", "embedding"])
def test_one_record_keeps_to_the_bound_where_terms_cancel(size, layer):
    """Float32 loses all digits of a Gram sum whose terms are 10^14 times as large."""
    one = nn.Linear(64, 64) if layer == "linear" else nn.Embedding(4, 64)
    network = Calls(difference, one)
    nn.init.normal_(one.weight, generator=torch.Generator().manual_seed(1))
    first = size * normal(1, 64).abs()
    if layer == "linear":
        inputs = torch.stack((first, first + 1e-6 * size * normal(1, 64, seed=2)), 1)
    else:
        inputs = torch.tensor([[1, 1]])  # the same row twice: the gradient is 0, its terms are not
    scale = normal(64, seed=3) * size

    def loss(outputs):
        return (outputs * scale).sum(1)

    sums = clipped_sum(partial(per_example, network, loss), inputs, rule=FlatClipping(1.0)).sums
    assert length(sums) <= 1 + 1e-4


def penalised(critic, real, *labels):
    mixing = torch.full((len(real),), 0.3)
    return gradient_penalty.per_example(critic, real, 1 - real, *labels, mixing=mixing)


ROWS, LABELS = normal(7, 6, std=9.0), torch.tensor([0, 2, 1, 1, 0, 2, 2])


@pytest.mark.filterwarnings("ignore:.*goes through torch.func")
@pytest.mark.parametrize(
    ("of", "rows"),
    [
        (partial(per_example, frozen_norm(3), squares), (ROWS,)),
        (partial(penalised, frozen_norm(1)), (ROWS,)),
        (partial(penalised, with_labels()), (ROWS, LABELS)),
    ],
    ids=["batch norm in eval", "the same, penalty", "one_hot"],
)
def test_each_record_that_is_left_out_moves_the_sum_by_the_bound_at_most(of, rows):
    whole = clipped_sum(of, *rows, rule=FlatClipping(1.0)).sums
    for left in range(7):
        kept = torch.arange(7) != left
        less = clipped_sum(of, *(x[kept] for x in rows), rule=FlatClipping(1.0)).sums
        moved = length(a - b for a, b in zip(whole, less, strict=True))
        assert 0.9 < moved <= 1 + 1e-5  # each gradient is long, so that the bound is reached


@pytest.mark.filterwarnings("ignore:.*(goes through torch.func|performance drop)")
@pytest.mark.parametrize("dropout", [nn.Dropout(0.3), None])
def test_norms_and_sums_of_a_network_that_drops_units_are_of_the_same_draws(dropout):
    layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
    network = layer if dropout is None else nn.Sequential(nn.PReLU(), dropout, nn.Linear(6, 3))
    x = normal(4, 5, 6)
    found, _ = per_example(network, squares, x)
    norms, state = found.norms(), torch.get_rng_state()
    each = [torch.cat(parts) for parts in zip(*found.each(), strict=True)]
    torch.testing.assert_close(norms, torch.stack([g.flatten(1).norm(dim=1) for g in each]))
    weights = FlatClipping(float(norms.norm(dim=0).min())).weights(norms)
    for total, own in zip(found.weighted_sum(weights), each, strict=True):
        torch.testing.assert_close(total, torch.tensordot(weights[0], own, 1))
    assert torch.equal(torch.get_rng_state(), state)  # each pass draws as much
    other, _ = per_example(network, squares, x)
    assert not torch.allclose(other.norms(), norms)  # and each step anew


@pytest.mark.parametrize("size", [1.0, 1e3, 1e5])
def test_a_penalised_record_keeps_to_the_bound_where_real_and_fake_are_alike(size):
    critic = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    real = size * normal(1, 64).abs()
    fake = real + 1e-4 * size * normal(1, 64, seed=1)
    inputs = real, fake, torch.tensor([0.5])
    sums = clipped_sum(partial(with_penalty, critic), *inputs, rule=FlatClipping(1.0)).sums
    assert length(sums) <= 1 + 1e-4


def test_the_released_tensors_do_not_depend_on_the_batch():
    network = Calls(lambda parts, x: parts[0](x), nn.Linear(6, 3), nn.Linear(3, 3))
    for batch in (0, 1, 7):
        found, _ = per_example(network, squares, normal(batch, 6))
        assert (len(found.parameters), found.norms().shape) == (4, (4, batch))
        sums = found.weighted_sum(PerTensorClipping(1.0, tensors=4).weights(found.norms()))
        assert [total.shape for total in sums] == [p.shape for p in network.parameters()]


class Moody(nn.Module):
    """Parameters of its own, and another output each time."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.draw = random.Random(0)

    def forward(self, x):
        return x * self.weight * self.draw.choice([1.0, 100.0])


def test_a_network_that_does_not_repeat_itself_cannot_be_clipped_in_two_runs():
    with pytest.raises(MixesExamples, match="losses"):
        per_example(Moody(), squares, normal(3, 4))
    found, _ = functional.per_example(Moody(), squares, normal(3, 4), reason=None)
    found.network.draw.seed(4)  # 1, then 100
    weights = FlatClipping(1.0).weights(found.norms())
    with pytest.raises(UnsupportedLayer, match="each time it runs"):
        found.weighted_sum(weights)


def test_a_large_batch_on_the_slow_way_is_cut_by_its_inputs():
    network = nn.Sequential(nn.PReLU(), nn.Flatten(), nn.Linear(4096, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, losses = per_example(network, called_real, torch.zeros(40, 1, 64, 64))
    assert losses.shape == (40,)
    assert max(len(part[0]) for part in found.each()) <= 16


# Sums of many records, long gradients and tiny ones in float32


def of_outputs(outputs):
    return outputs.sum(1)


def neighbours(n, *, at_once, wide):
    """Two batches that differ in one record, whose clipped sum crosses a power of two.

    Half of the records add up to just below it; the others take off less than half a unit in the
    last place above it, a whole one below: above, each of them is lost.
    """
    half = 2 ** ((n // 2).bit_length() - 1)
    small = -0.98 * half * 2.0**-24 / at_once
    values = [0.0] * 16 + [1.0] * (half - 1) + [0.5] + [small] * (n - half)
    without = torch.tensor(values, dtype=torch.float32)[:, None].repeat(1, wide)
    with_record = without.clone()
    with_record[0] = 1.0  # without it, this record's gradient is 0
    return without, with_record


@pytest.mark.parametrize(
    ("n", "at_once", "microbatch_size", "wide", "high", "rule"),
    [
        (512, 1, 1, 16, 16, "flat"),  # 1.004 times
        (1024, 16, None, 256, 1024, "coordinate"),  # 1.001 times
    ],
)
def test_a_record_moves_a_sum_of_many_by_its_bound(n, at_once, microbatch_size, wide, high, rule):
    net, norm = nn.Linear(wide, high, bias=False), (wide * high) ** 0.5
    bounds = PerCoordinateClipping((torch.ones(high, wide),))
    clipping = FlatClipping(norm * (1 + 1e-6)) if rule == "flat" else bounds
    sums = [
        clipped_sum(
            partial(per_example, net, of_outputs), x, rule=clipping, microbatch_size=microbatch_size
        ).sums[0]
        for x in neighbours(n, at_once=at_once, wide=wide)
    ]
    moved = float((sums[1].double() - sums[0].double()).norm())
    assert moved <= clipping.sensitivity("add-remove") * (1 + SLACK)


@pytest.mark.parametrize("rule", ["flat", "scaled"])
def test_a_long_gradient_is_clipped_to_its_norm(rule):
    # One large number, and 4 million of which each square is lost beside its own: 1.007 times.
    side, small = 2048, 0.999 * 2.0**-12.5
    weight = nn.ParameterList([torch.zeros(side, side)])  # of no layer: goes through torch.func
    layer = Calls(lambda parts, x: x @ parts[0][0].T, weight)
    row = torch.full((side,), small)
    row[0] = 1.0
    x = torch.stack([row, torch.full((side,), small)])[None]
    places = torch.zeros(2, side)
    places[0, 0] = 1
    places[1, 1:] = 1

    def loss(outputs):
        return (outputs * places).sum((1, 2)) * 2

    clipping = FlatClipping(1.0) if rule == "flat" else ScaledClipping((torch.ones(side, side),))
    total = clipped_sum(partial(per_example, layer, loss), x, rule=clipping)
    assert float(total.sums[0].double().norm()) <= 1 + SLACK


def test_squares_in_a_scaled_norm_do_not_underflow():
    # d_out^2 = 4e-46 is 0 in float32, while the gradient is 200 times its scale.
    net, scale = nn.Linear(1, 1, bias=False), 1e-12
    rule = ScaledClipping((torch.full((1, 1), scale),))
    of = partial(per_example, net, lambda outputs: outputs[:, 0] * 2e-23)
    total = clipped_sum(of, torch.full((1, 1), 1e13), rule=rule)
    assert float(total.sums[0].abs()) / scale <= 1 + SLACK


def test_noise_of_a_tiny_bound_is_not_rounded_to_none():
    # 0.2 times 2.8e-45 is 0 in float32: the clipped sum is released as it is.
    rule = PerCoordinateClipping((torch.full((1, 1), 2.8e-45),))
    (std,) = rule.noise_stds(0.2)
    assert float(std.double()) >= 0.2 * float(rule.bounds[0].double()) * (1 - SLACK)
