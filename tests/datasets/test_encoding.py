import re
import time
import unicodedata
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkit.common import checks
from dpkit.datasets import ADULT_8, Binned, Categorical, TableEncoder, simulated_census

AGES = Binned("age", (17, 30, 65, 90, 90), whole=True)
DOSES = Binned("dose", (-1.5, 0.0, 0.1, 2.0), whole=False)
COLOURS = Categorical("colour", ("red", "green"), missing=True)
SIZES = Categorical("size", ("S", "M", "L"))
ENCODER = TableEncoder((AGES, COLOURS, DOSES, SIZES))
CODES = [[0, 1, 0, 0], [1, 2, 2, 2], [3, 0, 2, 1]]


def table(**changes):
    """Three good rows, with index labels of their own."""
    columns = {"age": [17, 30, 90], "colour": ["green", None, "red"], "dose": [-1.5, 0.1, 2.0]}
    columns["size"] = ["S", "L", "M"]
    return pd.DataFrame(columns | changes, index=["a", "b", "c"])


def test_codes_slices_and_one_hot_of_a_table_by_hand():
    assert (ENCODER.width, ENCODER.side) == (4 + 3 + 3 + 3, 4)
    assert TableEncoder((AGES,)).side == 2  # four categories: a square without padding
    starts = {name: one.start for name, one in ENCODER.slices.items()}
    assert starts == dict(zip(ENCODER.names, (0, 4, 7, 10), strict=True))
    assert ENCODER.names == ("age", "colour", "dose", "size")
    assert ENCODER.codes(table()).tolist() == CODES
    array = ENCODER.encode(table())
    ones = [[0, 5, 7, 10], [1, 6, 9, 12], [3, 4, 9, 11]]
    assert [np.flatnonzero(row).tolist() for row in array] == ones
    assert (array.shape, array.dtype, array.sum()) == ((3, 13), np.float32, 12)


def test_bins_have_names_and_edges_belong_above_except_the_last():
    assert AGES.labels == ("17-29", "30-64", "65-89", "90")
    assert DOSES.labels == ("[-1.5, 0.0)", "[0.0, 0.1)", "[0.1, 2.0]")
    assert Binned("x", (-5, -3, 2), whole=True).labels == ("-5 to -4", "-3 to 2")
    ages = pd.Series([17, 29, 30, 64, 65, 89, 90], name="age")
    assert AGES.codes(ages).tolist() == [0, 0, 1, 1, 2, 2, 3]
    below = np.nextafter(0.1, 0)
    assert DOSES.codes(pd.Series([below, 0.1, 2.0])).tolist() == [1, 2, 2]


def test_bins_agree_with_pandas_cut_and_one_hot_with_get_dummies():
    frame = simulated_census(2000, rng=np.random.default_rng(5))
    edges = [17, 20, 30, 40, 50, 60, 70, 80, 90, np.inf]
    cut = pd.cut(frame.age, edges, right=False).cat.codes
    assert (ADULT_8.codes(frame)[:, 0] == cut).all()
    dummies = pd.get_dummies(frame.education).to_numpy(dtype=np.float32)
    assert (ADULT_8.encode(frame)[:, ADULT_8.slices["education"]] == dummies).all()


@pytest.mark.parametrize("whole", [True, False])
def test_numbers_may_be_missing_where_that_is_stated(whole):
    """The place for it is the last; what is out of bounds or infinite still is refused."""
    column = Binned("x", (0, 5, 9), whole=whole, missing=True)
    encoder = TableEncoder((column,))
    for kind in ("float64", "Float64", "Int64"):
        cells = pd.Series([5, None, 4], dtype=kind, name="x")
        assert column.codes(cells).tolist() == [1, 2, 0]
    codes = np.random.default_rng(0).integers(3, size=(50, 1))
    for rng in (None, np.random.default_rng(1)):
        frame = encoder.frame(codes, rng)
        assert (encoder.codes(frame) == codes).all()
        assert (frame.x.isna() == (codes[:, 0] == 2)).all()
    assert frame.x.dtype == ("Int64" if whole else "float64")
    for bad in (10, np.inf, -1):
        with pytest.raises(ValueError, match=r"row 1 \(index 1\): .* lies outside \[0, 9\]"):
            column.codes(pd.Series([np.nan, bad], name="x"))


