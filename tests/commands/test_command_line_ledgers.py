"""The command line's accountants, ledgers from files, and what does not go together."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpkit.privacy import Release, SampledGaussian, gdp, moments, pld, rdp
from dpkit.privacy.mechanisms import Adjacency, WithoutReplacementGaussian

RUN = "--noise-multiplier 1.1 --sample-rate 0.01 --steps 1000 --delta 1e-5"
TARGET = "noise --epsilon 4 --sample-rate 0.01 --steps 1000 --delta 1e-5"
HEADER = "noise_multiplier,sample_rate,count"


@pytest.fixture
def steps_csv(tmp_path: Path) -> str:
    path = tmp_path / "the steps.csv"
    path.write_text(f"{HEADER}\n1.1,0.01,600\n1.4,0.02,100\n1.1,0.01,400\n")
    return str(path)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", ["rdp", "pld", "moments", "gdp"])
def test_each_accountant_under_each_adjacency(answer, name: str, adjacency: Adjacency):
    price = {"rdp": rdp, "pld": pld, "moments": moments, "gdp": gdp}[name].epsilon
    options = {"rdp": "", "add-remove": ""}  # where they are not given
    line = options.get(name, f"--accountant {name}")
    line += options.get(adjacency, f" --adjacency {adjacency}")
    found = answer(f"epsilon {RUN} {line}")
    expected = price([Release(SampledGaussian(1.1, 0.01, adjacency), 1000)], delta=1e-5)
    assert found == {
        **{"epsilon": expected.epsilon, "lower": expected.lower, "delta": 1e-5},
        **{"adjacency": adjacency, "accountant": name, "upper_bound": name != "gdp"},
        "conversion": "improved" if name == "rdp" else None,
        "noise_multiplier": 1.1,
        "noise_meaning": "noise standard deviation / clip norm C",
        "sample_rate": 0.01,
        "steps": 1000,
        "method": expected.method,
        "assumptions": list(expected.assumptions),
        "version": "0.1.0",
        "ledger": None,
        "releases": [{"noise_multiplier": 1.1, "sample_rate": 0.01, "count": 1000}],
    }


def test_pld_prints_both_bounds_rounded_outwards(dpkit, answer):
    found = answer(f"epsilon {RUN} --accountant pld")
    code, out, _ = dpkit(f"epsilon {RUN} --accountant pld")
    _, low, _, high, *_ = out.split(" ")
    assert code == 0
    assert float(low) <= found["lower"] <= found["epsilon"] <= float(high)
    assert float(high) - float(low) < 0.01
    assert found["epsilon"] < 1.7
    assert dpkit(f"epsilon {RUN} --accountant rdp")[1].startswith("epsilon 1.712 at ")


def test_gdp_says_that_it_is_no_upper_bound(dpkit, answer):
    out = dpkit(f"epsilon {RUN} --accountant gdp")[1]
    assert out.startswith("epsilon about ")
    assert "approximation (CLT), not an upper bound" in out
    line = f"epsilon {RUN} --accountant gdp --sample-rate 1 --steps 1"
    assert answer(line)["upper_bound"] is True  # of one Gaussian it is exact
    assert "not an upper bound" in dpkit(f"{TARGET} --accountant gdp")[1]


@pytest.mark.parametrize("name", ["rdp", "pld", "gdp", "moments"])
def test_noise_lies_on_the_private_side_and_shows_its_epsilon(dpkit, answer, name: str):
    rest = f"--sample-rate {1 if name == 'moments' else 0.01} --steps 10 --delta 1e-5"
    line = f"noise --epsilon 3 {rest} --accountant {name}"
    found = answer(f"{line}")
    assert found["target_epsilon"] == 3
    assert 2.99 < found["epsilon"] <= 3
    assert found["accountant"] == name
    code, out, _ = dpkit(line)
    printed = out.split(": epsilon ")[0].split(" ")[-1]
    assert code == 0
    # what is printed was rounded up, and costs no more
    assert found["noise_multiplier"] <= float(printed) <= found["noise_multiplier"] * 1.00001
    noise, again = found["noise_multiplier"], f"epsilon {rest} --accountant {name}"
    for value, enough in ((printed, True), (repr(noise), True), (repr(noise * 0.9999), False)):
        spent = answer(f"{again} --noise-multiplier {value}")["epsilon"]
        assert (spent <= 3) == enough
    assert out.startswith("noise multiplier ")


def test_nothing_released_costs_nothing_and_needs_no_noise(dpkit, answer):
    some, none = "--sample-rate 0 --steps 5", "--sample-rate 0.1 --steps 0"
    assert answer(f"noise --epsilon 1 --delta 1e-5 {some}")["noise_multiplier"] == 0
    for rest in (some, none):
        assert answer(f"epsilon --noise-multiplier 1 --delta 1e-5 {rest}")["epsilon"] == 0
    line = f"noise --epsilon 1 {none} --delta 1e-5"
    for name in ("rdp", "pld", "moments", "gdp"):
        found = answer(f"{line} --accountant {name}")
        assert (found["noise_multiplier"], found["epsilon"], found["steps"]) == (0, 0, 0)
        assert dpkit(f"{line} --accountant {name}")[1].split(": ")[0].endswith(" 0")


def test_a_ledger_file_is_priced_as_a_whole(answer, steps_csv: str):
    ledger = [Release(SampledGaussian(1.1, 0.01), 1000), Release(SampledGaussian(1.4, 0.02), 100)]
    for name, price in {"rdp": rdp.epsilon, "pld": pld.epsilon}.items():
        found = answer(f"epsilon --delta 1e-5 --accountant {name} --ledger", steps_csv)
        assert found["epsilon"] == price(ledger, delta=1e-5).epsilon
        assert (found["ledger"], found["steps"]) == (steps_csv, 1100)
        assert (found["noise_multiplier"], found["sample_rate"]) == (None, None)
        assert found["noise_meaning"] is None
        assert found["releases"] == [
            {"noise_multiplier": 1.1, "sample_rate": 0.01, "count": 1000},
            {"noise_multiplier": 1.4, "sample_rate": 0.02, "count": 100},
        ]
    found = answer("epsilon --delta 1e-5 --adjacency replace-one --ledger", steps_csv)
    ledger = [
        Release(SampledGaussian(*one, "replace-one"), n)
        for one, n in (((1.1, 0.01), 1000), ((1.4, 0.02), 100))
    ]
    assert found["epsilon"] == rdp.epsilon(ledger, delta=1e-5).epsilon


def test_the_statement_of_a_ledger_names_its_ranges(dpkit, steps_csv: str):
    out = dpkit("epsilon --delta 1e-5 --accountant pld --statement --ledger", steps_csv)[1]
    assert "1100 steps with noise multiplier 1.1 to 1.4 and sample rate 0.01 to 0.02" in out
    assert "Sampling assumed: Poisson;" in out
    assert "PLD by FFT" in out


def test_the_statement_names_every_kind_of_sampling_and_noise(dpkit, tmp_path: Path):
    both = tmp_path / "both.json"
    rest = {"sample_rate": 0.01, "count": 5}
    rows = [{"noise_multiplier": 2} | rest, {"noise_over_sensitivity": 1} | rest]
    both.write_text(json.dumps(rows))
    line = "epsilon --delta 1e-5 --adjacency replace-one --statement --ledger"
    out = dpkit(line, str(both))[1]
    assert "5 steps with noise multiplier 2 and sample rate 0.01 and 5 steps with noise / " in out
    assert "Sampling assumed: Poisson and batches of a fixed size" in out


def test_a_ledger_of_batches_without_replacement(dpkit, answer, refused, tmp_path: Path):
    path = tmp_path / "fixed.csv"
    path.write_text("noise_over_sensitivity,sample_rate,count\n0.55,0.01,1000\n")
    line = "epsilon --delta 1e-5 --adjacency replace-one"
    found = answer(f"{line} --ledger", str(path))
    ledger = [Release(WithoutReplacementGaussian(0.55, 0.01), 1000)]
    assert found["epsilon"] == rdp.epsilon(ledger, delta=1e-5).epsilon > 15.5
    assert found["releases"][0]["noise_over_sensitivity"] == 0.55
    out = dpkit(f"{line} --statement --ledger", str(path))[1]
    assert "1000 steps with noise / sensitivity 0.55 and sample rate 0.01" in out
    assert "Sampling assumed: batches of a fixed size drawn without replacement;" in out
    assert "replace-one adjacency" in out
    error = refused("epsilon --delta 1e-5 --ledger", str(path))
    assert "noise_over_sensitivity is priced under replace-one alone, got add-remove" in error
    certified = answer(f"{line} --accountant pld --ledger", str(path))
    assert certified["lower"] < certified["epsilon"] < 0.71 * found["epsilon"]


def test_an_infinite_epsilon_is_said_to_be_one(dpkit, answer, refused, monkeypatch):
    unbounded = np.full(32, np.inf)
    monkeypatch.setattr(moments, "curve", lambda *_: (np.arange(1.0, 33), unbounded))
    line = f"epsilon {RUN} --accountant moments"
    assert dpkit(line)[1].startswith("epsilon inf ")
    found = answer(f"{line}")
    assert (found["epsilon"], found["lower"]) == ("inf", 0)
    assert "no finite epsilon is proven" in refused(f"{line} --statement")
