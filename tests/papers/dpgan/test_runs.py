"""dpGAN's runs on small images: what is stored, resumed and planned, and the tables made of it."""

import json
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dpkit.common.progress import silent
from dpkit.common.records import SCALES
from dpkit.papers import dpgan as paper
from dpkit.papers.dpgan import MNIST, SETTINGS, experiments, scores, tables, variants
from dpkit.papers.dpgan.scores import material
from dpkit.papers.dpgan.semi_supervised import SemiSupervisedLearning
from dpkit.papers.dpgan.tables import MOST
from dpkit.papers.dpgan.variants import CONFIGURATIONS
from dpkit.papers.experiments import run as run_module
from dpkit.papers.experiments import store
from dpkit.papers.experiments.run import Run
from dpkit.privacy import pld, rdp
from dpkit.privacy.sampling import SHUFFLED_AS_POISSON, PoissonSampling
from dpkit.training.device import generator_on

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
SIZE = MNIST.private_examples
BESIDE = pytest.mark.slow("a stop just beside a checkpoint, or at an end of either training")


def tiny(settings, **changes):
    """Digits, networks of one or two channels, three iterations of two steps."""
    small = {"critic_channels": (1, 2, 2), "generator_channels": (2, 1, 1), "latent_size": 4}
    small |= {"private_examples": 1_337, "public_examples": 100, "critic_steps": 2, "max_steps": 6}
    small["warm_start"] = min(settings.warm_start, 2)
    sampling = replace(settings.sampling, expected_batch_size=8)
    return replace(settings, sampling=sampling, **{**small, **changes})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Caches apart, few images, a classifier that needs no training; the cache's folder."""

    def probabilities(images):
        parts = images.flatten(1).double().unflatten(1, (-1, 28)).mean(2)[:, :10]
        return (20 * parts).softmax(1).numpy()

    judge = SimpleNamespace(probabilities=probabilities, accuracy=0.9)
    monkeypatch.setattr(scores, "classifier", lambda records, device: judge)
    monkeypatch.setattr(run_module, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(experiments, "JUDGED", {"small": 40})
    quick = replace(scores.DISCRIMINATING["digits"], iterations=3)
    monkeypatch.setattr(scores, "DISCRIMINATING", {"digits": quick})
    return tmp_path / "runs" / "dpgan"


def run_of(settings, *, progress=silent):
    how = settings, 0, settings.private_examples, "small", "digits", "cpu", progress
    return Run("dpgan", "all-repaired", *how, every=experiments.EVERY)


def same(one, other, *, buffers=True):
    """Whether two networks have the same parameters, and buffers if asked."""
    lists = [x.state_dict().values() if buffers else x.parameters() for x in (one, other)]
    return all(torch.equal(a, b) for a, b in zip(*lists, strict=True))


def test_a_run_stores_scores_settings_and_both_epsilons(quick: Path):
    run = run_of(tiny(variants.repaired("all", scale="reduced")))
    result = experiments.compute(run)
    values = json.loads(json.dumps(result.values, allow_nan=False))
    assert (values["steps"], values["iterations"], values["warm_start"]) == (6, 3, 2)
    assert 1 <= values["inception"] <= 10
    assert 0 <= values["js"] <= MOST
    assert (values["images"], values["classifier_accuracy"]) == (40, 0.9)
    found = pld.epsilon(run.settings.ledger(public_size=1_337, steps=6), delta=1e-5)
    assert values["epsilon_claimed"] == 4
    assert values["epsilon_proven"] == found.epsilon <= 4
    assert values["epsilon_lower"] == found.lower
    assert values["epsilon_charged"] is None
    assert experiments.PUBLIC in values["assumptions"]
    assert result.images is not None
    assert (result.images.shape, result.images.dtype) == ((40, 28, 28), np.uint8)
    assert set(result.data) == {"digits train", "digits test"}
    assert experiments.gan_part(run).settings["noise_multiplier"] == run.settings.noise_multiplier
    assert [path.suffix for path in quick.iterdir()] == [".safetensors"]  # no state of the noise


def test_the_cached_generator_is_the_trained_one(quick: Path):
    run = run_of(tiny(variants.published("all", scale="reduced")))
    trained = experiments.trained(run)
    (path,) = quick.glob("*.safetensors")
    before = path.stat().st_mtime_ns
    assert same(trained, experiments.released(run))
    assert path.stat().st_mtime_ns == before  # read, not trained anew
    assert not trained.training
    other = run._replace(settings=replace(run.settings, noise_multiplier=2.0))
    assert not same(trained, experiments.released(other))


@pytest.mark.parametrize(
    "stop",
    [pytest.param(1, marks=BESIDE), 3, 7, pytest.param(9, marks=BESIDE)],
    ids=lambda n: f"after {n}",
)
def test_an_interrupted_run_goes_on_where_it_stopped(quick: Path, monkeypatch, stop: int):
    """Four steps of warm start and six private ones, interrupted in either."""
    settings = tiny(variants.repaired("grouping-adaptive-warm", scale="reduced"))
    whole = experiments.trained(run_of(settings))
    for path in quick.iterdir():
        path.unlink()
    monkeypatch.setattr(experiments, "EVERY", 2)
    seen = []

    def counted(records, /, *, total, desc, most=None):
        for record in records:
            if len(seen) == most:
                raise KeyboardInterrupt
            seen.append(record.step)
            yield record

    with pytest.raises(KeyboardInterrupt):
        experiments.trained(run_of(settings, progress=partial(counted, most=stop)))
    seen.clear()
    assert same(whole, experiments.trained(run_of(settings, progress=counted)))
    assert len(seen) < 10


def test_codes_that_are_judged_are_not_those_of_training(quick: Path, monkeypatch):
    seen, generate = [], experiments.algorithm.generate
    spy = lambda net, codes: seen.append(codes) or generate(net, codes)  # noqa: E731
    monkeypatch.setattr(experiments.algorithm, "generate", spy)
    experiments.compute(run_of(tiny(variants.repaired("none", scale="reduced"))))
    (codes,) = seen
    assert codes.shape == (40, 4)
    training = generator_on(CPU, reproducible_seed=0)
    assert not torch.equal(codes, torch.randn(40, 4, generator=training))


def test_private_and_public_images_are_apart():
    found = material("digits")
    assert (len(found.private), len(found.public), len(found.test)) == (1_337, 100, 360)
    assert found.train.shape[1:] == (1, 28, 28)
    assert torch.equal(torch.cat((found.private, found.public)), found.train)
    assert -1 <= found.train.min() < found.train.max() <= 1
    assert len(found.public_labels) == 100
    with pytest.raises(ValueError, match="records must be one of mnist, digits"):
        material("letters")
    with pytest.raises(ValueError, match="must be 1337 and 100 of digits"):
        experiments.trained(run_of(tiny(SETTINGS, private_examples=49_000)))


def test_what_is_claimed_charged_and_proven():
    old = experiments.priced(SETTINGS, steps=3_120)
    assert old["epsilon_claimed"] == 4
    assert 4 < old["epsilon_charged"] < 4.04
    assert 1_000 < old["epsilon_if_poisson"] < old["epsilon_proven"]
    assert old["epsilon_lower"] is None  # a bound from above is none from below
    assert old["if_poisson_adjacency"] == "add-remove"
    assert SHUFFLED_AS_POISSON in old["if_poisson_assumptions"]
    assert old["adjacency"] == "replace-one"  # of its passes, which assume no Poisson batches
    assert experiments.PUBLIC in old["assumptions"]
    assert SHUFFLED_AS_POISSON not in old["assumptions"]
    plain = experiments.priced(paper.NON_PRIVATE, steps=10)
    assert (plain["epsilon_claimed"], plain["epsilon_proven"]) == (None, "inf")
    fixed = experiments.priced(variants.repaired("grouping", scale="paper"), steps=10)
    assert experiments.PUBLIC not in fixed["assumptions"]
    warm = experiments.priced(variants.repaired("warm", scale="paper"), steps=10)
    assert experiments.PUBLIC in warm["assumptions"]
    assert SHUFFLED_AS_POISSON not in warm["assumptions"]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_three_runs_of_a_configuration(name: str, scale: str):
    """As many steps each; matched costs what published does if all batches are Poisson, repaired no
    more than is claimed."""
    old, matched, repaired = (
        made(name, scale=scale)
        for made in (variants.published, variants.matched, variants.repaired)
    )
    size = old.private_examples
    steps = old.steps_allowed(public_size=size)
    of_paper = 4 * (560 if old.charged_groups == 7 else 780)
    assert steps == {"paper": of_paper, "reduced": 2_000, "small": 8}[scale]
    for other in (matched, repaired):
        assert other.steps_allowed(public_size=size) == steps
        assert isinstance(other.sampling, PoissonSampling)
        assert (other.noise_divisor, other.warm_start) == (1, old.warm_start)
        assert other.chosen is not None
    spent = [
        rdp.epsilon(one.poisson_ledger(public_size=size, steps=steps), delta=1e-5).epsilon
        for one in (old, matched, repaired)
    ]
    assert spent[1] == pytest.approx(spent[0], rel=1e-9)
    assert 0.995 * repaired.target_epsilon < spent[2] <= repaired.target_epsilon == 4
    assert matched.target_epsilon == pytest.approx(spent[0], abs=1e-3)


@pytest.mark.parametrize("scale", SCALES)
def test_runs_by_the_text_clip_once_and_differ_by_where_the_noise_is(scale: str):
    on_sum, on_examples, snapshot = variants.others(scale=scale).values()
    assert (on_sum.parts, on_sum.charged_groups, on_sum.noise_divisor) == (1, 1, 1)
    batch, size = on_sum.expected_batch_size, on_sum.private_examples
    wider = replace(on_sum, noise_multiplier=on_sum.noise_multiplier * batch**0.5)
    stds = on_examples.noise_stds(on_examples.clipping)
    assert stds == pytest.approx(wider.noise_stds(wider.clipping))
    ledgers = [one.poisson_ledger(public_size=size, steps=8) for one in (on_examples, wider)]
    one, other = (rdp.epsilon(ledger, delta=1e-5).epsilon for ledger in ledgers)
    assert one == pytest.approx(other)
    assert snapshot == replace(variants.published("all", scale=scale), generator_trained=False)


def test_scales():
    """At the paper's they are the paper's settings; reduced is narrower and shorter."""
    assert variants.published("all", scale="paper") == SETTINGS
    assert variants.published("grouping", scale="paper") == replace(MNIST, warm_start=0)
    repaired = variants.repaired("all", scale="paper")
    assert repaired.clipping == paper.REPAIRED.clipping
    assert repaired.noise_multiplier == pytest.approx(paper.REPAIRED.noise_multiplier, abs=2e-3)
    small = variants.published("all", scale="reduced")
    assert small.critic_channels == (16, 32, 64)
    assert (small.max_steps, small.warm_start) == (2_000, 200)
    assert variants.sized(paper.NON_PRIVATE, scale="reduced").max_steps == 2_000
    for call, asked, words in (
        (variants.published, {"name": "all", "scale": "huge"}, "scale must be one of paper, red"),
        (variants.repaired, {"name": "both", "scale": "paper"}, "name must be one of none"),
    ):
        with pytest.raises(ValueError, match=words):
            call(**asked)


def test_the_snapshot_leaves_the_generator_as_it_began(quick: Path):
    settings = tiny(variants.published("all", scale="reduced"), generator_trained=False)
    start = paper.new_gan(settings, seed=0, device=CPU).generator_net
    assert same(start, experiments.trained(run_of(settings)), buffers=False)


@pytest.mark.parametrize("read", ["public", "private"])
def test_training_reads_its_own_images_alone(quick: Path, monkeypatch, read: str):
    """A warm start those that are public, which costs nothing; private steps the private ones."""
    private = tiny(variants.repaired("none", scale="reduced"))
    public = tiny(variants.public_alone(scale="reduced"), max_steps=0, warm_start=2)
    settings, found = private if read == "private" else public, []
    real, others = material("digits"), {"private", "public", "train", "test"} - {read}
    for turned in ((), others, {read}):
        changed = {name: -getattr(real, name) for name in turned}
        monkeypatch.setattr(experiments, "material", lambda _, own=changed: real._replace(**own))
        for path in quick.glob("*"):
            path.unlink()
        found.append(deepcopy(experiments.trained(run_of(settings))))
    assert same(found[0], found[1], buffers=False)
    assert not same(found[0], found[2], buffers=False)
    if read == "public":
        assert experiments.priced(settings, steps=0)["epsilon_proven"] == 0


def classified(key, gan, learning, size=20):
    run = Run("dpgan", f"{key}-n20", learning, 0, size, records="digits", device_name="cpu")
    return experiments.classified(run, gan)


@pytest.mark.parametrize("kind", ["supervised", "semi-supervised"])
def test_classifiers_of_few_labels(quick: Path, kind: str):
    settings = tiny(variants.repaired("all", scale="reduced"))
    gan = run_of(settings) if kind == "semi-supervised" else None
    learning = SemiSupervisedLearning(iterations=6, batch_size=4, width=1)
    one = classified(kind, gan, learning)
    values = one.compute().values
    assert values["labels"] == 20
    assert 0 <= values["accuracy"] <= 1
    assert ("epsilon_proven" in values) == ("gan" in one.settings) == (gan is not None)
    assert one.name == f"{kind}-n20-seed0"
    with pytest.raises(ValueError, match=r"labels must lie in \[1, 100\]"):
        classified(kind, gan, learning, size=101).compute()


def test_the_baseline_sees_the_labelled_images_that_the_other_sees(quick: Path):
    """With no share of generated images both are right as often: batches and weights agree."""
    learning = SemiSupervisedLearning(iterations=6, batch_size=4, width=1, share=0.0)
    gan = run_of(tiny(variants.repaired("all", scale="reduced")))
    found = [classified("one", one, learning).compute().values for one in (None, gan)]
    assert found[0]["accuracy"] == found[1]["accuracy"]


def blobs(level, count=60):
    rng = generator_on(CPU, reproducible_seed=int(10 * level) + 5)
    return (level + 0.1 * torch.randn(count, 1, 28, 28, generator=rng)).clamp(-1, 1)


def test_the_discriminator_tells_apart_what_differs_and_nothing_else():
    settings = replace(scores.DISCRIMINATING["digits"], iterations=40)
    real, made = scores.told_apart(blobs(0.5), blobs(-0.5), settings=settings, seed=0)
    assert (len(real), len(made)) == (30, 30)
    assert real.min() > 0.9 > 0.1 > made.max()
    settings = replace(settings, iterations=5)
    real, made = scores.told_apart(blobs(0.5), blobs(0.5), settings=settings, seed=0)
    assert (made - 0.5).abs().max() < 0.25
    with pytest.raises(ValueError, match="made must be an integer >= 2, got 1"):
        scores.told_apart(blobs(0.5), blobs(0.5, 1), settings=settings, seed=0)
    with pytest.raises(ValueError, match="iterations must be an integer >= 1"):
        scores.Discriminating(iterations=0)


def test_scores_are_of_the_generated_images(quick: Path, monkeypatch):
    """The JS score is the mean over what is said of held-out generated images."""
    said = torch.tensor([0.9, 1.0]), torch.tensor([0.0, 0.5])
    monkeypatch.setattr(scores, "told_apart", lambda *args, **kwargs: said)
    values = scores.judged(blobs(0.0), records="digits", seed=0)
    assert values["js"] == pytest.approx(MOST / 2)
    assert values["js_real"] != values["js"]
    assert values["told_apart"] == 1.0


def stored(values, **more):
    return {name: {"values": {**more, **one}} for name, one in values.items()}


def stored_runs(values):
    """Parts as a run of their name stores them, of the reduced length, but for their scores."""
    parts = {}
    for name, scores_of in values.items():
        key = name.rpartition("-seed")[0]
        settings = variants.sized(paper.NON_PRIVATE, scale="reduced")
        if key != "gan":
            configuration, _, arm = key.rpartition("-")
            settings = variants.ARMS[arm](configuration, scale="reduced")
        parts[name] = {"values": {**experiments.priced(settings, steps=2_000), **scores_of}}
    return parts


def test_table_2_sets_scores_beside_the_epsilons():
    real = stored({"real": {"inception": 9.5, "js": 0.0}})
    scored = {"gan-seed0": 8.0, "all-published-seed0": 6.0, "all-published-seed1": 7.0}
    scored["all-matched-seed0"] = 5.0
    runs = stored_runs({name: {"inception": score} for name, score in scored.items()})
    found = tables.table_2(real | runs)
    rows = {row["setting"]: row for row in found}
    assert rows["Real images"]["mean"] == 9.5
    assert {rows["Real images"][f"epsilon {what}"] for what in ("claimed", "proven")} == {None}
    assert rows["GAN"]["epsilon proven"] == "inf"
    old, matched = rows["dpGAN, as published"], rows[tables.TITLES["all-matched"]]
    assert (old["mean"], old["lowest"], old["highest"], old["seeds"]) == (6.5, 6.0, 7.0, 2)
    assert (old["epsilon claimed"], old["adjacency"]) == (4, "replace-one")
    assert old["epsilon if Poisson"] == pytest.approx(matched["epsilon proven"], rel=1e-9)
    assert matched["epsilon if Poisson"] == matched["epsilon proven"] < old["epsilon proven"]
    passes = SETTINGS.ledger(public_size=SIZE, steps=2_000)
    assert old["epsilon proven"] == pld.epsilon(passes, delta=1e-5).epsilon
    assert rows[tables.TITLES["all-repaired"]]["mean"] is None
    assert len(found) == 6
    with pytest.raises(ValueError, match="score must be one of inception, js, got 'jss'"):
        tables.table_2(real, score="jss")


@pytest.mark.parametrize("table", ["table_2", "table_6", "table_9"])
def test_the_arms_keep_their_promise(table: str):
    """Two stored runs of one epsilon, and one within what is claimed."""
    found = store.load("dpgan", table, scale="reduced")
    values = {name: each["values"] for name, each in found.items()}
    priced = {name: each for name, each in values.items() if "epsilon_proven" in each}
    assert {arm for arm in ("repaired", "matched") if any(f"-{arm}-" in name for name in priced)}
    for name, values in priced.items():
        if "-repaired-" in name:
            assert values["epsilon_proven"] <= values["epsilon_claimed"] == 4
        if "-matched-" in name:
            old = priced[name.replace("matched", "published")]
            assert values["epsilon_proven"] == pytest.approx(old["epsilon_if_poisson"], rel=1e-6)
            assert old["epsilon_proven"] > values["epsilon_proven"]


def test_table_6_sets_the_text_beside_what_was_measured():
    accuracies = {"supervised-n100-seed0": 0.7, "supervised-n1000-seed0": 0.95}
    accuracies |= {"gan-n100-seed0": 0.6, "gan-n100-seed1": 0.8, "gan-n1000-seed0": 0.9}
    found = tables.table_6(stored({name: {"accuracy": one} for name, one in accuracies.items()}))
    rows = {(row["setting"], row["labels"]): row for row in found}
    assert len(rows) == 4 * 5
    few = rows["GAN", 100]
    assert (few["paper, supervised"], few["paper"]) == (0.720, 0.567)
    assert (few["supervised"], few["mean"], few["seeds"]) == (0.7, pytest.approx(0.7), 2)
    assert rows["GAN", 1_000]["mean"] == 0.9
    assert rows["dpGAN, as published", 1_000]["paper"] == 0.903
    assert rows["dpGAN, as published", 1_000]["mean"] is None


def test_table_9_has_a_row_for_each_configuration_and_arm():
    scored = {"none-repaired-seed0": {"inception": 2}, "all-repaired-seed0": {"inception": 5}}
    found = tables.table_9(stored_runs(scored))
    rows = {(row["configuration"], row["arm"]): row for row in found}
    assert len(rows) == 8 * 3 + 3  # and `variants.others`
    assert rows["none", "repaired"]["mean"] == 2.0
    assert 3 < rows["none", "repaired"]["epsilon proven"] < 4
    assert rows["none", "repaired"]["paper"] == 6.59
    assert rows["grouping-adaptive-warm", "repaired"]["paper"] == 8.64
    assert rows["all", "repaired"]["paper"] is None
    assert rows["adaptive", "published"]["mean"] is None
    assert rows["all", "matched"]["grouping"] == "clusters"
    assert rows["all", "matched"]["warm"]
    by_js = tables.table_9(stored_runs({"none-repaired-seed0": {"js": 0.3}}), score="js")
    assert {row["paper"] for row in by_js} == {None}
    assert by_js[2]["mean"] == 0.3


def test_table_4_and_5():
    rows = tables.table_2(stored({"real": {"js": 0.01}}), score="js")
    assert rows[0]["mean"] == 0.01
    lsun = tables.table_5()
    assert len(lsun) == 8
    assert {row["labels"] for row in lsun} == {5_000, 15_000, 25_000, 50_000}
