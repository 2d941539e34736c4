import re

import pytest

from dpkit.datasets import ADULT_8, adult, adult_8, adult_8_all, tables

# Invented records in the set's own layout: one that lacks nothing, one with two holes.
GOOD = (
    "{age}, Private, 1000, HS-grad, 9, Divorced, Sales, Unmarried, White, Female, 0, 0, 40, "
    "Cuba, <=50K"
)
HOLES = "23, ?, 2000, 10th, 6, Never-married, ?, Own-child, Black, Male, 5, 6, 20, Cuba, >50K"


@pytest.fixture
def records(data, expect, store, monkeypatch):
    """records(n): n good ones aged 20, 21, ... in adult.data, a hole after each; splits 3 and 2."""

    def write(n):
        lines = [line for i in range(n) for line in (GOOD.format(age=20 + i), HOLES)]
        test = f"|1x3 Cross validator\n{HOLES}.\n"
        files = {"adult.data": "\n".join(lines).encode(), "adult.test": test.encode()}
        expect("adult", files)
        store(data / "adult", files)
        monkeypatch.setattr(tables, "ROWS_8", {"train": slice(0, 3), "test": slice(3, 5)})

    return write


def test_the_split_is_of_the_records_without_missing_values_in_their_order(records):
    records(6)
    train, test = adult_8(split="train"), adult_8(split="test")
    assert train.age.tolist() == [20, 21, 22]
    assert test.age.tolist() == [23, 24]
    assert test.index.tolist() == [0, 1]
    assert tuple(train.columns) == ADULT_8.names
    assert train.attrs == {"name": "adult_8", "checksum": ADULT_8.checksum(train)}
    assert train.attrs["checksum"] != test.attrs["checksum"]
    assert tables.ADULT_8.codes(train).shape == (3, 8)


def test_every_record_with_its_holes(records):
    records(2)
    frame = adult_8_all(split="train")
    assert frame.age.tolist() == [20, 23, 21, 23]
    assert frame.isna().sum().to_dict() == dict.fromkeys(ADULT_8.names, 0) | {
        "occupation": 2,
        "workclass": 2,
    }
    assert len(adult_8_all(split="test")) == 1
    codes = ADULT_8.codes(frame)
    assert codes[1, [1, 4]].tolist() == [14, 8]
    assert (ADULT_8.decode(ADULT_8.encode(frame)) == codes).all()
    assert frame.attrs["name"] == "adult_8_all"
    with pytest.raises(ValueError, match="leave them out"):
        ADULT_8.codes(adult(split="train"))


def test_too_few_records(records):
    records(4)
    message = (
        "adult.data must hold 5 records without missing values for the test split, got 4; "
        "use adult_8_all"
    )
    assert len(adult_8(split="train")) == 3
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        adult_8(split="test")
