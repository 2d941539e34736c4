"""The comparison: parts, their prices and scores, and the rows that are made of them."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import t

from dpkit import datasets
from dpkit.common.progress import silent
from dpkit.metrics.judge import Learning
from dpkit.metrics.trained_on_synthetic import Protocol, logistic
from dpkit.papers.comparison import experiments, methods, tables
from dpkit.papers.comparison.feature_classifier import LEARNINGS
from dpkit.papers.comparison.methods import METHODS
from dpkit.papers.comparison.published import PROTOCOLS, PUBLISHED
from dpkit.papers.comparison.task import SIZES, Task
from dpkit.privacy import pld
from dpkit.synthesizers.feature_matching import Matching

# One of those that are fitted and priced alike, and differ in what is done to their samples.
PRICED = {(one.settings, one.ledger): name for name, one in experiments.ALL.items()}.values()


def task(epsilon=10.0, **changed):
    return Task("digits", 1_437, epsilon, 1e-5, 0, "cpu", silent)._replace(**changed)


def test_every_part_says_what_it_is():
    parts = [
        part
        for made in (experiments.plan, experiments.plan_large)
        for part in made("mnist", scale="paper", seeds=2, device="cpu", progress=silent)
    ]
    names = [part.name for part in parts]
    assert len(set(names)) == len(names)
    for part in parts:
        if part.name.endswith("-likeness"):
            assert part.after in names
            continue
        assert part.settings["records"] in (60_000, 55_000)
        assert part.settings["protocol"]["epochs"] == 10
        assert part.settings["protocol"]["held_out"] == 5_000
        assert part.settings["images"] == 60_000


def test_declared_sizes_are_those_of_the_data():
    assert SIZES["digits"] == datasets.digits(split="train").n


@pytest.mark.parametrize("method", PRICED)
@pytest.mark.parametrize("epsilon", [0.5, 10.0])
def test_a_method_costs_at_most_its_budget_and_little_less(method, epsilon):
    chosen, asked = experiments.ALL[method], task(epsilon, data="mnist", size=60_000)
    spent = pld.epsilon(chosen.ledger(asked, chosen.settings(asked)), delta=asked.delta).epsilon
    least = 0.5 if "start" in method else 0.99
    assert least * epsilon < spent <= epsilon


def test_a_method_of_55_000_records_at_the_benchmarks_delta_keeps_to_its_budget():
    asked = task(1.0, data="mnist", size=55_000, delta=experiments.BENCH_DELTA)
    settings = METHODS["moments"].settings(asked)
    spent = pld.epsilon(METHODS["moments"].ledger(asked, settings), delta=asked.delta)
    assert 0.99 < spent.epsilon <= 1


@pytest.fixture
def smallest(monkeypatch, tmp_path):
    """Give a test its own cache, few images and examples, and a judge that hardly learns."""
    for module in ("experiments.run", "metrics.judge"):
        monkeypatch.setattr(f"dpkit.{module}.cache_dir", lambda: tmp_path)
    few = experiments.Scale((10.0,), 120, Protocol(epochs=1, held_out=20), 120)
    monkeypatch.setitem(experiments.SCALES, "small", few)
    monkeypatch.setattr(methods, "Matching", partial(Matching, batch=20))
    quick = Learning("digits", width=2, hidden=8, epochs=1, batch_size=256)
    monkeypatch.setitem(LEARNINGS, "digits", quick)


ALONE = pytest.mark.slow("a method of the comparison that does not run, where others do")


@pytest.mark.parametrize(
    "method",
    [pytest.param(one, marks=() if one in ("moments", "dp_cgan") else ALONE) for one in METHODS],
)
def test_each_method_runs_at_the_smallest_scale(method, monkeypatch, smallest):
    """One method's images train a CNN, the others' the quickest of the three networks."""
    if method != "moments":
        monkeypatch.setattr(experiments, "NETWORKS", {"cnn": logistic})
    parts = experiments.plan("mnist", scale="small", seeds=1, device="cpu", progress=silent)
    part, _ = [one for one in parts if one.name.startswith(f"{method}-eps")]
    result = part.compute()
    least = 6 if "start" in method else 9.9
    assert least < result.values["epsilon_proven"] <= 10
    assert 0 <= result.values["cnn_accuracy"] <= 1
    assert result.images is not None
    assert result.images.shape == (100, 28, 28)
    assert set(result.data) == {"digits train", "digits test"}


def test_jitter_is_of_the_same_release():
    labels = np.arange(20) % 10
    plain, moved = (
        METHODS[name].make(task(), METHODS[name].settings(task())).sample(labels)
        for name in ("moments", "moments_jittered")
    )
    assert plain.shape == moved.shape == (20, 1, 28, 28)
    brightness = plain.mean((1, 2, 3)), moved.mean((1, 2, 3))
    np.testing.assert_allclose(*brightness, rtol=0.35)  # turned and resized by a tenth
    assert np.abs(plain - moved).mean() > 0.01


def test_fewer_records_are_drawn_by_a_public_seed():
    few = task(size=1_000).records()
    assert few.n == 1_000
    assert few.checksum == task(size=1_000, seed=5).records().checksum
    with pytest.raises(ValueError, match="at most the 1437 images"):
        task(size=2_000).records()


def test_rows_of_stored_parts():
    stored = {
        f"moments-eps1-seed{seed}": {"values": {"cnn_accuracy": one}}
        for seed, one in enumerate((0.8, 0.9))
    }
    rows = {row["key"]: row for row in tables.accuracies(stored)}
    assert rows["moments"][1.0]["mean"] == pytest.approx(85)
    assert rows["moments"][1.0]["seeds"] == 2
    assert rows["dp_cgan"][1.0]["mean"] is None


def test_published_figures_name_their_protocol():
    for one in PUBLISHED:
        assert one.protocol in PROTOCOLS
        for points in one.accuracies.values():
            assert all(10 < value < 100 for value in points.values())
    assert [row["method"] for row in tables.published("mnist")][-1] == "DP-FETA"


def test_likeness_of_what_a_method_makes(smallest):
    parts = experiments.plan("mnist", scale="small", seeds=1, device="cpu", progress=silent)
    values = {}
    for method in ("moments", "moments_jittered"):
        (part,) = [one for one in parts if one.name == f"{method}-eps10-seed0-likeness"]
        values[method] = part.compute().values
    for found in values.values():
        assert found["classifier_fid"] > 0
        assert 0 <= found["precision"] <= 1
        assert 0 <= found["recall"] <= 1
        assert 1 <= found["inception_score"] <= 10
    assert values["moments"] != values["moments_jittered"]


def test_gains_are_welchs_differences_of_means():
    accuracies = {"warm_gan-eps1": [0.90, 0.92, 0.91], "moments-eps1": [0.93, 0.90]}
    known = {
        f"{name}-seed{seed}": {"values": {"cnn_accuracy": value}}
        for name, found in (accuracies | {"warm_gan-eps3": [0.9], "moments-eps3": [0.8]}).items()
        for seed, value in enumerate(found)
    }
    (row,) = tables.gains(known)  # one seed at epsilon 3 has no interval
    assert (row["method"], row["epsilon"], row["seeds"]) == ("warm-started GAN", 1.0, (3, 2))
    parts = [100**2 * np.var(found, ddof=1) / len(found) for found in accuracies.values()]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 1)
    half = t.ppf(0.975, freedom) * sum(parts) ** 0.5
    assert row["difference"] == pytest.approx(-0.5)
    assert (row["low"], row["high"]) == pytest.approx((-0.5 - half, -0.5 + half))
