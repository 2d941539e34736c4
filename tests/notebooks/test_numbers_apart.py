"""Numbers are compared as numbers, words as words: what is another result is caught."""

import math

import numbers_apart
import pytest

TABLE = """ labels   alone    GAN   verdict
    100  0.7960  0.761     holds
  1,000  0.9450  -0.934    fails
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.7960", "0.7970"),  # the third digit
        ("-0.934", "0.934"),  # a sign
        ("0.7960  0.761", "0.761  0.7960"),  # two numbers swapped
        ("    100  0.7960  0.761     holds\n", ""),  # a row
        ("holds", "fails"),  # a word
        ("1,000", "1,001"),  # a count
        *(("0.761", "nan"), ("0.761", "inf")),
        ("0.7960", "0.7960 0.1"),  # one number more
        *(("0.7960", "0.7960x"), ("GAN", "gan")),
    ],
)
def test_another_result_is_caught(old: str, new: str):
    changed = TABLE.replace(old, new)
    assert changed != TABLE
    assert not numbers_apart.apart(TABLE, changed).within(numbers_apart.TOLERANCE)
    assert not numbers_apart.apart(changed, TABLE).within(numbers_apart.TOLERANCE)


@pytest.mark.parametrize(
    ("one", "other", "furthest"),
    [
        ("epsilon 2.38123456789", "epsilon 2.38123456712", 3.2336e-10),  # no result
        ("1e-5 and 2.0", "1.5e-5 and 2.0", 1 / 3),  # relative to the larger
        *(("-1.0", "1.0", 2), ("0.0", "-0.000", 0), ("8", "8.0000001", 1.25e-8)),
        ("of 60,000", "of 60,000", 0),  # counts are equal or not
        *(("of 60,000", "of 60,001", math.inf), ("1" * 30, "1" * 29 + "2", math.inf)),
    ],
)
def test_how_far_numbers_are_apart(one: str, other: str, furthest: float):
    apart = numbers_apart.apart(one, other)
    assert apart.words
    assert apart.furthest == pytest.approx(furthest, rel=1e-3)
    assert apart.within(1e-6) == (furthest < 1e-6)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("1e400", "1e500"), ("1.0 and 1e400", "1.0 and 5.0")),
        *(("delta 1e-400", "delta 0.0"), ("12e34567", "99e99999")),
        *(("4839201e4829", "4839202e9829"), ("numpy 1.10.3", "numpy 1.1.3")),
    ],
)
def test_what_no_float_holds_is_compared_as_it_is_written(one: str, other: str):
    for text in (one, other):
        assert numbers_apart.apart(text, text).within(0.0)
    assert not numbers_apart.apart(one, other).within(numbers_apart.MOST)
    assert not numbers_apart.apart(other, one).within(numbers_apart.MOST)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        *(("table_1 of seed0 at 28x28 in v2", 0), ("3-5 and 0..255", 3), ("1,234.5 (+- 0.2)", 2)),
        *(("1e-5, -2.5E+3.", 2), ("<td>0.5</td><td>-1</td>", 2), ("[1, -2]", 2)),
    ],
)
def test_which_digits_are_numbers(text: str, numbers: int):
    assert numbers_apart.apart(text, text) == (True, numbers, 0.0)


def test_the_tolerance_of_a_cell():
    assert numbers_apart.tolerance_of(["raises-exception"]) == numbers_apart.TOLERANCE
    assert numbers_apart.tolerance_of(["x", "tolerance=0.05"]) == 0.05


@pytest.mark.parametrize("told", ["0.05 0.1", "0.6", "nan", "inf", "0", "1e-7", "wide"])
def test_a_tolerance_that_is_none_is_refused(told: str):
    with pytest.raises(ValueError, match=r"at most one tag tolerance=X .*got"):
        numbers_apart.tolerance_of([f"tolerance={one}" for one in told.split()])
