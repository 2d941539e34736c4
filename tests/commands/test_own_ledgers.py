"""`--ledger` reads what the kit itself writes: a checkpoint's ledger, a released generator."""

import json
import struct
from pathlib import Path

import pytest

from dpkit.commands.ledger_file import read
from dpkit.privacy import Gaussian, Laplace, Release, SampledGaussian, Unsupported, pld
from dpkit.privacy.ledger import rows
from dpkit.privacy.mechanisms.without_replacement import WithoutReplacementGaussian

LEDGER = [Release(SampledGaussian(1.1, 0.01), 700), Release(SampledGaussian(1.2, 0.02), 300)]


def checkpoints(folder: Path, **more) -> Path:
    path = folder / "run.pt.ledger.json"
    path.write_text(json.dumps({"note": "", "id": "0" * 32, "charged": 1000} | more))
    return path


def released(folder: Path, metadata: object, tensors: bytes = b"") -> Path:
    path = folder / "generator.safetensors"
    header = json.dumps({"__metadata__": metadata}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + tensors)
    return path


def test_rows_and_back(tmp_path: Path):
    """What no row describes is refused."""
    assert rows(LEDGER)[0] == {
        "noise_multiplier": 1.1,
        "sample_rate": 0.01,
        "count": 700,
        "adjacency": "add-remove",
    }
    for ledger in (
        LEDGER,
        [Release(SampledGaussian(1.1, 0.01, "replace-one"), 5)],
        [Release(WithoutReplacementGaussian(0.55, 0.01), 5)],
    ):
        path = tmp_path / "rows.json"
        path.write_text(json.dumps(rows(ledger)))
        assert read(path, ledger[0].mechanism.adjacency) == ledger
    with pytest.raises(Unsupported, match="no row says all of Laplace"):
        rows([Release(Laplace(1.0))])


def test_a_csv_may_say_the_adjacency(tmp_path: Path):
    path = tmp_path / "steps.csv"
    path.write_text("noise_multiplier,sample_rate,count,adjacency\n1.1,0.01,5,replace-one\n")
    assert read(path, "replace-one") == [Release(SampledGaussian(1.1, 0.01, "replace-one"), 5)]


def test_a_sum_over_all_records_is_a_row_of_rate_1(tmp_path: Path):
    """At the same price: a Poisson batch that all records enter is all records."""
    (row,) = rows([Release(Gaussian(1.5), 3)])
    (again,) = read(checkpoints(tmp_path, rows=[row]))
    assert (row["sample_rate"], again.count) == (1.0, 3)
    wanted = pld.epsilon([Release(Gaussian(1.5), 3)], delta=1e-5).epsilon
    assert pld.epsilon([again], delta=1e-5).epsilon == pytest.approx(wanted, rel=1e-9)


def test_both_kinds_of_files_hold_the_run(tmp_path: Path):
    assert read(checkpoints(tmp_path, rows=rows(LEDGER))) == LEDGER
    metadata = {"dpkit": json.dumps({"ledger": rows(LEDGER)}), "format": "pt"}
    assert read(released(tmp_path, metadata, b"\0" * 64)) == LEDGER


@pytest.mark.parametrize(
    ("content", "adjacency", "message"),
    [
        (
            {"rows": rows(LEDGER)},
            "replace-one",
            "accounted under add-remove, got replace-one; choose add",
        ),
        (
            {"rows": [rows(LEDGER)[0] | {"adjacency": "none"}]},
            "add-remove",
            "adjacency must be one of add-remove, replace-one",
        ),
        ({"rows": []}, "add-remove", "holds no steps"),
        ({}, "add-remove", r"counts 1000 charged steps .*ask the settings' own ledger"),
    ],
)
def test_a_ledger_that_does_not_say_the_run_is_refused(tmp_path, content, adjacency, message):
    with pytest.raises(ValueError, match=message):
        read(checkpoints(tmp_path, **content), adjacency)


@pytest.mark.parametrize(
    "metadata", [None, {}, {"dpkit": "{"}, {"dpkit": "[]"}, {"dpkit": '{"ledger": 5}'}]
)
def test_a_model_without_a_ledger_is_refused(tmp_path: Path, metadata: object):
    with pytest.raises(ValueError, match=r"no list of steps under dpkit in its metadata"):
        read(released(tmp_path, metadata))


@pytest.mark.parametrize("content", [b"", b"PK", b"\xff" * 20, struct.pack("<Q", 9) + b"{}"])
def test_a_damaged_model_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "generator.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a safetensors file"):
        read(path)
