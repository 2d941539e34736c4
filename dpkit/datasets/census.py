"""A simulated census: the table that is always there, drawn from a model given here.

No record is a real person's, and no number below was fitted to records or copied from them: they
are round shares per thousand, from general knowledge of who works as what. Two aims were set: about
a quarter earn more than 50K, as is well known of Adult, and the best classifier is right for some
84 %. The columns and categories are those of ADULT_8: whatever runs on the one runs on the other.

The model is a Bayesian network, drawn in this order (what each depends on in brackets): sex; age;
education [age]; work class [age]; occupation [sex, education]; marital status [sex, age]; hours
[sex, age, occupation, work class]; income [all but work class, by points]. Age and hours are
uniform within their regions.
"""

from typing import TYPE_CHECKING

import numpy as np

from dpkit.common.checks import in_range, whole
from dpkit.datasets.encoding import Binned
from dpkit.datasets.files import check_split
from dpkit.datasets.tables import ADULT_8

if TYPE_CHECKING:
    import pandas as pd

NAME = "simulated census"
AGES, WEEKS = (column for column in ADULT_8.columns if isinstance(column, Binned))
ROWS = {"train": 20_000, "test": 10_000}
SEEDS = {"train": 20_200, "test": 10_200}

Shares = tuple[tuple[int, ...], ...]
# Shares per thousand, in the order of ADULT_8's categories; each row of a table sums to 1000.
SEX = ((450, 550),)
AGE = ((50, 240, 260, 220, 140, 70, 15, 4, 1),)
# Ages in four stages (teens, twenties, thirty to fifty-nine, sixty and above), or in six decades.
STAGE = (0, 1, 2, 2, 2, 3, 3, 3, 3)
DECADE = (0, 1, 2, 3, 4, 5, 5, 5, 5)
EDUCATION = (  # by stage; from Preschool to Doctorate
    (1, 2, 5, 10, 40, 120, 200, 120, 300, 200, 1, 1, 0, 0, 0, 0),
    (1, 4, 10, 15, 20, 30, 35, 20, 320, 290, 45, 40, 150, 15, 3, 2),
    (1, 4, 10, 15, 15, 20, 25, 10, 320, 200, 50, 40, 190, 70, 15, 15),
    (2, 8, 15, 60, 25, 35, 30, 15, 340, 170, 30, 30, 140, 65, 20, 15),
)
WORKCLASS = (  # by stage; who has an occupation has worked, so Never-worked is never drawn
    (20, 40, 0, 860, 10, 35, 30, 5),
    (20, 40, 0, 860, 10, 35, 30, 5),
    (40, 80, 0, 715, 40, 90, 35, 0),
    (30, 60, 0, 620, 60, 190, 35, 5),
)
SELF_EMPLOYED = (0, 0, 0, 0, 1, 1, 0, 0)
# No diploma; HS-grad and Some-college; associate and bachelor; beyond.
SCHOOLING = (0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3)
OCCUPATION = (  # by schooling: four rows of women, then four of men
    (120, 0, 30, 30, 20, 40, 170, 390, 60, 15, 5, 110, 5, 5),
    (340, 0, 20, 110, 10, 20, 70, 190, 10, 50, 10, 140, 20, 10),
    (200, 0, 10, 220, 5, 5, 10, 70, 5, 290, 10, 120, 50, 5),
    (50, 0, 5, 210, 5, 0, 5, 20, 0, 640, 5, 40, 20, 0),
    (20, 0, 260, 30, 90, 130, 170, 110, 0, 10, 20, 40, 5, 115),
    (60, 1, 250, 120, 45, 70, 100, 70, 0, 50, 40, 110, 24, 60),
    (60, 1, 90, 260, 20, 10, 20, 30, 0, 270, 30, 150, 44, 15),
    (20, 1, 20, 260, 10, 4, 5, 10, 0, 600, 10, 45, 12, 3),
)
MARITAL_STATUS = (  # by decade: six rows of women, then six of men
    (5, 1, 50, 4, 930, 10, 0),
    (90, 2, 320, 15, 530, 40, 3),
    (210, 2, 480, 20, 210, 65, 13),
    (270, 2, 500, 20, 110, 60, 38),
    (260, 1, 490, 19, 70, 50, 110),
    (170, 0, 380, 20, 80, 20, 330),
    (5, 0, 20, 5, 965, 5, 0),
    (50, 1, 300, 14, 615, 20, 0),
    (130, 1, 600, 19, 220, 28, 2),
    (150, 1, 700, 19, 100, 26, 4),
    (120, 1, 770, 19, 60, 20, 10),
    (90, 0, 780, 20, 45, 15, 50),
)
LONG_HOURS = (0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0)  # managers, farmers, professionals
HOURS = (  # teens; sixty and above; women; men; men in LONG_HOURS or self-employed
    (70, 350, 220, 320, 25, 10, 3, 1, 1, 0),
    (90, 180, 120, 420, 110, 50, 17, 8, 3, 2),
    (20, 80, 110, 620, 110, 40, 12, 5, 2, 1),
    (10, 30, 40, 540, 220, 110, 30, 13, 5, 2),
    (10, 30, 30, 400, 290, 160, 50, 20, 7, 3),
)
# Points towards a high income, by each column's category; their sum picks the chance from CHANCE.
POINTS = {
    "age": (0, 4, 8, 10, 10, 8, 6, 4, 4),
    "occupation": (2, 2, 2, 5, 0, 0, 1, 0, 0, 4, 3, 3, 4, 1),
    "education": (0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 5, 5, 9, 11, 13, 13),
    "sex": (0, 1),
    "marital_status": (0, 9, 9, 0, 0, 0, 0),
    "hours_per_week": (0, 0, 1, 3, 5, 6, 6, 6, 6, 6),
}
# Chance of a high income per thousand, by points from 0 to 44.
CHANCE = (
    (5,) * 14
    + (10, 10, 15, 20, 30, 40, 60, 80, 100, 130, 160, 200, 250, 300, 360)
    + (430, 500, 570, 640, 700, 760, 800, 830, 860, 880, 900, 920, 940, 950, 950, 950)
)


