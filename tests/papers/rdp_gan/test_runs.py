"""RDP-GAN's runs and plans: what is computed, what is stored of it, and how it is named.

Runs use small networks on 40 made-up records; judges are stubs, or the real ones on the embedded
data. No real data, nothing stored outside a temporary folder.
"""

import json
from collections import Counter
from dataclasses import fields, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from dpkit.common.progress import silent
from dpkit.common.records import SCALES, write_json
from dpkit.papers.experiments import run as run_module
from dpkit.papers.experiments.run import Run
from dpkit.papers.rdp_gan import experiments, repaired, tasks
from dpkit.papers.rdp_gan import settings as settings_module
from dpkit.papers.rdp_gan.experiments import PUBLISHED, judged
from dpkit.papers.rdp_gan.settings import DCGAN, DP_GAN, SETTINGS, GradientNoise, Mlp, Tuning
from dpkit.papers.rdp_gan.tables import TITLES, ablation_rows
from dpkit.privacy import pld
from dpkit.privacy.sampling import PoissonSampling, ShuffledBatches
from dpkit.privacy.schedules import Constant, ExponentialDecay
from dpkit.training import Adam, Data

SIZE, JUDGED, POINTS = 40, 100, 20
SMALL: dict[str, Any] = {"network": Mlp(4), "latent_size": 3, "iterations": 6}
SMALL["discriminator_steps"] = 2
REPAIRED = replace(
    SETTINGS,
    noise=GradientNoise(ExponentialDecay(20.0, 0.1), 0.5),
    sampling=PoissonSampling(8),
    target_epsilon=1.0,
    **SMALL,
)
TUNED = replace(REPAIRED, tuning=Tuning(0.5, 1.0, every=2, count_noise=12.0), iterations=12)
PARTS = (3, 2)
QUICK = ("repaired", "loss-value", "tuned-census")
ITS_OWN = pytest.mark.slow("a reading whose record differs from run to run or is no JSON")


def small(settings):
    return replace(settings, sampling=ShuffledBatches(2), **SMALL)


