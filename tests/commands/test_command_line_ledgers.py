"""The command line's accountants, ledgers from files, and what does not go together."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpkit.privacy import Release, SampledGaussian, gdp, moments, pld, rdp
from dpkit.privacy.mechanisms import Adjacency
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian

CHECKOUT = Path(__file__).resolve().parents[2]
RUN = "--noise-multiplier 1.1 --sample-rate 0.01 --steps 1000 --delta 1e-5"
TARGET = "noise --epsilon 4 --sample-rate 0.01 --steps 1000 --delta 1e-5"
HEADER = "noise_multiplier,sample_rate,count"


@pytest.fixture
def steps_csv(tmp_path: Path) -> str:
    path = tmp_path / "the steps.csv"
    path.write_text(f"{HEADER}\n1.1,0.01,600\n1.4,0.02,100\n1.1,0.01,400\n")
    return str(path)


ADJACENCIES = ["add-remove", "replace-one"]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("name", ["rdp", "pld", "moments", "gdp"])
def test_each_accountant_under_each_adjacency(dpkit, name: str, adjacency: Adjacency):
    price = {"rdp": rdp, "pld": pld, "moments": moments, "gdp": gdp}[name].epsilon
    options = {"rdp": "", "add-remove": ""}  # where they are not given
    line = options.get(name, f"--accountant {name}")
    line += options.get(adjacency, f" --adjacency {adjacency}")
    code, out, err = dpkit(f"epsilon {RUN} {line} --json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    expected = price([Release(SampledGaussian(1.1, 0.01, adjacency), 1000)], delta=1e-5)
    assert found == {
        "epsilon": expected.epsilon,
        "lower": expected.lower,
        "delta": 1e-5,
        "adjacency": adjacency,
        "accountant": name,
        "upper_bound": name != "gdp",
        "conversion": "improved" if name == "rdp" else None,
        "orders": None,
        "noise_multiplier": 1.1,
        "noise_meaning": "noise standard deviation / clip norm C",
        "noise_over_clip_norm": 1.1,
        "sample_rate": 0.01,
        "steps": 1000,
        "method": expected.method,
        "assumptions": list(expected.assumptions),
        "version": "0.1.0",
        "ledger": None,
        "releases": [{"noise_multiplier": 1.1, "sample_rate": 0.01, "count": 1000}],
    }


def test_pld_prints_both_bounds_rounded_outwards(dpkit):
    found = json.loads(dpkit(f"epsilon {RUN} --accountant pld --json")[1])
    code, out, _ = dpkit(f"epsilon {RUN} --accountant pld")
    low, high = out.removeprefix("epsilon ").split(" ")[0].split("..")
    assert code == 0
    assert float(low) <= found["lower"] <= found["epsilon"] <= float(high)
    assert float(high) - float(low) < 0.01
    assert found["epsilon"] < 1.7
    assert dpkit(f"epsilon {RUN} --accountant rdp")[1].startswith("epsilon 1.712 at ")


def test_gdp_says_that_it_is_no_upper_bound(dpkit):
    out = dpkit(f"epsilon {RUN} --accountant gdp")[1]
    assert out.startswith("epsilon about ")
    assert "approximation (CLT), not an upper bound" in out
    line = f"epsilon {RUN} --accountant gdp --sample-rate 1 --steps 1 --json"
    assert json.loads(dpkit(line)[1])["upper_bound"] is True  # of one Gaussian it is exact
    assert "not an upper bound" in dpkit(f"{TARGET} --accountant gdp")[1]


@pytest.mark.parametrize("adjacency", ["", "--adjacency replace-one"])
def test_without_replacement_takes_the_noise_multiplier_of_a_clipped_sum(dpkit, adjacency: str):
    """Noise 1.1 C on a sum that a replaced record moves by 2C: noise / sensitivity .55."""
    line = f"epsilon {RUN} --accountant wor {adjacency}"
    found = json.loads(dpkit(f"{line} --json")[1])
    ledger = [Release(WithoutReplacementGaussian(0.55, 0.01), 1000)]
    assert found["epsilon"] == rdp.epsilon(ledger, delta=1e-5).epsilon > 15.5
    assert found["adjacency"] == "replace-one"
    assert found["noise_meaning"] == "noise standard deviation / clip norm C"
    assert (found["noise_multiplier"], found["noise_over_clip_norm"]) == (1.1, 1.1)
    assert found["conversion"] == "improved"
    assert found["releases"][0]["noise_over_sensitivity"] == 0.55
    assert "without replacement" in dpkit(line)[1]
    other = line.replace("--noise-multiplier 1.1", "--noise-over-sensitivity 0.55")
    assert json.loads(dpkit(f"{other} --json")[1]) == found


def test_without_replacement_at_rate_1_is_a_gaussian(dpkit):
    """All records in every batch: the one price that both kinds of batches share."""
    rest = "--noise-multiplier 4 --sample-rate 1 --steps 3 --delta 1e-5 --json"
    rest += " --orders 2,4,8 --conversion classic"
    fixed = json.loads(dpkit(f"epsilon --accountant wor {rest}")[1])
    poisson = json.loads(dpkit(f"epsilon --adjacency replace-one {rest}")[1])
    assert fixed["epsilon"] == pytest.approx(poisson["epsilon"], rel=1e-12)
    assert fixed["orders"] == [2, 4, 8]
    assert fixed["conversion"] == "classic"


@pytest.mark.parametrize(
    "name",
    [
        "rdp",
        "pld",
        "gdp",
        "moments",
        pytest.param("wor", marks=pytest.mark.slow("noise for batches of a fixed size too small")),
    ],
)
def test_noise_lies_on_the_private_side_and_shows_its_epsilon(dpkit, name: str):
    rest = f"--sample-rate {1 if name == 'moments' else 0.01} --steps 10 --delta 1e-5"
    line = f"noise --epsilon 3 {rest} --accountant {name}"
    found = json.loads(dpkit(f"{line} --json")[1])
    assert found["target_epsilon"] == 3
    assert 2.99 < found["epsilon"] <= 3
    assert found["accountant"] == name
    code, out, _ = dpkit(line)
    printed = out.split(": epsilon ")[0].split(" ")[-1]
    assert code == 0
    # what is printed was rounded up, and costs no more
    assert found["noise_multiplier"] <= float(printed) <= found["noise_multiplier"] * 1.00001
    for value in (printed, repr(found["noise_multiplier"])):
        again = dpkit(f"epsilon --noise-multiplier {value} {rest} --accountant {name} --json")[1]
        assert json.loads(again)["epsilon"] <= 3
    less = found["noise_multiplier"] * 0.9999
    again = dpkit(f"epsilon --noise-multiplier {less!r} {rest} --accountant {name} --json")[1]
    assert json.loads(again)["epsilon"] > 3
    assert out.startswith("noise multiplier ")


def test_nothing_released_costs_nothing_and_needs_no_noise(dpkit):
    line = "--sample-rate 0 --steps 5 --delta 1e-5 --json"
    assert json.loads(dpkit(f"noise --epsilon 1 {line}")[1])["noise_multiplier"] == 0
    for rest in (line, line.replace("--sample-rate 0 --steps 5", "--sample-rate 0.1 --steps 0")):
        assert json.loads(dpkit(f"epsilon --noise-multiplier 1 {rest}")[1])["epsilon"] == 0
    line = "noise --epsilon 1 --sample-rate 0.1 --steps 0 --delta 1e-5"
    for name in ("rdp", "pld", "moments", "gdp", "wor"):
        found = json.loads(dpkit(f"{line} --accountant {name} --json")[1])
        assert (found["noise_multiplier"], found["epsilon"], found["steps"]) == (0, 0, 0)
        assert dpkit(f"{line} --accountant {name}")[1].split(": ")[0].endswith(" 0")


def test_a_ledger_file_is_priced_as_a_whole(dpkit, steps_csv: str):
    ledger = [Release(SampledGaussian(1.1, 0.01), 1000), Release(SampledGaussian(1.4, 0.02), 100)]
    for name, price in {"rdp": rdp.epsilon, "pld": pld.epsilon}.items():
        line = f"epsilon --delta 1e-5 --accountant {name} --json --ledger"
        found = json.loads(dpkit(line, steps_csv)[1])
        assert found["epsilon"] == price(ledger, delta=1e-5).epsilon
        assert found["ledger"] == steps_csv
        assert found["steps"] == 1100
        assert (found["noise_multiplier"], found["sample_rate"]) == (None, None)
        assert (found["noise_meaning"], found["noise_over_clip_norm"]) == (None, None)
        assert found["releases"] == [
            {"noise_multiplier": 1.1, "sample_rate": 0.01, "count": 1000},
            {"noise_multiplier": 1.4, "sample_rate": 0.02, "count": 100},
        ]
    line = "epsilon --delta 1e-5 --adjacency replace-one --json --ledger"
    found = json.loads(dpkit(line, steps_csv)[1])
    ledger = [
        Release(SampledGaussian(1.1, 0.01, "replace-one"), 1000),
        Release(SampledGaussian(1.4, 0.02, "replace-one"), 100),
    ]
    assert found["epsilon"] == rdp.epsilon(ledger, delta=1e-5).epsilon


def test_the_statement_of_a_ledger_names_its_ranges(dpkit, steps_csv: str):
    out = dpkit("epsilon --delta 1e-5 --accountant pld --statement --ledger", steps_csv)[1]
    assert "1100 steps with noise multiplier 1.1 to 1.4 and sample rate 0.01 to 0.02" in out
    assert "Sampling assumed: Poisson;" in out
    assert "PLD by FFT" in out


def test_the_statement_names_the_sampling_and_the_noise_of_wor(dpkit, tmp_path: Path):
    out = dpkit(f"epsilon {RUN} --accountant wor --statement")[1]
    assert "1000 steps with noise / sensitivity 0.55 and sample rate 0.01" in out
    assert "Sampling assumed: batches of a fixed size drawn without replacement;" in out
    assert "replace-one adjacency" in out
    both = tmp_path / "both.json"
    rest = {"sample_rate": 0.01, "count": 5}
    both.write_text(
        json.dumps([{"noise_multiplier": 2} | rest, {"noise_over_sensitivity": 1} | rest])
    )
    line = "epsilon --delta 1e-5 --adjacency replace-one --statement --ledger"
    out = dpkit(line, str(both))[1]
    assert "5 steps with noise multiplier 2 and sample rate 0.01 and 5 steps with noise / " in out
    assert "Sampling assumed: Poisson and batches of a fixed size" in out


def test_a_ledger_of_batches_without_replacement(dpkit, refused, tmp_path: Path, steps_csv: str):
    path = tmp_path / "fixed.csv"
    path.write_text("noise_over_sensitivity,sample_rate,count\n0.55,0.01,1000\n")
    found = json.loads(dpkit("epsilon --delta 1e-5 --accountant wor --json --ledger", str(path))[1])
    same = json.loads(dpkit(f"epsilon {RUN} --accountant wor --json")[1])
    assert found["epsilon"] == same["epsilon"]
    error = refused("epsilon --delta 1e-5 --accountant wor --ledger", steps_csv)
    assert "lists Poisson batches (noise_multiplier), and wor prices batches drawn" in error
    assert "half the noise multiplier for a sum clipped at C" in error
    error = refused("epsilon --delta 1e-5 --ledger", str(path))
    assert "noise_over_sensitivity is priced under replace-one alone, got add-remove" in error
    line = "epsilon --delta 1e-5 --accountant pld --adjacency replace-one --ledger"
    certified = json.loads(dpkit(line, str(path), "--json")[1])
    assert certified["lower"] < certified["epsilon"] < 0.71 * same["epsilon"]


def test_what_opacus_saved_is_priced(dpkit, tmp_path: Path):
    path = tmp_path / "accountant.json"
    path.write_text(json.dumps({"history": [[1.1, 0.01, 1000]], "mechanism": "prv"}))
    found = json.loads(dpkit("epsilon --delta 1e-5 --json --ledger", str(path))[1])
    assert found["epsilon"] == json.loads(dpkit(f"epsilon {RUN} --json")[1])["epsilon"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            f"epsilon {RUN} --accountant wor --adjacency add-remove",
            "wor prices adjacency replace-one alone, as its theorem compares data sets of one size",
        ),
        (f"{TARGET} --accountant wor --adjacency add-remove", "wor prices adjacency replace-one"),
        (f"epsilon {RUN} --noise-over-sensitivity 1", "are both given; take one"),
        (
            "epsilon --noise-over-sensitivity 1 --sample-rate .1 --steps 9 --delta 1e-5",
            "--noise-over-sensitivity belongs to accountant wor",
        ),
        ("epsilon --delta 1e-5 --ledger /dev/zero", "/dev/zero is not a regular file"),
        (
            "noise --epsilon 1e9 --sample-rate .01 --steps 1000 --delta 1e-5 --accountant pld",
            "target_epsilon must lie in [0, 1000000.0]",
        ),
        (
            f"epsilon {RUN} --accountant pld --conversion classic",
            "--conversion belongs to the accountants rdp and wor",
        ),
        (f"epsilon {RUN} --accountant gdp --conversion improved", "got accountant gdp"),
        (f"epsilon {RUN} --accountant moments --orders 2,3", "leave --orders out"),
        (f"{TARGET} --accountant pld --orders 2", "--orders belongs to the accountants"),
        (
            f"epsilon {RUN} --accountant gdp --statement",
            "a statement takes no epsilon of Gaussian DP, CLT",
        ),
        (f"epsilon {RUN} --accountant gdp --statement --json", "it is an approximation"),
        (
            f"epsilon {RUN} --ledger steps.csv",
            "leave out --noise-multiplier, --sample-rate and --steps, or leave out --ledger",
        ),
        ("epsilon --delta 1e-5 --steps 3 --ledger steps.csv", "leave out --steps, or leave out"),
        (
            "epsilon --delta 1e-5",
            "Missing option '--noise-multiplier', '--sample-rate' and '--steps'; or give --ledger",
        ),
        ("epsilon --delta 1e-5 --ledger nowhere.csv", "there is no file nowhere.csv; give"),
        ("epsilon --delta 1e-5 --ledger no.safetensors", "there is no file no.safetensors; give"),
        ("epsilon --delta 1e-5 --ledger /", "/ is a folder; give the path of a file"),
        ("noise --ledger steps.csv", "No such option"),
    ],
)
def test_what_does_not_go_together_is_one_line_and_exit_code_2(refused, line: str, message: str):
    assert message in refused(line)


def test_a_bad_line_of_a_file_is_named(refused, steps_csv: str):
    Path(steps_csv).write_text(f"{HEADER}\n1.1,0.01,5\n1.1,60,5\n")
    error = refused("epsilon --delta 1e-5 --ledger", steps_csv)
    assert "the steps.csv, line 3: sample_rate must lie in [0, 1], got 60.0; write batch" in error


def test_an_infinite_epsilon_is_said_to_be_one(dpkit, refused, monkeypatch: pytest.MonkeyPatch):
    unbounded = np.full(32, np.inf)
    monkeypatch.setattr(moments, "curve", lambda *_: (np.arange(1.0, 33), unbounded))
    line = f"epsilon {RUN} --accountant moments"
    assert dpkit(line)[1].startswith("epsilon inf ")
    found = json.loads(dpkit(f"{line} --json")[1])
    assert (found["epsilon"], found["lower"]) == ("inf", 0)
    assert "no finite epsilon is proven" in refused(f"{line} --statement")


def test_no_accountant_imports_torch():
    code = f"""
import sys
from dpkit.__main__ import main
for name in ("pld", "moments", "gdp", "wor"):
    try:
        main(f"epsilon {RUN} --accountant {{name}} --json".split())
    except SystemExit as stopped:
        assert stopped.code == 0
print([name for name in ("torch", "sklearn", "pandas", "scipy.stats") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("[]\n")
