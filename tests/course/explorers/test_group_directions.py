"""Groups of the gradient: registered claims, quadrature, a peer's PLD, pictures at extremes."""

import math
from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure

from dpkit.course.explorers import GroupDirections, group_directions
from dpkit.course.explorers.certified import ENOUGH, LEAST_CERTIFIED, NOTHING, TOO_SMALL
from dpkit.course.explorers.group_directions import (
    ADDED,
    CHARGED,
    DRAWS,
    PARTS,
    _draw_groups,
    by_iteration,
)
from dpkit.papers.claims import check
from dpkit.papers.dpgan import claims
from dpkit.privacy import Release, SampledGaussian, pld, rdp
from dpkit.privacy.clipping import GroupClipping

Z = math.sqrt(2 * math.log(1.25e4)) / 4  # the paper's 1.0859
EXPLORER = GroupDirections
computed = partial(
    EXPLORER.compute, groups=7, noise_multiplier=Z, devices=4, noise=CHARGED, iterations=560
)
CLAIMS = {claim.id.removeprefix("dpgan/"): claim for claim in claims.CLAIMS}
HIDDEN = {"groups": 9, "noise_multiplier": 0.344, "noise": ADDED, "devices": 1}


@pytest.mark.parametrize(
    ("name", "changed", "certified"),
    [
        ("theorem-4.1-7-groups", {}, "22.0"),
        ("theorem-4.1-5-groups", {"groups": 5, "iterations": 780}, "13.9"),
        ("auto-grouping", {"iterations": 780}, ""),
        ("stray-factor-1-device", {"groups": 1, "devices": 1, "noise": ADDED}, "278.0"),
        ("stray-factor-4-devices", {"groups": 1, "noise": ADDED}, "91.9"),
    ],
)
def test_numbers_are_those_of_the_registered_claims(name, changed, certified):
    found, claim = computed(**changed), CLAIMS[name]
    assert found["together"] == pytest.approx(check(claim).computed, rel=1e-9)
    low, high = found["pair"]
    assert high - low <= 0.0101 * high
    assert certified in claim.explanation
    if certified:
        assert low - 0.05 <= float(certified) <= high + 0.05
    if not changed:  # one group's, and seven's with batches of their own, whatever noise is added
        for one, key in ((found, "alone"), (found, "charge"), (computed(noise=ADDED), "charge")):
            assert f" {one[key]:.2f} " in claim.explanation


def test_epsilon_is_the_least_over_the_papers_orders_by_the_classic_conversion():
    for noise, rate, releases in ((Z, 256 / 49_000, 2240), (0.25, 64 / 49_000, 40), (0.4, 0.02, 1)):
        ledger = [Release(SampledGaussian(noise, rate), releases)]
        orders = [*(1 + x / 10 for x in range(1, 100)), *range(12, 64)]
        own = rdp.epsilon(ledger, delta=1e-5, conversion="classic", orders=orders)
        assert group_directions.epsilon(noise, rate, releases) == pytest.approx(own.epsilon)


@pytest.mark.parametrize("groups", [1, 2, 5, 7, 9])
@pytest.mark.parametrize(("devices", "divisor"), [(1, 8), (4, 4)])
def test_lengths_by_closed_forms(groups, devices, divisor):
    for noise, less in ((CHARGED, 1), (ADDED, divisor)):
        found = computed(groups=groups, devices=devices, noise=noise, noise_multiplier=3.0)
        clipping = GroupClipping((1.0,) * groups, tuple(range(groups)))
        assert found["sensitivity"] == pytest.approx(clipping.sensitivity("add-remove"))
        assert found["divisor"] == less
        assert found["noise_std"] == pytest.approx(3 / less)
        assert found["effective"] == pytest.approx(3 / less / math.sqrt(groups))
        assert found["sample_rate"] == 64 * devices / 49_000


def test_groups_and_noise_move_what_they_should_and_curves_rise():
    """The theorem's number knows no groups; nothing charged knows the noise that is added."""
    first, more, stray = computed(), computed(groups=9), computed(noise=ADDED)
    for name, values in by_iteration(first, [10, 560, 3000]).items():  # the curves
        assert values[1] == first[name]
        assert values == sorted(values)
    assert more["alone"] == first["alone"] == stray["alone"]
    assert more["charge"] > first["charge"] == stray["charge"]
    assert more["pair"][0] > first["pair"][1]
    assert stray["pair"][0] > 10 * first["pair"][1]


