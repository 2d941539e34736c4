"""The accountant explorer answers as the accountants do, and never shows a stale number."""

import pytest

from dpkit.course.explorers.accountant import Accountant
from dpkit.privacy import Release, SampledGaussian, gdp, moments, pld, rdp

SETTING = {
    "find": "epsilon",
    "target_epsilon": 0.0,  # not read
    **{"noise_multiplier": 0.9, "sample_rate": 0.02},
    **{"steps": 700.4, "delta": 1e-6, "adjacency": "add-remove"},
}


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_every_row_is_the_accountants_own_number(adjacency):
    found = Accountant.compute(**SETTING | {"adjacency": adjacency})
    rows = {name: (epsilon, lower) for name, epsilon, lower, _ in found["rows"]}
    ledger = [Release(SampledGaussian(0.9, 0.02, adjacency), 700)]
    pair = pld.epsilon(ledger, delta=1e-6)
    assert rows["PLD"] == (pair.epsilon, pair.lower)
    assert rows["RDP"][0] == rdp.epsilon(ledger, delta=1e-6).epsilon
    orders = range(2, 65)
    assert rows["RDP, orders to 64"][0] == rdp.epsilon(ledger, delta=1e-6, orders=orders).epsilon
    assert rows["GDP"][0] == gdp.epsilon(ledger, delta=1e-6).epsilon
    assert rows["moments"][0] == pytest.approx(moments.epsilon(ledger, delta=1e-6).epsilon, 1e-6)
    assert ("PLD, fixed size" in rows) is (adjacency == "replace-one")
    assert min(rows[name][0] for name in ("RDP", "RDP, classic", "moments")) >= pair.lower


def test_batches_of_all_records_cost_the_same_where_their_size_is_fixed():
    """However they are drawn, a replaced record moves a sum clipped at C by 2 C."""
    everyone = {"noise_multiplier": 9.0, "sample_rate": 1.0, "adjacency": "replace-one"}
    rows = Accountant.compute(**SETTING | everyone)["rows"]
    epsilons = {name: epsilon for name, epsilon, _, _ in rows}
    assert epsilons["PLD, fixed size"] == pytest.approx(epsilons["PLD"], rel=1e-3)


def test_the_call_follows_the_numbers():
    explorer = Accountant()
    explorer.values["noise_multiplier"].value = 1.4
    assert "SampledGaussian(1.4, 0.01" in explorer.numbers.value
