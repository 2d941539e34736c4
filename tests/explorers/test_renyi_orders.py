"""RDP's orders: numbers of the accountant itself, capped lists that cost more, and sentences."""

import math
import subprocess
import sys

import pytest
from ipywidgets.widgets.widget import _instances

from dpkit.explorers import RenyiOrders, renyi_orders
from dpkit.explorers.explorer import at_most
from dpkit.explorers.renyi_orders import LATER, OPACUS, WHOLE
from dpkit.plots import Picture
from dpkit.privacy import Release, SampledGaussian, conversions, rdp

VALUES = {
    "noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 100.0, "delta": 1e-5,
    "adjacency": "add-remove",
}  # fmt: skip


@pytest.fixture(scope="module")
def explorer() -> RenyiOrders:
    return RenyiOrders()


@pytest.fixture
def no_bisection(monkeypatch):
    """The improved conversion in the optimal one's place, which takes a fifth of a second."""
    *others, last = conversions.CONVERSIONS
    stand_in = (*others, last._replace(epsilon=conversions.improved))
    monkeypatch.setattr(conversions, "CONVERSIONS", stand_in)
    renyi_orders._near.cache_clear()
    yield
    renyi_orders._near.cache_clear()


def computed(**changed):
    return RenyiOrders.compute(**(VALUES | changed))


@pytest.mark.parametrize(
    "changed", [{}, {"noise_multiplier": 1.1, "steps": 10_000.0}, {"adjacency": "replace-one"}]
)
def test_rows_are_the_accountants_and_no_list_beats_the_search(changed):
    result = computed(**changed)
    values = VALUES | changed
    mechanism = SampledGaussian(values["noise_multiplier"], 0.01, values["adjacency"])
    run = [Release(mechanism, round(values["steps"]))]
    lists = {"search": None, "2 to 64": WHOLE, "Opacus' default": OPACUS}
    assert len(result["rows"]) == 6
    for conversion, name, value, order in result["rows"]:
        direct = rdp.epsilon(run, delta=1e-5, conversion=conversion, orders=lists[name])
        assert value == direct.epsilon
        # the order that is told proves the epsilon that is told
        alone = rdp.epsilon(run, delta=1e-5, conversion=conversion, orders=[order])
        assert alone.epsilon == pytest.approx(value, rel=1e-4)
        best = next(v for c, n, v, _ in result["rows"] if (c, n) == (conversion, "search"))
        assert value >= best * (1 - 1e-7)


def test_the_optimal_conversion_comes_with_the_picture(explorer):
    assert LATER in explorer.table(computed()).text()
    explorer.update()
    value, order = explorer.result["optimal"]
    run = explorer.result["ledger"]
    direct = rdp.epsilon(run, delta=1e-5, conversion="optimal", orders=[order])
    assert value == pytest.approx(direct.epsilon, rel=1e-9)
    searched = rdp.epsilon(run, delta=1e-5, conversion="optimal").epsilon
    assert searched * (1 - 1e-9) <= value <= explorer.result["rows"][0][2]
    assert LATER not in explorer.numbers.value
    assert at_most(value) in explorer.numbers.value


def test_a_cap_costs_much_where_little_is_spent():
    rows = {(c, n): (v, o) for c, n, v, o in computed()["rows"]}
    assert rows["improved", "search"][1] > 64
    assert rows["improved", "2 to 64"][1] == 64
    assert rows["improved", "2 to 64"][0] > 1.3 * rows["improved", "search"][0]
    assert rows["improved", "Opacus' default"][1] == 63


def test_opacus_list():
    """1.1 to 10.9 by tenths and 12 to 63, as its RDPAccountant.DEFAULT_ALPHAS."""
    assert len(OPACUS) == 99 + 52
    assert OPACUS[0] == 1.1
    assert OPACUS[98] == 10.9
    assert OPACUS[99:] == tuple(range(12, 64))


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("delta", 0.0, 1e-5), ("delta", 1.0, 1e-5), ("delta", math.nan, 1e-5),
        ("sample_rate", 0.0, 0.01), ("steps", 0.0, 100.0), ("noise_multiplier", 0.0, 4.0),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("no_bisection")
def test_bad_values_are_a_sentence_and_forgotten(explorer, monkeypatch, name, bad, good):
    monkeypatch.setattr(RenyiOrders, "draw", lambda *_: Picture(b"drawn", "in words"))
    control, least = explorer.values[name], getattr(explorer.values[name], "min", None)
    if bad == 0 and name != "delta":
        control.min = -400  # 10^-400 is 0: sliders themselves never leave their range
    control.value = bad
    assert explorer.result is None
    assert explorer.numbers.value.startswith("<p role='alert'>")
    assert name in explorer.numbers.value.lower()
    assert "should not happen" not in explorer.numbers.value
    assert explorer.picture.value == b""
    assert explorer.words.value == ""
    control.value = good
    if least is not None:
        control.min = least
    assert explorer.result is not None
    assert explorer.result["rows"] == computed()["rows"]
    assert explorer.picture.value != b""


@pytest.mark.parametrize(
    "changed",
    [
        {"noise_multiplier": 0.1, "sample_rate": 1.0, "steps": 1e6},
        {"noise_multiplier": 100.0, "sample_rate": 1e-5, "steps": 1.0},
        {"delta": 0.99},
        {"delta": 1e-300},
    ],
)
@pytest.mark.usefixtures("no_bisection")
def test_extremes_are_drawn_too(explorer, changed):
    result = computed(**changed)
    assert "nan" not in explorer.table(result).text()
    explorer.result = dict(result)
    explorer._draw()
    assert bytes(explorer.picture.value).startswith(b"\x89PNG"), explorer.words.value


@pytest.mark.usefixtures("no_bisection")
def test_moves_redraw_and_leave_no_widgets(explorer, monkeypatch):
    for name, value in VALUES.items():
        explorer.values[name].value = value
    before, seen = len(_instances), {bytes(explorer.picture.value)}
    explorer.values["noise_multiplier"].value = 5.0
    seen.add(bytes(explorer.picture.value))
    assert len(seen) == 2
    monkeypatch.setattr(RenyiOrders, "draw", lambda *_: Picture(b"drawn", "in words"))
    for move in range(20):
        explorer.values["noise_multiplier"].value = 10 ** (move / 20)
        assert explorer.result["noise_multiplier"] == explorer.values["noise_multiplier"].value
    assert len(_instances) == before


@pytest.mark.usefixtures("no_bisection")
def test_numbers_stand_as_text(explorer):
    explorer.update()
    data = explorer._repr_mimebundle_()
    shown = at_most(explorer.result["rows"][0][2])
    assert shown in data["text/plain"]
    assert shown in data["text/html"]
    assert shown in repr(explorer)
    assert shown in explorer.words.value


def test_torch_is_not_needed():
    script = "import sys, dpkit.explorers as e; e.RenyiOrders; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_order_next_to_1_is_drawn_and_nothing_is_stale():
    """Noise 0.1, rate 1, a million steps, delta near 1: the best order rounds to 1."""
    explorer = RenyiOrders()
    for name, value in (("noise_multiplier", 0.1), ("sample_rate", 1.0), ("steps", 1e6)):
        explorer.values[name].value = value
    before = bytes(explorer.picture.value)
    explorer.values["delta"].value = 0.999
    assert "alert" not in explorer.numbers.value
    assert "No picture" not in explorer.words.value
    assert bytes(explorer.picture.value) != before
