"""RDP-GAN's tables and figures from stored runs: the right run, iteration and seeds."""

import math
from pathlib import Path

import numpy as np
import pytest

from dpkit.common import plots
from dpkit.papers.experiments import store
from dpkit.papers.rdp_gan import experiments, recomputed, tables
from dpkit.papers.rdp_gan.tasks import SIZES
from dpkit.privacy import Release, SampledGaussian, pld

pytestmark = pytest.mark.torch


def part(score: float, *, at=(1000,), iterations=1000, **more):
    scores = {
        str(i): {"accuracy": score + i / 1e6, "trained_on_generated": score / 2, **more} for i in at
    }
    curve = {"iterations": [50, 100], "accuracy": [score, score + 0.1], "noise": [1.0, 1.0]}
    return {"values": {"iterations": iterations, "scores": scores, "curve": curve}}


def test_a_published_schedule_reads_the_one_run_at_its_printed_iteration():
    at = (532, 632, 845, 894, 1000)
    stored = {f"loss-value-seed{s}": part(0.5 + s / 10, at=at) for s in range(2)}
    row = tables.table_4(stored, "census")[1]
    assert row["epsilon"] == "none"
    for column, iteration in {"time": 632, "step": 532, "exp": 894, "ant": 845}.items():
        assert row[column] == pytest.approx(0.55 + iteration / 1e6)
        ends = (0.5 + iteration / 1e6, 0.6 + iteration / 1e6)
        assert row[f"{column}_range"] == pytest.approx(ends)
        assert row[f"{column}_iterations"] == iteration
    assert row["none"] == row["constant"] == pytest.approx(0.55 + 1e-3)


def test_an_repaired_cell_is_its_own_runs_at_their_own_end():
    stored = {
        "repaired-ant-5-seed0": part(0.7, at=(150,), iterations=150),
        "repaired-ant-5-seed1": part(0.8, at=(250,), iterations=250),
        "repaired-ant-0.5-seed0": part(0.1, at=(90,), iterations=90),
    }
    rows = {(row["row"], row["epsilon"]): row for row in tables.table_4(stored, "census")}
    assert rows["repaired", "5"]["ant"] == pytest.approx(0.75 + 2e-4)
    assert rows["repaired", "5"]["ant_iterations"] == 200
    assert rows["repaired", "0.5"]["ant"] == pytest.approx(0.1 + 9e-5)
    assert "time" not in rows["repaired", "5"]


def test_nothing_stored_gives_blanks_and_no_error():
    assert tables.table_2({})[0]["one_record"] is None
    assert len(tables.table_3({})) == 3  # the paper's
    assert tables.table_4({}, "digits")[0]["ant"] == 0.908
    assert "ant" not in tables.table_4({}, "digits", score="trained_on_generated")[0]
    assert tables.figure_5({}) == tables.figure_6({}) == {}
    assert tables.figure_7({}, 0) == {}
    assert tables.figure_9({}, {}, "census") == []


def test_table_2_takes_the_mean_of_its_own_seeds():
    found = {
        f"census-64-seed{s}": {"values": {"one_record": s + 1.0, "mean_of_a_batch": 0.5}}
        for s in range(3)
    } | {"census-128-seed0": {"values": {"one_record": 9.0, "mean_of_a_batch": 0.5}}}
    rows = {(row["data"], row["batch"]): row for row in tables.table_2(found)}
    assert (rows["Adult", 64]["one_record"], rows["Adult", 64]["seeds"]) == (2.0, 3)
    assert rows["Adult", 128]["one_record"] == 9.0
    assert rows["MNIST", 64]["sensitivity"] == 25 / 64


def test_table_3_and_figure_7_are_means_over_seeds():
    stored = {
        f"loss-value-seed{s}": part(
            0.5, pmf_error=[float(s)] * 8, pmf=[[s / 2, 1 - s / 2]] * 8, total_variation=[0.1] * 8
        )
        for s in range(3)
    }
    row = next(r for r in tables.table_3(stored) if "published" in r["row"])
    assert row["age"] == 1.0
    assert tables.figure_7(stored, 2) == {"as published (epsilon: none)": [0.5, 0.5]}
    assert tables.mean_score(stored, "loss-value", "total_variation") == pytest.approx([0.1] * 8)


