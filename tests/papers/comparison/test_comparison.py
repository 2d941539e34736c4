"""The comparison: parts, their prices and scores, and the rows that are made of them."""

import json
import shutil
from dataclasses import replace
from functools import partial
from hashlib import sha256

import numpy as np
import pytest
import torch
from scipy.stats import t

from dpkit import datasets
from dpkit.common import records
from dpkit.common.progress import silent
from dpkit.metrics import judge
from dpkit.metrics.judge import Learning, as_images
from dpkit.metrics.trained_on_synthetic import Protocol, logistic
from dpkit.papers.comparison import experiments, methods, tables
from dpkit.papers.comparison.experiments import LEARNINGS
from dpkit.papers.comparison.methods import METHODS, ImageTask
from dpkit.papers.comparison.tables import PROTOCOLS, PUBLISHED
from dpkit.papers.experiments import store
from dpkit.papers.experiments.reproduce import differing
from dpkit.privacy import pld
from dpkit.synthesizers.feature_matching import Matching

# One of those that are fitted and priced alike, and differ in what is done to their samples.
PRICED = {(one.settings, one.ledger): name for name, one in METHODS.items()}.values()

RNG = np.random.default_rng(0)
IMAGES, LABELS = RNG.random((6, 1, 28, 28)), np.arange(6)
CPU = torch.device("cpu")
ONCE = {"seeds": 1, "device": "cpu", "progress": silent}
ALONE = pytest.mark.slow("a method of the comparison that does not run, where others do")


def task(epsilon=10.0, **changed):
    return ImageTask("digits", 1_437, epsilon, 1e-5, 0, "cpu", silent)._replace(**changed)


def test_every_part_says_what_it_is():
    parts = experiments.plan("mnist", **{**ONCE, "seeds": 2}, scale="paper")
    names = [part.name for part in parts]
    assert len(set(names)) == len(names)
    for part in parts:
        if part.name.endswith("-likeness"):
            assert part.after in names
            continue
        assert part.settings["records"] in (60_000, 55_000)
        if part.name.startswith("private_images"):
            assert "settled_sha256" in part.settings
        assert part.settings["images"] == 60_000
        protocol = part.settings["protocol"]
        assert (protocol["epochs"], protocol["held_out"]) == (10, 5_000)
    assert judge.SIZES["digits"] == datasets.digits(split="train").n


@pytest.mark.parametrize(
    ("method", "epsilon", "size", "delta"),
    [
        *((method, epsilon, 60_000, 1e-5) for method in PRICED for epsilon in (0.5, 10.0)),
        ("moments", 1.0, *experiments.BENCH["mnist"]),
    ],
)
def test_a_method_costs_at_most_its_budget_and_little_less(method, epsilon, size, delta):
    chosen = METHODS[method]
    asked = task(epsilon, data="mnist", size=size, delta=delta)
    spent = pld.epsilon(chosen.ledger(asked, chosen.settings(asked)), delta=asked.delta).epsilon
    least = 0.5 if "start" in method else 0.99
    assert least * epsilon < spent <= epsilon


@pytest.fixture
def smallest(monkeypatch, tmp_path):
    """Give a test its own cache, few images and examples, and a judge that hardly learns."""
    for module in ("papers.experiments.run", "metrics.judge"):
        monkeypatch.setattr(f"dpkit.{module}.cache_dir", lambda: tmp_path)
    few = experiments.ComparisonScale((10.0,), 120, Protocol(epochs=1, held_out=20), 120)
    monkeypatch.setitem(experiments.SCALES, "small", few)
    monkeypatch.setattr(methods, "Matching", partial(Matching, batch=20))
    quick = Learning("digits", width=2, hidden=8, epochs=1, batch_size=256)
    monkeypatch.setitem(LEARNINGS, "digits", quick)


@pytest.mark.parametrize(
    "method",
    [pytest.param(one, marks=() if one in ("moments", "dp_cgan") else ALONE) for one in METHODS],
)
def test_each_method_runs_at_the_smallest_scale(method, monkeypatch, smallest):
    """One method's images train a CNN, the others' the quickest of the three networks."""
    if method != "moments":
        monkeypatch.setattr(experiments, "NETWORKS", {"cnn": logistic})
    parts = experiments.plan("mnist", **ONCE, scale="small")
    part, *_ = [one for one in parts if one.name.startswith(f"{method}-eps")]
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
        METHODS[name].make(task(), METHODS[name].settings(task()))(labels)
        for name in ("moments", "moments_jittered")
    )
    assert plain.shape == moved.shape == (20, 1, 28, 28)
    brightness = plain.mean((1, 2, 3)), moved.mean((1, 2, 3))
    np.testing.assert_allclose(*brightness, rtol=0.35)  # turned and resized by a tenth
    assert np.abs(plain - moved).mean() > 0.01


def test_fewer_records_are_drawn_by_a_public_seed():
    few, again = task(size=1_000).records(), task(size=1_000, seed=5).records()
    assert (few.n, few.checksum) == (1_000, again.checksum)
    with pytest.raises(ValueError, match="at most the 1437 images"):
        task(size=2_000).records()


