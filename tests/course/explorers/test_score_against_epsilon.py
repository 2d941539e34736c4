"""Score against epsilon: epsilons by their definitions; stored runs whole, partial, broken."""

import json
import math
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

from dpkit.common.records import describe
from dpkit.course.explorers import ScoreAgainstEpsilon
from dpkit.course.explorers.score_against_epsilon import NO_SCORES, TICKS, _plain
from dpkit.course.explorers.score_against_epsilon_numbers import AXES, VARIED, planned, price
from dpkit.papers.experiments import store
from dpkit.papers.small_images.settings import (
    EVERY,
    FIGURE_2,
    NON_PRIVATE,
    ORDERS,
    SETTINGS,
    reduced,
    settings_of,
)
from dpkit.privacy import Gaussian, Release, SampledGaussian, gdp, pld, rdp

RATE, DELTA = 128 / 60_000, 1e-5
computed = partial(
    ScoreAgainstEpsilon.compute, figure="figure_1", axis="charged", steps=3_000, stored={}
)
PNG = b"\x89PNG"


def part(key, settings, scores, *, seed=0, every=250, spread=0.1):
    """A stored run, as far as its curve is read here."""
    curve = {
        "steps": [every * (n + 1) for n in range(len(scores))],
        "inception": scores,
        "inception_spread": [spread] * len(scores),
    }
    described = describe(settings) | {"records": "mnist"}
    return {
        f"{key}-seed{seed}": {"values": {"curve": curve}, "provenance": {"settings": described}}
    }


