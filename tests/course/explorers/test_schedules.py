"""Noise that changes: prices of the rounded ledger enclose those of the schedule's own."""

from functools import partial

import numpy as np
import pytest

from dpkit.common.plots import Picture
from dpkit.course.explorers.schedules import DOWN, KINDS, UP, Schedules, by_step, rounded, schedule
from dpkit.privacy import Release, SampledGaussian, pld, rdp, schedules

EXPLORER = Schedules
computed = partial(
    EXPLORER.compute,
    **{"kind": "exponential", "start": 1.6, "end": 0.8, "drops": 4},
    **{"steps": 30.0, "sample_rate": 0.02, "delta": 1e-5},
)


def own_ledger(**changed):
    """Of every step's own noise, without rounding."""
    values = computed.keywords | changed
    kind, start, end, drops = (values[name] for name in ("kind", "start", "end", "drops"))
    steps = round(values["steps"])
    return schedules.noise_ledger(
        schedule(kind, start, end, drops, steps),
        steps=steps,
        release=lambda noise: SampledGaussian(noise, values["sample_rate"]),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_prices_enclose_those_of_the_steps_own_noise(kind):
    found, ledger = computed(kind=kind), own_ledger(kind=kind)
    own = pld.epsilon(ledger, delta=1e-5, gap=0.001)
    assert found["lower"] <= own.epsilon
    assert own.lower <= found["pld"]
    exact = rdp.epsilon(ledger, delta=1e-5).epsilon
    assert exact <= found["rdp"] * (1 + 1e-6) <= 1.05 * exact
    assert found["lower"] <= found["pld"] <= found["rdp"]


@pytest.mark.parametrize("kind", ["constant", "step"])
def test_few_levels_are_priced_as_they_are(kind):
    found, ledger = computed(kind=kind), own_ledger(kind=kind)
    assert np.array_equal(found["down"], found["noises"])
    assert found["rdp"] == rdp.epsilon(ledger, delta=1e-5).epsilon
    pair = pld.epsilon(ledger, delta=1e-5, gap=0.01)
    assert (found["lower"], found["pld"]) == pytest.approx((pair.lower, pair.epsilon), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("steps", [20, 1000])
def test_a_decay_goes_from_start_to_end(kind, steps):
    noises = schedules.values(schedule(kind, 3.0, 0.5, 4, steps), steps=steps)
    assert (noises[0], noises[-1]) == (pytest.approx(3.0), pytest.approx(0.5))
    assert (np.diff(noises) <= 0).all()
    if kind == "step":
        assert len(np.unique(noises)) == 5


def test_rounding_goes_one_way_each_and_to_few_levels():
    rng = np.random.default_rng(1)
    for spread in (1e-9, 0.3, 5.0):
        noises = np.exp(spread * rng.standard_normal(500))
        down, up = rounded(noises)
        assert (down <= noises).all()
        assert (noises <= up).all()
        assert len(np.unique(down)) <= DOWN
        assert len(np.unique(up)) <= UP
    assert all((one == [1.0, 2.0]).all() for one in rounded(np.array([1.0, 2.0])))


def test_the_constant_alike_costs_as_much_by_rdp():
    found = computed(steps=2000.0)
    alike = [Release(SampledGaussian(found["alike"], 0.02), 2000)]
    assert rdp.epsilon(alike, delta=1e-5).epsilon == pytest.approx(found["rdp"], rel=1e-3)
    assert found["noises"].min() < found["alike"] < found["mean"]
    assert computed(kind="constant")["alike"] == 1.6


def test_the_line_ends_at_the_accountants_number():
    found = computed(steps=2000.0)
    curve = by_step(found, np.array([500, 2000]))
    assert curve[1] == pytest.approx(found["rdp"], rel=1e-3)
    ledger = [
        Release(SampledGaussian(z, 0.02), int((found["down"][:500] == z).sum()))
        for z in np.unique(found["down"][:500])
    ]
    assert curve[0] == rdp.epsilon(ledger, delta=1e-5, orders=rdp.ORDERS).epsilon


def test_notes_tell_of_rounding_and_what_a_decay_does_not_read_cannot_be_moved(
    explorer, monkeypatch
):
    assert f"rounded to {DOWN} levels: down" in repr(explorer)
    assert "its own noise" in explorer.table(computed(kind="constant")).text()
    assert "any size" in explorer.table(computed(delta=0.9)).text()  # epsilon is 0
    monkeypatch.setattr(explorer, "draw", lambda _: Picture(None, ""))
    for kind in KINDS:
        explorer.values["kind"].value = kind
        assert explorer.values["drops"].disabled == (kind != "step")
        assert explorer.values["end"].disabled == (kind == "constant")