def test_rows_of_stored_parts():
    stored = {
        f"moments-eps1-seed{seed}": {"values": {"cnn_accuracy": one}}
        for seed, one in enumerate((0.8, 0.9))
    }
    rows = {row["key"]: row[1.0] for row in tables.accuracies(stored)}
    assert (rows["moments"]["mean"], rows["moments"]["seeds"]) == (pytest.approx(85), 2)
    assert rows["dp_cgan"]["mean"] is None


def test_published_figures_name_their_protocol():
    for one in PUBLISHED:
        assert one.protocol in PROTOCOLS
        values = [value for points in one.accuracies.values() for value in points.values()]
        assert all(10 < value < 100 for value in values)
    assert [row["method"] for row in tables.published("mnist")][-2:] == ["DP-FETA", "FETA-Pro"]


def test_settings_that_were_settled_before_any_run_are_those_of_today_and_of_each_record():
    settled = records.read_json(experiments.SETTLED)
    digest = sha256(experiments.SETTLED.read_bytes()).hexdigest()
    for data in experiments.BENCH:
        planned = experiments.plan(data, **{**ONCE, "seeds": 3}, scale="paper")
        parts = {
            one.name: {key: value for key, value in one.settings.items() if key != "settled_sha256"}
            for one in planned
            if one.name.startswith("private_images")
        }
        assert set(parts) == set(settled[data])
        assert not [name for name in parts if differing(parts[name], settled[data][name])]
        stored = store.load("comparison", data)
        for name in set(stored) & set(parts):
            assert stored[name]["provenance"]["settings"]["settled_sha256"] == digest


def test_likeness_of_what_a_method_makes(smallest):
    parts = {one.name: one for one in experiments.plan("mnist", **ONCE, scale="small")}
    both = [
        parts[f"{method}-eps10-seed0-likeness"].compute().values
        for method in ("moments", "moments_jittered")
    ]
    for found in both:
        assert found["classifier_fid"] > 0
        assert min(found["precision"], found["recall"]) >= 0
        assert max(found["precision"], found["recall"]) <= 1 <= found["inception_score"] <= 10
    assert both[0] != both[1]


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


def test_the_classifier_of_mnist_is_stored_with_its_record():
    found = experiments.feature_classifier("mnist", device=CPU)
    assert found.accuracy > 0.99
    record = json.loads((experiments.FOLDER / "mnist.json").read_text())
    assert record["provenance"]["settings"]["type"] == "Learning"
    images = as_images(datasets.digits(split="test"), CPU)[:20]
    features = found.features(images)
    assert features.shape == (20, 128)
    assert (features >= 0).all()  # after a ReLU
    last = found.net[-1]
    with torch.no_grad():
        logits = torch.from_numpy(features).float() @ last.weight.T + last.bias
    assert (logits.softmax(1).numpy().argmax(1) == found.probabilities(images).argmax(1)).all()


def test_other_classifiers_are_trained_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("dpkit.metrics.judge.cache_dir", lambda: tmp_path)
    monkeypatch.setitem(LEARNINGS, "digits", replace(LEARNINGS["digits"], epochs=3))
    assert experiments.trained("digits", device=CPU).values["accuracy"] > 0.5
    images = as_images(datasets.digits(split="test"), CPU)[:5]
    features = experiments.feature_classifier("digits", device=CPU).features(images)
    assert features.shape == (5, 128)


@pytest.mark.parametrize("damage", [b"", b"x"])
def test_a_classifiers_weights_that_are_not_the_records_are_refused(tmp_path, monkeypatch, damage):
    for path in experiments.FOLDER.glob("mnist.*"):
        shutil.copy(path, tmp_path)
    weights = tmp_path / "mnist.safetensors"
    weights.write_bytes(damage + weights.read_bytes()[1:])
    monkeypatch.setattr(experiments, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"other weights than mnist\.json says"):
        experiments.feature_classifier("mnist", device=CPU)


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        *((IMAGES * 255, LABELS, "lie in"), (np.full_like(IMAGES, np.nan), LABELS, "NaN")),
        *((IMAGES[:, 0], LABELS, "must be"), (IMAGES, LABELS[:5], "must be")),
        (IMAGES, LABELS / 2, "integers"),
    ],
)
def test_images_for_the_benchmark_are_written_and_others_refused(tmp_path, images, labels, words):
    path = experiments.save_generated(tmp_path / "gen.npz", IMAGES, LABELS)
    with np.load(path) as stored:  # as the benchmark reads it
        assert (stored["x"].dtype, stored["y"].dtype) == (np.float32, np.int64)
        np.testing.assert_allclose(stored["x"], IMAGES, atol=1e-7)
        np.testing.assert_array_equal(stored["y"], LABELS)
    with pytest.raises(ValueError, match=words):
        experiments.save_generated(tmp_path / "other.npz", images, labels)
    assert [one.name for one in tmp_path.iterdir()] == ["gen.npz"]
