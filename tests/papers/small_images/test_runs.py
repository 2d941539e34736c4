"""Small images: runs that go on after an interruption, plans and tables."""

import json
import shutil
from dataclasses import replace

import pytest

from dpkit.common.progress import silent
from dpkit.common.records import describe
from dpkit.metrics import judge
from dpkit.papers import small_images as paper
from dpkit.papers.experiments import run
from dpkit.papers.small_images import experiments, tables
from dpkit.papers.small_images.experiments import COLUMNS, FidCurve
from dpkit.papers.small_images.settings import DIGITS_SIZE, EVERY, ORDERS, settings_of
from dpkit.privacy import pld, rdp
from dpkit.privacy.clipping import FlatClipping

pytestmark = pytest.mark.torch

QUICK = judge.Learning("digits", width=2, hidden=8, epochs=1, batch_size=256)
SIZES = {"capacity": 2, "max_steps": 5, "latent_size": 4}


def tiny(settings=paper.SMALL, **changes):
    sampling = type(settings.sampling)(8)
    settings = replace(settings, sampling=sampling, **SIZES)
    fields = {"device": "cpu", "records": "digits", "images": 40, **changes}
    return FidCurve.of("tiny", settings, 0, 2, **fields)


def isolate(patch, folder):
    """Everything below `folder`, with a classifier that takes no time."""
    for module in (run, judge):
        patch.setattr(module, "cache_dir", lambda: folder)
    patch.setitem(judge.CLASSIFIERS, "digits", QUICK)
    patch.setattr(experiments, "WATCHED", 16)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder and result of a run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, folder)
        return folder, tiny(samples=True).compute()


@pytest.fixture
def cache(tmp_path, monkeypatch, finished):
    """An empty cache, but for the classifier."""
    isolate(monkeypatch, tmp_path)
    place = tmp_path / "runs" / "small_images"
    place.mkdir(parents=True)
    for path in (finished[0] / "runs" / "small_images").glob("classifier-*"):
        shutil.copy(path, place)
    return tmp_path


class Interrupted(Exception): ...


def after(count):
    """A progress that fails before step `count`, as an interrupt would."""

    def progress(records, *, total, desc):
        for i, record in enumerate(records):
            if "classifier" not in desc and i == count:
                raise Interrupted
            yield record

    return progress


def test_a_run_is_a_curve_with_both_prices(finished):
    folder, result = finished
    values, settings = result.values, tiny().run.settings
    curve = values["curve"]
    assert (tuple(curve), curve["steps"]) == (COLUMNS, [2, 4, 5])
    assert {len(column) for column in curve.values()} == {3}
    for i, steps in enumerate(curve["steps"]):
        told = {"public_size": DIGITS_SIZE, "steps": steps}
        classic = {"delta": 1e-5, "conversion": "classic", "orders": ORDERS}
        claimed = rdp.epsilon(settings.claimed_ledger(**told), **classic).epsilon
        proven = pld.epsilon(settings.ledger(**told), delta=1e-5).epsilon
        assert (curve["epsilon_claimed"][i], curve["epsilon_proven"][i]) == (claimed, proven)
        assert 1 <= curve["inception"][i] <= 10
        assert 0 < curve["smallest_norm"][i] <= curve["median_norm"][i]
    assert values["epsilon_proven"] == curve["epsilon_proven"][-1]
    assert (values["steps"], values["delta"], values["adjacency"]) == (5, 1e-5, "add-remove")
    old = {**values, "curve": curve | {"epsilon_proven": [0.1] * 3}, "epsilon_proven": 0.1}
    assert old | tiny().prices(old) == values
    with pytest.raises(ValueError, match="steps must be those of the curve's last point, 5, got 6"):
        tiny().prices(values | {"steps": 6})
    json.dumps(values, allow_nan=False)
    assert result.images.shape == (100, 28, 28)
    assert set(result.data) == {"digits train", "digits test"}
    left = sorted(path.suffix for path in (folder / "runs" / "small_images").iterdir())
    assert left == [".json", ".safetensors", ".safetensors"]  # the checkpoint, private, is gone


