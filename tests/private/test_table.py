"""PrivateTable: data frames with a public schema, the census among them; and each mistake."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from sklearn.base import clone

from dpkit.datasets import ADULT_8, Binned, census
from dpkit.privacy.accountants.filters import OverBudget
from dpkit.private import Budget, PrivateTable
from dpkit.private.table import Schema

COLUMNS = {"age": range(18, 98), "rate": (0.0, 1.0, 4), "sex": ["f", "m"], "paid": [0, 1]}


def made_up(rows: int = 400) -> pd.DataFrame:
    """Who is paid is mostly old."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 98, rows)
    paid = (age + rng.normal(0, 10, rows) > 60).astype(int)
    sex = np.where(rng.random(rows) < 0.3, "f", "m")
    return pd.DataFrame({"age": age, "rate": rng.random(rows), "sex": sex, "paid": paid})


@pytest.fixture(scope="module")
def fitted() -> PrivateTable:
    return PrivateTable(COLUMNS, epsilon=20, reproducible_seed=1).fit(made_up())


def test_rows_follow_the_data_in_their_kinds_and_bounds(fitted: PrivateTable):
    """A noise of at most a record a cell; of 20,000 rows a share is off by 0.02 with 1e-8."""
    rows, data = fitted.sample(20_000, reproducible_seed=0), made_up()
    assert list(rows.columns) == list(COLUMNS)
    assert rows.age.between(18, 97).all()
    assert rows.age.dtype == rows.paid.dtype == np.int64
    assert rows.rate.between(0, 1).all()
    assert (set(rows.sex), set(rows.paid)) == ({"f", "m"}, {0, 1})
    assert (rows.sex == "f").mean() == pytest.approx((data.sex == "f").mean(), abs=0.05)
    old, young = rows[rows.age > 70].paid.mean(), rows[rows.age < 50].paid.mean()
    assert old - young > 0.6


def test_the_census_at_a_small_epsilon():
    full = [c if isinstance(c, Binned) else replace(c, missing=False) for c in ADULT_8.columns]
    table = PrivateTable(full, epsilon=1, target="income").fit(census())
    assert table.guarantee().epsilon <= 1
    rows = table.sample(5000)
    assert (rows.income == ">50K").mean() == pytest.approx(0.25, abs=0.05)


def test_the_statement_says_what_is_public_and_what_was_seeded(fitted: PrivateTable):
    words = fitted.statement(unit="one person", tried=12)
    assert "unit of privacy being one person: 1 release with noise multiplier" in words
    assert "the number of records, 400, is public." in words
    assert "Noise was drawn from a fixed seed" in words
    declared = PrivateTable(COLUMNS, public_size=500).fit(made_up()).statement()
    assert "is public" not in declared
    assert "seed" not in declared


def test_missing_cells_and_truths_are_categories_where_that_is_stated():
    data = pd.DataFrame({"a": ["x", None, "y"] * 50, "b": [True, False, None] * 50})
    data = data.assign(c=[0.5, 1.5, None] * 50, d=[None, 3, 4] * 50)
    columns = {"a": ["x", "y", None], "b": [True, False, None]}
    columns |= {"c": (0, 2, 4, None), "d": (range(3, 5), None)}
    rows = PrivateTable(columns, epsilon=50).fit(data).sample(200)
    assert (set(rows.a.dropna()), set(rows.b.dropna())) == ({"x", "y"}, {True, False})
    assert set(rows.d.dropna()) == {3, 4}
    assert rows.c.dropna().between(0, 2).all()
    assert rows.isna().sum().between(20, 120).all()


def test_cells_and_names_that_are_written_otherwise_are_the_same():
    """Truths for 0 and 1, and uncomposed letters (NFD), which look alike."""
    schema = Schema({"café": ["é", "e"], "paid": [0, 1]})
    plain = pd.DataFrame({"café": ["é", "e", "e"], "paid": [1, 0, 1]})
    others = [plain.assign(paid=plain.paid.astype(kind)) for kind in (bool, "boolean", float)]
    others += [others[0].astype(object)]
    others += [pd.DataFrame({"cafe\u0301": ["e\u0301", "e", "e"], "paid": [True, False, 1]})]
    for frame in others:
        assert schema.codes(frame).tolist() == [[0, 1], [1, 0], [1, 1]]


