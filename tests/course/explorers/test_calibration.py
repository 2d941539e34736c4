"""What a target epsilon asks for: as the calibration says, on the private side, or a sentence."""

import math
from functools import partial
from itertools import product
from typing import Any

import pytest

from dpkit.course.explorers import Calibration, calibration
from dpkit.course.explorers.calibration import FIND, LATER, NOISE, RATE, STEPS, by_pld
from dpkit.privacy import Release, SampledGaussian, calibrate, pld, rdp

EXPLORER = Calibration
computed = partial(
    EXPLORER.compute,
    find=NOISE,
    target_epsilon=2.0,
    delta=1e-5,
    noise_multiplier=1.1,
    sample_rate=0.02,
    steps=500.0,
    adjacency="add-remove",
)
PLACE = {NOISE: "noise_multiplier", STEPS: "steps", RATE: "sample_rate"}
ONE_OF_SIX = pytest.mark.slow("one search that one relation breaks")
QUICK = {(NOISE, "add-remove"), (STEPS, "replace-one"), (RATE, "add-remove")}


@pytest.fixture(autouse=True)
def no_curve(monkeypatch):
    """Two points of the curve, none of PLD beside it: this is about the numbers."""
    monkeypatch.setattr(calibration, "POINTS", 2)
    monkeypatch.setattr(calibration, "BESIDE", ())


def ledger(find: str, value: float, **changed) -> list[Release]:
    values = computed.keywords | changed | {PLACE[find]: value}
    adjacency: Any = values["adjacency"]
    mechanism = SampledGaussian(values["noise_multiplier"], values["sample_rate"], adjacency)
    return [Release(mechanism, int(values["steps"]))]


def calibrated(find: str, accountant, adjacency: Any) -> float:
    shared = {"delta": 1e-5, "accountant": accountant}
    if find == STEPS:
        mechanism = SampledGaussian(1.1, 0.02, adjacency)
        return calibrate.steps(2.0, mechanism=mechanism, **shared)
    shared |= {"steps": 500, "adjacency": adjacency}
    if find == NOISE:
        return calibrate.noise_multiplier(2.0, sample_rate=0.02, **shared)
    return calibrate.sample_rate(2.0, noise_multiplier=1.1, **shared)


@pytest.mark.parametrize(
    ("find", "adjacency"),
    [
        pytest.param(*one, marks=() if one in QUICK else ONE_OF_SIX)
        for one in product(FIND, ("add-remove", "replace-one"))
    ],
)
def test_values_are_those_of_the_calibration_and_on_the_private_side(find, adjacency):
    result = computed(find=find, adjacency=adjacency)
    for name, accountant in (("PLD", pld.epsilon), ("RDP", rdp.epsilon)):
        found = result[name] or by_pld(result["setting"])
        run = ledger(find, found.value, adjacency=adjacency)
        spent = accountant(run, delta=1e-5)
        assert (found.epsilon, found.lower) == (spent.epsilon, spent.lower)
        assert spent.epsilon <= 2.0
        assert len(f"{found.value}") <= 8  # shown in full
        exact = calibrated(find, accountant, adjacency)
        assert found.value == pytest.approx(exact, rel=1.5e-3)
        if find == STEPS:
            assert found.value == exact  # whole, and the largest
    assert result["PLD"] is None or result["PLD"].lower > 1.9


def test_what_is_found_needs_no_value():
    assert computed(noise_multiplier=math.nan)["RDP"] == computed()["RDP"]


def test_pld_reaches_what_rdp_does_not():
    result = computed(find=STEPS, noise_multiplier=0.9024, sample_rate=0.01, target_epsilon=0.5)
    assert result["RDP"] is None
    assert result["PLD"].value >= 1


def test_the_control_that_is_found_is_shut(explorer):
    for find in FIND:
        explorer.values["find"].value = find
        shut = [name for name in PLACE.values() if explorer.values[name].disabled]
        assert shut == [PLACE[find]]


def test_slow_prices_come_with_the_picture(explorer, monkeypatch):
    result = computed(sample_rate=0.004)
    assert result["PLD"] is None
    assert LATER in explorer.table(result).text()
    later = explorer.late(result)
    assert later["PLD"].epsilon <= 2
    assert LATER not in explorer.table(later).text()
    monkeypatch.setattr(calibration, "PATIENCE", 0.0)
    later = explorer.late(result)
    assert later["PLD"] is None
    assert "more than 0 seconds" in explorer.table(later).text()
    assert explorer.draw(later).png() != b""
