"""AdaDP's step with each noise shape, its price, and its plans on the embedded digits."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from short_runs import BATCH, RECORDS, assert_covered, checked

from dpkit import datasets
from dpkit.common.progress import silent
from dpkit.papers.adadp import algorithm, experiments, levels, settings, tables
from dpkit.papers.adadp.settings import ADADP, Flat, Published, Repaired
from dpkit.papers.experiments import run as run_module
from dpkit.privacy import pld, rdp
from dpkit.privacy.sampling import PoissonSampling
from dpkit.privacy.schedules import Constant
from dpkit.training import Data, Sgd, generator_on, train

CPU = torch.device("cpu")
TINY = replace(
    ADADP,
    **{"noise": Flat(0.1), "noise_multiplier": 1.0, "sampling": PoissonSampling(6)},
    **{"optimizer": Sgd(Constant(0.5)), "widths": (8, 6, 3), "pca_noise": None},
    **{"target_epsilon": 1e3, "max_steps": 20},
)
NOISES = {
    **{"flat": Flat(0.1), "published": Published(0.1, threshold=0.0)},
    **{"repaired": Repaired(0.1), "optimised": settings.Optimised(0.1)},
}
REPAIRED = levels.small(levels.at_level("repaired", levels.TEN_EPOCHS[0]), public_size=30)
AGD = replace(levels.small(settings.AGD, public_size=30), noise_multiplier=30.0, target_epsilon=1e4)
ON_CIFAR = [("dpsgd-tuned", level) for level in levels.CIFAR_LEVELS]


def lot(size=6):
    rng = torch.Generator().manual_seed(0)
    return 3 * torch.randn(size, 8, generator=rng), torch.arange(size) % 3


@pytest.mark.parametrize("name", NOISES)
def test_each_noise_trains_any_classifier(name):
    chosen, data = replace(TINY, noise=NOISES[name]), Data(*lot(30), 30)
    model = algorithm.new_classifier(chosen, seed=0, device=CPU)
    rng = generator_on(CPU, reproducible_seed=0)  # of 500 runs one would draw an empty lot
    records = list(train(algorithm.step, model, data, settings=chosen, rng=rng, steps=4))
    assert [record.step for record in records] == [0, 1, 2, 3]
    assert all(0 <= record.clipped <= 1 and record.loss > 0 for record in records)
    assert all(bool(p.isfinite().all()) for p in model.net.parameters())


BUDGET = pytest.mark.slow("an AGD that keeps to its budget and learns nothing")
SIZED = {"sampling": PoissonSampling(200), "widths": (784, 32, 10), "pca_noise": None}

AGD_NOISE = {"noise_multiplier": 2.0, "least_noise_multiplier": 1.0, "choice_noise": 8.0}
LEARNING = {
    "optimised": replace(
        TINY, **SIZED, noise=settings.Optimised(4.0), noise_multiplier=1.1, max_steps=40
    ),
    "agd": replace(settings.AGD, **SIZED, **AGD_NOISE, target_epsilon=8.0, public_size=1_437),
}


@pytest.mark.parametrize("name", ["optimised", pytest.param("agd", marks=BUDGET)])
def test_digits_are_learned_by_agd_within_its_budget(name):
    digits, chosen = datasets.digits(split="train"), LEARNING[name]
    data = Data(torch.from_numpy(digits.flat()), torch.from_numpy(digits.labels), 1_437)
    step, new = experiments.method(chosen)
    model, rng = new(chosen, seed=0, device=CPU), generator_on(CPU, reproducible_seed=1)
    assert len(list(train(step, model, data, settings=chosen, rng=rng, steps=40))) == 40
    assert algorithm.accuracy(model.net.net, data.features, data.labels) > 0.6
    if name == "agd":
        assert model.memory.spent().spent <= chosen.budget(public_size=1_437).budget


SHAPE = pytest.mark.slow("a noise of another shape, or of later steps, that does not cover the sum")


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        *(("repaired", 1), ("published", 1)),
        *(pytest.param(name, 2 + (name == "optimised"), marks=SHAPE) for name in NOISES),
    ],
)
def test_steps_are_covered_and_the_published_one_reads_raw_gradients(name, steps):
    """The third one of DpOpt's noise, which follows what the first two released."""
    chosen = replace(TINY, noise=NOISES[name], sampling=PoissonSampling(BATCH))
    new = partial(algorithm.new_classifier, chosen, seed=0, device=CPU)
    charged = chosen.as_if_public(public_size=RECORDS, steps=steps)
    told = {"settings": chosen, "charged": charged, "steps": steps, "released": tuple}
    report = checked(algorithm.step, new, lot(RECORDS), **told)
    if name == "published":
        assert report.verdict == "broken"
    else:
        assert_covered(report)


