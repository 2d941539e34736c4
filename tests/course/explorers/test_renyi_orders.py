"""RDP's orders: numbers of the accountant itself, capped lists that cost more, and sentences."""

from functools import partial

import pytest

from dpkit.common.show import at_most
from dpkit.course.explorers import RenyiOrders
from dpkit.course.explorers.renyi_orders import LATER, WHOLE
from dpkit.papers.claims import OPACUS_ORDERS
from dpkit.privacy import Release, SampledGaussian, rdp

EXPLORER = RenyiOrders
computed = partial(
    EXPLORER.compute,
    noise_multiplier=4.0,
    sample_rate=0.01,
    steps=100.0,
    delta=1e-5,
    adjacency="add-remove",
)


@pytest.mark.parametrize(
    "changed", [{}, {"noise_multiplier": 1.1, "steps": 10_000.0}, {"adjacency": "replace-one"}]
)
def test_rows_are_the_accountants_and_no_list_beats_the_search(changed):
    result = computed(**changed)
    values = computed.keywords | changed
    mechanism = SampledGaussian(values["noise_multiplier"], 0.01, values["adjacency"])
    run = [Release(mechanism, round(values["steps"]))]
    lists = {"search": None, "2 to 64": WHOLE, "Opacus' default": OPACUS_ORDERS}
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
    run = explorer.result["run"].ledger
    direct = rdp.epsilon(run, delta=1e-5, conversion="optimal", orders=[order])
    assert value == pytest.approx(direct.epsilon, rel=1e-9)
    searched = rdp.epsilon(run, delta=1e-5, conversion="optimal").epsilon
    assert searched * (1 - 1e-9) <= value <= explorer.result["rows"][0][2]
    assert LATER not in explorer.numbers.value
    assert at_most(value) in explorer.numbers.value