def test_without_a_target_noisy_counts_choose_one_which_is_not_the_last_nor_the_largest():
    """Age and who is paid tell of each other; a target that is named is taken."""
    frame = made_up().assign(zip="z1")
    schema = COLUMNS | {"zip": [f"z{number}" for number in range(10_000)]}
    for columns in (COLUMNS, dict(reversed(COLUMNS.items())), schema):
        table = PrivateTable(columns, epsilon=20).fit(frame[list(columns)])
        assert table.target_ in ("age", "paid")
        assert table.model_.columns[0].column == list(columns).index(table.target_)
    assert PrivateTable(COLUMNS, target="sex").fit(made_up()).target_ == "sex"
    large = r"merge categories of zip \(10,000\) and age \(16\), or take another target than zip"
    with pytest.raises(ValueError, match=large):
        PrivateTable(schema, target="zip").fit(frame)


def test_whole_numbers_in_bins_of_a_width():
    table = PrivateTable({"year": range(1900, 2001, 50), "b": ["x", "y"]}, epsilon=5)
    rows = table.fit(pd.DataFrame({"year": [1900, 2000], "b": ["x", "y"]})).sample(50)
    assert table.model_.settings.sizes == (3, 2)
    assert rows.year.between(1900, 2000).all()


def changed(**cells: object) -> pd.DataFrame:
    """The data with other cells in the second row."""
    frame = made_up(30).astype(dict.fromkeys(cells, object))
    for name, value in cells.items():
        frame.loc[1, name] = value
    return frame.infer_objects()


test_cells_that_the_schema_does_not_know_are_refused = refused(
    (changed(age=np.nan), r"row 1 .*nan is missing; .*or allow them: \(range, None\)"),
    (changed(age=98), r"column age, row 1 .*98 lies outside \[18.0, 97.0\].*wider edges"),
    (changed(age=20.5), r"column age, row 1 .*20.5 is no whole number; round beforehand"),
    (changed(rate=None), r"row 1 .*nan is missing; .*: \(low, high, bins, None\)"),
    (changed(rate=-0.1), r"column rate, row 1 .*-0.1 lies outside \[0.0, 1.0\].*keep it to"),
    (changed(rate=np.inf), r"column rate, row 1 .*inf lies outside"),
    (changed(sex="F"), r"column sex, row 1 .*'F' is no category; did you mean 'f'"),
    (changed(sex=None), r"column sex, row 1 .*(None|nan) is missing; .*None in the list of"),
    (changed(paid=2), r"column paid, row 1 .*2 is no category; known: 0, 1"),
    (changed(paid=0.5), r"column paid, row 1 .*0.5 is no category; known: 0, 1"),
    (changed(paid=np.nan), r"column paid, row 1 .*nan is missing; .*None in the list of"),
    (made_up().drop(columns="sex"), r"frame has no column sex"),
    (made_up().assign(name="Ann"), r"columns of which nothing is stated: \['name'\]"),
    (made_up().assign(sex=0), r"column sex, row 0 .*0 is of dtype int64, not a category"),
    (made_up(0), "the data have no rows, and no public_size is declared"),
    call=lambda frame: PrivateTable(COLUMNS).fit(frame),
)


MAKE = "fit takes a pandas.DataFrame, got .*make one: "
FRAMED = MAKE + r"pandas.DataFrame\(data, columns="
OFF = "is not read off the data, as a list of categories"
NO_SCHEMAS = (made_up(), made_up().sex, None, made_up().columns, ["age", "sex"], 5, {}, iter([]))
LATER = PrivateTable(COLUMNS).set_params(columns=made_up())

test_only_data_frames_are_taken = refused(
    (made_up().to_numpy(), FRAMED + r"\['age', 'rate', 'sex', 'paid'\]\).infer_objects\(\)"),
    *((None, FRAMED), ({"age": [1]}, MAKE + r"pandas.DataFrame\(data\)$")),
    *((of("file.csv"), MAKE + r"pandas.read_csv\('file.csv'\)$") for of in (str, Path)),
    (SimpleNamespace(to_pandas=made_up), MAKE + r"data.to_pandas\(\)$"),  # as polars and pyarrow
    call=PrivateTable(COLUMNS).fit,
    error=TypeError,
)

