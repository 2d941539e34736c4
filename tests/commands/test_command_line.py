"""The command line: its JSON, its help, and one line of error with exit code 2."""

import json
import math
import re
from unittest.mock import Mock

import pandas as pd
import pytest

from dpkit import __version__, datasets, papers
from dpkit.commands.output import plain
from dpkit.papers import PAPERS
from dpkit.papers.experiments.reproduce import PartsFailed
from dpkit.privacy import Release, SampledGaussian, best_of, groups, rdp, risk

RUN = "--noise-multiplier 1.1 --sample-rate 0.01 --steps 10000 --delta 1e-5"
DRAWN = "epsilon --noise-multiplier 1 --steps 9 --delta 1e-5"
LEDGER = "epsilon --delta 1e-5 --ledger"
NAMES = ", ".join(paper.__name__.rpartition(".")[2] for paper in PAPERS)


def test_epsilon_options(answer):
    options = ("conversion classic", "conversion optimal", "adjacency replace-one")
    found = [answer(f"epsilon {RUN} --{one}")["epsilon"] for one in options]
    assert found[0] == pytest.approx(6.2787, abs=1e-4)
    assert found[1] < 5.6319 < found[2]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (RUN.replace("1.1", "100"), "order 32 is the largest.*accountant pld may.* 0.3598 here"),
        *((RUN, ""), (RUN.replace("10000", "0"), "")),
    ],
)
def test_an_order_at_an_end_is_said_with_what_no_noise_undercuts(dpkit, answer, run, words):
    line = f"epsilon {run} --accountant moments"
    notes = [one for one in dpkit(line)[1].splitlines() if one.startswith("note: ")]
    assert len(notes) == ("note" in answer(line)) == bool(words)
    assert re.search(words, "".join(notes))


def test_each_way_of_drawing_batches_is_priced(dpkit, answer):
    line = "epsilon --noise-multiplier 1 --steps 100 --delta 1e-5 --sampling shuffled"
    line += " --batch-size 600 --data-size 60000"
    code, out, _ = dpkit(line)
    ways = ["shuffled", "poisson", "truncated", "balls-and-bins", "with-replacement", "fixed"]
    assert code == 0
    assert [row.split()[0] for row in out.splitlines()[1:7]] == ways
    found = answer(f"{line} --largest-batch 900")
    assert found["largest_batch"] == 900
    assert found["ways"]["poisson"]["epsilon"] < found["ways"]["shuffled"]["epsilon"]


