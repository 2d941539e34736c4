"""RDP-GAN's ablations: what each run changes, and that the repaired ones keep their epsilon."""

from dataclasses import fields

import pytest

from dpkit.common.progress import silent
from dpkit.papers.rdp_gan import experiments
from dpkit.papers.rdp_gan.repaired import repaired
from dpkit.papers.rdp_gan.settings import DCGAN, DP_GAN, NON_PRIVATE
from dpkit.papers.rdp_gan.tables import TITLES, ablation_rows
from dpkit.privacy import pld

RATES = {"generator_optimizer", "discriminator_optimizer"}
CHANGED = {
    "dp-gan-no-noise": (DP_GAN, {"noise"}),
    "dp-gan-no-norm": (DP_GAN, {"noise"}),
    "dp-gan-longer": (DP_GAN, {"discriminator_steps", "iterations"}),
    "dcgan-label": (DCGAN, {"label_scale"}),
    "dcgan-rate": (DCGAN, RATES),
    "dcgan-both": (DCGAN, RATES | {"label_scale"}),
    "none-one-gan": (NON_PRIVATE, set()),
}


def differing(one, other):
    return {f.name for f in fields(one) if getattr(one, f.name) != getattr(other, f.name)}


def test_each_run_changes_what_its_name_says_and_nothing_else():
    runs = experiments.other_baselines("paper") | experiments.other_labels("paper")
    assert set(runs) == set(CHANGED)
    for key, settings in runs.items():
        first, changed = CHANGED[key]
        assert differing(settings, first) == changed, key


def test_repaired_runs_with_the_others_settings_keep_their_own_epsilon():
    size = 60_000
    low, high = (repaired("digits", target_epsilon=e, public_size=size) for e in (0.5, 5.0))
    found = experiments.other_settings("paper")
    assert differing(found["repaired-5-batch"], high) == {"noise", "sampling"}
    assert differing(found["repaired-5-rate"], high) == {"discriminator_optimizer"}
    assert differing(found["repaired-5-both"], low) == {"noise", "target_epsilon"}
    assert differing(found["repaired-0.5-both"], high) == {"noise", "target_epsilon"}
    for key, settings in found.items():
        epsilon = float(key.split("-")[1])
        spent = pld.epsilon(settings.ledger(public_size=size), delta=1e-5).epsilon
        assert 0.99 * epsilon < spent <= epsilon


def test_the_baselines_are_trained_digit_by_digit_as_in_table_4():
    asked = {"scale": "small", "seeds": 2, "device": "cpu", "progress": silent}
    parts = {part.name: part.settings for part in experiments.PLANS["ablations"](**asked)}
    assert {name for name, said in parts.items() if said["by_digit"]} == {
        f"dp-gan-{change}-seed0" for change in ("no-noise", "no-norm", "longer")
    }
    assert "repaired-5-both-seed1" in parts
    assert "dcgan-both-seed1" not in parts


def test_rows_take_each_run_at_its_end_and_leave_out_what_is_not_stored():
    def part(score, iterations):
        scores = {"accuracy": score, "spread": 0.5, "trained_on_generated": score / 2}
        others = dict.fromkeys(scores, 0.0)
        return {"values": {"iterations": iterations, "scores": {"5": others, "9": scores}}}

    stored = {f"repaired-5-both-seed{n}": part(0.6 + n / 10, 9) for n in range(3)}
    (row,) = ablation_rows(stored | {"repaired-5-both-later": part(0.0, 9)})
    assert row["run"] == "epsilon 5, batch 128, rate 0.001"
    assert row["seeds"] == 3
    assert row["accuracy"] == pytest.approx(0.7)
    assert row["accuracy_range"] == pytest.approx((0.6, 0.8))
    assert row["trained_on_generated"] == pytest.approx(0.35)


def test_every_planned_run_has_a_title():
    runs = [experiments.other_settings, experiments.other_baselines, experiments.other_labels]
    planned = {key for found in runs for key in found("small")}
    of_table_4 = {"repaired-constant-5", "repaired-constant-0.5", "dp-gan", "dcgan-loss-value"}
    assert planned | of_table_4 | {"none"} == set(TITLES)
