"""The claims of DP-CGAN against numbers found independently."""

import math

import pytest

from dpkit.claims import check
from dpkit.papers.dp_cgan import claims
from dpkit.privacy import SampledGaussian

BY_ID = {claim.id: claim for claim in claims.CLAIMS}

# id -> stated, computed, verdict; the epsilons checked with another implementation
EXPECTED = {
    "dp_cgan/steps-at-9.6": (None, 30_303, "holds"),
    "dp_cgan/noise-times-norm": (9.6, 11.2295, "fails"),
    "dp_cgan/true-sample-rate": (9.6, 12.4258, "fails"),
    "dp_cgan/per-tensor-clipping": (9.6, 72.387, "fails"),
    "dp_cgan/label-leak": (9.6, 1107.89, "fails"),
    "dp_cgan/generator-labels": (9.6, math.inf, "fails"),
    "dp_cgan/notebook-log": (7.153695366365903, 7.153695366365903, "holds"),
    "dp_cgan/table-1-real-row": (0.9217, 0.92285, "fails"),
}


def test_the_ids_are_these():
    assert list(BY_ID) == list(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_stated_computed_verdict(name: str):
    stated, computed, verdict = EXPECTED[name]
    found = check(BY_ID[name])
    assert found.claim.stated == stated
    assert found.computed == pytest.approx(computed, rel=1e-5)
    assert found.verdict == verdict


def test_the_notebook_log_to_nine_digits():
    for steps, printed in claims.NOTEBOOK_PRINTS.items():
        assert f"{claims.notebook_epsilon(steps):.9g}" == f"{printed:.9g}"
        said = claims.epsilon(SampledGaussian(0.6, claims.NOTEBOOK_RATE), steps)
        assert said < printed - 1


def test_one_step_more_than_charged_would_overspend():
    mechanism = SampledGaussian(claims.CODE_NOISE, claims.CODE_RATE)
    steps = claims.charged_steps()
    assert claims.epsilon(mechanism, steps) <= 9.6 < claims.epsilon(mechanism, steps + 1)


def test_the_real_row_gives_both_protocols():
    found = check(BY_ID["dp_cgan/table-1-real-row"])
    assert "0.92" in found.explanation
    assert "0.98" in found.explanation


def test_the_corrections_follow_from_the_settings():
    assert pytest.approx(1.12) == claims.ONE_CLIP
    assert pytest.approx(1.12 / 2) == claims.REAL_PART
    assert pytest.approx(1.12 / 4) == claims.BOTH_PARTS