def test_the_statement_says_what_a_paper_should(dpkit, answer):
    _, out, _ = dpkit(f"epsilon {RUN} --statement --sampling-used shuffled --tuning charged")
    for part in (
        *("(5.632, 1e-5)-differential privacy", "add-remove adjacency", "one training example"),
        *("dpkit 0.1.0", "RDP, improved conversion", "Sampling assumed: Poisson"),
        *("sampling used: shuffled", "Tuning of hyperparameters: charged"),
    ):
        assert part in out
    told = answer(f"epsilon {RUN} --statement")["statement"]
    assert told.startswith("Training satisfies (5.632, 1e-5)-")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("epsilon --noise-multiplier nan", "noise_multiplier must be a finite number > 0, got nan"),
        ("epsilon --sample-rate 3", "sample_rate must lie in [0, 1], got 3.0"),
        ("epsilon --delta 0", "delta must lie in (0, 1), ends excluded, got 0.0"),
        ("epsilon --steps -1", "steps must be an integer >= 0, got -1"),
        ("epsilon --steps 2.5", "Invalid value for '--steps'"),
        ("epsilon --accountant prv", "accountant must be one of rdp, pld, moments, gdp; got"),
        ("epsilon --conversion best", "conversion must be one of classic, improved, optimal; got"),
        ("epsilon --adjacency both", "adjacency must be one of add-remove, replace-one; got"),
        ("noise --epsilon -2", "target_epsilon must be a finite number > 0, got -2.0"),
        (
            "noise --epsilon .35 --accountant moments",
            "--epsilon 0.35 is out of reach: by 32 moments no noise brings epsilon below 0.3598",
        ),
        (
            "claims --paper unknown",
            f"paper must be one of {NAMES}, ledger (later literature); got 'unknown'",
        ),
        ("claims dp_cgan/label-lek", "is unknown; did you mean 'dp_cgan/label-leak'? known: "),
        ("reproduce unknown table_1", f"paper must be one of {NAMES}, comparison; got 'unknown'"),
        pytest.param("reproduce dp_cgan table_99", "table must be one of", marks=pytest.mark.torch),
        ("reproduce dp_cgan table_1 --seeds 0", "seeds must be an integer >= 1, got 0"),
        ("reproduce", "give a paper, such as dp_cgan, or --all"),
        ("reproduce dp_cgan table_1 --all", "table cannot be given with --all"),
        ("reproduce --all --parts a --reprice", "parts and reprice cannot be given with --all"),
        ("reproduce unknown --all", f"paper must be one of {NAMES}, comparison; got 'unknown'"),
        pytest.param(
            "reproduce dp_cgan table_1 --executor threads",
            "executor must be serial, processes:N (such as processes:4) or dask://HOST:PORT",
            marks=pytest.mark.torch,
        ),
        ("reproduce dp_cgan table_1 --scale huge", "scale must be one of paper, reduced"),
        ("data get unknown", "unknown"),
        ("epsilon --noise-multiplier 1e-200", "noise_multiplier must lie in [1e-9, 1e13], got"),
        ("epsilon --steps 1" + "0" * 400, "count must be at most 10^15"),
        ("epsilon-of", "No such command 'epsilon-of'"),
        (f"epsilon {RUN} --group-size 2", "--group-size is for accountant pld"),
        (f"epsilon {RUN} --accountant pld --best-of 10", "rdp alone prices it"),
        (f"epsilon {RUN} --accountant pld --best-of 10 --group-size 2", "rdp alone prices it"),
        (f"{DRAWN} --sampling shuffled --batch-size 6", "--sampling needs --data-size as well"),
        (f"{DRAWN} --sampling sorted --batch-size 6 --data-size 60", "sampling must be one of"),
        (f"{DRAWN} --sampling fixed --batch-size 61 --data-size 60", "--batch-size must lie betw"),
        (f"{DRAWN} --sampling fixed --batch-size 6 --data-size 9 --sample-rate 1", "rate is given"),
        (f"{DRAWN} --sample-rate .1 --batch-size 6", "--batch-size is given, and it belongs to -"),
        ("noise --epsilon 1e9 --accountant pld", "target_epsilon must lie in [0, 1000000.0]"),
        (
            f"epsilon {RUN} --accountant pld --conversion classic",
            "--conversion belongs to accountant rdp",
        ),
        (f"epsilon {RUN} --accountant gdp --conversion improved", "got accountant gdp"),
        (f"epsilon {RUN} --accountant gdp --statement", "got an approximation, Gaussian DP, CLT"),
        (f"epsilon {RUN} --accountant gdp --statement --json", "got an approximation"),
        (
            f"epsilon {RUN} --ledger steps.csv",
            "leave out --noise-multiplier, --sample-rate and --steps, or leave out --ledger",
        ),
        (f"{LEDGER} steps.csv --steps 3", "leave out --steps, or leave out"),
        (f"{LEDGER} nowhere.csv", "there is no file nowhere.csv: give that of a run's"),
        (f"{LEDGER} /dev/zero", "there is no file /dev/zero"),
        (f"{LEDGER} /", "there is no file /"),
        ("noise --ledger steps.csv", "No such option"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(refused, line: str, message: str):
    defaults = {"--noise-multiplier": 1, "--sample-rate": 0.1, "--steps": 5, "--delta": 1e-5}
    if line.startswith("noise "):
        del defaults["--noise-multiplier"]
    whole = "--sampling" in line or "--ledger" in line or "-over-" in line
    if line.split()[0] in ("epsilon", "noise") and not whole:
        line += "".join(f" {name} {one}" for name, one in defaults.items() if name not in line)
    assert message in refused(line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("noise --epsilon 1", "'--sample-rate'."),
        pytest.param("train x --epsilon 1 --delta .1", "'--out'.", marks=pytest.mark.torch),
        ("epsilon --noise-multiplier 1 --sample-rate 1 --steps 1", "'--delta'."),
        (
            "epsilon --noise-multiplier 1 --delta 1e-5",
            "'--sample-rate' and '--steps'; or give --ledger, a file of steps.",
        ),
    ],
)
def test_a_missing_option_is_named(refused, line, message):
    assert refused(line) == f"error: Missing option {message}\n"