def test_figure_9_puts_the_table_s_own_rate_in_its_place():
    sweep = {"time-0.1-seed0": part(0.3), "time-0.01-seed0": part(0.1)}
    sweep["time-0.1-seed1"] = part(0.5)
    curve = {"iterations": [50, 100, 150], "accuracy": [0.5, 0.6, 0.7]}
    stored = {
        "repaired-time-0.5-seed0": part(0.2),
        "loss-value-seed0": {"values": {"curve": curve}},
    }
    first, own, last = tables.figure_9(sweep, stored, "census")
    assert [row["rate"] for row in (first, own, last)] == [0.01, 0.04, 0.1]
    assert [row["accuracy"] for row in (first, own, last)] == pytest.approx([0.101, 0.201, 0.401])
    assert (last["seeds"], last["accuracy_range"]) == (2, pytest.approx((0.301, 0.501)))
    # the sum of (1 + k t)^2 passes 1,000 after 214, 98 and 57 iterations
    assert [row["published"] for row in (first, own, last)] == [0.7, 0.5, 0.5]


@pytest.mark.parametrize("iterations", [1, 1_000])
def test_figure_3_agrees_with_its_formulas_and_with_the_accountant(iterations):
    found = tables.figure_3(recomputed.ADULT, [10.0], iterations=iterations)
    renyi = 64 / 20_000 * 4 * (20 / 64) ** 2 / (2 * 100)  # Theorem 1 at order 2
    total = iterations * 4 * renyi * math.sqrt(2 * 5 * math.log(1e5))
    assert found["paper"][0] == pytest.approx(total, rel=1e-12)
    each = 2 * 64 / 20_000 * math.sqrt(5 * math.log(1e5)) / 10
    assert found["eq. 23"][0] == pytest.approx(iterations * each, rel=1e-12)
    ledger = [Release(SampledGaussian(32.0, 64 / 20_000), 5 * iterations)]
    spent = pld.epsilon(ledger, delta=1e-5)
    assert (found["lower"][0], found["upper"][0]) == (spent.lower, spent.epsilon)


def test_one_iteration_costs_more_than_eq_16_says_in_three_of_figure_3s_four_cells():
    cells = [tables.figure_3(column, [10.0]) for column in recomputed.TABLE_2]
    assert [one["paper"][0] < one["lower"][0] for one in cells] == [True, True, False, True]
    assert all(one["lower"][0] < one["upper"][0] < one["eq. 23"][0] for one in cells)


def test_what_is_stored_is_complete_and_says_its_epsilon():
    """Real data at the paper's scale, of which no record is kept."""
    for name in experiments.PLANS:
        stored = store.load("rdp_gan", name)
        assert stored, f"{name} has no stored runs"
        for key, one in stored.items():
            values, made = one["values"], one["provenance"]
            assert made["scale"] == "paper"
            assert made["data"]
            if key.startswith(("repaired", "marginals", "dcgan-repaired")) or "figure" in name:
                assert values["epsilon_proven"] <= values["epsilon_claimed"] <= 5
                assert values["adjacency"] == "add-remove"
            elif "epsilon_proven" in values:
                assert values["epsilon_proven"] == "inf", key
    assert not list(Path(store.folder("rdp_gan", "table_5", scale="paper")).glob("*.npz"))
    for one in store.load("rdp_gan", "table_5").values():
        for scores in one["values"]["scores"].values():
            assert len(scores["pmf"]) == len(SIZES)
            assert all(sum(pmf) == pytest.approx(1) for pmf in scores["pmf"])


def test_without_privacy_and_as_printed_are_one_run():
    """Noise on the loss's value changes nothing, at the paper's scale too."""
    for table in ("table_4", "table_5"):
        stored = store.load("rdp_gan", table)
        quiet, noisy = (stored[f"{key}-seed0"]["values"] for key in ("none", "loss-value"))
        assert quiet["scores"] == noisy["scores"]
        assert quiet["curve"]["accuracy"] == noisy["curve"]["accuracy"]
        assert noisy["curve"]["noise"][0] == 10


def test_bars_stand_side_by_side():
    _, (ax,) = plots.figure()
    plots.bars(ax, {"a": [0.2, 0.8], "b": [0.5, 0.5]}, labels=["x", "y"], y="share")
    heights = [patch.get_height() for patch in ax.patches]  # pyright: ignore
    lefts = np.array([patch.get_x() for patch in ax.patches])  # pyright: ignore
    assert (heights, lefts) == ([0.2, 0.8, 0.5, 0.5], pytest.approx([-0.4, 0.6, 0.0, 1.0]))