@pytest.mark.parametrize(
    "steps",  # after a point, and between two
    [pytest.param(1, marks=pytest.mark.slow("a run that ends just after a point of its curve")), 2],
)
def test_an_interrupted_run_goes_on_to_the_same_curve(steps, cache, finished):
    with pytest.raises(Interrupted):
        tiny(progress=after(steps)).compute()
    assert tiny().run.checkpoint().exists()
    seen = []
    count = lambda records, *, total, desc: (seen.append(desc) or one for one in records)  # noqa: E731
    again = tiny(progress=count).compute()
    assert again.values == finished[1].values
    assert seen == ["tiny seed 0"] * (4 - steps)  # the step that was shown last was done


@pytest.mark.parametrize(
    "point",
    [pytest.param(0, marks=pytest.mark.slow("a first measurement that is not made again")), 2],
)
def test_a_measurement_that_was_interrupted_is_made_again(point, cache, finished, monkeypatch):
    score, calls = judge.Judge.score, []

    def fails(self, images, **more):
        calls.append(1)
        if len(calls) == point + 1:
            raise Interrupted
        return score(self, images, **more)

    monkeypatch.setattr(judge.Judge, "score", fails)
    with pytest.raises(Interrupted):
        tiny().compute()
    assert tiny().compute().values == finished[1].values
    assert len(calls) == 4