def test_texts_that_look_the_same_are_the_same():
    """Composed or not (NFC, NFD), as texts or as categories; other accents stay others."""
    nfd = partial(unicodedata.normalize, "NFD")
    column = Categorical("x", ("é", nfd("è"), "e"))
    cells = pd.Series([nfd("é"), "é", "è", nfd("è"), "e"], name="x")
    for kind in (object, "category", "string"):
        assert column.codes(cells.astype(kind)).tolist() == [0, 0, 1, 1, 2]
    with pytest.raises(ValueError, match="'ê' is no category"):
        column.codes(pd.Series(["ê"], name="x"))
    with ends("x: value 'é' is there twice; name it once"):
        Categorical("x", ("é", nfd("é")))


def test_ten_times_the_categories_take_ten_times_as_long_and_a_message_names_few():
    start = time.process_time()
    column = Categorical("x", tuple(map(str, range(200_000))))
    assert time.process_time() - start < 5  # seconds; by pairs it would be minutes
    with pytest.raises(ValueError, match=r"known: 0, 1, .*, 19 and 199,980 others;"):
        column.codes(pd.Series(["none"], name="x"))


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(0, 40))
def test_every_round_trip_is_exact(seed, rows):
    rng = np.random.default_rng(seed)
    codes = rng.integers([column.size for column in ENCODER.columns], size=(rows, 4))
    for frame in (ENCODER.frame(codes), ENCODER.frame(codes, rng)):
        assert (ENCODER.codes(frame) == codes).all()
        texts = frame.astype({"colour": object, "size": object})
        assert (ENCODER.codes(texts[::-1]) == codes[::-1]).all()
        array = ENCODER.encode(frame)
        assert (ENCODER.decode(array) == codes).all()
        images = ENCODER.square(array)
        assert images.shape == (rows, 1, 4, 4)
        assert (ENCODER.flat(images) == array).all()
        assert not images.reshape(rows, 16)[:, 13:].any()


def test_drawn_values_are_uniform_within_their_bins():
    """Each share of 40,000 draws is within 6 standard deviations: fails by chance below 1e-6."""
    codes = np.tile([1, 0, 2, 0], (40_000, 1))
    frame = ENCODER.frame(codes, np.random.default_rng(0))
    assert (frame.age.dtype, frame.dose.dtype) == (np.int64, np.float64)
    counts = np.bincount(frame.age)[30:]
    assert len(counts) == 35  # 30 to 64
    assert np.abs(counts - 40_000 / 35).max() < 6 * np.sqrt(40_000 / 35)
    quarters = np.histogram(frame.dose, 4, range=(0.1, 2.0))[0]
    assert np.abs(quarters - 10_000).max() < 6 * np.sqrt(7_500)
    pd.testing.assert_frame_equal(frame, ENCODER.frame(codes, np.random.default_rng(0)))


@pytest.mark.parametrize("share", [0.0, 0.5, np.nextafter(1, 0)])
def test_a_value_never_leaves_its_bin(share):
    tiny = Binned("tiny", (1.0, np.nextafter(1, 2), 3.0, 3.0), whole=False)
    for column in (AGES, DOSES, tiny):
        codes = np.arange(column.size)
        values = column.within(codes, np.full(column.size, share))
        assert (column.codes(pd.Series(values)) == codes).all()


def test_soft_output_decodes_to_its_greatest_entry_within_each_column():
    rng = np.random.default_rng(1)
    soft = 0.4 * rng.random((3, 13)) + ENCODER.one_hot(CODES)
    soft[:, ENCODER.slices["size"]] += 100  # one column's scale does not touch another's
    assert ENCODER.decode(soft).tolist() == CODES
    assert ENCODER.decode(np.zeros((1, 13))).tolist() == [[0, 0, 0, 0]]


def test_other_kinds_of_columns_hold_the_same_table(tmp_path):
    ENCODER.frame(CODES).to_csv(tmp_path / "table.csv", index=False)  # with names of bins
    frames = [
        pd.read_csv(tmp_path / "table.csv"),
        table().astype({"age": "Int64", "dose": "Float64", "colour": "category", "size": "string"}),
        table().astype({"age": "float32", "dose": "float64"}),
        table()[["size", "dose", "colour", "age"]],
        table(size=pd.Categorical(["S", "L", "M"], categories=["XL", "M", "L", "S"])),
    ]
    for frame in frames:
        assert ENCODER.codes(frame).tolist() == CODES
    unseen = table(colour=[np.nan] * 3)  # all missing: no text from which to tell the kind
    assert ENCODER.codes(unseen)[:, 1].tolist() == [2, 2, 2]