def test_findings_follow_the_certified_pair(explorer):
    found = computed(groups=1)
    assert found["alone"] == found["charge"] == found["together"] > found["pair"][1]
    assert [row[4] for row in explorer.table(found).rows[:3]] == [ENOUGH] * 3
    rows = explorer.table(computed()).rows
    assert [row[4] for row in rows[:3]] == [TOO_SMALL, TOO_SMALL, ENOUGH]
    assert rows[0][1] == "1.661"
    assert "C sqrt(7) = 2.646 C" in rows[2][3]
    notes = " ".join(explorer.table(computed(noise=ADDED, devices=1)).notes)
    assert "sqrt(64): 8 times less" in notes
    for told in ("add-remove", "Poisson batches at rate 64 / 49,000", PARTS):
        assert told in notes


@pytest.mark.filterwarnings("error")
def test_what_is_not_computed_is_inf(explorer):
    found = computed(**HIDDEN)
    assert found["effective"] < LEAST_CERTIFIED
    assert found["pair"] == (0.0, math.inf)
    assert found["together"] > 1e5
    *others, last = explorer.table(found).rows
    assert {row[4] for row in others} == {NOTHING}
    assert last[1] == "inf"
    assert "not computed" in last[4]
    assert "inf by PLD" in explorer.draw(found).words


def test_what_failed_is_inf(explorer, monkeypatch):
    def fails(*_, **__):
        raise ArithmeticError("no")

    monkeypatch.setattr(pld, "epsilon", fails)
    found = computed(noise_multiplier=1.2345678, iterations=17)  # asked for nowhere else
    assert found["pair"] == (0.0, math.inf)
    *others, last = explorer.table(found).rows
    assert (last[1], last[4]) == ("inf", "no bound found")
    assert {row[4] for row in others} == {NOTHING}


def test_an_order_without_a_price_is_never_the_least(monkeypatch):
    orders, costs = np.array([2.0, 3.0, 4.0]), np.array([0.01, 0.01, math.inf])
    monkeypatch.setattr(group_directions, "_curve", lambda *_: (orders, costs))
    assert group_directions.epsilon(1.0, 0.1, 1) == pytest.approx(0.01 + math.log(1e5) / 2)
    monkeypatch.setattr(group_directions, "_curve", lambda *_: (orders, costs + math.inf))
    assert group_directions.epsilon(1.0, 0.1, 1) == math.inf


def test_controls_start_at_the_paper_and_come_back_to_it(explorer):
    controls = explorer.values
    assert {name: c.value for name, c in controls.items()} == pytest.approx(computed.keywords)
    slider = controls["noise_multiplier"]
    assert Z in slider.stops
    steps = controls["iterations"]
    assert all((n - steps.min) % steps.step == 0 for n in (560, 780))  # Table 7
    assert not slider.slider.continuous_update
    assert not steps.continuous_update


@pytest.mark.parametrize(("groups", "corner"), [(7, (1, 1)), (1, (1, 0))])
def test_the_dots_are_the_noise_that_is_added(groups, corner):
    """Of 300 normal numbers from a fixed seed, so these bounds either always hold or never."""
    found = computed(groups=groups, noise=ADDED)
    ax = Figure().add_subplot()
    _draw_groups(ax, found)
    for dots, place in zip(ax.collections[:2], ((0, 0), corner), strict=True):
        offsets = np.array(dots.get_offsets())
        assert offsets.shape == (DRAWS, 2)
        assert offsets.mean(axis=0) == pytest.approx(place, abs=0.3 * found["noise_std"])
        assert (offsets - place).std() == pytest.approx(found["noise_std"], rel=0.1)
    assert ax.get_xlim()[1] > 1
    words = [text.get_text() for text in ax.texts]
    assert ("C√2 here, C√7 for all 7" if groups == 7 else "C") in words
    assert len(ax.patches) == (2 if groups == 7 else 1)  # a square only where groups are clipped