def test_claims(dpkit, answer, tmp_path):
    found = answer("claims --paper dp_cgan")
    assert [one["id"] for one in found] == [claim.id for claim in PAPERS[0].CLAIMS]
    keys = {"id", "paper", "where", "says", "stated", "computed", "verdict", "explanation", "code"}
    assert all(set(one) == keys for one in found)
    assert {one["id"]: one for one in found}["dp_cgan/generator-labels"]["computed"] == "inf"
    assert [one["id"] for one in answer("claims dp_cgan/label-leak")] == ["dp_cgan/label-leak"]
    table = tmp_path / "claims.csv"
    code, out, _ = dpkit(f"claims --paper dp_cgan --export {table}")
    assert code == 0
    rows = pd.read_csv(table, keep_default_na=False).to_dict("records")
    about = json.loads((tmp_path / "claims.csv-metadata.json").read_text())
    kinds = {one["name"]: one["datatype"] for one in about["tableSchema"]["columns"]}
    assert (about["url"], list(kinds)) == ("claims.csv", list(rows[0]))
    assert [name for name in kinds if kinds[name] == "double"] == ["stated", "computed"]
    for row, one in zip(rows, found, strict=True):
        assert (row["id"], row["code_was"]) == (one["id"], (one["code"] or {"was": ""})["was"])
        told = str(one["computed"])
        assert float(row["computed"]) == pytest.approx(0 if "below" in told else float(told))
    assert "dp_cgan/label-leak" in out
    assert "1,107.89" in out
    assert "As it was:\n    labels = train.labels\nAs it should be:\n" in out


def test_data_list_and_verify(dpkit, answer):
    assert "digits" in {row["name"] for row in answer("data list")}
    assert "digits" in dpkit("data list")[1]
    assert all(row["ok"] for row in answer("data verify digits"))


def test_a_file_of_the_system_s_errors_is_named_and_what_moves_it(refused, monkeypatch, tmp_path):
    """In the kit's own words, of the system about another file, below the cache, or above it."""
    cache = tmp_path / "own" / "cache"
    monkeypatch.setattr("dpkit.__main__.cache_dir", lambda: cache)
    moves = "; XDG_CACHE_HOME=FOLDER moves the cache\n"
    for error, said in [
        (OSError("no server"), "error: no server\n"),
        (OSError(28, "No space left", "/else/a.gz"), "error: /else/a.gz: No space left\n"),
        (OSError(28, "No space left", f"{cache}/a.gz"), f"{cache}/a.gz: No space left{moves}"),
        (PermissionError(13, "Denied", f"{tmp_path}/own"), f"{tmp_path}/own: Denied{moves}"),
        (PartsFailed({"a": OSError(13, "Denied", f"{cache}/a")}, 1), moves),
    ]:
        monkeypatch.setattr(datasets, "download", Mock(side_effect=error))
        assert refused("data get mnist").endswith(said)
    folder = tmp_path / "results"
    monkeypatch.setattr(papers, "plans_of", Mock(side_effect=OSError(30, "Read-only", f"{folder}")))
    line = f"reproduce dp_cgan table_1 --results {folder}"
    said = "results: Read-only; --results FOLDER stores the results elsewhere\n"
    assert refused(line).endswith(said)