def made_up(records, features):
    """A task on 40 records, four of each digit in turn; scores are simple shares."""
    rng = torch.Generator().manual_seed(0)
    rows = 2 * torch.rand(SIZE, features, generator=rng) - 1
    labels = torch.arange(SIZE) % 10
    if records == "census":
        rows = torch.eye(5)[torch.arange(SIZE) % 3] + torch.eye(5)[3 + torch.arange(SIZE) % 2]

    def accuracy(made, asked):
        return float((made[:, 0] > asked / 10).mean())

    def judge(made, asked):
        assert len(made) == len(asked) == (SIZE if records == "census" else JUDGED)
        return {"accuracy": accuracy(made, asked), "mean": float(np.mean(made))}

    return tasks.RdpGanTask(
        Data(rows, labels, SIZE),
        {f"{records} train": "0" * 64},
        accuracy,
        judge,
        lambda made, asked: float((made[:, 0] > 0).sum() % SIZE),
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    form = {"digits": {"classes": 10, "features": 6}}
    form["census"] = {"classes": 0, "features": sum(PARTS), "parts": PARTS}
    changed = {
        "task": lambda name, *, scale: made_up(name, form[name]["features"]),
        "CHANGES": form,
        "JUDGED": dict.fromkeys(SCALES, JUDGED),
        "CURVE_EVERY": 2,
        "CURVE_RECORDS": POINTS,
    }
    for name, instead in changed.items():
        monkeypatch.setattr(experiments, name, instead)
    return form


def run(settings, records="digits", *, seed=0, **more):
    return judged("key", records, settings, seed, "reduced", "cpu", silent, **more)


def plain(values):
    """The values as they come back from their file."""
    return json.loads(json.dumps(values, allow_nan=False))


AS_CODED = {"kept": (2, 4, 657), "by_digit": True}
RUNS = {
    **{name: partial(run, small(one), **AS_CODED) for name, one in PUBLISHED.items()},
    "census": partial(run, small(SETTINGS), "census", kept=(4,)),
    "repaired": partial(run, REPAIRED),
    **{"repaired-census": partial(run, REPAIRED, "census"), "tuned": partial(run, TUNED)},
    "tuned-census": partial(run, TUNED, "census"),
    "tuned-as-published": partial(run, replace(small(SETTINGS), tuning=Tuning(0.7, 0.5)), "census"),
}


def values_of(name, **changed):
    return RUNS[name](**changed).compute().values


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else ITS_OWN) for name in RUNS]
)
def test_what_is_stored_is_json_and_the_same_each_time(name, tmp_path):
    first, values = RUNS[name]().compute(), values_of(name)
    assert first.values == values
    path = write_json(tmp_path / "record.json", values)
    assert json.loads(path.read_text()) == values
    assert str(values["iterations"]) in values["scores"]
    assert set(values["curve"]) >= {"iterations", "accuracy", "noise"}
    lengths = {len(values["curve"][what]) for what in ("iterations", "accuracy", "noise")}
    assert lengths == {values["iterations"] // 2}
    assert (first.images, first.device) == (None, "cpu")
    assert first.data


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_runs_claim_what_was_claimed_and_prove_nothing(name):
    values = values_of(name)
    unsaid = ("none", "multiplicative", "dp-gan")  # no one said what the code's variants cost
    assert values["epsilon_claimed"] == (None if name in unsaid else 0.5)
    assert values["epsilon_proven"] == "inf"
    assert PUBLISHED[name].steps_allowed(public_size=60_000) == 5_000
    assert any("no guarantee" in one for one in values["assumptions"])
    assert sorted(values["scores"]) == ["2", "4", "6"]  # 657 is beyond the run
    assert values["discriminator_steps"] == 2


@pytest.mark.parametrize("name", ["repaired", "repaired-census", "tuned", "tuned-census"])
def test_repaired_runs_prove_no_more_than_they_claim_and_tell_their_noise(name):
    values = values_of(name)
    assert 0 < values["epsilon_proven"] <= values["epsilon_claimed"] == 1.0
    assert (values["delta"], values["adjacency"]) == (1e-5, "add-remove")
    iterations, noises = values["curve"]["iterations"], values["curve"]["noise"]
    if "tuned" in name:
        assert values["epsilon_proven"] == 1.0
        assert "filter" in values["method"]
        assert any("fixed before" in one for one in values["assumptions"])
        # the threshold of 1 is met by nothing: noise halves after iterations 2, 4, ...
        assert values["iterations"] < 12
        assert noises == [20.0 * 0.5**i for i in range(len(noises))]
        assert len(noises) >= 2
    else:
        ledger = REPAIRED.ledger(public_size=SIZE)
        assert values["epsilon_proven"] == pld.epsilon(ledger, delta=1e-5).epsilon
        schedule = REPAIRED.noise.schedule  # counted from 0: iteration 2 is the second
        assert (iterations, noises) == ([2, 4, 6], [schedule(1), schedule(3), schedule(5)])
        other = values_of(name, seed=1)
        assert values["scores"] != other["scores"]
        assert values["epsilon_proven"] == other["epsilon_proven"]


def test_a_run_that_would_overspend_computes_nothing_and_none_is_priced_by_a_plan_it_left(tmp_path):
    """One that is tuned and can afford nothing ends after 0 iterations."""
    dear = replace(REPAIRED, noise=GradientNoise(Constant(1.0), 0.5))
    with pytest.raises(ValueError, match="more than target_epsilon"):
        run(dear).compute()
    dear = replace(TUNED, noise=GradientNoise(Constant(0.6), 0.5))
    for records in ("digits", "census"):
        values = run(dear, records).compute().values
        assert (values["iterations"], values["epsilon_proven"]) == (0, 1.0)
        assert list(values["scores"]) == ["0"]
        assert values["curve"] == {"iterations": [], "accuracy": [], "noise": []}
        write_json(tmp_path / "record.json", values)
    # `adaptive.tuned` refuses a test that is free; nothing else may price such a run
    free = run(replace(TUNED, tuning=Tuning(0.5, 1.0, count_noise=0.0)))
    with pytest.raises(ValueError, match="must be a finite number > 0, got 0"):
        free.compute()
    with pytest.raises(ValueError, match="tuned"):
        free.prices({})


def test_published_tuning_reads_the_papers_accuracy_within_the_papers_budget():
    """tau 0.5 is met by no step: 0.7 of the noise after each, until Theorem 4's total is spent."""
    values = values_of("tuned-as-published")
    assert (values["epsilon_proven"], values["epsilon_claimed"]) == ("inf", 0.5)
    assert values["iterations"] == len(values["curve"]["noise"]) * 2


def test_a_gan_a_digit_sees_its_own_digit_alone(monkeypatch):
    """Ten GANs; curves by digit and their mean; records as asked for, a tenth of each digit.

    A tenth of the images is no digit's own number, neither of MNIST's nor of scikit-learn's: here
    there are three images of 0 and five of 1.
    """
    sizes, given, asked = [], [], []
    real, task = run_module.train, made_up("digits", 6)
    labels = task.data.labels.clone()
    labels[0] = 1
    whole = task.data._replace(labels=labels)

    def spied(step, gan, data, **more):
        assert torch.equal(data.features, whole.features[labels == len(sizes)])
        assert not data.labels.any()
        assert more["settings"].classes == 0
        assert gan.discriminator.body[0].in_features == 6
        sizes.append((len(data.features), data.public_size))
        return real(step, gan, data, **more)

    def accuracy(made, labels):
        asked.append(set(labels.tolist()))
        return task.accuracy(made, labels)

    monkeypatch.setattr(run_module, "train", spied)
    judge = lambda made, told: given.append((made, told)) or {"accuracy": 0}  # noqa: E731
    task = task._replace(data=whole, judge=judge)
    seen = task._replace(accuracy=accuracy)
    monkeypatch.setattr(experiments, "task", lambda name, *, scale: seen)
    curve = run(small(SETTINGS), kept=(3,), by_digit=True).compute().values["curve"]
    assert sizes == [(3, 3), (5, 5), *[(4, 4)] * 8]
    assert asked == [{digit} for digit in range(10) for _ in range(3)]
    assert np.shape(curve["by_digit"]) == (10, 3)
    assert curve["accuracy"] == pytest.approx(np.mean(curve["by_digit"], axis=0).tolist())
    assert curve["iterations"] == [2, 4, 6]
    assert [len(made) for made, _ in given] == [JUDGED, JUDGED]
    for _, told in given:
        assert Counter(told.tolist()) == dict.fromkeys(range(10), JUDGED // 10)


def test_samples_are_five_images_a_label_in_their_whole_range_and_never_table_records(quick):
    quick["digits"]["features"] = 784
    for part in (run(REPAIRED, samples=True), run(small(SETTINGS), samples=True, by_digit=True)):
        images = part.compute().images
        assert (images.shape, images.dtype) == ((50, 28, 28), np.uint8)
    for name in ("repaired-census", "tuned-census", "census"):
        assert RUNS[name](samples=True).compute().images is None
    images = np.stack([np.full(784, -1 + 0.02 * i, np.float32) for i in range(100)])
    labels = np.arange(100) % 10
    shown = experiments._shown(images, labels)
    first = np.round(127.5 * 0.02 * np.arange(50))
    assert np.abs(shown[:, 0, 0].astype(float) - first).max() <= 1
    ends = experiments._shown(np.tile(np.array([[-1.0], [1.0]], np.float32), (50, 784)), labels)
    assert {int(one) for one in np.unique(ends)} == {0, 255}


@pytest.mark.parametrize("name", ["loss-value", "repaired-census"])
def test_a_record_describes_the_networks_that_were_trained(name, monkeypatch):
    """Their form and declared size: without these its epsilon cannot be computed again."""
    used, new = [], experiments.algorithm.new_gan
    spied = lambda settings, **more: used.append(settings) or new(settings, **more)  # noqa: E731
    monkeypatch.setattr(experiments.algorithm, "new_gan", spied)
    assert values_of(name)["public_size"] == SIZE
    told = RUNS[name]().settings
    for what in ("features", "classes", "parts"):
        assert {json.dumps(getattr(one, what)) for one in used} == {json.dumps(told[what])}


# The judges on the embedded data.


def codes(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, rows) for size in tasks.SIZES], 1)