def simulated_census(n: int, *, rng: np.random.Generator) -> "pd.DataFrame":
    """Draw n simulated persons: the columns and categories of ADULT_8, nothing missing.

    With generators of the same seed, the first m persons of n are those of a draw of m.
    `frame.attrs` has the name "simulated census" and the checksum (`ADULT_8.checksum`).

    Raises:
        ValueError: n is no integer >= 0.
    """
    whole(0, n=n)
    uniform = rng.random((n, 10))  # a row for each person
    codes = _draw(uniform)
    frame = ADULT_8.frame(codes)
    frame["age"] = AGES.within(codes[:, 0], uniform[:, 8])
    frame["hours_per_week"] = WEEKS.within(codes[:, 6], uniform[:, 9])
    frame.attrs = {"name": NAME, "checksum": ADULT_8.checksum(frame)}
    return frame


def census(*, split: str = "train", rows: int | None = None) -> "pd.DataFrame":
    """The simulated census in one fixed draw: 20,000 persons to train on, 10,000 to test.

    Args:
        split: "train" or "test".
        rows: only the first `rows` of the split.

    Raises:
        ValueError: unknown split, or `rows` is no integer from 0 to the split's size.
    """
    most = ROWS[check_split(split)]
    rows = most if rows is None else rows
    in_range(0, most, rows=whole(rows=rows))
    return simulated_census(rows, rng=np.random.default_rng(SEEDS[split]))


def _draw(uniform: np.ndarray) -> np.ndarray:
    """Codes of persons, int64 (n, 8), from numbers in [0, 1), float64 (n, 10)."""
    thousandths = np.floor(uniform * 1000).astype(np.int64).T  # (10, n)
    code: dict[str, np.ndarray] = {}
    code["sex"] = sex = _pick(SEX, 0, thousandths[0])
    code["age"] = age = _pick(AGE, 0, thousandths[1])
    stage = np.array(STAGE)[age]
    code["education"] = _pick(EDUCATION, stage, thousandths[2])
    code["workclass"] = _pick(WORKCLASS, stage, thousandths[3])
    schooling = np.array(SCHOOLING)[code["education"]]
    code["occupation"] = _pick(OCCUPATION, 4 * sex + schooling, thousandths[4])
    code["marital_status"] = _pick(
        MARITAL_STATUS, 6 * sex + np.array(DECADE)[age], thousandths[5]
    )
    code["hours_per_week"] = _pick(HOURS, _hours_row(code, stage), thousandths[6])
    code["income"] = (thousandths[7] < _chance(code)).astype(np.int64)
    return np.stack([code[name] for name in ADULT_8.names], axis=1)


def _pick(table: Shares, row: np.ndarray | int, thousandths: np.ndarray) -> np.ndarray:
    """The category that 0 to 999 falls in by the shares of each person's row: int64 (n,)."""
    ends = np.cumsum(table, axis=1)[row]  # (n, categories) or (categories,)
    return (thousandths[:, None] >= ends).sum(axis=1)


def _hours_row(code: dict[str, np.ndarray], stage: np.ndarray) -> np.ndarray:
    """The row of HOURS that each person takes: int64 (n,)."""
    long = (
        np.array(LONG_HOURS)[code["occupation"]] | np.array(SELF_EMPLOYED)[code["workclass"]]
    )
    middle = np.where(code["sex"] == 0, 2, 3 + long)
    return np.select([stage == 0, stage == 3], [0, 1], middle)


def _chance(code: dict[str, np.ndarray]) -> np.ndarray:
    """Chance of a high income per thousand, which bounds any classifier's accuracy: int64 (n,)."""
    points = np.sum([np.array(POINTS[name])[code[name]] for name in POINTS], axis=0)  # (n,)
    return np.array(CHANCE)[points]
