from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from dpkit.datasets import ADULT_8, census, simulated_census, sources

law = import_module("dpkit.datasets.census")  # a function has its name
SIZE = {column.name: column.size for column in ADULT_8.columns}
INCOME = ADULT_8.slices["income"].start  # where the one-hot vector's income begins


@pytest.fixture(scope="module")
def persons():
    return simulated_census(100_000, rng=np.random.default_rng(3))


def test_the_same_persons_on_every_machine():
    sizes = {"train": 20_000, "test": 10_000}
    for (split, rows), file in zip(sizes.items(), sources.CENSUS.files, strict=True):
        frame = census(split=split)
        assert frame.shape == (rows, 8)
        assert frame.attrs == {"name": "simulated census", "checksum": file.sha256}


def test_a_smaller_size_is_the_beginning_of_the_split():
    pd.testing.assert_frame_equal(census(rows=500), census().head(500))
    assert census(split="test", rows=0).shape == (0, 8)
    few = simulated_census(7, rng=np.random.default_rng(1))
    more = simulated_census(70, rng=np.random.default_rng(1))
    pd.testing.assert_frame_equal(few, more.head(7))
    assert few.attrs["checksum"] == ADULT_8.checksum(more.head(7)) != more.attrs["checksum"]


def test_columns_and_categories_are_those_of_adult_8(persons):
    assert tuple(persons.columns) == ADULT_8.names
    assert not persons.isna().any().any()
    codes = ADULT_8.codes(persons)
    numbers = ["age", "hours_per_week"]
    assert (persons[numbers].dtypes == np.int64).all()
    named = ADULT_8.frame(codes[:1000]).drop(columns=numbers)
    pd.testing.assert_frame_equal(named, persons.drop(columns=numbers)[:1000])
    assert (persons.age.min(), persons.age.max()) == (17, 90)
    assert (persons.hours_per_week.min(), persons.hours_per_week.max()) == (1, 99)
    drawn = {name: set(np.unique(codes[:, i])) for i, name in enumerate(ADULT_8.names)}
    never = SIZE["workclass"] - 1, ADULT_8.columns[4].values.index("Never-worked")
    assert drawn["workclass"] == set(range(SIZE["workclass"])) - set(never)
    assert drawn["occupation"] == set(range(14))  # all but missing


def test_tables_are_shares_per_thousand_of_the_right_length():
    tables = (law.AGE, law.OCCUPATION, law.EDUCATION, law.SEX)
    tables += (law.WORKCLASS, law.MARITAL_STATUS, law.HOURS)
    for name, table in zip(ADULT_8.names, tables, strict=False):  # but for the income, the last
        length = SIZE[name] - (name in ("workclass", "occupation"))  # without missing
        assert all(len(row) == length and sum(row) == 1000 and min(row) >= 0 for row in table)
    assert len(law.STAGE) == len(law.DECADE) == SIZE["age"]
    assert (len(law.SCHOOLING), len(law.LONG_HOURS), len(law.SELF_EMPLOYED)) == (16, 14, 8)
    assert len(law.CHANCE) == 1 + sum(max(points) for points in law.POINTS.values())
    assert sorted(law.CHANCE) == list(law.CHANCE)
    assert 0 < law.CHANCE[0] < law.CHANCE[-1] < 1000


def _close(found: np.ndarray, share: float) -> bool:
    """Whether so many of `found` are true as chance allows: wrong with probability 2e-10."""
    count, n = int(found.sum()), len(found)
    return min(binom.cdf(count, n, share), binom.sf(count - 1, n, share)) > 1e-10


def test_draws_follow_the_tables(persons):
    """Some 360 shares, each exactly binomial: fails by chance below 1e-6."""
    code = dict(zip(ADULT_8.names, ADULT_8.codes(persons).T, strict=True))
    stage, everyone = np.array(law.STAGE)[code["age"]], np.zeros(len(persons), dtype=int)
    schooling, decade = (
        np.array(law.SCHOOLING)[code["education"]],
        np.array(law.DECADE)[code["age"]],
    )
    drawn = {  # the table of each column, and the row of it that each person takes
        **{"sex": (law.SEX, everyone), "age": (law.AGE, everyone)},
        **{"education": (law.EDUCATION, stage), "workclass": (law.WORKCLASS, stage)},
        "occupation": (law.OCCUPATION, 4 * code["sex"] + schooling),
        "marital_status": (law.MARITAL_STATUS, 6 * code["sex"] + decade),
    }
    for name, (table, taken) in drawn.items():
        for row, shares in enumerate(table):
            for value, share in enumerate(shares):
                assert _close(code[name][taken == row] == value, share / 1000), (name, row, value)


def test_hours_follow_their_rows(persons):
    """50 shares, each exactly binomial: fails by chance below 1e-6."""
    woman, age = (persons.sex == "Female").to_numpy(), persons.age.to_numpy()
    hard = persons.occupation.isin(["Exec-managerial", "Farming-fishing", "Prof-specialty"])
    long = (hard | persons.workclass.isin(["Self-emp-inc", "Self-emp-not-inc"])).to_numpy()
    grown = (age >= 20) & (age < 60)
    rows = [age < 20, age >= 60, grown & woman, grown & ~woman & ~long, grown & ~woman & long]
    for chosen, shares in zip(rows, law.HOURS, strict=True):
        for region, share in enumerate(shares):
            low = 10 * region
            inside = persons.hours_per_week[chosen].between(low + 1, low + 10)
            assert _close(inside.to_numpy(), share / 1000)


def chances(frame):
    """The model's own probability of an income above 50K, whatever the income is."""
    return law._chance(dict(zip(ADULT_8.names, ADULT_8.codes(frame).T, strict=True))) / 1000


def test_income_has_the_stated_chance(persons):
    """Some 30 groups, each exactly binomial: fails by chance below 1e-6."""
    chance, high = chances(persons), (persons.income == ">50K").to_numpy()
    uniform = np.random.default_rng(3).random((len(persons), 10))[:, 7]  # what decides it
    assert (high == (np.floor(1000 * uniform) < np.rint(1000 * chance))).all()
    for value in np.unique(chance):
        assert _close(high[chance == value], value)
    rich = (45, "Exec-managerial", "Masters", "Male", "Private", "Married-civ-spouse", 50, "<=50K")
    poor = (18, "Other-service", "11th", "Female", "Private", "Never-married", 15, ">50K")
    by_hand = pd.DataFrame([rich, poor], columns=list(ADULT_8.names))
    assert chances(by_hand).tolist() == [law.CHANCE[10 + 5 + 11 + 1 + 9 + 5] / 1000, 0.005]


def test_a_quarter_earns_much_and_the_best_accuracy_is_as_said(persons):
    chance = chances(persons)
    assert 0.24 < chance.mean() < 0.26
    assert round(100 * np.maximum(chance, 1 - chance).mean()) == 84  # as data/README.md has it


def test_a_classifier_learns_the_income():
    from sklearn.linear_model import LogisticRegression

    train, test = ADULT_8.encode(census(rows=5000)), ADULT_8.encode(census(split="test"))
    model = LogisticRegression(max_iter=200).fit(train[:, :INCOME], train[:, INCOME + 1])
    accuracy = model.score(test[:, :INCOME], test[:, INCOME + 1])
    chance = chances(census(split="test"))
    best = np.maximum(chance, 1 - chance).mean()
    assert test[:, INCOME].mean() < 0.77  # the majority
    assert 0.82 < accuracy < best + 6 * 0.5 / np.sqrt(len(test))  # the luck of the draw