test_a_schema_is_not_read_off_the_data_nor_named_by_what_is_no_text = refused(
    *((partial(PrivateTable, one), OFF) for one in NO_SCHEMAS),
    (partial(PrivateTable, made_up()), r"^columns is a DataFrame: what a column may hold"),
    (partial(LATER.fit, made_up()), r"^columns is a DataFrame: what a column may hold"),
    *(
        (
            partial(PrivateTable, {name: ["x", "y"]}),
            r"rename .*frame.columns = \[str\(name\) for name in frame",
        )
        for name in (0, ("a", "b"))
    ),
    error=TypeError,
)


def test_columns_may_be_an_encoder_and_stay_as_they_were_given():
    table = PrivateTable(ADULT_8, epsilon=10)
    assert table.columns is ADULT_8
    assert clone(table).get_params()["columns"] == ADULT_8
    assert tuple(table.fit(census(rows=500)).sample(5).columns) == ADULT_8.names


test_columns_that_cannot_be_are_refused = refused(
    ((1, 0), r"age needs low < high, got \(1, 0\)"),
    ((1, 1), r"age needs low < high, got \(1, 1\)"),
    ((0, float("nan")), "high of age must lie in"),
    ((0, 1, 0), "bins of age must be an integer >= 1"),
    *(((0, 1, 1), "columns: age is constant"), ((1, None), "must be a list of categories")),
    ((["a", "b"], None), "must be a list of categories"),
    (range(5, 5), "age needs a rising range"),
    (range(5, 0, -1), "age needs a rising range"),
    (["a"], "age is constant.*: leave it out of columns and data, or state what else"),
    ([1, 1], "age: value '1' is there twice"),
    ([1, True], "must all be texts, or all whole numbers or truths"),
    (["a", "a"], "'a' is there twice"),
    ([0.5, 1.5], r"numbers with fractions need \(low, high\)"),
    (["a", 1], "must all be texts, or all whole numbers"),
    ({1, 2}, "must be a list of categories"),
    (("Female", "Male"), r"age must be a list of categories, .* got \('Female', 'Male'\)"),
    (("a", "b", "c", "d"), "age must be a list of categories"),
    (object, "must be a list of categories"),
    call=lambda column: PrivateTable(COLUMNS | {"age": column}),
    error=(ValueError, TypeError),
)


test_other_bad_arguments_are_refused = refused(
    *(({"epsilon": bad}, "epsilon must be a finite number > 0") for bad in (0, float("nan"))),
    ({"delta": 1}, "delta must lie in"),
    ({"target": "income"}, "target must be one of age, rate, sex, paid; got 'income'"),
    ({"public_size": 0}, "public_size must be an integer >= 1"),
    ({"columns": {"sex": ["f", "m"]}}, "one column has no pairs to count: add another"),
    call=lambda changes: PrivateTable(**{"columns": COLUMNS} | changes).fit(
        made_up()[[*changes.get("columns", COLUMNS)]]
    ),
)


def test_a_budget_adds_up_fits_of_one_frame_by_any_bins(tmp_path):
    frame, budget = made_up(), Budget(tmp_path / "budget.json", epsilon=3, delta=1e-5)
    shares = [0.0]
    wider = COLUMNS | {"rate": (0.0, 1.0, 2)}
    for columns in (COLUMNS, COLUMNS, wider):
        PrivateTable(columns, epsilon=0.5).fit(frame, budget=budget)
        shares.append(budget.share_spent())
    assert 0 < shares[1] < shares[2] < shares[3] < 1
    with pytest.raises(OverBudget, match="take a smaller epsilon"):
        PrivateTable(COLUMNS, epsilon=3).fit(frame, budget=budget)
    with pytest.raises(ValueError, match="the budget of another data set"):
        PrivateTable(COLUMNS).fit(made_up(399), budget=budget)
    assert budget.share_spent() == shares[3]
    named = replace(budget, path=tmp_path / "named.json", data="the survey of 2020")
    for columns in (COLUMNS, {name: COLUMNS[name] for name in ("age", "paid")}):
        PrivateTable(columns, epsilon=0.5).fit(frame[list(columns)], budget=named)
    assert len(json.loads(named.path.read_text())["runs"]) == 2
