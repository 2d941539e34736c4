"""Ledgers from files: what is read, what is refused and how, and what Opacus really saves."""

import json
import math
import pickle
import struct
from collections import OrderedDict
from pathlib import Path

import pytest

from dpkit.commands.ledger_file import read
from dpkit.privacy import Gaussian, Laplace, Release, SampledGaussian, Unsupported, pld, rdp
from dpkit.privacy.ledger import rows
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian

HEADER = "noise_multiplier,sample_rate,count"
STEPS = [(1.1, 0.01, 500), (1.2, 0.02, 300), (1.1, 0.01, 200)]
LEDGER = [Release(SampledGaussian(1.1, 0.01), 700), Release(SampledGaussian(1.2, 0.02), 300)]

STATE = {"history": STEPS, "mechanism": "gdp"}
THREE = "noise_multiplier, sample_rate, count"
REMEDIES = {
    "noise_multiplier": "it is noise standard deviation / clip norm, and 0 has no price",
    "sample_rate": "write batch size / number of records, such as 0.01",
    "count": "write how many steps, such as 5000",
}


@pytest.fixture
def written(tmp_path: Path):
    """Write a file of text or bytes and give its path."""

    def write(content: str | bytes, name: str = "steps") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def lines(steps) -> str:
    return "\n".join([HEADER, *(",".join(map(repr, step)) for step in steps)])


def objects(steps) -> list[dict]:
    return [dict(zip(HEADER.split(","), step, strict=True)) for step in steps]


@pytest.mark.parametrize(
    "content",
    [
        *(lines(STEPS), lines(STEPS) + "\n"),
        *("\ufeff" + lines(STEPS).replace("\n", "\r\n\r\n"), lines(STEPS).replace(",", " , ")),
        "count,noise_multiplier,sample_rate\n500,1.1,1e-2\n300,1.2,.02\n200,1.10,0.01",
        json.dumps(objects(STEPS)),
        "\n " + json.dumps(objects(STEPS), indent=2),
        json.dumps({"history": STEPS, "mechanism": "rdp"}),
        json.dumps({"mechanism": "prv", "history": STEPS}),
        json.dumps({"epoch": 3, "privacy_accountant_state_dict": STATE, "more": {"w": [1, 2]}}),
        json.dumps({"a": {"b": STATE}}),
    ],
)
def test_each_kind_is_read_and_equal_steps_are_one_release(written, content):
    assert read(written(content)) == LEDGER
    assert read(str(written(content))) == LEDGER


def test_the_adjacency_is_the_callers(written):
    path = written(lines([(1, 1, 2)]))
    assert read(path, "replace-one") == [Release(SampledGaussian(1.0, 1.0, "replace-one"), 2)]
    with pytest.raises(ValueError, match="adjacency must be one of add-remove, replace-one"):
        read(path, adjacency="both")  # pyright: ignore[reportArgumentType]


def test_batches_without_replacement_have_their_own_column(written):
    row = {"noise_over_sensitivity": 2.5, "sample_rate": 0.01, "count": 31}
    table = "noise_over_sensitivity,sample_rate,count\n2.5,0.01,30\n2.5,0.01,1"
    for path in (written(table, "table"), written(json.dumps([row]), "objects")):
        assert read(path, "replace-one") == [Release(WithoutReplacementGaussian(2.5, 0.01), 31)]
        with pytest.raises(ValueError, match="is priced under replace-one alone, got add-remove"):
            read(path)


def one(noise="1.1", rate="0.01", count="7") -> str:
    return f"{HEADER}\n1,0.5,1\n{noise},{rate},{count}\n"


def item(**changed) -> str:
    return json.dumps([*objects(STEPS), objects(STEPS)[0] | changed])


