"""Defects: float32 lets one record move a clipped sum by more than the rule's sensitivity."""

from functools import partial

import pytest
import torch
from torch import nn

from dpkit.papers.adadp.noise_shapes import ScaledClipping
from dpkit.privacy.clipping import FlatClipping, PerCoordinateClipping
from dpkit.training import clipped_sum, per_example

SLACK = 1e-4  # more than rounding of one record's own part adds


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
    ("n", "at_once", "at_most", "wide", "high", "rule"),
    [
        (512, 1, 1, 16, 16, "flat"),  # 1.004 times
        (1024, 16, None, 256, 1024, "coordinate"),  # 1.001 times
    ],
)
def test_a_record_moves_a_sum_of_many_by_its_bound(n, at_once, at_most, wide, high, rule):
    net, norm = nn.Linear(wide, high, bias=False), (wide * high) ** 0.5
    bounds = PerCoordinateClipping((torch.ones(high, wide),))
    clipping = FlatClipping(norm * (1 + 1e-6)) if rule == "flat" else bounds
    sums = [
        clipped_sum(partial(per_example, net, of_outputs), x, rule=clipping, at_most=at_most).sums[
            0
        ]
        for x in neighbours(n, at_once=at_once, wide=wide)
    ]
    moved = float((sums[1].double() - sums[0].double()).norm())
    assert moved <= clipping.sensitivity("add-remove") * (1 + SLACK)


class OwnLayer(nn.Module):
    """A layer that goes through torch.func, where full gradients are formed."""

    def __init__(self, side):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(side, side))

    def forward(self, x):
        return x @ self.weight.T


@pytest.mark.parametrize("rule", ["flat", "scaled"])
def test_a_long_gradient_is_clipped_to_its_norm(rule):
    # One large number, and 4 million of which each square is lost beside its own: 1.007 times.
    side = 2048
    small = 0.999 * 2.0**-12.5
    row = torch.full((side,), small)
    row[0] = 1.0
    x = torch.stack([row, torch.full((side,), small)])[None]
    places = torch.zeros(2, side)
    places[0, 0] = 1
    places[1, 1:] = 1

    def loss(outputs):
        return (outputs * places).sum((1, 2)) * 2

    clipping = FlatClipping(1.0) if rule == "flat" else ScaledClipping((torch.ones(side, side),))
    total = clipped_sum(partial(per_example, OwnLayer(side), loss), x, rule=clipping)
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
