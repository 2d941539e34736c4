"""What is shown of a bound is a bound too; tables as HTML and as text."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkit.common.show import Table, at_least, at_most, interval, tabled


def number(text: str) -> float:
    return float(text.replace(",", ""))


finite = st.floats(allow_nan=False, allow_infinity=False)
digits = st.integers(2, 8)


@given(finite, digits)
def test_a_bound_never_crosses_to_the_unsafe_side(value, digits):
    assert number(at_least(value, digits)) <= value <= number(at_most(value, digits))


@given(st.floats(1e-290, 1e290), digits)
def test_a_bound_is_off_by_less_than_a_unit_of_its_last_digit(value, digits):
    exact = Decimal(repr(value))
    unit = Decimal(1).scaleb(exact.adjusted() + 1 - digits)
    assert 0 <= Decimal(at_most(value, digits).replace(",", "")) - exact < unit
    assert 0 <= exact - Decimal(at_least(value, digits).replace(",", "")) < unit


@given(st.integers(1, 9999), st.integers(-30, 30))
def test_a_decimal_of_that_many_digits_stays_as_it_is(whole, power):
    value = float(f"{whole}e{power}")
    assert number(at_most(value)) == number(at_least(value)) == value


@given(finite, digits)
def test_a_negative_bound_is_the_mirror_image(value, digits):
    assert number(at_most(-value, digits)) == -number(at_least(value, digits))


def test_bounds_in_four_digits():
    shown = {5.19341: "5.194", 0.00012341: "0.0001235", 1107.81: "1,108", 12345.1: "12,350"}
    assert {value: at_most(value) for value in shown} == shown
    assert at_least(5.19049) == "5.19"
    assert (at_most(1e-5), at_least(1.23456e8)) == ("1e-5", "1.234e8")
    assert at_most(9.6) == at_least(9.6) == "9.6"  # whose float is a little less
    assert at_most(math.inf) == "inf"
    assert at_least(0.0) == at_most(-0.0) == "0"


def test_what_is_not_a_number_is_refused():
    for shown in (at_most, at_least, lambda value: interval(0.0, value)):
        with pytest.raises(ValueError, match="got nan"):
            shown(math.nan)


def test_an_interval_is_rounded_outwards():
    assert interval(1.23456, 1.23461) == "1.234 to 1.235"
    assert interval(1.23456, 1.23461, 2) == "1.2 to 1.3"
    assert interval(0.0, math.inf) == "inf"
    assert interval(0.0, 0.0) == "0"


def test_a_table_is_text_in_columns_and_escaped_as_html():
    table = Table(("a", "long"), (("wide", "b"), ("c", "")), ("A note.",))
    assert table.text() == "a     long\nwide  b\nc\nA note."
    assert "<b>" not in Table(("<b>",), (("<b>",),), ("<b>",)).html()


def test_rows_are_tabled_without_an_index_and_with_digits_that_mean_something():
    rows = [
        {"run": "a", "steps": 30303, "epsilon": 9.59989, "score": None},
        {"run": "b", "steps": 7, "epsilon": 1108.4, "score": 0.5},
        {"run": "c", "steps": None, "epsilon": math.inf, "score": math.nan},
        {"run": "d", "steps": np.int64(4), "epsilon": np.float64(-0.0), "score": True},
    ]
    found = tabled(rows, digits=2)
    assert found.headings == ["run", "steps", "epsilon", "score"]
    assert found.rows == [
        ("a", "30,303", "9.60", ""),
        ("b", "7", "1,108", "0.50"),
        ("c", "", "inf", ""),
        ("d", "4", "0.00", "True"),
    ]
    assert "<td style='text-align:right'>30,303</td>" in found.html()
    assert "<td style='text-align:left'>a</td>" in found.html()


def test_rows_of_a_frame_of_dicts_and_of_tuples_are_tabled_alike():
    frame = pd.DataFrame({"run": ["a", "b"], "epsilon": [1.5, None]})
    dicts = [{"run": "a", "epsilon": 1.5}, {"run": "b"}]
    tuples = [("a", 1.5), ("b", None)]
    names = ["run", "epsilon"]
    assert tabled(frame) == tabled(dicts) == tabled(tuples, names)
    assert tabled(dicts, ["epsilon"]).rows == [("1.500",), ("",)]
    assert tabled([], names).rows == []
