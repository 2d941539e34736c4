"""What a target epsilon asks for: as the calibration says, on the private side, or a sentence."""

import math
from functools import partial
from itertools import product
from typing import Any

import pytest

from dpkit.course.explorers import Accountant, calibration
from dpkit.course.explorers.calibration import NOISE, RATE, STEPS, by_pld
from dpkit.course.explorers.explorer import LATER
from dpkit.privacy import Release, SampledGaussian, calibrate, pld, rdp

EXPLORER = Accountant
computed = partial(
    EXPLORER.compute,
    **{"find": NOISE, "target_epsilon": 2.0, "delta": 1e-5, "noise_multiplier": 1.1},
    **{"sample_rate": 0.02, "steps": 500.0, "adjacency": "add-remove"},
)
PLACE = {NOISE: "noise_multiplier", STEPS: "steps", RATE: "sample_rate"}
ONE_OF_SIX = pytest.mark.slow("one search that one relation breaks")
QUICK = {(NOISE, "add-remove"), (STEPS, "replace-one"), (RATE, "add-remove")}


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
        for one in product(PLACE, ("add-remove", "replace-one"))
    ],
)
def test_values_are_those_of_the_calibration_and_on_the_private_side(find, adjacency):
    result = computed(find=find, adjacency=adjacency)
    for name, accountant in (("PLD", pld.epsilon), ("RDP", rdp.epsilon)):
        found = result["found"][name] or by_pld(result["setting"])
        run = ledger(find, found.value, adjacency=adjacency)
        spent = accountant(run, delta=1e-5)
        assert (found.epsilon, found.lower) == (spent.epsilon, spent.lower)
        assert spent.epsilon <= 2.0
        assert len(f"{found.value}") <= 8  # shown in full
        exact = calibrated(find, accountant, adjacency)
        assert found.value == pytest.approx(exact, rel=1.5e-3)
        if find == STEPS:
            assert found.value == exact  # whole, and the largest
    assert result["rows"][0][2] > 1.9  # the run with what is found is priced


def test_what_is_found_needs_no_value():
    assert computed(noise_multiplier=math.nan)["rows"] == computed()["rows"]


def test_pld_reaches_what_rdp_does_not():
    result = computed(find=STEPS, noise_multiplier=0.9024, sample_rate=0.01, target_epsilon=0.5)
    assert result["found"]["RDP"] is None
    assert result["found"]["PLD"].value >= 1


def test_the_control_that_is_found_is_shut(explorer):
    for find in PLACE:
        explorer.values["find"].value = find
        shut = [name for name in PLACE.values() if explorer.values[name].disabled]
        assert shut == [PLACE[find]]
        assert not explorer.values["target_epsilon"].disabled


def test_slow_prices_come_when_nothing_moves(explorer, monkeypatch):
    result = computed(sample_rate=0.004)
    assert result["found"]["PLD"] is None
    assert LATER in explorer.table(result).text()
    later = explorer.late(result)
    assert later["found"]["PLD"].epsilon <= 2
    assert later["rows"][0][1] <= 2
    assert LATER not in explorer.table(later).text()
    monkeypatch.setattr(calibration, "PATIENCE", 0.0)
    later = explorer.late(result)
    assert later["found"]["PLD"] is None
    assert "more than 0 seconds" in explorer.table(later).text()