def test_data_verify_ends_with_1_where_a_file_differs(dpkit, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(datasets, "verify", lambda name: [{"name": name, "ok": False}])
    assert dpkit("data verify mnist --json")[0] == 1


@pytest.mark.torch
def test_reproduce_prints_each_part_that_is_done(dpkit, answer, monkeypatch: pytest.MonkeyPatch):
    from dpkit.papers.experiments import reproduce

    def parts(paper, table, **options):
        assert (paper, table) == ("dp_cgan", "table_1")
        assert table in options.pop("plans")
        assert callable(options.pop("progress"))
        known = {"scale": "reduced", "seeds": 1, "parts": ["a", "b"], "device": "cpu"}
        assert (options.pop("executor"), options.pop("results")) == ("serial", None)
        assert options.pop("tf32") == ("--tf32" in asked)
        repriced = options.pop("reprice")
        assert options == known
        yield {"record": "a.json", "summary": f"a is {'priced' if repriced else 'done'}"}

    monkeypatch.setattr(reproduce, "reproduce", parts)
    line = "reproduce dp_cgan table_1 --scale reduced --seeds 1 --parts a,b --device cpu"
    asked = []
    assert dpkit(line)[1] == "a is done\n"
    assert dpkit(line + " --reprice")[1] == "a is priced\n"
    assert answer(line) == [{"record": "a.json", "summary": "a is done"}]
    asked.append("--tf32")
    assert dpkit(line + " --tf32")[1] == "a is done\n"


@pytest.mark.parametrize(
    "name", ["", "data", "epsilon", "noise", "train", "sample", "claims", "reproduce"]
)
def test_help_teaches_by_example(dpkit, name: str):
    code, out, _ = dpkit(f"{name} --help")
    assert code == 0
    assert "python -m dpkit" in out
    assert dpkit(f"{name} -h") == (0, out, "")


def test_the_version_is_one_line_and_without_a_command_there_is_help(dpkit):
    assert dpkit("--version") == (0, f"dpkit {__version__}\n", "")
    assert dpkit("")[1] == dpkit("--help")[1]
    assert "verify" in dpkit("data")[1]


def test_numbers_are_numbers_null_or_inf():
    assert plain({"a": math.inf, "b": (1.5, None)}) == {"a": "inf", "b": [1.5, None]}
    with pytest.raises(ValueError, match="NaN"):
        plain(math.nan)


def test_torch_is_imported_by_neither_the_package_nor_an_accountant(interpreter):
    """Where it is installed: importing it would cost seconds."""
    out = interpreter(f"""
import sys, dpkit, dpkit.privacy, dpkit.papers
assert "torch" not in sys.modules
from dpkit.__main__ import main
for name in ("rdp", "pld", "moments", "gdp"):
    try:
        main(f"epsilon {RUN} --accountant {{name}} --json".split())
    except SystemExit as stopped:
        assert stopped.code == 0
    heavy = ("torch", "sklearn", "pandas", "scipy.stats", *["scipy.optimize"] * (name == "rdp"))
    print([name for name in heavy if name in sys.modules])
""")
    assert out.count("\n[]\n") == 4


@pytest.mark.torch
@pytest.mark.parametrize("fails", [False, True])
def test_reproduce_all_makes_the_report_at_the_end_even_where_parts_failed(
    dpkit, monkeypatch: pytest.MonkeyPatch, tmp_path, fails
):
    from dpkit.papers import report
    from dpkit.papers.experiments import reproduce
    from dpkit.papers.experiments.reproduce import PartsFailed

    def tables(plans, **options):
        assert list(plans) == ["dp_cgan"]
        assert (options["scale"], options["seeds"], options["executor"]) == ("small", 1, "serial")
        yield {"record": "a.json", "table": "dp_cgan table_1", "summary": "a: done"}
        if fails:
            raise PartsFailed({"dp_cgan table_1 b": OSError("no disk")}, 2)

    def write(path, chosen, plans, **asked):
        assert asked == {"scale": "small", "seeds": 1, "device": "auto", "results": tmp_path}
        return path.write_text("made")

    monkeypatch.setattr(reproduce, "everything", tables)
    monkeypatch.setattr(report, "write", write)
    code, out, err = dpkit(f"reproduce dp_cgan --all --scale small --results {tmp_path}")
    page = tmp_path / "report.html"
    assert (out, page.read_text()) == (f"dp_cgan table_1 a: done\nreport: {page}\n", "made")
    assert code == (2 if fails else 0)
    assert err.startswith("error: 1 of 2 parts failed: dp_cgan table_1 b (OSError" if fails else "")


def test_epsilon_of_a_group_and_of_the_best_of_several_runs(answer):
    options = ("", "--best-of 10", "--accountant pld", "--accountant pld --group-size 2")
    one, best, certified, both = (answer(f"epsilon {RUN} {each}")["epsilon"] for each in options)
    assert certified < one < best < 3 * one
    assert both > 2 * certified
    run = [Release(SampledGaussian(1.1, 0.01), 10_000)]
    assert best == rdp.epsilon(best_of(run, mean=10), delta=1e-5).epsilon
    assert both == groups.epsilon(run, group_size=2, delta=1e-5).epsilon
    told = answer(f"epsilon {RUN} --accountant pld --group-size 2 --report --json")["risk"]
    assert told["mu"] == risk(groups.in_groups(run, 2)).mu
