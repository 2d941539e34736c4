"""The slider over round numbers: what is typed stays as it is, stops are round, ends are kept."""

import math
from itertools import pairwise

import ipywidgets as widgets
import pytest

from dpkit.course.explorers.controls import RoundSlider, round_stops


@pytest.fixture
def slider() -> RoundSlider:
    return RoundSlider(1.0859, (0.1, 100), tooltip="noise", layout=widgets.Layout())


def test_stops_are_round_and_hold_both_ends():
    stops = round_stops(0.1, 100, 1.0)
    assert stops == sorted(set(stops))
    assert (stops[0], stops[-1]) == (0.1, 100.0)
    assert {0.3, 1.1, 2.0, 7.5, 45.0} <= set(stops)
    assert all(len(f"{stop:.10g}".strip("0.").replace(".", "")) <= 2 for stop in stops)
    ratios = [b / a for a, b in pairwise(stops)]
    assert max(ratios) < 1.13


def test_stops_of_whole_numbers_are_whole():
    stops = round_stops(1, 30_000, 2_000)
    assert all(stop.is_integer() for stop in stops[:-1])
    assert {1.0, 2.0, 15.0, 2_000.0} <= set(stops)


def test_a_moved_slider_gives_its_stop_and_a_typed_number_is_kept(slider: RoundSlider):
    assert slider.value == slider.field.value == slider.stops[slider.slider.value] == 1.0859
    seen = []
    slider.observe(lambda change: seen.append(change.new), names="value")
    slider.slider.value += 1
    assert seen == [slider.stops[slider.slider.value]]
    assert slider.field.value == slider.value == 1.1
    slider.field.value = 0.3141
    assert slider.value == slider.field.value == 0.3141
    assert slider.stops[slider.slider.value] == 0.32  # goes near


@pytest.mark.parametrize("value", [-1.0, 0.0, math.nan, math.inf, 1e9])
def test_numbers_that_no_stop_is_near_are_passed_on_to_be_refused(
    slider: RoundSlider, value: float
):
    slider.field.value = value
    assert slider.value == value or math.isnan(slider.value)
    assert slider.slider.value in (0, slider.slider.max)