@pytest.mark.slow("a run that ends between its last step and its stored result")
def test_a_run_whose_result_was_lost_is_measured_at_its_end_again(cache, finished, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(run, "write_bytes", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tiny().compute()
    assert tiny().compute().values == finished[1].values


def test_the_published_run_is_priced_both_ways_and_without_privacy_nothing_is(cache):
    values = tiny(paper.SETTINGS).compute().values
    assert values["epsilon_claimed"] < values["epsilon_proven"]
    assert values["adjacency"] == "replace-one"
    assert values["claimed_assumptions"]
    values = tiny(paper.NON_PRIVATE).compute().values
    columns = [values["curve"][name] for name in ("epsilon_claimed", "epsilon_proven", "clipped")]
    assert columns == [[None] * 3, ["inf"] * 3, [0.0] * 3]
    assert (values["epsilon_claimed"], values["epsilon_proven"]) == (None, "inf")


def test_figures_are_planned_on_mnist_at_both_scales():
    names = {}
    for scale in ("paper", "reduced"):
        for plan, parts in experiments.PLANS.items():
            made = parts(scale=scale, seeds=2, device="cpu", progress=silent)
            own = [part.name.removesuffix("-seed0") for part in made if not part.seed]
            names[scale, plan] = own
            assert {part.settings["records"] for part in made} == {"mnist"}
            if plan != "classifier":
                assert len(made) == 2 * len(own)
                short = 2_000 if plan == "figure_3" else paper.settings.REDUCED_STEPS
                steps = 18_760 if scale == "paper" else short
                told = {(part.settings["max_steps"], part.settings["images"]) for part in made}
                assert told == {(steps, 9_984)}
        assert names[scale, "common"] == ["base", "non-private", "repaired"]
        assert names[scale, "figure_1"] == ["norm-0.1", "norm-100"]
        assert names[scale, "figure_2"] == ["noise-0.8", "noise-0.9", "noise-1"]
    assert names["paper", "figure_3"] == ["capacity-16", "capacity-96", "capacity-128"]
    assert names["reduced", "figure_3"] == [f"capacity-{c}" for c in (8, 32, 64, 96, 128)]
    settings = settings_of("figure_1", scale="reduced")["norm-100"]
    assert (settings.capacity, settings.clipping) == (16, FlatClipping(100.0))
    with pytest.raises(ValueError, match="plan must be one of common, figure_1"):
        settings_of("figure_4", scale="paper")
    base = FidCurve.of("base", paper.SETTINGS, 0, EVERY["paper"])
    assert base.points() == [469 * epoch for epoch in range(1, 41)]
    assert FidCurve.of("short", replace(paper.SETTINGS, max_steps=5), 0, 7).points() == [5]


def stored(key, inception, settings, *, seed=0, private=True):
    """A stored run whose epsilon after n points is n."""
    count = len(inception)
    curve = {
        "steps": [250 * (n + 1) for n in range(count)],
        "inception": inception,
        "inception_spread": [0.1] * count,
        "epsilon_claimed": [n + 1.0 if private else None for n in range(count)],
        "epsilon_proven": [10.0 * (n + 1) if private else "inf" for n in range(count)],
    }
    values = {"curve": curve, "epsilon_claimed": curve["epsilon_claimed"][-1]}
    part = {"values": values, "provenance": {"settings": describe(settings)}}
    return {f"{key}-seed{seed}": part}


def test_plateau_and_break_off_of_a_curve():
    curve = {"inception": [1.0, 2.0, 7.2, 7.6, 8.1, 7.9, 8.2, 7.8], "epsilon_claimed": []}
    assert tables.plateau(curve) == pytest.approx(8.0)  # the last two of eight
    epsilons = [float(n) for n in range(1, 9)]
    assert tables.break_off({**curve, "epsilon_claimed": epsilons}) == 4.0  # 7.3 is reached
    assert tables.break_off({**curve, "epsilon_claimed": ["inf"] * 8}) is None
    assert tables.plateau({"inception": [3.0]}) == 3.0


def test_rows_of_a_figure():
    figure = paper.FIGURE_1
    parts = {
        **stored("base", [1.0, 5.0, 6.0, 6.0], figure[1.0]),
        **stored("base", [1.0, 2.0, 3.0, 8.0], figure[1.0], seed=1),
        **stored("norm-100", [1.0, 2.0, 3.0, 3.0], figure[100.0]),
        **stored("norm-0.1", [6.0, 6.0, 6.0, 6.0], figure[0.1]),
        **stored("non-private", [9.0, 8.0, 7.0, 7.0], paper.NON_PRIVATE, private=False),
    }
    rows = tables.figure_1(parts)
    assert [row["value"] for row in rows] == [0.1, 1.0, 100.0]
    base = rows[1]
    assert (base["plateau"], base["lowest"], base["highest"]) == (7.0, 6.0, 8.0)
    assert (base["seeds"], base["difference"]) == (2, 2.0)  # from 9, the level's largest score
    assert base["break_off_epsilon"] == pytest.approx((3 + 4) / 2)
    assert rows[0]["break_off_epsilon"] == 1.0
    assert (base["epsilon_claimed"], base["epsilon_proven"], base["steps"]) == (4.0, 40.0, 1_000)
    named = {row["run"]: row for row in tables.common(parts)}
    assert list(named) == ["non-private", "base"]
    assert named["non-private"]["break_off_epsilon"] is None
    alone = tables.figure_2(stored("noise-0.8", [1.0, 2.0], paper.FIGURE_2[0.8]))
    assert (alone[0]["value"], alone[0]["difference"]) == (0.8, None)
    # read up to where the shortest curve ends
    parts = {
        **stored("base", [1.0, 2.0, 3.0, 8.0], paper.SETTINGS),
        **stored("capacity-96", [2.0, 4.0], paper.FIGURE_3[96]),
        **stored("non-private", [5.0, 6.0, 7.0], paper.NON_PRIVATE, private=False),
        **stored("repaired", [1.0], paper.REPAIRED),  # in no row of the figure
    }
    base, wide = tables.figure_3(parts)
    assert (base["plateau"], base["steps"], base["epsilon_claimed"]) == (2.0, 500, 2.0)
    assert (wide["value"], wide["plateau"], wide["difference"]) == (96, 4.0, 2.0)  # from 6, not 7
