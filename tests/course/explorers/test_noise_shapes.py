"""Four shapes of noise: their prices, variances and cosines, and what is drawn of them."""

import math
from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from dpkit.course.explorers import NoiseShapes
from dpkit.course.explorers.noise_shapes import (
    COLOURS,
    CURVE,
    DELTA,
    PRINTED,
    _draw_cosines,
    _draw_ellipses,
)
from dpkit.papers.adadp import example
from dpkit.privacy import Gaussian, Release, pld

EXPLORER = NoiseShapes
computed = partial(
    EXPLORER.compute,
    sensitivity_1=12.0,
    sensitivity_2=6.0,
    value_1=10.0,
    value_2=5.0,
    noise_multiplier=1.0,
)
SETTINGS = [{}, {"noise_multiplier": 0.3}, {"sensitivity_1": 0.5, "value_2": -40.0}]


def cosines(**changed: float) -> dict[str, float]:
    return {shape.name: shape.cosine for shape in computed(**changed)["shapes"]}


@pytest.mark.parametrize("changed", SETTINGS)
def test_all_shapes_have_one_price_and_it_is_certified(changed):
    found = computed(**changed)
    noise_multiplier = found["noise"]
    pair = pld.epsilon([Release(Gaussian(noise_multiplier))], delta=DELTA)
    for shape in found["shapes"]:
        assert shape.used == pytest.approx(1 / noise_multiplier**2)
        assert pair.lower <= shape.price.epsilon * (1 + 1e-9) <= pair.epsilon * (1 + 1e-8)
        assert (shape.price.delta, shape.price.adjacency) == (1e-5, "add-remove")


def test_shapes_by_their_closed_forms():
    adaptive, uniform, inverse, root = computed()["shapes"]
    assert adaptive.noise_stds == pytest.approx((12 * math.sqrt(2), 6 * math.sqrt(2)))
    assert uniform.noise_stds == pytest.approx((math.hypot(12, 6),) * 2)
    first, second = inverse.noise_stds
    assert 12 * first == pytest.approx(6 * second)
    assert adaptive.variance == pytest.approx(uniform.variance) == pytest.approx(360)
    assert root.variance == pytest.approx((12 + 6) ** 2)


@pytest.mark.parametrize("changed", SETTINGS)
def test_cosines_agree_with_draws(changed):
    """Within 4 standard errors: each fails by chance with probability 6e-5, seed fixed."""
    found = computed(**changed)
    for shape in found["shapes"]:
        drawn = example.mean_cosine(found["values"], shape.noise_stds, draws=20_000, seed=1)
        assert abs(drawn.value - shape.cosine) < 4 * drawn.standard_error


def test_what_the_notebook_says_of_the_order(explorer):
    assert "Best of the four: square root." in explorer.table(computed()).text()
    equal = explorer.table(computed(sensitivity_2=12.0)).text()
    assert "Best of the four: all alike." in equal
    found = cosines()
    assert found["square root"] > found["uniform"] > found["adaptive"] > found["inverse"]
    longer = cosines(value_1=50.0, value_2=25.0)
    assert longer["adaptive"] > longer["uniform"]
    turned = cosines(value_1=5.0, value_2=10.0)
    assert turned["adaptive"] > turned["square root"] > turned["uniform"] > turned["inverse"]
    assert len({f"{one:.12f}" for one in cosines(sensitivity_2=12.0).values()}) == 1


def test_the_note_on_the_paper_tells_what_the_example_finds():
    for name, printed in example.PRINTED_COSINES.items():
        assert f"{printed:.2f} ({name})" in PRINTED
        exact = example.exact_mean_cosine(example.VALUES, example.PRINTED[name])
        assert f"{exact:.3f}" in PRINTED


def test_dots_stand_on_the_curve_at_their_powers_in_the_colours_of_their_ellipses():
    found, ax = computed(), Figure().add_subplot()
    _draw_cosines(ax, found)
    for dot, shape in zip(ax.lines[1:], found["shapes"], strict=True):
        power = example.POWERS[shape.name]
        assert np.array(dot.get_xydata())[0].tolist() == [power, shape.cosine]
        assert dot.get_color() == COLOURS[shape.name]
        assert np.interp(power, CURVE, found["curve"]) == pytest.approx(shape.cosine, abs=1e-9)


@pytest.mark.parametrize("changed", SETTINGS)
def test_ellipses_are_one_standard_deviation_around_the_value(changed):
    found, ax = computed(**changed), Figure().add_subplot()
    _draw_ellipses(ax, found)
    edges = [patch for patch in ax.patches if isinstance(patch, Ellipse) and not patch.get_fill()]
    for edge, shape in zip(edges, found["shapes"], strict=True):
        assert edge.get_center() == pytest.approx(found["values"])
        assert (edge.width / 2, edge.height / 2) == pytest.approx(shape.noise_stds)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    assert left < min(0, found["values"][0]) < max(0, found["values"][0]) < right
    assert bottom < min(0, found["values"][1]) < max(0, found["values"][1]) < top
    _draw_ellipses(ax, computed(sensitivity_1=30.0, sensitivity_2=0.5))  # far wider than the rest
    assert "inverse goes on" in ax.get_title()
    assert ax.get_ylim()[1] < 200
