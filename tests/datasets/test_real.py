"""The real sets, where they are at hand: DPKIT_TEST_DATA=FOLDER pytest tests/datasets/test_real.py

(The tests as a whole run without DPKIT_DATA, which this variable sets for these tests alone.)
"""

import os
from pathlib import Path

import numpy as np
import pytest

from dpkit.datasets import ADULT_8, adult, adult_8, adult_8_all, cifar10, mnist, verify

FOLDER = os.environ.get("DPKIT_TEST_DATA", "")


@pytest.fixture
def real(monkeypatch):
    """Set DPKIT_DATA to the folder; skip unless it has the set asked for."""

    def need(*folders):
        if not FOLDER:
            pytest.skip("DPKIT_TEST_DATA is not set")
        root = Path(FOLDER).resolve()
        if not any((root / folder).is_dir() for folder in folders):
            pytest.skip(f"{root} has no {' or '.join(folders)}")
        monkeypatch.setenv("DPKIT_DATA", str(root))

    return need


def test_mnist(real):
    real("mnist")
    train, test = mnist(split="train"), mnist(split="test")
    assert (train.pixels.shape, test.pixels.shape) == ((60_000, 1, 28, 28), (10_000, 1, 28, 28))
    assert train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert train.checksum.startswith("13c9c9a14432")
    assert round(train.pixels.mean() / 255, 4) == 0.1307  # the mean everyone normalises by
    assert all(row["ok"] for row in verify("mnist"))


def test_cifar10(real):
    real("cifar10", "cifar-10-batches-bin")
    test = cifar10(split="test")
    assert test.pixels.shape == (10_000, 3, 32, 32)
    assert np.bincount(test.labels).tolist() == [1000] * 10
    assert test.checksum.startswith("33b8c7d4ddba")


def test_adult(real):
    real("adult")
    train, test = adult(split="train"), adult(split="test")
    assert (train.shape, test.shape) == ((32_561, 15), (16_281, 15))
    # adult.names: 30162 and 15060 records without unknowns; 23.93 % above 50K in all
    assert (len(train.dropna()), len(test.dropna())) == (30_162, 15_060)
    above = (train.income == ">50K").sum() + (test.income == ">50K").sum()
    assert round(100 * above / 48_842, 2) == 23.93
    complete = train.dropna()[list(ADULT_8.names)]
    train, test = adult_8(split="train"), adult_8(split="test")
    assert (train.shape, test.shape) == ((20_000, 8), (10_000, 8))
    assert (test.to_numpy() == complete[20_000:30_000].to_numpy()).all()
    assert train.attrs["checksum"].startswith("a99374d42c4c")
    assert test.attrs["checksum"].startswith("e081c66c94df")


def test_every_record_of_adult_makes_the_round_trip(real):
    real("adult")
    rng, read = np.random.default_rng(0), 0
    for split in ("train", "test"):
        frame = adult_8_all(split=split)
        codes = ADULT_8.codes(frame)
        assert (ADULT_8.decode(ADULT_8.encode(frame)) == codes).all()
        assert (ADULT_8.codes(ADULT_8.frame(codes)) == codes).all()
        drawn = ADULT_8.frame(codes, rng)
        assert (ADULT_8.codes(drawn) == codes).all()
        for name in set(ADULT_8.names) - {"age", "hours_per_week"}:
            assert drawn[name].equals(frame[name])  # missing values too
        read += len(frame)
    assert read == 48_842