@pytest.mark.parametrize("frame", [table()[:0], pd.DataFrame(columns=list(ENCODER.names))])
def test_a_table_without_rows(frame):
    array = ENCODER.encode(frame)
    assert array.shape == (0, 13)
    assert ENCODER.decode(array).shape == ENCODER.codes(frame).shape == (0, 4)
    assert list(ENCODER.frame(ENCODER.decode(array)).columns) == list(ENCODER.names)
    assert ENCODER.square(array).shape == (0, 1, 4, 4)
    assert len(ENCODER.checksum(frame)) == 64


def test_the_checksum_is_of_the_content():
    same = table().astype({"age": "Int64", "colour": "category"}).reset_index(drop=True)
    assert ENCODER.checksum(same) == ENCODER.checksum(table())
    others = [table(age=[17, 30, 90])[::-1], table(age=[18, 30, 90]), table()[:2]]
    others += [table(colour=["red", None, "red"]), table(dose=[-1.5, 0.1, 1.9])]
    sums = {ENCODER.checksum(frame) for frame in [table(), *others]}
    assert len(sums) == 6


def test_as_many_rows_as_adult_take_well_under_a_second():
    frame = simulated_census(48_842, rng=np.random.default_rng(2))
    start = time.process_time()
    ADULT_8.frame(ADULT_8.decode(ADULT_8.encode(frame)))
    assert time.process_time() - start < 1  # seconds; a tenth is usual


KNOWN, LABELS = "known: S, M, L", "labels: 17-29, 30-64, 65-89, 90"
CLIP = "drop or clip such rows beforehand, or choose wider edges"
PLACE = "drop or fill such rows, or allow them: "
TEXT = pd.Series(["17"]).dtype  # object before pandas 3
BAD = {
    "column missing": (
        table().drop(columns=["age", "size"]),
        "frame has no column age, size; it has ['colour', 'dose']",
    ),
    "column unknown": (
        table(race="x"),
        "frame has columns of which nothing is stated: ['race']; add them to columns, or leave "
        "them out",
    ),
    "column twice": (
        pd.concat([table(), table()[["age"]]], axis=1),
        "frame has the column 'age' 2 times; keep one",
    ),
    "unknown category": (
        table(size=["S", "l", "M"]),
        f"column size, row 1 (index 'b'): 'l' is no category; did you mean 'L'? {KNOWN}",
    ),
    "nearly a category": (
        table(colour=["green", "reed", "rred"]),
        "column colour, row 1 (index 'b'): 'reed' is no category; "
        "did you mean 'red'? known: red, green; 2 such rows",
    ),
    "unused categories are no matter, used ones are": (
        table(size=pd.Categorical(["XL", "L", "M"], categories=["XL", "M", "L", "S"])),
        f"column size, row 0 (index 'a'): 'XL' is no category; did you mean 'L'? {KNOWN}",
    ),
    "missing category": (
        table(size=["S", "M", np.nan]),
        f"column size, row 2 (index 'c'): nan is missing; {PLACE}None in the list of "
        "categories, or missing=True",
    ),
    "missing number": (
        table(age=[17, np.nan, 90]),
        f"column age, row 1 (index 'b'): nan is missing; {PLACE}(range, None), or missing=True",
    ),
    "numbers as text": (
        table(age=["17", "30", "90"]),
        f"column age, row 0 (index 'a'): '17' is no bin's label, and the dtype {TEXT} no number; "
        f"make numbers of a whole column by pandas.to_numeric; {LABELS}; 2 such rows",
    ),
    "numbers for categories": (
        table(size=[0, 2, 1]),
        "column size, row 0 (index 'a'): 0 is of dtype int64, not a category; "
        "map the column's values to its categories beforehand; 3 such rows",
    ),
    "true and false": (
        table(age=[True, False, True]),
        "column age, row 0 (index 'a'): True is of dtype bool, not a number; "
        "convert the column beforehand; 3 such rows",
    ),
    "infinite": (
        table(dose=[0.0, 0.1, np.inf]),
        f"column dose, row 2 (index 'c'): inf lies outside [-1.5, 2.0]; {CLIP}",
    ),
    "too great": (
        table(age=[17, 91, 16]),
        f"column age, row 1 (index 'b'): 91 lies outside [17, 90]; {CLIP}; 2 such rows",
    ),
    "not whole": (
        table(age=[17, 30.5, 90]),
        "column age, row 1 (index 'b'): 30.5 is no whole number; "
        "round beforehand, or state bins of numbers: (low, high), or whole=False",
    ),
}