def pixels(rows=200):
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (rows, 784)).astype(np.float32), np.arange(rows) % 10


@pytest.mark.parametrize("name", ["digits", "census"])
def test_scores_of_good_and_of_collapsed_records_can_be_stored(name):
    task = tasks.task(name, scale="reduced")
    good = pixels() if name == "digits" else (codes(), np.zeros(200))
    for made in (good, (good[0] * 0, good[1])):
        values, right = task.judge(*made), task.correct(*made)
        assert plain(values) == values
        assert 0 <= values["accuracy"] == task.accuracy(*made) <= 1
        assert 0 <= right == int(right) <= len(task.data.features)
    assert len(task.data.features) == task.data.public_size
    assert task.data.features.dtype == torch.float32


@pytest.mark.parametrize("name", ["digits", "census"])
def test_one_private_record_moves_the_tested_count_by_at_most_one(name, monkeypatch):
    """What its noise is calibrated to; embedded sets with records left out, one after another."""
    train, test = (getattr(tasks.datasets, name)(split=split) for split in ("train", "test"))
    monkeypatch.setattr(tasks, "_judge_of_digits", lambda scale: None)
    found = []
    for start in range(25 if name == "digits" else 5):  # without the first, the first two, ...
        if name == "digits":
            part = train._replace(pixels=train.pixels[start:300], labels=train.labels[start:300])
        else:
            part = train.iloc[start:300]
            part.attrs.update(test.attrs)
        parts = {"train": part, "test": test}
        monkeypatch.setattr(tasks.datasets, name, lambda *, split, parts=parts: parts[split])
        made = pixels() if name == "digits" else (codes(), np.zeros(200))
        found.append(getattr(tasks, f"_{name}")("reduced").correct(*made))
    assert {abs(int(a - b)) for a, b in pairwise(found)} == {0, 1}