def state(*history, mechanism: object = "rdp") -> str:
    return json.dumps({"history": history, "mechanism": mechanism})


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (one(noise="nan"), ", line 3", "noise_multiplier must be a finite number > 0, got nan"),
        (one(noise="1e99"), ", line 3", "noise_multiplier must lie in [1e-9, 1e13], got 1e+99"),
        (one(noise="low"), ", line 3", "noise_multiplier must be a number, got 'low'"),
        (one(noise="1_0"), ", line 3", "noise_multiplier must be a number, got '1_0'"),
        (one(noise=""), ", line 3", "noise_multiplier must be a number, got ''"),
        (one(rate="60"), ", line 3", "sample_rate must lie in [0, 1], got 60.0"),
        (one(rate="1%"), ", line 3", "sample_rate must be a number, got '1%'"),
        (one(count="1.5"), ", line 3", "count must be an integer >= 0, got '1.5'"),
        (one(count="-2"), ", line 3", "count must be an integer >= 0, got -2"),
        (one(count="many"), ", line 3", "count must be an integer >= 0, got 'many'"),
        (item(noise_multiplier=None), ", item 4", "noise_multiplier must be a number, got None"),
        (item(noise_multiplier=[1, [2]]), ", item 4", "noise_multiplier must be a number, got [1,"),
        (item(noise_multiplier=10**400), ", item 4", "noise_multiplier must be a finite number"),
        (item(sample_rate=True), ", item 4", "sample_rate must be a number, got True"),
        (item(count=1.5), ", item 4", "count must be an integer >= 0, got 1.5"),
        (item(count=True), ", item 4", "count must be an integer >= 0, got True"),
        (state([1, 0.5, 3], [math.nan, 0.5, 3]), ", history entry 2", "noise_multiplier must be"),
        (state([0.0, 0.1, 3]), ", history entry 1", "noise_multiplier must be a finite number > 0"),
    ],
)
def test_a_bad_number_is_named_with_file_place_field_value_and_remedy(
    written, content, place, message
):
    path = written(content)
    with pytest.raises(ValueError, match=r"must be|must lie|too large") as refused:
        read(path)
    text = str(refused.value)
    assert text.startswith(f"{path}{place}: ")
    assert message in text
    field = message.partition(" must ")[0] if " must " in message else "noise_multiplier"
    assert text.endswith(REMEDIES[field])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", f"is empty; its first line should be {THREE.replace(', ', ',')}"),
        *((" \n\n", "is empty"), (HEADER, "holds no steps")),
        *(("[]", "holds no steps"), (state(), "holds no steps")),
        ("noise_multiplier,sample_rate\n1,0.1", f", line 1: there must be {THREE}, each once"),
        ("1.1,0.01,500", f", line 1: there must be {THREE}, each once"),
        (HEADER + ",count\n1,0.1,5,5", f", line 1: there must be {THREE}, each once"),
        (HEADER + ",delta\n1,0.1,5,5", "each once"),
        (HEADER.replace(",", ";") + "\n1;0.1;5", "each once, with commas between"),
        (HEADER + ",noise_over_sensitivity\n1,.1,1,1", "each once"),
        (HEADER + "\n1,0.1,5\n1,0.1", ", line 3: 3 values are needed"),
        (HEADER + "\n1,0.1,5,6", ", line 2: 3 values are needed"),
        (HEADER + '\n1,0.1,"5', ", line 2: "),
        (lines(STEPS).encode("utf-16"), "is not UTF-8 text (byte 0); save it as such"),
        (lines(STEPS).encode("utf-16-le"), "there must be noise_multiplier"),
        ("noise_multiplier,sample_rate,count,é\n".encode("latin-1"), "is not UTF-8 text (byte 35)"),
        ("[1.1, 0.01, 5]", ", item 1: must be an object such as"),
        (json.dumps([objects(STEPS)]), ", item 1: must be an object such as"),
        (json.dumps([objects(STEPS)[0] | {"delta": 1}]), ", item 1: there must be"),
        ('[{"count": 1, "count": 2}]', "a name is there twice in one object: count, count"),
        ('[{"count": 1,]', ", line 1: no JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("{}", "holds no states of an Opacus accountant"),
        (json.dumps({"model": 1, "history": STEPS}), "It has: 'model, history'"),
        (json.dumps({"a": json.loads(state(*STEPS)), "b": json.loads(state(*STEPS))}), "holds 2"),
        (state(*STEPS, mechanism="dpftrl"), "mechanism must be one of rdp, prv, gdp"),
        (json.dumps({"history": "none", "mechanism": "rdp"}), "history must be a list of steps"),
        (state([1, 0.1]), ", history entry 1: must be three numbers"),
        (state({"noise_multiplier": 1}), ", history entry 1: must be three numbers"),
    ],
)
def test_what_is_no_ledger_is_refused_with_the_place(written, content, message):
    path = written(content)
    with pytest.raises(ValueError, match=r".") as refused:
        read(path)
    assert str(refused.value).startswith(str(path))
    assert message in str(refused.value)


