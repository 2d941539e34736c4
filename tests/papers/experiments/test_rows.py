"""Names of parts, and what is said of a run's seeds."""

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkit.papers.experiments.store import mean, part_name, seeds, spread, values

KEYS = st.text("abc-0.5", min_size=1)
NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1)


@given(st.sets(st.tuples(KEYS, st.integers(0, 30), st.sampled_from(["", "train", "lr"]))))
def test_each_stored_part_is_a_seed_of_its_own_run_alone(parts):
    stored = {part_name(*part): {"values": part} for part in parts}
    for key, _, what in parts:
        wanted = {part for part in parts if (part[0], part[2]) == (key, what)}
        assert set(values(stored, key, what)) == wanted
        assert list(seeds(stored, key, what)) == sorted(part_name(*part) for part in wanted)


@given(NUMBERS)
def test_the_spread_is_mean_lowest_highest_and_their_number(numbers):
    found = spread(numbers)
    assert found["mean"] == mean(numbers) == pytest.approx(fmean(numbers), rel=1e-9, abs=1e-9)
    assert (found["lowest"], found["highest"]) == (min(numbers), max(numbers))
    assert found["seeds"] == len(numbers)


def test_of_nothing_there_is_no_mean():
    assert spread([]) == {"mean": None, "lowest": None, "highest": None, "seeds": 0}