@pytest.mark.parametrize(("frame", "message"), BAD.values(), ids=BAD)
def test_a_bad_table_is_refused_with_row_column_value_and_remedy(frame, message):
    for call in (ENCODER.codes, ENCODER.encode, ENCODER.checksum):
        whole = f"{message}; {checks.TO_YOURSELF}" if ", row " in message else message
        with pytest.raises(ValueError, match=f"^{re.escape(whole)}$"):
            call(frame)


def test_nan_in_a_column_that_knows_missing_values_and_what_is_no_table_are_refused():
    column = pd.Series(pd.array([1.0, 0.0], dtype="Float64"), name="dose")
    column = column / column.where(column > 0, 0.0)  # 0 / 0: NaN, which pandas does not call NA
    with pytest.raises(ValueError, match=r"^column dose, row 1 \(index 1\): "):
        DOSES.codes(column)
    for thing in (np.zeros((3, 4)), {"age": [17]}, table().age, None):
        message = f"frame must be a pandas.DataFrame, got {type(thing).__name__}"
        with pytest.raises(TypeError, match=f"^{message}$"):
            ENCODER.codes(thing)


ARRAYS = [
    (ENCODER.frame, [[0, 0, 0]], "codes must have shape (rows, 4), got (1, 3)"),
    (ENCODER.frame, [[0.0, 0, 0, 0]], "codes must be integers, got dtype float64"),
    (ENCODER.one_hot, [CODES[0], [0, 3, 0, 0]], "codes of column colour must be 0 to 2, got 3"),
    (ENCODER.frame, [[-1, 0, 0, 0]], "codes of column age must be 0 to 3, got -1 in row 0"),
    (ENCODER.decode, np.zeros((2, 12)), "array must have shape (rows, 13), got (2, 12)"),
    (ENCODER.square, np.zeros(13), "array must have shape (rows, 13), got (13,)"),
    (ENCODER.flat, np.zeros((2, 16)), "images must have shape (rows, 1, 4, 4), got (2, 16)"),
]
ARRAYS += [
    (
        ENCODER.decode,
        np.where(np.arange(13) == 8, [[0], [bad]], 0),
        f"array must be finite, got {bad} in row 1, entry 8 (column dose); "
        "a network that puts this out has diverged",
    )
    for bad in (np.nan, np.inf, -np.inf)
]


@pytest.mark.parametrize(("call", "value", "message"), ARRAYS)
def test_codes_and_arrays_that_are_none(call, value, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call(value)


def ends(message):
    return pytest.raises(ValueError, match=f"^{re.escape(message)}$")


def test_columns_that_make_no_sense():
    for values, message in (
        ((), "x: values must be a tuple of texts, got ()"),
        (("a", ""), "x: a value must be a text, not empty, got ''"),
        (("a", "a"), "x: value 'a' is there twice; name it once"),
    ):
        with ends(message):
            Categorical("x", values)
    for edges in ((1, 1, 2), (1, float("nan"), 2), (1, float("inf"))):
        with ends(f"x: edges must be finite and ascending, got {edges}"):
            Binned("x", edges, whole=False)
    with ends("x: edges must be a tuple of two or more, got (1,)"):
        Binned("x", (1,), whole=True)
    with ends("x: a bin of (1, 1.2, 1.8, 3) holds no whole number; drop its edge"):
        Binned("x", (1, 1.2, 1.8, 3), whole=True)
    with ends("columns: the name 'size' is there twice; names must differ"):
        TableEncoder((SIZES, SIZES))
    with ends("columns must be a tuple of Categorical and Binned, got ()"):
        TableEncoder(())