def everything(scale="reduced"):
    """All runs of all figures, scores rising by step and different by run."""
    found, every = {}, EVERY[scale]
    longest = planned("figure_1", scale=scale)[0].settings.max_steps
    for figure in VARIED:
        for place, run in enumerate(planned(figure, scale=scale)):
            points = run.settings.max_steps // every
            scores = [2.0 + place / 10 + n / 4 for n in range(points)]
            found |= part(run.key, run.settings, scores, every=every)
    level = [2.0 + n / 3 for n in range(longest // every)]
    return found | part("non-private", reduced(NON_PRIVATE), level, every=every)


ALL = everything()


@pytest.fixture(scope="module")
def explorer() -> ScoreAgainstEpsilon:
    return ScoreAgainstEpsilon(ALL)


def by_value(result):
    return {row.value: row for row in result["rows"]}


@pytest.mark.parametrize(
    ("noise", "steps", "passes"),
    [(0.5, 1, 1), (0.5, 468, 1), (0.5, 469, 2), (0.5, 3_000, 7), (1.0, 3_000, 7)],
)
def test_proven_is_the_closed_form_over_the_passes_begun(noise, steps, passes):
    found = by_value(computed(figure="figure_2", steps=steps))[noise].proven
    wanted = gdp.epsilon([Release(Gaussian(noise / 2), passes)], delta=DELTA).epsilon
    assert found.lower <= wanted * (1 + 1e-9)
    assert wanted <= found.epsilon <= 1.002 * wanted
    assert (found.adjacency, found.delta) == ("replace-one", DELTA)
    assert "Poisson" not in "".join(found.assumptions)


def test_the_accounting_alone_moves_a_run():
    """At noise 0.5 and 3,000 steps; and what is charged is less than a whole pass costs."""
    row = by_value(computed(figure="figure_2"))[0.5]
    assert "shuffled batches priced as Poisson batches" in row.charged.assumptions
    assert row.charged.epsilon == pytest.approx(8.98575, abs=1e-5)
    assert row.certified.epsilon < row.charged.epsilon < row.at_least < row.proven.epsilon
    t = np.linspace(2, 6, 401)  # an event: some of the pass's 468 sums is above t
    with_it = norm.sf((t - 2) / 0.5)  # at least, with the record
    without = norm.sf((t - 1) / 0.5) + 467 * norm.sf(t / 0.5)  # at most, without it
    seen = with_it - math.exp(row.charged.epsilon) * without
    assert max(seen) > 1e-5
    assert by_value(computed(figure="figure_2", steps=467))[0.5].at_least == 0
    assert by_value(computed(figure="figure_2", steps=468))[0.5].at_least == row.at_least


@pytest.mark.torch
def test_runs_and_prices_are_those_of_the_paper():
    pytest.importorskip("torch")
    from dpkit.papers.small_images import tables

    for scale in EVERY:
        shared = settings_of("common", scale=scale)
        for name in VARIED:
            wanted = settings_of(name, scale=scale) | {"base": shared["base"]}
            assert {run.key: run.settings for run in planned(name, scale=scale)} == wanted
    size = {"public_size": 60_000, "steps": 1_500}
    for run in planned("figure_2", scale="reduced"):
        claimed = [Release(SampledGaussian(run.value, RATE), 1_500)]
        prices = {
            "charged": rdp.epsilon(claimed, delta=DELTA, conversion="classic", orders=ORDERS),
            "certified": pld.epsilon(claimed, delta=DELTA),
            "proven": pld.epsilon(run.settings.ledger(**size), delta=DELTA),
        }
        for axis, own in prices.items():
            found = price(axis, run.settings, 1_500)
            assert (found.epsilon, found.lower) == (own.epsilon, own.lower)
    short = planned("figure_3", scale="reduced")  # what is pinned here, as the paper's own
    assert [run.value for run in short] == [8, 16, 32, 64, 96, 128]
    assert [run.settings.max_steps for run in short] == [2_000, 3_000, *[2_000] * 4]
    stored = deepcopy(ALL)
    for one in stored.values():  # what tables asks of a curve, and is not read here
        curve = one["values"]["curve"]
        for column in ("epsilon_claimed", "epsilon_proven"):
            curve.setdefault(column, [None] * len(curve["steps"]))
    for name in VARIED:
        result = computed(figure=name, stored=stored)
        for row in getattr(tables, name)(stored):
            assert row["steps"] == by_value(result)[row["value"]].step
            assert row["difference"] + row["plateau"] == pytest.approx(result["level"])


def test_scores_are_read_at_the_last_point_so_far():
    found = computed(figure="figure_2", steps=700, stored=ALL)
    row = by_value(found)[0.8]
    assert (row.step, row.seeds) == (500, 1)
    assert (row.score, row.spread) == (2.1 + 1 / 4, pytest.approx(0.1))
    assert row.charged == price("charged", FIGURE_2[0.8], 500)
    assert found["level"] == pytest.approx(2 + 11 / 3)  # the largest of all, as in the paper


def test_seeds_are_averaged_over_the_points_they_share():
    base = reduced(SETTINGS)
    parts = part("base", base, [1.0, 2.0, 6.0, 8.0]) | part("base", base, [1.0, 4.0, 5.0], seed=1)
    found = computed(stored=parts)
    row = by_value(found)[1]
    assert (found["end"], row.step, row.seeds) == (750, 750, 2)  # equal steps for all
    assert (row.score, row.lowest, row.highest) == (5.5, 5.0, 6.0)
    assert found["curves"][1].scores == [1.0, 3.0, 5.5]
    text = ScoreAgainstEpsilon(parts).table(found).text()
    assert "5.500 ± 0.100 (2 seeds, 5.000 to 6.000)" in text
    assert "both means over seeds" in text
    assert "non-private level is not stored" in text


def test_figure_3_is_read_where_its_shortest_run_ends(explorer):
    found = computed(figure="figure_3", stored=ALL)
    assert {row.step for row in found["rows"]} == {2_000}
    assert max(found["curves"][16].steps) == 2_000  # of the shared run's 3,000
    assert found["level"] == pytest.approx(2 + 7 / 3)
    assert "ends at step 2000: all are read there" in explorer.table(found).text()
    assert "ends at" not in explorer.table(computed(figure="figure_3", steps=2_000)).text()


@pytest.mark.parametrize(("figure", "axis"), list(zip(VARIED, AXES, strict=True)))
def test_without_stored_runs_epsilon_is_shown_by_step(figure, axis):
    bare = ScoreAgainstEpsilon({})
    bare.values["figure"].value, bare.values["axis"].value = figure, axis
    assert bare.picture.value[:4] == PNG
    told = repr(bare)
    assert NO_SCORES in told
    assert f"reproduce small_images {figure} --scale reduced" in told
    assert told.count("not stored") == len(bare.result["rows"])
    assert bare.result["level"] is None
    assert "no scores" in bare.words.value
    assert "score 2" not in bare.words.value


def test_what_is_stored_of_a_figure_is_shown(explorer):
    only = {name: one for name, one in ALL.items() if name.startswith(("base", "noise-0.9"))}
    some = computed(figure="figure_2", stored=only)
    shown = {row.value: row.score is not None for row in some["rows"]}
    assert shown == {0.5: True, 0.8: False, 0.9: True, 1.0: False}
    told = explorer.table(some).text()
    assert told.count("not stored") == 2 + 1  # two runs, and the level
    assert NO_SCORES not in told
    assert explorer.draw(some).png()[:4] == PNG
    for every in (1_000, 5_000):  # a first point later than what is read, than all that can be
        parts = part("base", reduced(SETTINGS), [3.0, 4.0], every=every)
        early = computed(steps=500, stored=parts)
        row = by_value(early)[1]
        assert (row.score, row.step, row.seeds) == (None, 500, 1)
        assert "no point so far" in explorer.table(early).text()
        assert explorer.draw(early).png()[:4] == PNG


def column(name, value):
    return lambda one: one["values"]["curve"].update({name: value})


BROKEN = {
    "lacks 'curve'": lambda one: one["values"].pop("curve"),
    "lacks 'values'": lambda one: one.pop("values"),
    "lacks 'noise_multiplier'": lambda one: one["provenance"]["settings"].pop("noise_multiplier"),
    "lacks 'inception'": lambda one: one["values"]["curve"].pop("inception"),
    "curve without points": column("steps", []),
    "columns of different lengths": column("steps", [250, 500]),
    "not whole and increasing": column("steps", [500] * 12),
    "not whole and": column("steps", [250.5 * n for n in range(1, 13)]),
    "inception score that is no number": column("inception", [math.nan] * 12),
    "score that is no number": column("inception", ["inf"] * 12),
    "spread that is no number": column("inception_spread", [-0.1] * 12),
    "and the figure has": lambda one: one["provenance"]["settings"].update(noise_multiplier=0.4),
    "'digits'": lambda one: one["provenance"]["settings"].update(records="digits"),
}


@pytest.mark.parametrize("told", BROKEN)
def test_broken_runs_are_refused_by_name(told):
    broken = deepcopy(ALL)
    BROKEN[told](broken["norm-100-seed0"])
    with pytest.raises(ValueError, match=f"stored run norm-100-seed0.*{told}.*reproduce it"):
        computed(stored=broken)
    computed(figure="figure_2", stored=broken)  # which has no such run


def test_the_kits_own_runs_are_read_at_each_move(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "results_dir", lambda: tmp_path)
    own = ScoreAgainstEpsilon()
    assert NO_SCORES in repr(own)
    stored = part("base", reduced(SETTINGS), [3.0, 4.0])
    for folder, parts in (("common", stored), ("figure_2", {"noise-0.8-seed0": None})):
        (tmp_path / "small_images" / folder / "reduced").mkdir(parents=True)
        for name, content in parts.items():
            path = tmp_path / "small_images" / folder / "reduced" / f"{name}.json"
            path.write_text(json.dumps(content))
    own.update()
    assert by_value(own.result)[1].score == 4.0
    path.write_text("{")
    own.update()
    assert "noise-0.8-seed0.json is not valid JSON" in own.numbers.value


def test_all_three_epsilons_are_told_whichever_is_drawn(explorer):
    assert len({explorer.table(computed(axis=axis, stored=ALL)).text() for axis in AXES}) == 1


def test_paper_scale_has_its_own_steps():
    with pytest.raises(ValueError, match="scale"):
        computed(scale="tiny")
    with pytest.raises(ValueError, match="scale"):
        ScoreAgainstEpsilon({}, scale="tiny")
    long = ScoreAgainstEpsilon(everything("paper"), scale="paper")
    slider = long.values["steps"]
    assert (slider.min, slider.max, slider.value) == (469, 18_760, 18_760)
    row = by_value(long.result)[1]
    assert (row.step, row.score) == (18_760, pytest.approx(2.1 + 39 / 4))
    assert row.charged == price("charged", SETTINGS, 18_760)


@pytest.mark.parametrize("limits", [(6.02, 6.35), (3.5, 5.7), (5.5, 9.3), (0.17, 9), (0.5, 600)])
def test_short_axes_have_a_few_plain_numbers(limits):
    ax = Figure().add_subplot()
    ax.set_xscale("log")
    ax.set_xlim(limits)
    _plain(ax.xaxis)
    ticks = ax.get_xticks()
    assert 2 <= len(ticks) <= TICKS
    assert limits[0] <= min(ticks) < max(ticks) <= limits[1]


@pytest.mark.filterwarnings("error")
def test_equal_scores_of_one_point_are_drawn(explorer):
    for figure, axis in zip(VARIED, AXES, strict=True):
        alike = {}
        for run in planned(figure, scale="reduced"):
            alike |= part(run.key, run.settings, [1.0], spread=0.0)
        found = computed(figure=figure, axis=axis, steps=250, stored=alike)
        picture = explorer.draw(found)
        assert picture.png().startswith(PNG)
        assert "nan" not in explorer.table(found).text() + picture.words