# The experiments.


@pytest.fixture
def planned(monkeypatch):
    """All parts by table, with repaired settings noted and not computed."""
    asked = []

    def noted(records, **wanted):
        asked.append({"records": records, **wanted})
        own = Adam(Constant(wanted["target_epsilon"] / 1_000))  # what ablations exchange
        chosen = json.dumps(asked[-1], sort_keys=True)
        return replace(REPAIRED, discriminator_optimizer=own, chosen=chosen)

    monkeypatch.setattr(experiments, "repaired", noted)

    def parts(table, *, scale="paper", seeds=3):
        return experiments.PLANS[table](scale=scale, seeds=seeds, device="cpu", progress=silent)

    return parts, asked


@pytest.mark.parametrize("scale", ["paper", "reduced"])
@pytest.mark.parametrize("table", experiments.PLANS)
def test_parts_have_names_of_their_own_and_settings_that_can_be_compared(table, scale, planned):
    parts, _ = planned
    first, again = parts(table, scale=scale), parts(table, scale=scale)
    names = [part.name for part in first]
    assert len(set(names)) == len(names)
    assert all(name == name.strip().lower() and "/" not in name for name in names)
    for one, other in zip(first, again, strict=True):
        assert one.name == other.name
        assert plain(one.settings) == one.settings == other.settings
        assert one.name.endswith(f"seed{one.seed}")
    described = Counter(json.dumps([part.settings, part.seed], sort_keys=True) for part in first)
    assert max(described.values()) == 1  # no run is made twice under two names


@pytest.mark.parametrize(("table", "records"), [("table_4", "digits"), ("table_5", "census")])
def test_every_method_has_its_seeds_and_the_run_without_privacy_one(table, records, planned):
    """And more seeds add parts, and change none."""
    parts, asked = planned
    many = {part.name: part.settings for part in parts(table, seeds=4)}
    found = Counter(name.rpartition("-seed")[0] for name in many)
    seeded = {"loss-value", "multiplicative", "output-error", "dp-gan", "dcgan-loss-value"}
    seeded |= {f"repaired-{name}-{epsilon}" for name in repaired.DECAYS for epsilon in ("0.5", "5")}
    assert {found[name] for name in seeded} == {4}
    assert found["none"] == 1
    assert {found[name] for name in found if name.startswith("ant")} <= {1}
    size = 60_000 if table == "table_4" else 20_000
    assert {(one["public_size"], one["records"]) for one in asked} == {(size, records)}
    few = {part.name: part.settings for part in parts(table, seeds=1)}
    assert few.items() < many.items()


def test_sweeps_have_other_rates_than_the_tables(planned):
    parts, asked = planned
    for table, records in (("figure_9", "census"), ("figure_10", "digits")):
        asked.clear()
        found = parts(table)
        rates = {(one["decay_name"], one["rate"]) for one in asked}
        assert Counter(part.seed for part in found) == dict.fromkeys(range(3), len(rates))
        assert not rates & set(repaired.RATES[records].items())
        assert {one["target_epsilon"] for one in asked} == {0.5}


@pytest.mark.parametrize("records", repaired.RECORDS)
def test_a_reduced_tuned_run_tests_its_accuracy_at_least_once(records):
    settings = experiments._repaired(records, "reduced", 5.0, decay_name="ant")
    assert settings.iterations >= settings.tuning.every


