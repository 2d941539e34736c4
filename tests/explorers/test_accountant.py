"""The accountant explorer answers as the accountants do, and never shows a stale number."""

import subprocess
import sys

import pytest

pytest.importorskip("ipywidgets")

import ipywidgets

from dpkit.explorers.accountant import Accountant
from dpkit.explorers.explorer import Table, at_least, at_most
from dpkit.privacy import Release, SampledGaussian, gdp, moments, pld, rdp

SETTING = {
    "noise_multiplier": 0.9, "sample_rate": 0.02, "steps": 700.4, "delta": 1e-6,
    "adjacency": "add-remove",
}  # fmt: skip


@pytest.fixture
def explorer() -> Accountant:
    return Accountant()


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_every_row_is_the_accountants_own_number(adjacency):
    found = Accountant.compute(**SETTING | {"adjacency": adjacency})
    rows = {name: (epsilon, lower) for name, epsilon, lower, _ in found["rows"]}
    ledger = [Release(SampledGaussian(0.9, 0.02, adjacency), 700)]
    pair = pld.epsilon(ledger, delta=1e-6)
    assert rows["PLD"] == (pair.epsilon, pair.lower)
    assert rows["RDP"][0] == rdp.epsilon(ledger, delta=1e-6).epsilon
    assert rows["GDP"][0] == gdp.epsilon(ledger, delta=1e-6).epsilon
    assert rows["moments"][0] == pytest.approx(moments.epsilon(ledger, delta=1e-6).epsilon, 1e-6)
    assert ("wor" in rows) is (adjacency == "replace-one")
    assert min(rows[name][0] for name in ("RDP", "RDP, classic", "moments")) >= pair.lower


def test_a_move_changes_numbers_and_picture(explorer):
    numbers, picture = explorer.numbers.value, bytes(explorer.picture.value)
    assert picture.startswith(b"\x89PNG")
    explorer.values["noise_multiplier"].value = 1.4
    assert explorer.numbers.value != numbers
    assert bytes(explorer.picture.value) != picture
    assert "RDP to" in explorer.words.value
    assert "SampledGaussian(1.4, 0.01" in explorer.call.value


@pytest.mark.parametrize(
    ("name", "bad"), [("delta", 0.0), ("delta", 1.0), ("delta", float("nan")), ("delta", -1.0)]
)
def test_bad_values_are_told_in_a_sentence(explorer, name, bad):
    before, good = explorer.numbers.value, explorer.values[name].value
    explorer.values[name].value = bad
    assert "role='alert'" in explorer.numbers.value
    assert "elta must lie in (0, 1)" in explorer.numbers.value
    assert explorer.picture.value == b""
    assert explorer.words.value == explorer.call.value == ""
    assert "no numbers" in repr(explorer)
    explorer.values[name].value = good
    assert explorer.numbers.value == before


@pytest.mark.parametrize(
    "change",
    [
        {"sample_rate": 0.0}, {"sample_rate": 1.5}, {"noise_multiplier": 0.0}, {"steps": 0},
        {"steps": float("nan")}, {"adjacency": "both"}, {"noise_multiplier": float("nan")},
    ],
)  # fmt: skip
def test_compute_refuses(change):
    with pytest.raises(ValueError, match=r"\w"):
        Accountant.compute(**SETTING | change)


def test_a_fault_of_our_own_is_told_too(explorer, monkeypatch):
    def broken(**_):
        raise KeyError("x")

    monkeypatch.setattr(Accountant, "compute", staticmethod(broken))
    explorer.values["noise_multiplier"].value = 2.0
    assert "should not happen" in explorer.numbers.value
    assert explorer.picture.value == b""


def test_settings_are_kept_to_compare(explorer):
    explorer._keep(None)
    explorer._keep(None)  # the same once
    explorer.values["noise_multiplier"].value = 2.0
    explorer._keep(None)
    assert explorer.comparison.value.count("<tr>") == 3  # with the headings
    explorer._forget(None)
    assert explorer.comparison.value == ""


def test_twenty_moves_make_no_new_widgets(explorer):
    count = len(ipywidgets.widgets.widget._instances)
    for index in range(20):
        explorer.values["noise_multiplier"].value = 1.0 + index / 100
    assert len(ipywidgets.widgets.widget._instances) == count


def test_static_text_for_screens_without_a_kernel(explorer):
    bundle = explorer._repr_mimebundle_()
    assert "<table>" in bundle["text/html"]
    assert at_most(explorer.result["rows"][0][1]) in bundle["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_bounds_are_rounded_to_their_own_side():
    assert at_most(5.19341) == "5.194"
    assert at_least(5.19049) == "5.19"
    assert at_most(0.00012341) == "0.0001235"
    assert at_most(float("inf")) == "inf"
    assert at_least(0.0) == "0"
    assert at_most(12345.1) == "1.235e+04"


def test_what_is_shown_is_escaped():
    assert "<b>" not in Table(("<b>",), (("<b>",),), ("<b>",)).html()


def test_no_torch_is_loaded():
    code = "import sys, dpkit.explorers as e; e.Accountant(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("noise", [50.0, 49.0, 1.1])
def test_the_words_round_bounds_to_their_own_side(explorer, noise):
    setting = {"noise_multiplier": noise, "sample_rate": 1.0, "steps": 3, "delta": 1e-5}
    result = Accountant.compute(**setting, adjacency="add-remove")
    words = explorer.draw(result).words
    low, high = words.rstrip(".").rpartition("between ")[2].split(" and ")
    pair = pld.epsilon([Release(SampledGaussian(noise, 1.0), 3)], delta=1e-5, gap=0.01)
    assert float(low) <= pair.lower
    assert float(high) >= pair.epsilon
