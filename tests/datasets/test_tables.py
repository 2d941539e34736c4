import pytest

from dpkit.datasets import ADULT_8, adult, adult_8, adult_8_all, tables
from dpkit.datasets.tables import ADULT_COLUMNS

# Invented records in the set's own layout: one that lacks nothing, one with three holes.
ROW = (
    "41, Private, 1000, HS-grad, 9, Divorced, Sales, Unmarried, White, Female, 0, 0, 40, "
    "Cuba, <=50K"
)
HOLES = "23, ?, 2000, 10th, 6, Never-married, ?, Own-child, Black, Male, 5, 6, 20, ?, >50K"


@pytest.fixture
def files(data, expect, store):
    """files(train, test): let these lines be the set's, after the test file's first, no record."""

    def write(train, test):
        tested = "".join(f"{line}.\n" for line in test)
        contents = {
            "adult.data": "\n".join([*train, "\n"]).encode(),
            "adult.test": f"|1x3 Cross validator\n{tested}\n".encode(),
        }
        store(data / "adult", contents)
        return expect("adult", contents)

    return write


def test_rows_columns_types_and_missing_values(files):
    source = files([ROW, HOLES], [ROW, HOLES, ROW])
    train, test = adult(split="train"), adult(split="test")
    assert (len(train), len(test)) == (2, 3)
    assert list(train.columns) == [name for name, _ in ADULT_COLUMNS]
    assert train.income.tolist() == ["<=50K", ">50K"]
    assert test.income.tolist() == ["<=50K", ">50K", "<=50K"]  # without the dot
    assert train.native_country[0] == "Cuba"  # without the blank
    assert train.attrs == {"name": "adult", "checksum": source.files[0].sha256}
    numbers = [name for name, values in ADULT_COLUMNS if not values]
    assert (train[numbers].dtypes == "int64").tolist() == [True] * 6
    assert (train.dtypes == test.dtypes).all()  # categories too: both splits encode alike
    known = train.workclass.cat.categories  # of the set's description, not of its records
    assert "Never-worked" in known.difference(train.workclass)
    holes = train.columns[train.loc[1].isna()]
    assert holes.tolist() == ["workclass", "occupation", "native_country"]
    assert train.loc[0].notna().all()


def test_the_split_of_eight_is_of_the_records_without_missing_values_in_their_order(
    files, monkeypatch
):
    monkeypatch.setattr(tables, "ROWS_8", {"train": slice(0, 3), "test": slice(3, 5)})
    records = [line for age in range(20, 26) for line in (ROW.replace("41", str(age)), HOLES)]
    files(records, [HOLES])
    train, test = adult_8(split="train"), adult_8(split="test")
    assert (train.age.tolist(), test.age.tolist()) == ([20, 21, 22], [23, 24])
    assert test.index.tolist() == [0, 1]
    assert tuple(train.columns) == ADULT_8.names
    assert train.attrs == {"name": "adult_8", "checksum": ADULT_8.checksum(train)}
    assert train.attrs["checksum"] != test.attrs["checksum"]


def test_every_record_of_eight_columns_with_its_holes(files):
    files([ROW, HOLES], [HOLES])
    frame = adult_8_all(split="train")
    assert frame.age.tolist() == [41, 23]
    holes = frame.isna().sum()
    assert holes[holes > 0].to_dict() == {"occupation": 1, "workclass": 1}
    assert len(adult_8_all(split="test")) == 1
    codes = ADULT_8.codes(frame)
    assert codes[1, [1, 4]].tolist() == [14, 8]
    assert (ADULT_8.decode(ADULT_8.encode(frame)) == codes).all()
    assert frame.attrs["name"] == "adult_8_all"
    assert (ADULT_8.width, ADULT_8.side) == (70, 9)
    with pytest.raises(ValueError, match="leave them out"):
        ADULT_8.codes(adult(split="train"))
