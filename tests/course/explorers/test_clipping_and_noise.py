"""The cloud of gradients: what moves, what bounds it, what it costs."""

import math
from functools import partial

import numpy as np
import pytest

from dpkit.common.show import at_most
from dpkit.course.explorers import ClippingAndNoise
from dpkit.course.explorers.clipping_and_noise import DELTA, RULES, WRONG, gradients
from dpkit.privacy import DiagonalGaussian, Gaussian, GroupedGaussian, Release, gdp, pld

EXPLORER = ClippingAndNoise
computed = partial(
    EXPLORER.compute,
    **{"rule": "flat", "max_grad_norm": 1.0, "noise_multiplier": 1.1},
    **{"batch_size": 40, "length": 5.0, "angle": 120.0},
)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("length", [0.0, 0.3, 5.0, 1e4])
def test_no_record_moves_more_than_the_sensitivity(rule, length):
    for angle in range(0, 360, 30):
        found = computed(rule=rule, length=length, angle=float(angle), max_grad_norm=0.7)
        assert found["moved"] <= found["sensitivity"][1] * (1 + 1e-9)


def test_flat_clipping_is_that_of_each_row():
    found = computed()
    cloud = gradients(40)
    norms = np.sqrt((cloud**2).sum(axis=1))
    assert found["without"] == pytest.approx((cloud / np.maximum(norms, 1)[:, None]).sum(0))
    assert found["clipped"] == (norms > 1).mean()
    assert found["moved"] == pytest.approx(1.0)  # the record is longer than the bound
    assert computed(length=0.25)["moved"] == pytest.approx(0.25)
    assert (gradients(50)[:40] == cloud).all()  # a larger batch holds the smaller


def test_coordinates_and_groups_are_cut_alike_and_priced_apart():
    """In 2-D both cut to a box; AdaDP's noise keeps the multiplier, a group's own does not."""
    box, groups = computed(rule="per coordinate"), computed(rule="per group")
    assert box["after"] == pytest.approx(np.clip(gradients(40), -1, 1))
    assert groups["after"] == pytest.approx(box["after"])
    assert box["moved"] == pytest.approx(np.hypot(1, 1))
    std = box["noise_std"]
    assert std == pytest.approx(1.1 * math.sqrt(2))
    assert box["proven"]["noise"] == pytest.approx(DiagonalGaussian((std, std)).noise_multiplier)
    assert groups["noise_std"] == pytest.approx(1.1)
    assert groups["proven"]["noise"] == pytest.approx(GroupedGaussian(1.1, 2).one.noise_multiplier)


def test_after_the_mean_the_noise_left_is_smaller_by_twice_the_batch():
    found = computed(rule=WRONG)
    assert found["claimed"]["noise"] == 1.1
    assert found["proven"]["noise"] == pytest.approx(1.1 / 80)
    assert found["noise_std"] == pytest.approx(1.1 / 40)
    assert found["proven"]["epsilon"] > 100 * found["claimed"]["epsilon"]
    found = computed(rule=WRONG, length=1e4, angle=212.0, max_grad_norm=0.5)
    assert 0.95 < found["moved"] <= found["sensitivity"][1] == 1.0  # it crosses the ball
    assert found["sensitivity"][0] == pytest.approx(0.5 / 40)  # as claimed


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "changed",
    [{}, *({"max_grad_norm": x, "noise_multiplier": x, "batch_size": 500} for x in (0.1, 10.0))],
)
def test_prices_are_those_of_the_library(rule, changed):
    found = computed(rule=rule, **changed)
    for one in (found["claimed"], found["proven"]):
        ledger = [Release(Gaussian(one["noise"]))]
        assert one["epsilon"] == gdp.epsilon(ledger, delta=DELTA).epsilon
        pair = pld.epsilon(ledger, delta=DELTA)  # another way, and certified
        assert pair.lower <= one["epsilon"]
        assert one["lower"] <= pair.epsilon


@pytest.mark.parametrize("rule", RULES)
def test_the_claim_stands_beside_the_proven_only_for_the_slip(explorer, rule):
    found = computed(rule=rule)
    table, words = explorer.table(found), explorer.draw(found).words
    for which in ("claimed", "proven"):
        assert at_most(found[which]["epsilon"]) in table.text()
    assert ("claimed" in table.headings) == ("claimed" in words) == (rule == WRONG)