class OwnNoise:
    """A user's own noise."""


@pytest.mark.parametrize("noise", [ADADP.noise, OwnNoise()])
def test_no_guarantee_covers_the_published_history(noise):
    ledger = replace(ADADP, noise=noise).ledger(public_size=60_000, steps=10)
    assert settings.proven(ledger, delta=1e-5).epsilon == float("inf")
    with pytest.raises(ValueError, match=r"noise must be one of Flat.*; got 'OwnNoise'"):
        algorithm.new_classifier(replace(TINY, noise=OwnNoise()), seed=0, device=CPU)


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (REPAIRED, replace(REPAIRED, noise_multiplier=1e-3)),
        (REPAIRED, levels.small(levels.at_level("adadp", levels.TEN_EPOCHS[0]), public_size=30)),
        (AGD, replace(AGD, noise_multiplier=2.0)),
    ],
)
def test_a_model_of_other_settings_which_price_another_noise_is_refused(own, other):
    step, new = experiments.method(own)
    model, rows = new(other, seed=0, device=CPU), (torch.zeros(6, 20), torch.arange(6))
    with pytest.raises(ValueError, match="settings must be the model's own"):
        step(model, *rows, settings=own, index=0, rng=generator_on(CPU))


def test_raw_squares_are_those_of_the_gradients_themselves():
    net = algorithm.new_classifier(TINY, seed=0, device=CPU).net
    rows = lot()
    pairs = zip(*(r.split(1) for r in rows), strict=True)
    each = [torch.autograd.grad(net(*row).sum(), list(net.parameters())) for row in pairs]
    columns = [torch.stack(one) for one in zip(*each, strict=True)]
    wanted = {
        "mean": [one.mean(0) ** 2 for one in columns],
        "sum": [one.sum(0) ** 2 for one in columns],
        "example": [(one**2).mean(0) for one in columns],
    }
    for of, squares in wanted.items():
        torch.testing.assert_close(algorithm.raw_squares(net, rows, 6, of), squares)


@pytest.mark.parametrize(
    ("name", "level"), [*(("repaired", level) for level in levels.TEN_EPOCHS), *ON_CIFAR]
)
def test_noise_of_a_level_costs_it_and_little_less(name, level):
    made = levels.at_level if level in levels.TEN_EPOCHS else levels.on_cifar
    size = {"public_size": 60_000 if level in levels.TEN_EPOCHS else levels.CIFAR_SIZE}
    chosen = made(name, level)
    ledger = chosen.ledger(**size, steps=chosen.max_steps)
    assert 0.99 * level.epsilon < pld.epsilon(ledger, delta=1e-5).epsilon <= level.epsilon


@pytest.mark.parametrize("level", levels.LEVELS)
def test_the_papers_levels_are_as_long_as_theorem_1_allows_and_cost_less(level):
    chosen = levels.at_level("dp-adam", level)
    for steps, within in ((level.steps, True), (level.steps + 1, False)):
        assert (chosen.charged(public_size=60_000, steps=steps) <= level.epsilon) is within
    ledger = chosen.ledger(public_size=60_000, steps=level.steps)
    assert pld.epsilon(ledger, delta=1e-5).epsilon < 0.6 * level.epsilon
    assert chosen.optimizer.rate(level.steps) == pytest.approx(0.002)  # at the run's end
    assert all(one.max_steps > 300 for one in levels.sweeps().values())


def test_noise_on_examples_and_fixed_lots_are_priced_as_they_are():
    listing, examples, fixed = (
        one.as_if_public(public_size=60_000, steps=100)
        for one in (
            levels.BASE,
            *(levels.READINGS[k] for k in ("noise-on-examples", "replace-one")),
        )
    )
    one, other = (ledger[-1].mechanism.noise_multiplier for ledger in (listing, examples))
    assert other == pytest.approx(one * 600**0.5)
    assert {release.mechanism.adjacency for release in fixed} == {"replace-one"}
    found = settings.proven(fixed, delta=1e-5)
    assert found.epsilon == rdp.epsilon(fixed, delta=1e-5).epsilon > 0
    charged = replace(ADADP, noise_multiplier=2.62).charged(public_size=60_000, steps=1_000)
    assert charged == pytest.approx(1.2656, rel=1e-3)