def test_the_largest_losses_are_seen_before_each_step(quick, monkeypatch):
    """One record's is the largest; the whole batch's loss is that of the records of the run."""
    seen = []
    real = experiments.algorithm.loss_value_step

    def spied(gan, features, labels, **more):
        with torch.no_grad():
            losses = experiments.called_real(gan.discriminator(features, labels))
        record = real(gan, features, labels, **more)
        seen.append((losses.max().item(), losses.mean().item(), record.discriminator_loss))
        return record

    monkeypatch.setattr(experiments.algorithm, "loss_value_step", spied)
    settings = replace(small(settings_module.NON_PRIVATE), sampling=ShuffledBatches(16))
    own = {name: replace(settings, **form | {"classes": 0}) for name, form in quick.items()}
    found = [
        experiments._largest_loss(
            Run("rdp_gan", "key", own[records], 0, SIZE, "reduced", records, "cpu")
        ).values
        for records in ("digits", "digits", "census")
    ]
    assert found[0] == found[1]
    assert plain(found[2]) == found[2]
    assert len(seen) == 3 * 12
    largest = [max(column) for column in zip(*seen[:12], strict=True)]
    assert [found[0][n] for n in ("one_record", "mean_of_a_batch", "batch_total")] == largest


# The ablations.


OWN_RATES = {"generator_optimizer", "discriminator_optimizer"}
CHANGED = {
    **{"dp-gan-no-noise": (DP_GAN, {"noise"}), "dp-gan-no-norm": (DP_GAN, {"noise"})},
    "dp-gan-longer": (DP_GAN, {"discriminator_steps", "iterations"}),
    **{"dcgan-label": (DCGAN, {"label_scale"}), "dcgan-rate": (DCGAN, OWN_RATES)},
    "dcgan-both": (DCGAN, OWN_RATES | {"label_scale"}),
    "none-one-gan": (settings_module.NON_PRIVATE, set()),
}


def differing(one, other):
    return {f.name for f in fields(one) if getattr(one, f.name) != getattr(other, f.name)}


def test_each_run_changes_what_its_name_says_and_nothing_else():
    runs = experiments.other_baselines("paper") | experiments.other_labels("paper")
    assert set(runs) == set(CHANGED)
    for key, settings in runs.items():
        first, changed = CHANGED[key]
        assert differing(settings, first) == changed, key
    of_table_4 = {"repaired-constant-5", "repaired-constant-0.5", "dp-gan", "dcgan-loss-value"}
    planned = {*runs, *experiments.other_settings("small"), *of_table_4, "none"}
    assert planned == set(TITLES)


def test_repaired_runs_with_the_others_settings_keep_their_own_epsilon():
    size = 60_000
    made = partial(repaired.repaired, "digits", public_size=size)
    low, high = made(target_epsilon=0.5), made(target_epsilon=5.0)
    found = experiments.other_settings("paper")
    for key, first, changed in (
        ("repaired-5-batch", high, {"noise", "sampling"}),
        ("repaired-5-rate", high, {"discriminator_optimizer"}),
        ("repaired-5-both", low, {"noise", "target_epsilon"}),
        ("repaired-0.5-both", high, {"noise", "target_epsilon"}),
    ):
        settings, epsilon = found.pop(key), float(key.split("-")[1])
        assert differing(settings, first) == changed | {"chosen"}  # which says what is reused
        spent = pld.epsilon(settings.ledger(public_size=size), delta=1e-5).epsilon
        assert 0.99 * epsilon < spent <= epsilon
    assert not found


def test_the_baselines_are_trained_digit_by_digit_as_in_table_4():
    asked = {"scale": "small", "seeds": 2, "device": "cpu", "progress": silent}
    parts = {part.name: part.settings for part in experiments.PLANS["ablations"](**asked)}
    by_digit = {name for name, said in parts.items() if said["by_digit"]}
    assert by_digit == {f"dp-gan-{change}-seed0" for change in ("no-noise", "no-norm", "longer")}
    assert "repaired-5-both-seed1" in parts
    assert "dcgan-both-seed1" not in parts


def test_rows_take_each_run_at_its_end_and_leave_out_what_is_not_stored():
    def part(score, iterations):
        scores = {"accuracy": score, "spread": 0.5, "trained_on_generated": score / 2}
        others = dict.fromkeys(scores, 0.0)
        return {"values": {"iterations": iterations, "scores": {"5": others, "9": scores}}}

    stored = {f"repaired-5-both-seed{n}": part(0.6 + n / 10, 9) for n in range(3)}
    (row,) = ablation_rows(stored | {"repaired-5-both-later": part(0.0, 9)})
    assert (row["run"], row["seeds"]) == ("epsilon 5, batch 128, rate 0.001", 3)
    assert row["accuracy"] == pytest.approx(0.7)
    assert row["accuracy_range"] == pytest.approx((0.6, 0.8))
    assert row["trained_on_generated"] == pytest.approx(0.35)
