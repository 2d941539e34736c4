import re

import pytest

from dpkit.datasets import adult
from dpkit.datasets.tables import ADULT_COLUMNS, parse_adult

# Invented records in the set's own layout.
ROW = (
    "41, Private, 1000, HS-grad, 9, Divorced, Sales, Unmarried, White, Female, 0, 0, 40, "
    "Cuba, <=50K"
)
HOLES = "23, ?, 2000, 10th, 6, Never-married, ?, Own-child, Black, Male, 5, 6, 20, ?, >50K"


@pytest.fixture
def frames(data, expect, store):
    files = {
        "adult.data": f"{ROW}\n{HOLES}\n\n".encode(),
        "adult.test": f"|1x3 Cross validator\n{ROW}.\n{HOLES}.\n{ROW}.\n\n".encode(),
    }
    source = expect("adult", files)
    store(data / "adult", files)
    return adult(split="train"), adult(split="test"), source


def test_rows_columns_and_labels(frames):
    train, test, source = frames
    assert (len(train), len(test)) == (2, 3)  # the test file's first line is no record
    assert list(train.columns) == [name for name, _ in ADULT_COLUMNS]
    assert train.income.tolist() == ["<=50K", ">50K"]
    assert test.income.tolist() == ["<=50K", ">50K", "<=50K"]  # without the dot
    assert train.native_country[0] == "Cuba"  # without the blank
    assert train.attrs == {"name": "adult", "checksum": source.files[0].sha256}


def test_types_and_missing_values(frames):
    train, test, _ = frames
    numbers = [name for name, values in ADULT_COLUMNS if not values]
    assert len(numbers) == 6
    assert all(train[name].dtype == "int64" for name in numbers)
    assert (train.dtypes == test.dtypes).all()  # categories too: both splits encode alike
    known = train.workclass.cat.categories  # of the set's description, not of its records
    assert "Never-worked" in known.difference(train.workclass)
    assert train.loc[1].isna().sum() == 3
    assert train.loc[1, ["workclass", "occupation", "native_country"]].isna().all()
    assert train.loc[0].notna().all()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (ROW + ", 7", "expected 15 columns, found 16"),
        ("41, Private", "expected 15 columns, found 2"),
        (ROW.replace("41", "?"), "age must be a whole number, got '?'"),
        (ROW.replace("Cuba", "Atlantis"), "native_country has no category 'Atlantis'"),
        (ROW.replace("<=50K", "?"), "income has no category '?'"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path, line, problem):
    path = tmp_path / "adult.data"
    message = f"{path}, line 3: {problem}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_adult(f"{ROW}\n\n{line}\n", path)