def test_reduced_runs_are_judged_and_priced_agd_by_its_filter(monkeypatch, tmp_path):
    monkeypatch.setattr(run_module, "cache_dir", lambda: tmp_path)
    asked = {"scale": "reduced", "seeds": 1, "device": "cpu", "progress": silent}
    values = experiments.PLANS["figure_4"](**asked)[0].compute().values
    assert values["epsilon_proven"] == "inf"
    assert 0 < values["epsilon_if_public"] <= values["epsilon_claimed"] == 0.5
    assert (values["steps"], values["diverged"]) == (30, False)
    assert values["curve"]["accuracy"][-1] == values["accuracy"] >= 0
    assert "20 private principal" in values["words"]
    plan = experiments.PLANS["figure_2"](**asked)
    values = next(one for one in plan if one.name.startswith("agd-2")).compute().values
    assert values["epsilon_proven"] == pytest.approx(2.0)
    assert "filter" in values["method"]


def stored(accuracy):
    told = {"noise_multiplier": 3.0, "pca_noise": 6.0, "target_delta": 1e-4, "records": "mnist"}
    told["sampling"] = {"expected_batch_size": 600}
    curve = {"steps": [100, 200, 300], "accuracy": [0.5, 0.93, accuracy], "loss": [1, 1, 1]}
    values = {"accuracy": accuracy, "curve": curve}
    return {"values": values, "provenance": {"settings": told}}


def test_gains_figure_5_and_table_2():
    parts = {f"adadp-0.5-seed{seed}": stored(0.90 + 0.02 * seed) for seed in (0, 1)}
    parts["dpsgd-0.5-seed0"] = stored(0.88)
    first = tables.gains(parts)[0]
    assert (first["over"], first["paper"], first["repaired"]) == (tables.NAMES["dpsgd"], 5.9, None)
    assert first["published"] == pytest.approx(3.0)  # a difference of means
    assert (first["low"], first["verdict"]) == (None, "open")  # of a rival's single run
    parts["dpsgd-0.5-seed1"] = stored(0.882)
    first = tables.gains(parts)[
        0
    ]  # Welch: 2.9 +- 12.71 * (1 / 2) sqrt(2^2 + .2^2), nearly one degree
    assert (first["published"], first["verdict"]) == (pytest.approx(2.9), "open")
    assert (first["low"], first["high"]) == pytest.approx((-9.3, 15.1), abs=0.2)
    assert tables.levels(parts)[0]["0.5"]["seeds"] == 2
    changed = {"rate-0.0008-seed0": stored(0.85), "rate-0.005-seed0": stored(0.88)}
    rows = tables.figure_5(changed, {"adadp-0.5-seed0": stored(0.87)})
    rates = [(row["value"], row["mean"]) for row in rows if row["changed"] == "rate"]
    assert rates == [(0.0008, 85.0), (0.002, 87.0), (0.005, 88.0)]  # around the middle
    assert [row["value"] for row in rows if row["changed"] == "lot"] == [600.0]
    ratios = {f"{d}_{k}_ratio": 3.0 for d, row in tables.SECONDS.items() for k in row}
    first = tables.table_2(ratios)[0]
    assert (first["data"], first["here"], first["paper"]) == ("mnist", 3.0, pytest.approx(5 / 3))


def test_table_1_prices_the_step_at_which_an_accuracy_is_reached():
    rows = tables.table_1({"dpsgd-seed0": stored(0.945)})
    own = [row for row in rows if row["method"] == tables.NAMES["dpsgd"]]
    assert [row["accuracy"] for row in own] == [0.92, 0.94, 0.95, 0.96]
    at_92, at_94, *others = own
    assert (at_92["steps"], at_94["steps"], at_92["reached"]) == (200, 300, "1 of 1")
    assert 0.49 < at_92["proven"] < at_94["proven"] < 1.0  # DP-PCA alone costs .490
    assert all("steps" not in row and row["reached"] == "0 of 1" for row in others)
