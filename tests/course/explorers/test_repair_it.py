"""Corrections of DP-CGAN's epsilon: each is a claim of the paper's ledger."""

import math

import pytest

from dpkit.course.explorers.repair_it import ALL, CORRECTIONS, RepairIt, setting
from dpkit.papers.dp_cgan import claims

STEPS = {  # after each correction, the claim that has the same number
    **{"noise": "dp_cgan/noise-times-norm", "rate": "dp_cgan/true-sample-rate"},
    **{"tensors": "dp_cgan/per-tensor-clipping", "fakes": "dp_cgan/label-leak"},
    "generator": "dp_cgan/generator-labels",
}
NONE = dict.fromkeys(CORRECTIONS, False)


def test_each_correction_is_a_claim():
    by_id = {claim.id: claim for claim in claims.CLAIMS}
    along = RepairIt.compute(**ALL)["along"]
    assert list(along) == list(STEPS)
    for name, value in along.items():
        computed = by_id[STEPS[name]].compute()
        assert math.isinf(value) if math.isinf(computed) else value == pytest.approx(computed)


def test_noise_over_sensitivity_is_the_papers():
    assert setting(**NONE | {"noise": True})[0] == claims.ONE_CLIP
    assert setting(**NONE | {"noise": True, "tensors": True})[0] == claims.REAL_PART
    assert setting(**ALL)[0] == pytest.approx(claims.BOTH_PARTS)


def test_the_certified_pair_is_below_the_papers_method_and_without_label_noise_is_none():
    charged = RepairIt.compute(**NONE)["epsilon"]
    assert charged == claims.spent(claims.CODE_NOISE, claims.CODE_RATE) <= 9.6
    found = RepairIt.compute(**NONE | {"generator": True})
    assert found["epsilon"] == found["pair"][1] == math.inf
    assert "No finite epsilon" in RepairIt().says(found)
    for name in ("noise", "rate", "tensors", "fakes"):
        found = RepairIt.compute(**NONE | {name: True})
        low, high = found["pair"]
        assert 0 < low <= high <= found["epsilon"]