class Hostile:
    """Unpickling it would write a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (Path.write_text, (self.path, "code of the file was run"))


def test_a_file_that_would_run_code_is_refused_and_runs_none(written, tmp_path: Path):
    trace = tmp_path / "trace"
    content = pickle.dumps({"history": STEPS, "mechanism": "rdp", "more": Hostile(trace)})
    for file in (content, b"PK\x03\x04 a zip, as of torch.save"):
        with pytest.raises(ValueError, match=r"steps.pt was written by torch.save.*json.dump"):
            read(written(file, "steps.pt"))
    assert not trace.exists()
    pickle.loads(content)  # the file is what it is meant to be
    assert trace.exists()


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["rdp", "prv", "gdp"])
def test_the_state_of_each_accountant_of_opacus(tmp_path: Path, name: str):
    accountant = pytest.importorskip("opacus.accountants").create_accountant(mechanism=name)
    for noise in [1.1] * 30 + ([1.3, 1.1] * 2 if name != "gdp" else []):
        accountant.step(noise_multiplier=noise, sample_rate=0.01)
    saved = accountant.state_dict()
    assert isinstance(saved, OrderedDict)
    path = tmp_path / "steps"
    path.write_text(json.dumps(saved))
    found = read(path)
    both = [Release(SampledGaussian(1.1, 0.01), 32), Release(SampledGaussian(1.3, 0.01), 2)]
    assert found == (both if name != "gdp" else [Release(SampledGaussian(1.1, 0.01), 30)])
    assert read(path, "replace-one")[0].mechanism == SampledGaussian(1.1, 0.01, "replace-one")
    if name == "rdp":  # the same price, by the same orders and conversion
        theirs = accountant.get_epsilon(1e-5)
        ours = rdp.epsilon(found, delta=1e-5, orders=accountant.DEFAULT_ALPHAS).epsilon
        assert ours == pytest.approx(theirs, rel=1e-6)


# What the kit itself writes: a checkpoint's ledger, a released generator


def checkpoints(folder: Path, **more) -> Path:
    path = folder / "run.pt.ledger.json"
    path.write_text(json.dumps({"note": "", "id": "0" * 32, "charged": 1000} | more))
    return path


def released(metadata: object, tensors: bytes = b"") -> bytes:
    header = json.dumps({"__metadata__": metadata}).encode()
    return struct.pack("<Q", len(header)) + header + tensors


def test_rows_and_back_from_each_kind_of_file(tmp_path: Path, written):
    """What no row describes is refused."""
    first = {"noise_multiplier": 1.1, "sample_rate": 0.01, "count": 700, "adjacency": "add-remove"}
    assert rows(LEDGER)[0] == first
    others = [SampledGaussian(1.1, 0.01, "replace-one"), WithoutReplacementGaussian(0.55, 0.01)]
    for ledger in (LEDGER, *([Release(one, 5)] for one in others)):
        path = tmp_path / "rows.json"
        path.write_text(json.dumps(rows(ledger)))
        assert read(path, ledger[0].mechanism.adjacency) == ledger
    path.write_text("noise_multiplier,sample_rate,count,adjacency\n1.1,0.01,5,replace-one\n")
    assert read(path, "replace-one") == [Release(others[0], 5)]
    metadata = {"dpkit": json.dumps({"ledger": rows(LEDGER)}), "format": "pt"}
    content = released(metadata, b"\0" * 64)
    assert read(written(content, "generator.safetensors")) == LEDGER
    with pytest.raises(Unsupported, match="no row can describe Laplace"):
        rows([Release(Laplace(1.0))])


def test_a_sum_over_all_records_is_a_row_of_rate_1(tmp_path: Path):
    """At the same price: a Poisson batch that all records enter is all records."""
    (row,) = rows([Release(Gaussian(1.5), 3)])
    (again,) = read(checkpoints(tmp_path, rows=[row]))
    assert (row["sample_rate"], again.count) == (1.0, 3)
    wanted = pld.epsilon([Release(Gaussian(1.5), 3)], delta=1e-5).epsilon
    assert pld.epsilon([again], delta=1e-5).epsilon == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("content", "adjacency", "message"),
    [
        ({"rows": rows(LEDGER)}, "replace-one", "accounted under add-remove, got replace-one; ch"),
        ({"rows": [rows(LEDGER)[0] | {"adjacency": "none"}]}, "add-remove", "must be one of add-r"),
        ({"rows": []}, "add-remove", "holds no steps"),
        ({}, "add-remove", r"counts 1000 charged steps .*ask that ledger"),
    ],
)
def test_a_ledger_that_does_not_say_the_run_is_refused(tmp_path, content, adjacency, message):
    with pytest.raises(ValueError, match=message):
        read(checkpoints(tmp_path, **content), adjacency)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"PK", b"\xff" * 20, struct.pack("<Q", 9) + b"{}", released(None)),
        *(released({"dpkit": held}) for held in ("{", "[]", '{"ledger": 5}')),
    ],
)
def test_a_model_that_is_damaged_or_without_a_ledger_is_refused(written, content):
    with pytest.raises(ValueError, match="no list of steps under dpkit in its header"):
        read(written(content, "generator.safetensors"))
